//! Random lives of several clients beside the oracle, over stacks that fail some I/O, with connections that are ended and a
//! disk that grows.

use crate::judge::{Judge, Life};
use crate::stacks::open;
use crate::ways::{Kind, Way, served};
use platter_disk::device::Device;
use platter_sim::oracle::Outcome;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const CLIENTS: u64 = 3;
const STEPS: u64 = 150;
/// Few enough that clients meet.
const SECTORS: u64 = 400;

/// Makes the file of a device larger.
fn grow(device: &Device, folder: &Path) {
    let file = std::fs::OpenOptions::new().write(true).open(folder.join("disk")).unwrap();
    file.set_len(device.size() + 4096).unwrap();
    device.refresh().unwrap();
}

/// `fails`: the device fails some I/O.
fn live_at(way: &dyn Way, judge: &Judge, seed: u64, fails: bool, events: &dyn Fn()) {
    // Clients may see errors: of the device, or of connections that were ended.
    let ended = AtomicBool::new(fails);
    let life = |number| Life::new(way.connect(), judge, seed * 1000 + number, SECTORS);
    thread::scope(|scope| {
        for mut life in (1..CLIENTS).map(life) {
            let ended = &ended;
            scope.spawn(move || (0..STEPS).for_each(|_| step(&mut life, ended)));
        }
        let mut first = life(0);
        for _ in 0..STEPS {
            if first.below(40) == 0 {
                ended.store(true, Ordering::Relaxed);
                way.disconnect_all();
                events();
            }
            step(&mut first, &ended);
        }
    });
}

fn step(life: &mut Life<'_>, ended: &AtomicBool) {
    if let Err(error) = life.step() {
        match ended.load(Ordering::Relaxed) {
            true => life.client.reconnect(),
            false => life.judge.accuse(format!("an I/O fails for no reason: {error}")),
        }
    }
}

/// One life over a device. What is wrong with it, or `None`.
///
/// Which I/Os of the clients meet at the device is up to the host, so a seed need not find the same thing again.
pub(crate) fn live((_, start): Kind, spec: &str, seed: u64) -> Option<String> {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let device = open(spec, folder.path());
    let way = start(served(device.clone()))?;
    let judge = Judge::new(Outcome::Failed, spec.contains("cache"));
    let events = || {
        if spec == "DISK" {
            grow(&device, folder.path());
        }
    };
    live_at(&*way, &judge, seed, spec.contains("error("), &events);
    let mut reader = Life::new(way.connect(), &judge, 0, SECTORS);
    // A layer that fails some I/O may fail this one too.
    let seen = (0..100).any(|_| reader.look().is_ok());
    judge.wrong().or_else(|| (!seen).then(|| "nothing can be read".to_owned()))
}
