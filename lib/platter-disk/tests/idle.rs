//! The cost of unused devices: no processor time, and little memory.

mod slow;

use platter_block::bio::{Bio, Flags};
use platter_disk::device::Device;
use platter_disk::open::DiskOptions;
use platter_disk::pool::Pool;
use platter_disk::service;
use slow::slow_disk;
use std::fs;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

const DISKS: usize = 4;
const DEPTH: usize = 128;
const BLOCK: usize = 4096;

fn files() -> Vec<(Device, tempfile::NamedTempFile)> {
    let open = |_| {
        let file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        file.as_file().set_len((DEPTH * BLOCK) as u64).unwrap();
        (Device::open(file.path(), DiskOptions::read_write()).unwrap(), file)
    };
    (0..DISKS).map(open).collect()
}

/// Nanoseconds of processor time used by all threads of this process except the calling one.
fn others_time() -> u64 {
    let own = fs::read_link("/proc/thread-self").unwrap();
    let own = own.file_name().unwrap();
    let threads = fs::read_dir("/proc/self/task").unwrap().map(|entry| entry.unwrap());
    let time = |path| fs::read_to_string(path).ok()?.split(' ').next()?.parse::<u64>().ok();
    threads
        .filter(|thread| thread.file_name() != own)
        .filter_map(|thread| time(thread.path().join("schedstat")))
        .sum()
}

/// Waits for a period in which the service thread makes no round and no other thread runs at all. A thread
/// that is always busy makes this wait fail.
fn comes_to_rest(what: &str) {
    let (_tell, told) = mpsc::channel::<()>();
    let begin = Instant::now();
    loop {
        let before = (service::rounds(), others_time());
        assert!(told.recv_timeout(Duration::from_millis(100)).is_err());
        if (service::rounds(), others_time()) == before {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "{what} does not come to rest");
    }
}

fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Some of each: calls, futures that are awaited and dropped, a channel that stays open.
fn use_all_ways(device: &Device, pool: &Pool) -> platter_disk::channel::Channel {
    let mut block = pool.take().unwrap();
    device.write_at(&block, 0).unwrap();
    device.read_at(&mut block, 0).unwrap();
    drop(device.write(0, vec![1; BLOCK]));
    let mut last = device.read(0, block);
    let mut given_up = device.write(0, vec![1; BLOCK]);
    let _ = poll_once(&mut given_up);
    drop(given_up);
    while poll_once(&mut last).is_pending() {
        std::thread::yield_now();
    }
    let mut channel = device.channel(DEPTH).unwrap();
    for at in 0..DEPTH {
        let mut bio = Bio::read((at * BLOCK) as u64, pool.take().unwrap()).unwrap();
        bio.add_flags(Flags::NOMERGE);
        assert!(channel.submit(bio).is_ok());
    }
    let mut done = Vec::new();
    while channel.outstanding() > 0 {
        channel.wait(&mut done, None);
    }
    assert!(done.iter().all(|bio| bio.status().is_ok()));
    channel
}

fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// One test, so that nothing else runs in the process.
#[test]
fn open_devices_cost_nothing_and_little() {
    let pool = Pool::new(DEPTH + 1, BLOCK, BLOCK).unwrap();
    let before = resident_kib();
    let mut kept = Vec::new();
    for (i, (device, file)) in files().into_iter().enumerate() {
        device.set_elevator(["none", "deadline"][i % 2]).unwrap();
        let channel = use_all_ways(&device, &pool);
        kept.push((channel, device, file));
    }
    comes_to_rest("four files after a bit of everything");
    let (after, used) = (resident_kib(), resident_kib() - before);
    assert!(after < 20 << 10, "{after} KiB resident, {used} of them for {DISKS} devices at depth {DEPTH}");

    // Futures that cannot make progress: one waits for a barrier, which waits for a write of a channel.
    let let_go = Arc::new(AtomicBool::new(false));
    let slow = slow_disk(&let_go);
    let mut channel = slow.channel(4).unwrap();
    assert!(channel.submit(Bio::write(0, vec![1; 512]).unwrap()).is_ok());
    channel.flush();
    let mut barrier = Bio::write(4096, vec![2; 512]).unwrap();
    barrier.add_flags(Flags::HARD_BARRIER);
    let mut waits = slow.submit::<Vec<u8>>(barrier);
    let mut behind = slow.write(8192, vec![3; 512]);
    assert!(poll_once(&mut waits).is_pending() && poll_once(&mut behind).is_pending());
    comes_to_rest("a device with a barrier that waits");
    let mut done = Vec::new();
    let_go.store(true, Ordering::Relaxed);
    assert_eq!(channel.poll(&mut done), 1);
    for future in [&mut waits, &mut behind] {
        let (result, _) = loop {
            match poll_once(future) {
                Poll::Ready(outcome) => break outcome,
                Poll::Pending => std::thread::yield_now(),
            }
        };
        result.unwrap();
    }
    comes_to_rest("the device behind the barrier");
}
