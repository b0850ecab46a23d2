//! Threads in virtual time: all of them on one real thread, through one channel.

use super::bios::{Bios, submit};
use super::device::Cut;
use super::hand::{Hand, source};
use super::plan::Plan;
use super::report::Measured;
use super::requests::{Request, Requests};
use super::tally::Tally;
use super::{FileioError, Hooks, Progress};
use crate::io::Usage;
use platter_block::bio::Bio;
use platter_block::time::{Span, Time, VirtualClock};
use platter_disk::channel::Channel;
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Events between two looks at the real clock.
const EVENTS: u32 = 1024;
/// A device that wants to be polled again at the same time is polled this much later.
const STALL: Span = Span(1);
/// How often progress is reported.
const TICK: Duration = Duration::from_millis(200);

struct Crew<'a> {
    clock: &'a VirtualClock,
    channel: Channel,
    bios: Bios,
    requests: Mutex<Requests>,
    hands: Vec<Hand>,
    /// Slots of a hand.
    depth: u32,
    now: Time,
    /// When something happens next.
    wake: Option<Time>,
    done: Vec<Bio>,
    landed: u64,
}

/// Runs the plan on a device whose clock is `clock`.
pub(super) fn run(
    plan: &Plan,
    cut: &Cut,
    clock: &VirtualClock,
    mut hooks: Hooks<'_>,
) -> Result<Measured, FileioError> {
    let slots = plan.threads * plan.depth();
    let (begin, began, usage) = (clock.now(), Instant::now(), Usage::now());
    let mut crew = Crew {
        clock,
        channel: cut.device.channel(slots as usize)?,
        bios: Bios::new(plan, cut.clone(), 0, slots)?,
        requests: Mutex::new(Requests::new(plan)),
        hands: (0..plan.threads).map(|thread| Hand::new(plan, thread)).collect(),
        depth: plan.depth(),
        now: begin,
        wake: None,
        done: Vec::new(),
        landed: 0,
    };
    let interrupted = crew.run(plan.time.map(|time| begin + time), began, &mut hooks)?;
    let mut tally = Tally::new();
    crew.hands.iter().for_each(|hand| tally.merge(&hand.tally));
    let (simulated, usage) = (Some(began.elapsed()), Usage::now().since(&usage));
    Ok(Measured { ns: crew.now.since(begin).0, simulated, tally, usage, interrupted })
}

impl Crew<'_> {
    /// Runs until all hands are through; whether it was interrupted.
    fn run(
        &mut self,
        mut until: Option<Time>,
        began: Instant,
        hooks: &mut Hooks<'_>,
    ) -> Result<bool, FileioError> {
        let (begin, mut told, mut interrupted, mut events) = (self.now, began, false, 0u32);
        self.start_all()?;
        while !self.hands.iter().all(Hand::is_over) {
            let next = match (self.wake, until) {
                (Some(wake), Some(until)) => wake.min(until),
                (Some(wake), None) => wake,
                (None, _) => return Err(FileioError::Stuck { requests: self.channel.outstanding() }),
            };
            self.now = next;
            self.clock.advance_to(next);
            if until.is_some_and(|until| next >= until) {
                until = None;
                self.hands.iter_mut().for_each(Hand::finish);
                self.start_all()?;
            } else {
                self.turn()?;
            }
            events = events.wrapping_add(1);
            if !events.is_multiple_of(EVENTS) {
                continue;
            }
            if !interrupted && hooks.cancel.load(Relaxed) {
                interrupted = true;
                self.hands.iter_mut().for_each(Hand::stop);
            }
            if told.elapsed() >= TICK
                && let Some(progress) = &mut hooks.progress
            {
                told = Instant::now();
                let simulated = Some(Duration::from_nanos(self.now.since(begin).0));
                progress(&Progress { elapsed: began.elapsed(), simulated, requests: self.landed });
            }
        }
        Ok(interrupted)
    }

    /// Lets every thread start the requests that it can.
    fn start_all(&mut self) -> Result<(), FileioError> {
        for number in 0..self.hands.len() {
            self.start(number)?;
        }
        self.turn()
    }

    fn start(&mut self, number: usize) -> Result<(), FileioError> {
        let hand = &mut self.hands[number];
        while let Some((slot, request)) = hand.next(source(&self.requests, hand.thread())) {
            hand.started(slot, self.now);
            let bio = self.bios.take(number as u32 * self.depth + slot, request, number as u32)?;
            submit(&mut self.channel, bio)?;
        }
        Ok(())
    }

    fn follow(&mut self, number: usize, slot: u32, request: Request) -> Result<(), FileioError> {
        let bio = self.bios.take(number as u32 * self.depth + slot, request, number as u32)?;
        submit(&mut self.channel, bio)
    }

    /// Looks at the device until nothing more happens on it at this time.
    fn turn(&mut self) -> Result<(), FileioError> {
        let mut empty = 0;
        loop {
            let mut done = std::mem::take(&mut self.done);
            self.channel.poll_at(self.now, &mut done);
            if done.is_empty() {
                self.done = done;
                // Time is about to pass: the threads wait.
                self.channel.unplug();
                let next = self.channel.next_wakeup();
                empty += 1;
                // A request that completes at once is only found by the next poll.
                if empty < 2 && self.channel.outstanding() > 0 && next.is_none_or(|at| at <= self.now) {
                    continue;
                }
                self.wake = next.map(|at| at.max(self.now + STALL));
                return Ok(());
            }
            empty = 0;
            for bio in done.drain(..) {
                let slot = self.bios.put(bio)?;
                let (number, slot) = ((slot / self.depth) as usize, slot % self.depth);
                self.landed += 1;
                match self.hands[number].landed(slot, self.now) {
                    Some(next) => self.follow(number, slot, next)?,
                    None => self.start(number)?,
                }
            }
            self.done = done;
        }
    }
}
