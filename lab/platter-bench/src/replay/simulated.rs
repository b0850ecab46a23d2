//! The replay on simulated devices: everything on one thread, in virtual time.

use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;
use std::time::Instant;

use platter_block::bio::Bio;
use platter_block::time::Time;
use platter_disk::channel::Channel;
use platter_disk::device::Device;

use super::error::ReplayError;
use super::options::ReplayOptions;
use super::player::{Fed, Feed, Pace, Player};
use super::reader::Reader;
use super::report::{Finish, finish};
use crate::io::{Hooks, Progress, TICK};
use crate::load::{Load, Pause, Work};
use crate::report::units::mib_per_s;

/// Reads the trace as it is needed.
struct Direct<'d, 'a, 'r> {
    reader: &'d mut Reader<'a, 'r>,
    failure: Option<ReplayError>,
}

impl Feed for Direct<'_, '_, '_> {
    fn next(&mut self) -> Fed {
        match self.reader.step() {
            Ok(Some(step)) => Fed::Step(step),
            Ok(None) => Fed::End,
            Err(error) => {
                self.failure = Some(error);
                Fed::End
            }
        }
    }
}

/// A replay as work of a [`Load`]: its only port has the channels of all devices, which may share a disk, and its only timer is
/// the next start.
struct Stage<'o, F> {
    player: Player<'o, F>,
    done: Vec<Bio>,
}

impl<F: Feed> Stage<'_, F> {
    fn go(&mut self, load: &mut Load) {
        let now = load.now();
        let pace = loop {
            let pace = self.player.go(now);
            self.player.seal(now);
            if pace != Pace::Again {
                break pace;
            }
        };
        load.set_timer(0, if let Pace::At(at) = pace { Some(at) } else { None });
    }
}

impl<F: Feed> Work for Stage<'_, F> {
    type Error = ReplayError;

    fn channels(&mut self, _port: u32) -> impl Iterator<Item = &mut Channel> {
        self.player.ports.iter_mut().map(|port| &mut port.channel)
    }

    fn completed(&mut self, load: &mut Load, _port: u32, done: &mut Vec<Bio>) -> Result<(), ReplayError> {
        self.player.completed(load.now(), done);
        self.go(load);
        Ok(())
    }

    fn expired(&mut self, load: &mut Load, _timer: u32) -> Result<u32, ReplayError> {
        // What ends at the time of a start has ended before it.
        for port in &mut self.player.ports {
            port.channel.poll_at(load.now(), &mut self.done);
        }
        self.player.completed(load.now(), &mut self.done);
        self.go(load);
        Ok(0)
    }

    fn is_over(&self) -> bool {
        self.player.is_over()
    }
}

/// Replays on devices that share a virtual clock.
pub(super) fn run(
    reader: &mut Reader<'_, '_>,
    options: &ReplayOptions,
    devices: &[Device],
    mut hooks: Hooks<'_>,
) -> Result<Finish, ReplayError> {
    let Some(first) = devices.first() else { return Err(crate::io::IoError::NoDevice.into()) };
    let (mut load, began, classes) = (Load::new(first.clock(), 1, 1), Instant::now(), reader.classes());
    let start = load.now();
    let player = Player::new(options, devices, classes, Direct { reader, failure: None })?;
    let mut stage = Stage { player, done: Vec::new() };
    stage.player.begin(start);
    stage.go(&mut load);
    load.settle(&mut stage, 0)?;
    let (mut last, mut cancelled) = ((began, start, 0, 0), false);
    while load.run(&mut stage, Time(u64::MAX))? == Pause::Events {
        if !cancelled && hooks.cancel.load(Relaxed) {
            cancelled = true;
            stage.player.stop();
            load.set_timer(0, None);
        }
        let (now, completed) = (Instant::now(), stage.player.account.completed);
        let (before, then, ios, bytes) = last;
        if let Some(progress) = &mut hooks.progress
            && now.duration_since(before) >= TICK
        {
            let ns = load.now().since(then).0.max(1);
            progress(&Progress {
                elapsed: now - began,
                simulated: Some(Duration::from_nanos(load.now().since(start).0)),
                ramping: false,
                ios: completed.ios,
                iops: (completed.ios - ios) as f64 / (ns as f64 / 1e9),
                mib_per_s: mib_per_s(completed.bytes - bytes, ns),
            });
            last = (now, load.now(), completed.ios, completed.bytes);
        }
    }
    let end = load.now();
    let Player { account, failure, feed, .. } = stage.player;
    finish(failure.or(feed.failure), account, end.since(start), Some(began.elapsed()), cancelled)
}
