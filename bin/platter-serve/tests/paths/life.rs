//! Threads that write and read parts of a disk, while one of its paths after the other is away.

use crate::part::{Life, PART};
use crate::relay::Relay;
use platter_disk::device::Device;
use std::sync::atomic::{AtomicU64, Ordering};

const THREADS: u64 = 3;
/// The first part has the record of an array, where there is one.
pub(crate) const SIZE: u64 = (1 + THREADS) * PART;
const STEPS: u64 = 250;
/// Steps of all threads after which the other path is away.
const SPELL: u64 = 100;

pub(crate) fn live(what: &str, device: &Device, relays: &[Relay; 2], seed: u64) {
    let steps = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (device, steps) = (&device, &steps);
            scope.spawn(move || {
                let mut life = Life::new(device, (1 + thread) * PART, seed << 8 | thread);
                for _ in 0..STEPS {
                    life.step();
                    let done = steps.fetch_add(1, Ordering::SeqCst) + 1;
                    if done % SPELL == 0 {
                        let away = (done / SPELL) as usize % 2;
                        relays[1 - away].come_back();
                        relays[away].leave();
                    }
                }
                life.check(&format!("{what}, seed {seed}"));
            });
        }
    });
    let cuts = relays.each_ref().map(Relay::cuts);
    assert!(
        cuts.iter().all(|&cuts| cuts > 1),
        "{what}, seed {seed}: both paths were lost and found again: {cuts:?}"
    );
}
