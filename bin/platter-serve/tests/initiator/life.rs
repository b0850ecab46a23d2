//! Random lives beside a model, over connections that are cut again and again.

use crate::between::{Fate, Relay};
use crate::kinds::{Serving, TARGET, connect};
use crate::part::{Life, PART};
use crate::tgt::Tgt;
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_remote::iscsi::client::IscsiOptions;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use std::sync::Mutex;

const THREADS: u64 = 4;
const STEPS: u64 = 150;

fn fact(device: &Device, name: &str) -> String {
    device.facts().into_iter().find(|fact| fact.0 == name).unwrap().1
}

/// Lives at a target, through a relay that cuts after random numbers of bytes, in both directions.
fn live(what: &str, address: &str, path: &str, options: IscsiOptions, seed: u64) {
    let random = Mutex::new(Xoshiro256PlusPlus::seed_from_u64(seed));
    let left = Mutex::new((0, u64::MAX));
    let relay = Relay::new(address, move |unit| {
        let mut left = left.lock().unwrap();
        if left.0 <= unit.connection {
            // Each connection has an end of its own, behind the login.
            *left = (unit.connection + 1, 300_000 + random.lock().unwrap().next_u64() % 1_000_000);
        }
        if left.1 <= unit.bytes.len() as u64 {
            return Fate::Cut(left.1 as usize);
        }
        left.1 -= unit.bytes.len() as u64;
        Fate::Pass
    });
    let options = options.with_reconnect(Span::from_secs(120));
    let elevator = if options.connections == 1 { "noop" } else { "none" };
    let url = format!("iscsi://{}/{path}?header_digest=none", relay.address);
    let Some(device) = connect(&url, elevator, options) else { return };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let device = &device;
            scope.spawn(move || {
                let mut life = Life::new(device, thread * PART, seed << 8 | thread);
                (0..STEPS).for_each(|_| life.step());
                life.check(&format!("{what}, seed {seed}"));
            });
        }
    });
    assert!(relay.connections() > 3, "{what}: the connection was cut");
    assert!(fact(&device, "reconnects").parse::<u32>().unwrap() > 0, "{what}");
}

#[test]
fn nothing_is_missing_over_connections_that_are_cut() {
    for seed in 0..3 {
        let serving = Serving::new(Device::ram(THREADS * PART).unwrap());
        live("one session", serving.address(), &format!("{TARGET}/0"), IscsiOptions::default(), seed);
    }
}

#[test]
fn nothing_is_missing_over_several_sessions_that_are_cut() {
    let serving = Serving::new(Device::ram(THREADS * PART).unwrap());
    let options = IscsiOptions::default().with_connections(5);
    live("several sessions", serving.address(), &format!("{TARGET}/0"), options, 7);
}

#[test]
fn nothing_is_missing_at_tgt() {
    let Some(tgt) = Tgt::start(THREADS * PART, &[]) else { return };
    for seed in 20..22 {
        tgt.erase();
        live("tgt", &tgt.address, &tgt.path(), IscsiOptions::default(), seed);
    }
}
