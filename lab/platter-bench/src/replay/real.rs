//! The replay on real devices: the player on a thread of its own, the trace read on the caller's.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU64};
use core::time::Duration;
use std::os::fd::RawFd;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread::{Builder, ScopedJoinHandle};
use std::time::Instant;

use platter_block::bio::Bio;
use platter_block::time::{Span, Time};
use platter_disk::clock;
use platter_disk::device::Device;

use super::account::Account;
use super::error::ReplayError;
use super::options::ReplayOptions;
use super::player::{Fed, Feed, Pace, Player, Port};
use super::reader::Reader;
use super::report::{Finish, finish};
use super::step::Step;
use crate::io::{Hooks, IoError, Progress, SLEEP_SLACK, StartGate, TICK};
use crate::report::units::mib_per_s;

/// Steps that are handed over together, and most such groups that the reader is ahead.
const GROUP: usize = 256;
const AHEAD: usize = 64;
/// How long the reader sleeps when it is as far ahead as it may be.
const NAP: Duration = Duration::from_millis(2);
/// Longest sleep of the player: it looks at the flag that stops it.
const SLICE: Span = Span::from_millis(10);
/// How long the player waits for the reader before it looks again.
const SOON: Span = Span::from_micros(100);

/// What both threads look at.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    gate: StartGate,
    ios: AtomicU64,
    bytes: AtomicU64,
}

/// Steps from the other thread.
struct Groups {
    from: Receiver<Vec<Step>>,
    now: std::vec::IntoIter<Step>,
}

impl Feed for Groups {
    fn next(&mut self) -> Fed {
        loop {
            if let Some(step) = self.now.next() {
                return Fed::Step(step);
            }
            match self.from.try_recv() {
                Ok(group) => self.now = group.into_iter(),
                Err(TryRecvError::Empty) => return Fed::Later,
                Err(TryRecvError::Disconnected) => return Fed::End,
            }
        }
    }
}

/// Replays on devices of the host.
pub(super) fn run(
    reader: &mut Reader<'_, '_>,
    options: &ReplayOptions,
    devices: &[Device],
    hooks: Hooks<'_>,
) -> Result<Finish, ReplayError> {
    let (shared, (to, from)) = (Shared::default(), sync_channel(AHEAD));
    let classes = reader.classes();
    std::thread::scope(|scope| {
        let play = || play(options, devices, classes, from, &shared);
        let thread = Builder::new().name("replay".to_owned()).spawn_scoped(scope, play);
        let thread = thread.map_err(|source| IoError::Thread { job: 0, source })?;
        let mut host = Host {
            shared: &shared,
            hooks,
            thread,
            began: Instant::now(),
            last: (Instant::now(), 0, 0),
            cancelled: false,
        };
        let read = host.read(reader, to);
        if read.is_err() {
            shared.stop.store(true, Relaxed);
        }
        shared.gate.open(true);
        host.wait();
        let cancelled = host.cancelled;
        let played = host.thread.join().map_err(|_| IoError::Panicked { job: 0 })?;
        let (account, failure, wall) = played?;
        finish(read.err().or(failure), account, wall, None, cancelled)
    })
}

/// What the player's thread ends with: the account, why it ended early, and how long it took.
type Played = Result<(Account, Option<ReplayError>, Span), ReplayError>;

/// The caller's thread.
struct Host<'s, 'h, 'scope> {
    shared: &'s Shared,
    hooks: Hooks<'h>,
    thread: ScopedJoinHandle<'scope, Played>,
    began: Instant,
    last: (Instant, u64, u64),
    cancelled: bool,
}

