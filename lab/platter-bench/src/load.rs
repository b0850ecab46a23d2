//! Load on devices in the time of the devices: virtual on simulated ones, real on others.
//!
//! A [`Work`] has channels to devices and decides what to submit. [`Load`] runs it: it polls the channels,
//! advances the clock when nothing more happens at the present time, and reports work that waits for nothing.
//!
//! Channels are grouped in *ports*. A port is polled only when one of its channels has an event, or after a
//! timer of the work, so that a device costs nothing between its events. The downside is that channels whose
//! devices share a disk must be in one port: what one of them submits can cause an earlier event on another.

mod agenda;

use agenda::Agenda;
use platter_block::bio::Bio;
use platter_block::time::{Span, Time};
use platter_disk::channel::Channel;
use platter_disk::clock::Clock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Events in virtual time after which [`Load::run`] returns, so that its caller can look at the real clock and
/// at the cancel flag.
const EVENTS: u32 = 1024;

/// Longest sleep in real time before [`Load::run`] returns for the same reason.
const NAP: Span = Span::from_millis(50);

/// How far time advances when a device wants to be polled again at the same time.
const STALL: Span = Span(1);

/// What runs on the channels of a [`Load`].
pub trait Work {
    /// Why it can fail.
    type Error: From<Stuck>;

    /// The channels of a port.
    fn channels(&mut self, port: u32) -> impl Iterator<Item = &mut Channel>;

    /// Takes all bios of `done`, which have completed on `port`. May submit more to channels of that port.
    ///
    /// # Errors
    /// Any error ends the run.
    fn completed(&mut self, load: &mut Load, port: u32, done: &mut Vec<Bio>) -> Result<(), Self::Error>;

    /// A timer has expired. Returns the port to whose channels the work may have submitted bios.
    ///
    /// # Errors
    /// Any error ends the run.
    fn expired(&mut self, load: &mut Load, timer: u32) -> Result<u32, Self::Error> {
        let _ = (load, timer);
        Ok(0)
    }

    /// Whether nothing more has to happen.
    fn is_over(&self) -> bool;

    /// Whether the submitters wait for their bios whenever time passes, so that devices do not hold requests
    /// back for merging. If not, the work itself calls [`Channel::unplug`] when a submitter starts to wait.
    const ALWAYS_WAITS: bool = true;
}

/// No device will ever complete the I/Os in flight, and no timer is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{ios} I/Os are in flight and no device will ever complete them; give the device a timeout (timeout=30s)"
)]
pub struct Stuck {
    /// I/Os that were submitted and have not completed.
    pub ios: usize,
}

/// Why [`Load::run`] has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// The work is over.
    Over,
    /// The end of the run is reached.
    Until,
    /// Some events have been handled: a chance to cancel or to report progress.
    Events,
}

/// The driver of a [`Work`]: the time, and what happens next.
pub struct Load {
    clock: Clock,
    now: Time,
    /// Timers have the first numbers, ports the following ones: at equal times timers come first.
    agenda: Agenda,
    timers: u32,
    ports: u32,
    done: Vec<Bio>,
}

impl Load {
    /// A load of work with this many ports, at least 1, and timers. In real time it has one port with one
    /// channel; further channels have their own threads and loads.
    pub fn new(clock: Clock, ports: u32, timers: u32) -> Load {
        let agenda = Agenda::new((ports + timers) as usize);
        Load { now: clock.now(), clock, agenda, timers, ports, done: Vec::new() }
    }

    /// The present time.
    #[inline]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Sets a timer of the work, or clears it.
    #[inline]
    pub fn set_timer(&mut self, timer: u32, at: Option<Time>) {
        self.agenda.set(timer, at);
    }

