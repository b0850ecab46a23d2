//! Programs and mounts that end in the middle. What was answered is with the device, nothing waits for them, and others go
//! on meanwhile.

use crate::clients::await_none;
use crate::rig::{Mounted, PATIENCE, SIZE};
use platter_disk::device::Device;
use platter_serve::clients::Clients;
use platter_serve::export::Options;
use platter_serve::qos::DeviceLimits;
use platter_serve::served::Served;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

const BLOCK: u64 = 4096;

/// Unmounts by force. `false`, after saying why: this process may not.
fn unmount(at: &Path, flags: rustix::mount::UnmountFlags) -> bool {
    match rustix::mount::unmount(at, flags) {
        Ok(()) => true,
        Err(error) => {
            eprintln!("skipped: unmount: {error}");
            false
        }
    }
}

/// Writes rising numbers to blocks of its own until a write fails. Returns the last number that was written to each.
fn write_until_failure(file: &File, first: u64, blocks: u64, total: &AtomicU64) -> Vec<u64> {
    let mut written = vec![0; blocks as usize];
    for number in 1.. {
        let block = number % blocks;
        let data = number.to_le_bytes().repeat((BLOCK / 8) as usize);
        match file.write_at(&data, (first + block) * BLOCK) {
            Ok(bytes) if bytes as u64 == BLOCK => written[block as usize] = number,
            _ => break,
        }
        total.fetch_add(1, Ordering::Relaxed);
    }
    written
}

/// Each block has the number that was written last. That of the one write that was not answered may have the next one.
fn check(device: &Device, first: u64, written: &[u64]) {
    let next = written.iter().max().unwrap() + 1;
    for (block, number) in (0..).zip(written) {
        let mut found = vec![0; BLOCK as usize];
        device.read_at(&mut found, (first + block) * BLOCK).unwrap();
        let numbers: Vec<u64> =
            found.chunks(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap())).collect();
        let is_in_doubt = next % written.len() as u64 == block;
        let fits = |found: &u64| found == number || is_in_doubt && *found == next;
        assert!(numbers.iter().all(fits), "block {block}");
    }
}

#[test]
fn a_mount_that_is_aborted_during_io_loses_nothing_that_was_answered() {
    let device = Device::ram(SIZE).unwrap();
    let Some(mut mounted) = Mounted::of(device.clone()) else { return };
    let total = Arc::new(AtomicU64::new(0));
    let writers = (0..4u64).map(|writer| {
        let (file, total) = (mounted.open(), Arc::clone(&total));
        thread::spawn(move || write_until_failure(&file, writer * 64, 64, &total))
    });
    let writers: Vec<_> = writers.collect();
    while total.load(Ordering::Relaxed) < 500 {
        thread::yield_now();
    }
    let flags = rustix::mount::UnmountFlags::FORCE | rustix::mount::UnmountFlags::DETACH;
    if !unmount(mounted.directory.path(), flags) {
        // The server's own way to end while files are open.
        let _ = mounted.stop(std::time::Duration::ZERO);
    }
    for (writer, written) in (0..).zip(writers) {
        check(&device, writer * 64, &written.join().unwrap());
    }
    if mounted.server.is_some() {
        mounted.stop(PATIENCE).unwrap();
    }
}

#[test]
fn a_file_outlives_its_mount_and_the_server_ends_after_both() {
    let device = Device::ram(SIZE).unwrap();
    let Some(mut mounted) = Mounted::of(device.clone()) else { return };
    let file = mounted.open();
    if !unmount(mounted.directory.path(), rustix::mount::UnmountFlags::DETACH) {
        return;
    }
    file.write_all_at(&[7; 4096], 8192).unwrap();
    file.sync_all().unwrap();
    let mut found = [0; 4096];
    device.read_at(&mut found, 8192).unwrap();
    assert_eq!(found, [7; 4096]);
    drop(file);
    mounted.stop(PATIENCE).unwrap();
}

