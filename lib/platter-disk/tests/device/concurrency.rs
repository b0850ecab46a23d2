//! Everything at once: threads that call, executors, channels, elevators that change, barriers.

use crate::callers::Style;
use crate::kinds::{SIZE, elevators, in_memory, on_files};
use crate::memory::{Memory, aligned, bytes, fill};
use crate::rig::{Task, block_on, spawn};
use platter_block::bio::{Bio, Flags};
use platter_disk::device::Device;
use platter_disk::sync_io::IoOptions;

/// Bytes of the device that each worker has for itself.
const SHARE: u64 = SIZE / 16;
const BLOCK: usize = 4096;

fn memory(byte: u8) -> Memory {
    let mut memory = aligned(BLOCK);
    fill(&mut memory, |_| byte);
    memory
}

fn is_all(memory: &Memory, byte: u8) -> bool {
    bytes(memory).iter().all(|b| *b == byte)
}

fn calls(device: Device, base: u64, rounds: u8) {
    let mut caller = Style::Synchronous.caller(&device);
    for round in 1..=rounds {
        let pos = base + u64::from(round) % 16 * BLOCK as u64;
        assert_eq!(caller.write(pos, memory(round)).0, Ok(()));
        let (result, back) = caller.read(pos, memory(0));
        assert!(result.is_ok() && is_all(&back.unwrap(), round), "call at {pos}");
    }
}

/// Eight futures at a time; every second one is dropped and started again.
fn futures(device: Device, base: u64, rounds: u8) {
    for round in 1..=rounds {
        let at = |i: usize| base + (i * BLOCK) as u64;
        let writes: Vec<_> = (0..8).map(|i| device.write(at(i), memory(round))).collect();
        for (i, write) in writes.into_iter().enumerate() {
            if i % 2 == 1 {
                drop(write);
            } else {
                block_on(write).0.unwrap();
            }
        }
        // A dropped write may arrive at any time: only the others are checked.
        let reads: Vec<_> = (0..4).map(|i| device.read(at(2 * i), memory(0))).collect();
        for read in reads {
            let (result, back) = block_on(read);
            result.unwrap();
            assert!(is_all(&back.unwrap(), round), "future");
        }
    }
}

fn channel(device: Device, base: u64, rounds: u8) {
    let mut channel = device.channel(16).unwrap();
    let mut done = Vec::new();
    for round in 1..=rounds {
        for is_read in [false, true] {
            for i in 0..16 {
                let pos = base + i * BLOCK as u64;
                let mut bio = match is_read {
                    true => Bio::read(pos, memory(0)).unwrap(),
                    false => Bio::write(pos, memory(round)).unwrap(),
                };
                bio.add_flags(if i == 7 && round % 8 == 0 { Flags::HARD_BARRIER } else { Flags::NONE });
                assert!(channel.submit(bio).is_ok());
            }
            while channel.outstanding() > 0 {
                channel.wait(&mut done, None);
            }
            for mut bio in done.drain(..) {
                assert_eq!(bio.status(), Ok(()));
                assert!(is_all(&bio.take_buffer().unwrap(), round), "channel");
            }
        }
    }
}

/// Switches elevators, sends barriers and flushes, and queries the device until the other threads are done.
fn meddle(name: &str, device: &Device, workers: &[Task<()>]) {
    let elevators = elevators();
    let mut turn = 0;
    while workers.iter().any(|worker| !worker.is_done()) {
        device.set_elevator(elevators[turn % elevators.len()]).unwrap();
        let pos = SIZE - BLOCK as u64;
        device.write_at_with(&[turn as u8; BLOCK], pos, IoOptions::flags(Flags::HARD_BARRIER)).unwrap();
        if turn % 4 == 0 {
            device.flush().unwrap();
        }
        assert!(!device.facts().is_empty(), "{name}");
        turn += 1;
    }
}

fn all_at_once(name: &str, device: &Device, rounds: u8) {
    let mut workers = Vec::new();
    for worker in 0..14 {
        let device = device.clone();
        workers.push(spawn(move || match worker {
            0..8 => calls(device, worker * SHARE, rounds),
            8..12 => futures(device, worker * SHARE, rounds),
            _ => channel(device, worker * SHARE, rounds),
        }));
    }
    meddle(name, device, &workers);
    workers.into_iter().for_each(|worker| worker.result(name));
    let counters = device.counters();
    assert_eq!(counters.dispatches - counters.requeues, counters.completions, "{name}");
    assert_eq!(counters.bios_failed, 0, "{name}");
}

#[test]
fn all_ways_at_once_on_memory_while_elevators_change() {
    for (name, device) in in_memory() {
        all_at_once(name, &device, 200);
    }
}

#[test]
fn all_ways_at_once_on_files_while_elevators_change() {
    on_files(&["none"], |name, device, _| all_at_once(name, device, 24));
}