    /// Runs the work until it is over, until `until` (events at that time are not handled), or for some events.
    ///
    /// # Errors
    /// [`Stuck`] if the work is not over and nothing will ever happen; errors of the work.
    pub fn run<W: Work>(&mut self, work: &mut W, until: Time) -> Result<Pause, W::Error> {
        if self.clock.simulated().is_none() {
            return self.run_in_real_time(work, until);
        }
        for _ in 0..EVENTS {
            let next = self.agenda.first();
            // Everything that happens at one time is handled before the run ends.
            if next.is_none_or(|(at, _)| at > self.now) && work.is_over() {
                return Ok(Pause::Over);
            }
            let Some((at, number)) = next else { return Err(self.stuck(work).into()) };
            self.now = at.min(until);
            if let Some(clock) = self.clock.simulated() {
                clock.advance_to(self.now);
            }
            if at >= until {
                return Ok(Pause::Until);
            }
            self.handle(work, number)?;
        }
        Ok(Pause::Events)
    }

    /// Runs the work until it is over or until `until`. Returns whether it was cancelled before.
    ///
    /// # Errors
    /// As [`run`](Load::run).
    pub fn run_unless<W: Work>(
        &mut self,
        work: &mut W,
        until: Time,
        cancel: &AtomicBool,
    ) -> Result<bool, W::Error> {
        while !cancel.load(Ordering::Relaxed) {
            if self.run(work, until)? != Pause::Events {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Polls the channels of a port until nothing more happens on them at the present time. To be called after
    /// the work has submitted bios outside of [`Work::completed`] and [`Work::expired`]. In real time the next
    /// [`run`](Load::run) hands the bios over.
    ///
    /// # Errors
    /// Errors of the work.
    pub fn settle<W: Work>(&mut self, work: &mut W, port: u32) -> Result<(), W::Error> {
        if self.clock.simulated().is_none() {
            return Ok(());
        }
        let mut done = std::mem::take(&mut self.done);
        let mut empty = 0;
        loop {
            for channel in work.channels(port) {
                channel.poll_at(self.now, &mut done);
            }
            if !done.is_empty() {
                empty = 0;
                work.completed(self, port, &mut done)?;
                continue;
            }
            let (mut next, mut outstanding) = (None, 0);
            for channel in work.channels(port) {
                if W::ALWAYS_WAITS {
                    channel.unplug();
                }
                next = Time::earliest(next, channel.next_wakeup());
                outstanding += channel.outstanding();
            }
            empty += 1;
            // A bio that completes at once is found only by the next poll.
            if empty < 2 && outstanding > 0 && next.is_none_or(|at| at <= self.now) {
                continue;
            }
            self.agenda.set(self.timers + port, next.map(|at| at.max(self.now + STALL)));
            self.done = done;
            return Ok(());
        }
    }

    fn handle<W: Work>(&mut self, work: &mut W, number: u32) -> Result<(), W::Error> {
        let port = match number.checked_sub(self.timers) {
            // `settle` gives the port its next time: one change of the heap instead of two.
            Some(port) => port,
            None => {
                self.agenda.set(number, None);
                work.expired(self, number)?
            }
        };
        self.settle(work, port)
    }

    /// Sleeps until a bio completes, a timer expires or [`NAP`] has passed, and handles what has happened.
    fn run_in_real_time<W: Work>(&mut self, work: &mut W, until: Time) -> Result<Pause, W::Error> {
        if work.is_over() {
            return Ok(Pause::Over);
        }
        let end = self.agenda.first().map_or(until, |(at, _)| at.min(until));
        let span = end.since(self.clock.now()).min(NAP);
        let mut done = std::mem::take(&mut self.done);
        match work.channels(0).find(|channel| channel.outstanding() > 0) {
            Some(channel) => _ = channel.wait(&mut done, Some(span)),
            None => std::thread::sleep(Duration::from_nanos(span.0)),
        }
        self.now = self.clock.now().min(until);
        if !done.is_empty() {
            work.completed(self, 0, &mut done)?;
        }
        self.done = done;
        while let Some((_, number)) = self.agenda.first().filter(|(at, _)| *at <= self.now) {
            self.handle(work, number)?;
        }
        Ok(if self.now >= until { Pause::Until } else { Pause::Events })
    }

    fn stuck<W: Work>(&self, work: &mut W) -> Stuck {
        let outstanding = |port| work.channels(port).map(|channel| channel.outstanding()).sum::<usize>();
        Stuck { ios: (0..self.ports).map(outstanding).sum() }
    }
}
