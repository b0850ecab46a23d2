//! Advances time to the next event, or until everything has completed.

use super::lanes::STEP;
use super::submit::Live;
use super::{Finding, LONGEST, Run};
use platter_block::time::{Span, Time};

/// Turns without a completion after which no further completion is expected.
const TURNS: u64 = 5_000;

/// Turns without a completion after which time advances in larger steps. Otherwise a cache that wakes every
/// millisecond would take one turn for each millisecond of a stuck command.
const PATIENT_TURNS: u64 = 100;

/// Turns without a completion and without anything to wait for.
const IDLE_TURNS: u64 = 50;

impl Run<'_> {
    /// Time of the next event, as reported by the polled lanes.
    pub(super) fn next(&mut self) -> Option<Time> {
        // The futures' lane can only be asked by running it.
        self.place_futures();
        let open = self.open.as_ref()?;
        let polled = self.polled();
        let futures = open.device.run_background();
        let lanes = polled.into_iter().filter_map(|at| open.lanes[at].channel.next_wakeup()).min();
        Time::earliest(lanes, futures)
    }

    /// Advances time to the next event.
    pub(super) fn pass(&mut self) -> Result<(), Finding> {
        // Running one lane may complete I/O of another.
        while self.poll()? > 0 {}
        let next = loop {
            let next = self.next();
            if self.poll()? == 0 {
                break next;
            }
        };
        if let Some(at) = next {
            self.check_alarm(Some(at))?;
            self.world.clock().advance_to(at);
        }
        self.poll().map(drop)
    }

    /// An I/O with a deadline must be polled at that time.
    fn check_alarm(&self, next: Option<Time>) -> Result<(), Finding> {
        // For an I/O whose deadline has passed, polling its lane shows whether the deadline was met.
        let due = |live: &Live| live.deadline.is_some_and(|at| at > self.now());
        let seen = self.live.iter().filter(|(_, live)| live.placed && due(live) && self.is_seen(live));
        let first =
            seen.filter_map(|(token, live)| Some((live.deadline?, token, live))).min_by_key(|&(at, ..)| at);
        match first {
            Some((at, token, live)) if next.is_none_or(|next| next > at + STEP) => {
                let next = next
                    .map_or("never".to_owned(), |next| format!("in {} us", next.since(self.now()).0 / 1000));
                let left = at.since(self.now()).0 / 1000;
                let what = format!("{token} must end in {left} us, and the next wake-up is {next}: {live:?}");
                Err(Finding::new("alarm", what))
            }
            _ => Ok(()),
        }
    }

    /// Advances time until everything that the program polls has completed.
    pub(super) fn settle(&mut self) -> Result<(), Finding> {
        let began = self.now();
        let (mut turns, mut last) = (0, began);
        loop {
            while self.poll()? > 0 {
                (turns, last) = (0, self.now());
            }
            let left = self.live.values().filter(|live| self.is_seen(live)).count();
            if left == 0 {
                return Ok(());
            }
            turns += 1;
            let next = self.next();
            // To ask is to run some.
            if self.poll()? > 0 {
                continue;
            }
            self.check_alarm(next)?;
            // Before the clock moves: a leap may pass the time of what a layer holds back, which then ends.
            let waited = self.now().since(last) > LONGEST;
            let stands = match next {
                Some(at) => {
                    self.world.clock().advance_to(at.max(self.leap(turns)));
                    turns > TURNS
                }
                None => turns > IDLE_TURNS,
            };
            if stands || waited {
                return Err(self.endless(left, self.now().since(began)));
            }
        }
    }

    /// Advances time as a program does that polls whenever an event is due.
    ///
    /// Moving the clock there in one step would model a program that stops for that long. I/O of a cache would then
    /// time out, because nothing runs the cache meanwhile.
    pub(super) fn live_on(&mut self, span: Span) -> Result<(), Finding> {
        let end = self.now() + span;
        let mut turns = 0;
        loop {
            while self.poll()? > 0 {}
            if self.now() >= end {
                return Ok(());
            }
            let next = self.next().unwrap_or(end);
            self.world.clock().advance_to(next.max(self.leap(turns)).min(end));
            turns += 1;
        }
    }

    /// How far time may advance in one step after `turns` turns without a completion: to the next event of a disk or to the
    /// next deadline, in steps that grow with the number of turns.
    fn leap(&self, turns: u64) -> Time {
        let Some(beyond) = turns.checked_sub(PATIENT_TURNS) else { return Time(0) };
        let now = self.now();
        let step = Span(1_000_000 << (beyond / 8).min(32));
        let event = self.world.next_event().filter(|&at| at > now);
        let deadline = self.live.values().filter_map(|live| live.deadline).filter(|&at| at > now).min();
        Time::earliest(Time::earliest(event, deadline), Some(now + step)).unwrap_or(now)
    }

    fn endless(&self, left: usize, took: Span) -> Finding {
        let oldest = self.live.iter().find(|(_, live)| self.is_seen(live));
        let neglected = self.open.iter().flat_map(|open| &open.lanes).count() - self.polled().len();
        let beside =
            if neglected > 0 { format!(" while {neglected} channels are not polled") } else { String::new() };
        let took = took.as_millis();
        Finding::new(
            "endless",
            format!("{left} I/Os never end{beside}; after {took} ms there still is {oldest:?}"),
        )
    }
}
