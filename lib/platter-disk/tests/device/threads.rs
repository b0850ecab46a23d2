//! Futures of several threads, which use different lanes of the device.

use crate::fake::{Fake, HARD, Options};
use crate::kinds::{SIZE, on_files};
use crate::rig::{block_on, spawn, write};
use platter_disk::device::Device;
use platter_disk::future::Io;
use std::sync::{Arc, Barrier};

/// Starts one future on each of `count` threads, all of which live at the same time, one after the other.
fn start_in_turn(
    count: usize,
    start: impl Fn(usize) -> Io<Vec<u8>> + Send + Sync + 'static,
) -> Vec<Io<Vec<u8>>> {
    let (start, barrier) = (Arc::new(start), Arc::new(Barrier::new(count)));
    let threads: Vec<_> = (0..count)
        .map(|thread| {
            let (start, barrier) = (Arc::clone(&start), Arc::clone(&barrier));
            spawn(move || {
                let mut io = None;
                for turn in 0..count {
                    barrier.wait();
                    if turn == thread {
                        io = Some(start(thread));
                    }
                }
                io
            })
        })
        .collect();
    threads.into_iter().filter_map(|thread| thread.result("a thread that starts a future")).collect()
}

/// Nothing is polled before all have been started. A barrier keeps its place all the same.
#[test]
fn a_barrier_keeps_its_place_among_futures_of_other_threads() {
    for elevator in ["none", "deadline"] {
        let (fake, device) = Fake::open(Options { elevator, ..Options::default() });
        let ios = start_in_turn(5, move |thread| match thread {
            2 => device.submit(write(2 * 4096, 1, HARD)),
            _ => device.write(thread as u64 * 4096, vec![1; 512]),
        });
        for io in ios.into_iter().rev() {
            block_on(io).0.unwrap();
        }
        let started = fake.started();
        let at = |thread: u64| started.iter().position(|pos| *pos == thread * 4096).unwrap();
        assert!(at(0) < at(2) && at(1) < at(2), "{elevator}: {started:?}");
        assert!(at(2) < at(3) && at(2) < at(4), "{elevator}: {started:?}");
    }
}

/// The system allows one more channel only: threads share its lane.
#[test]
fn threads_share_a_lane_if_no_other_can_be_opened() {
    let (fake, device) = Fake::open(Options::default());
    block_on(device.write(0, vec![1; 512])).0.unwrap();
    fake.set_full(true);
    let other = device.clone();
    let ios = start_in_turn(4, move |thread| other.write(thread as u64 * 512, vec![1; 512]));
    ios.into_iter().for_each(|io| block_on(io).0.unwrap());
}

/// Each thread awaits futures that other threads started.
#[test]
fn futures_may_move_between_threads() {
    on_files(&["none", "deadline"], |name, device, _| {
        let (from, to): (Vec<_>, Vec<_>) = (0..4).map(|_| std::sync::mpsc::channel::<Io<Vec<u8>>>()).unzip();
        let tasks: Vec<_> = to
            .into_iter()
            .enumerate()
            .map(|(thread, incoming)| {
                let (device, next): (Device, _) = (device.clone(), from[(thread + 1) % 4].clone());
                spawn(move || {
                    for round in 0..50u64 {
                        let pos = (thread as u64 * 50 + round) * 4096;
                        let io = device.write(pos % SIZE, vec![thread as u8; 4096]);
                        assert!(next.send(io).is_ok());
                        let (result, buffer) = block_on(incoming.recv().unwrap());
                        assert!(result.is_ok() && buffer.is_some());
                    }
                })
            })
            .collect();
        drop(from);
        tasks.into_iter().for_each(|task| task.result(name));
    });
}
