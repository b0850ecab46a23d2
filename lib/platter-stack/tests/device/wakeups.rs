//! No thread sleeps forever: a thread that waits at the gate of a layer is woken when the gate opens.

use crate::kinds::{files, in_memory};
use crate::memory::{aligned, bytes, fill};
use crate::rig::{barrier, block_on, poll_once, spawn, submit, until, write};
use platter_block::bio::Flags;
use platter_disk::device::Device;
use platter_disk::drivers::FileDriver;
use std::task::Poll;

fn devices() -> impl Iterator<Item = (String, Device)> {
    let files = FileDriver::ALL.into_iter().filter_map(|driver| {
        let (device, _files) = files(driver)?;
        Some((format!("files by {driver}"), device))
    });
    in_memory().into_iter().map(|(name, device)| (name.to_string(), device)).chain(files)
}

/// The barrier of one thread waits for the lane of another thread, and then its later bios wait for the
/// barrier.
#[test]
fn a_barrier_and_those_behind_it_hear_of_each_other() {
    for (name, device) in devices() {
        for _ in 0..20 {
            let mut channel = device.channel(4).unwrap();
            submit(&mut channel, write(0, 1, Flags::NONE));
            submit(&mut channel, write(65536, 1, Flags::NONE));
            channel.flush();
            let waiter = barrier(&device, 4096);
            let other = device.clone();
            let behind = spawn(move || other.write_at(&[3; 512], 131_072).is_ok());
            let mut done = Vec::new();
            until("the channel's own", || {
                channel.poll(&mut done);
                done.len() == 2
            });
            waiter.result(&name);
            assert!(behind.result(&name));
        }
    }
}

/// As above, with futures, whose lane the service thread runs.
#[test]
fn futures_at_the_gate_are_woken() {
    for (name, device) in devices() {
        for round in 0..20u8 {
            let mut channel = device.channel(4).unwrap();
            submit(&mut channel, write(0, 1, Flags::NONE));
            channel.flush();
            let waiter = barrier(&device, 4096);
            let mut memory = aligned(4096);
            fill(&mut memory, |_| round);
            let mut future = device.write(200_704, memory);
            let early = poll_once(&mut future);
            let mut done = Vec::new();
            until("the channel's own", || channel.poll(&mut done) == 1);
            let (result, _) = match early {
                // The barrier has not reached the gate yet, so that it does not hold the future back.
                Poll::Ready(outcome) => outcome,
                Poll::Pending => block_on(future),
            };
            result.unwrap();
            waiter.result(&name);
            let (result, memory) = block_on(device.read(200_704, aligned(4096)));
            assert!(result.is_ok() && bytes(&memory.unwrap()) == [round; 4096], "{name}");
        }
    }
}