/// A process that writes to a file until it is killed.
fn endless_writer(path: &Path) -> Option<Child> {
    let (to, from) = (format!("of={}", path.display()), "if=/dev/zero");
    let loops = "while :; do dd \"$@\" bs=1M count=4 conv=notrunc oflag=direct; done";
    let mut command = Command::new("sh");
    command.args(["-c", loops, "sh", from, &to]).stderr(Stdio::null());
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command.spawn().map_err(|error| eprintln!("skipped: sh: {error}")).ok()
}

fn kill_group(mut child: Child) {
    let group = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
    child.wait().unwrap();
}

fn two() -> Option<(Mounted, Arc<Clients>)> {
    let devices = ["a", "disk"].map(|name| Served::new(name, Device::ram(SIZE).unwrap()).unwrap());
    let mounted = Mounted::new(devices.into(), &Options::default())?;
    let clients = Arc::clone(mounted.server.as_ref().unwrap().clients());
    Some((mounted, clients))
}

#[test]
fn a_program_that_is_killed_in_the_middle_of_writes_leaves_nothing_behind() {
    let Some((mut mounted, clients)) = two() else { return };
    for round in 0..8u64 {
        let Some(writer) = endless_writer(&mounted.path()) else { return };
        let other =
            OpenOptions::new().read(true).write(true).open(mounted.directory.path().join("a")).unwrap();
        let written = || {
            let list = clients.list();
            let its = list.iter().find(|client| client.device == "disk");
            its.map_or(0, |client| client.counts.writes.load(Ordering::Relaxed))
        };
        while written() < 1 + round % 4 {
            thread::yield_now();
        }
        kill_group(writer);
        let data = [round as u8 + 1; 4096];
        other.write_all_at(&data, 0).unwrap();
        let mut found = [0; 4096];
        other.read_exact_at(&mut found, 0).unwrap();
        assert_eq!(found, data);
        drop(other);
        await_none(&clients);
    }
    mounted.stop(PATIENCE).unwrap();
}

/// Requests that wait for the device's limit belong to a process that is killed; the kernel asks to interrupt them.
#[test]
fn a_program_that_is_killed_while_its_requests_wait_is_gone_when_they_are_answered() {
    let served = Served::new("disk", Device::ram(SIZE).unwrap()).unwrap();
    let limits = DeviceLimits { bandwidth: 8 << 20, ..DeviceLimits::default() };
    served.qos().set_device(limits).unwrap();
    let Some(mut mounted) = Mounted::new(vec![served], &Options::default()) else { return };
    let clients = Arc::clone(mounted.server.as_ref().unwrap().clients());
    let Some(writer) = endless_writer(&mounted.path()) else { return };
    let waits = || clients.list().iter().any(|client| client.oldest(std::time::Instant::now()).is_some());
    while !waits() {
        thread::yield_now();
    }
    kill_group(writer);
    await_none(&clients);
    mounted.stop(PATIENCE).unwrap();
}

/// Many more requests than the server works on at once, from many threads and files.
#[test]
fn a_flood_is_answered_within_the_depth_and_the_memory() {
    let mut options = Options::default();
    (options.depth, options.client_memory_bytes) = (2, 2 << 20);
    let served = Served::new("disk", Device::ram(SIZE).unwrap()).unwrap();
    let Some(mut mounted) = Mounted::new(vec![served], &options) else { return };
    let clients = Arc::clone(mounted.server.as_ref().unwrap().clients());
    let threads = (0..32u64).map(|number| {
        let file = mounted.open();
        let clients = Arc::clone(&clients);
        thread::spawn(move || {
            let (data, mut found) = (vec![number as u8 + 1; 128 << 10], vec![0; 128 << 10]);
            let mut most = 0;
            for _ in 0..8 {
                file.write_all_at(&data, number * (128 << 10)).unwrap();
                file.read_exact_at(&mut found, number * (128 << 10)).unwrap();
                assert!(found == data);
                for client in clients.list() {
                    most = most.max(client.counts.in_flight.load(Ordering::Relaxed));
                }
            }
            most
        })
    });
    let threads: Vec<_> = threads.collect();
    let most = threads.into_iter().map(|thread| thread.join().unwrap()).max().unwrap();
    // Two requests of each of at most four threads.
    assert!(most <= 8, "{most} requests were in work");
    await_none(&clients);
    mounted.stop(PATIENCE).unwrap();
}
