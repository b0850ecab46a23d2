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
use crate::load::{Load, Pause, Work};
use platter_block::bio::Bio;
use platter_block::time::Time;
use platter_disk::channel::Channel;
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// How often progress is reported.
const TICK: Duration = Duration::from_millis(200);

struct Crew {
    channel: Channel,
    bios: Bios,
    requests: Mutex<Requests>,
    hands: Vec<Hand>,
    /// Slots of a hand.
    depth: u32,
    landed: u64,
}

/// Runs the plan on a simulated device.
pub(super) fn run(plan: &Plan, cut: &Cut, mut hooks: Hooks<'_>) -> Result<Measured, FileioError> {
    let slots = plan.threads * plan.depth();
    let (began, usage) = (Instant::now(), Usage::now());
    let mut crew = Crew {
        channel: cut.device.channel(slots as usize)?,
        bios: Bios::new(plan, cut.clone(), 0, slots)?,
        requests: Mutex::new(Requests::new(plan)),
        hands: (0..plan.threads).map(|thread| Hand::new(plan, thread)).collect(),
        depth: plan.depth(),
        landed: 0,
    };
    let mut load = Load::new(cut.device.clock(), 1, 0);
    let begin = load.now();
    let interrupted = crew.run(&mut load, plan.time.map(|time| begin + time), began, &mut hooks)?;
    let mut tally = Tally::new();
    crew.hands.iter().for_each(|hand| tally.merge(&hand.tally));
    let (simulated, usage) = (Some(began.elapsed()), Usage::now().since(&usage));
    Ok(Measured { ns: load.now().since(begin).0, simulated, tally, usage, interrupted })
}

impl Crew {
    /// Runs until all hands are through; whether it was interrupted.
    fn run(
        &mut self,
        load: &mut Load,
        until: Option<Time>,
        began: Instant,
        hooks: &mut Hooks<'_>,
    ) -> Result<bool, FileioError> {
        let (begin, mut told, mut interrupted) = (load.now(), began, false);
        let mut until = until.unwrap_or(Time(u64::MAX));
        self.start_all(load)?;
        loop {
            match load.run(self, until)? {
                Pause::Over => return Ok(interrupted),
                Pause::Until => {
                    until = Time(u64::MAX);
                    self.hands.iter_mut().for_each(Hand::finish);
                    self.start_all(load)?;
                }
                Pause::Events => {}
            }
            if !interrupted && hooks.cancel.load(Relaxed) {
                interrupted = true;
                self.hands.iter_mut().for_each(Hand::stop);
            }
            if told.elapsed() >= TICK
                && let Some(progress) = &mut hooks.progress
            {
                told = Instant::now();
                let simulated = Some(Duration::from_nanos(load.now().since(begin).0));
                progress(&Progress { elapsed: began.elapsed(), simulated, requests: self.landed });
            }
        }
    }

    /// Lets every thread start the requests that it can.
    fn start_all(&mut self, load: &mut Load) -> Result<(), FileioError> {
        for number in 0..self.hands.len() {
            self.start(load.now(), number)?;
        }
        load.settle(self, 0)
    }

    fn start(&mut self, now: Time, number: usize) -> Result<(), FileioError> {
        let hand = &mut self.hands[number];
        while let Some((slot, request)) = hand.next(source(&self.requests, hand.thread())) {
            hand.started(slot, now);
            let bio = self.bios.take(number as u32 * self.depth + slot, request, number as u32)?;
            submit(&mut self.channel, bio)?;
        }
        Ok(())
    }

    fn follow(&mut self, number: usize, slot: u32, request: Request) -> Result<(), FileioError> {
        let bio = self.bios.take(number as u32 * self.depth + slot, request, number as u32)?;
        submit(&mut self.channel, bio)
    }
}

impl Work for Crew {
    type Error = FileioError;

    fn channels(&mut self, _port: u32) -> impl Iterator<Item = &mut Channel> {
        std::iter::once(&mut self.channel)
    }

    fn completed(&mut self, load: &mut Load, _port: u32, done: &mut Vec<Bio>) -> Result<(), FileioError> {
        for bio in done.drain(..) {
            let slot = self.bios.put(bio)?;
            let (number, slot) = ((slot / self.depth) as usize, slot % self.depth);
            self.landed += 1;
            match self.hands[number].landed(slot, load.now()) {
                Some(next) => self.follow(number, slot, next)?,
                None => self.start(load.now(), number)?,
            }
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.hands.iter().all(Hand::is_over)
    }
}