impl Host<'_, '_, '_> {
    /// Reads the trace, not too far ahead of the player.
    fn read(&mut self, reader: &mut Reader<'_, '_>, to: SyncSender<Vec<Step>>) -> Result<(), ReplayError> {
        let mut whole = true;
        while whole && !self.cancelled {
            let mut group = Vec::with_capacity(GROUP);
            while whole && group.len() < GROUP {
                match reader.step()? {
                    Some(step) => group.push(step),
                    None => whole = false,
                }
            }
            let mut next = Some(group);
            while let Some(group) = next.take() {
                match to.try_send(group) {
                    Ok(()) => {}
                    Err(TrySendError::Full(group)) => {
                        self.shared.gate.open(true);
                        std::thread::sleep(NAP);
                        if !self.look_around() {
                            next = Some(group);
                        }
                    }
                    // The player has ended.
                    Err(TrySendError::Disconnected(_)) => return Ok(()),
                }
            }
            self.look_around();
        }
        Ok(())
    }

    /// Waits until the player has ended.
    fn wait(&mut self) {
        while !self.thread.is_finished() {
            std::thread::sleep(NAP);
            self.look_around();
        }
    }

    /// Reports progress, and whether the replay is to stop.
    fn look_around(&mut self) -> bool {
        if !self.cancelled && self.hooks.cancel.load(Relaxed) {
            self.cancelled = true;
            self.shared.stop.store(true, Relaxed);
        }
        let now = Instant::now();
        let (before, had_ios, had_bytes) = self.last;
        let passed = now.duration_since(before);
        if passed < TICK {
            return self.cancelled;
        }
        let (ios, bytes) = (self.shared.ios.load(Relaxed), self.shared.bytes.load(Relaxed));
        self.last = (now, ios, bytes);
        if let Some(progress) = &mut self.hooks.progress {
            progress(&Progress {
                elapsed: now - self.began,
                simulated: None,
                ramping: false,
                ios,
                iops: (ios - had_ios) as f64 / passed.as_secs_f64(),
                mib_per_s: mib_per_s(bytes - had_bytes, passed.as_nanos() as u64),
            });
        }
        self.cancelled
    }
}

/// The player's thread.
fn play(
    options: &ReplayOptions,
    devices: &[Device],
    classes: [u64; 2],
    from: Receiver<Vec<Step>>,
    shared: &Shared,
) -> Played {
    let feed = Groups { from, now: Vec::new().into_iter() };
    let player = Player::new(options, devices, classes, feed)?;
    // As exact as sleeps can be, where the system lets a thread ask for it.
    let _ = rustix::thread::set_current_timer_slack(core::num::NonZeroU64::new(1));
    shared.gate.wait();
    let start = clock::now();
    let mut playing = Playing { player, done: Vec::new(), descriptors: Vec::new() };
    playing.player.begin(start);
    playing.run(shared);
    let Playing { player: Player { account, failure, .. }, .. } = playing;
    Ok((account, failure, clock::now().since(start)))
}

struct Playing<'o> {
    player: Player<'o, Groups>,
    done: Vec<Bio>,
    descriptors: Vec<RawFd>,
}

impl Playing<'_> {
    fn run(&mut self, shared: &Shared) {
        loop {
            if shared.stop.load(Relaxed) {
                self.player.stop();
            }
            let pace = self.player.go(clock::now());
            let now = clock::now();
            if self.player.seal(now) {
                // Hands over what was submitted.
                self.poll(now);
            } else {
                match pace {
                    Pace::Over => return,
                    Pace::Again => {}
                    Pace::At(at) => self.wait(now, at),
                    Pace::Completion => self.wait(now, Time(u64::MAX)),
                    Pace::Trace => self.wait(now, now + SLEEP_SLACK + SOON),
                }
            }
            if !self.done.is_empty() {
                self.player.completed(clock::now(), &mut self.done);
                let completed = self.player.account.completed;
                shared.ios.store(completed.ios, Relaxed);
                shared.bytes.store(completed.bytes, Relaxed);
            }
        }
    }

    fn poll(&mut self, now: Time) {
        for port in &mut self.player.ports {
            port.channel.poll_at(now, &mut self.done);
        }
    }

    /// Waits for a completion, until a time or for a slice. The last part before that time is spun, as a sleep ends late.
    fn wait(&mut self, now: Time, until: Time) {
        self.poll(now);
        if !self.done.is_empty() {
            return;
        }
        let span = Span(until.since(now).0.saturating_sub(SLEEP_SLACK.0)).min(SLICE);
        if span == Span::ZERO {
            core::hint::spin_loop();
            return;
        }
        if self.player.in_flight() == 0 {
            return std::thread::sleep(Duration::from(span));
        }
        let busy = |port: &Port| port.channel.outstanding() > 0;
        let ports = &mut self.player.ports;
        let Some(at) = ports.iter().position(busy) else { return };
        let (before, rest) = ports.split_at_mut(at);
        let Some((first, behind)) = rest.split_first_mut() else { return };
        if !before.iter().chain(behind.iter()).any(busy) {
            first.channel.wait(&mut self.done, Some(span));
            return;
        }
        // Sleeps for all of them.
        self.descriptors.clear();
        let mut seen = true;
        for port in behind.iter_mut().filter(|port| busy(port)) {
            port.channel.unplug();
            seen &= port.channel.descriptors(&mut self.descriptors);
        }
        let span = if seen { span } else { span.min(SOON) };
        first.channel.wait_or_readable(&mut self.done, &self.descriptors, Some(span));
        let now = clock::now();
        self.poll(now);
    }
}
