//! The loop of jobs that decide about each I/O: mixes, rates, pauses, verification.

use core::mem;

use platter_block::bio::Bio;
use platter_block::time::{Span, Time};
use platter_disk::pool::PoolBuf;

use super::tally::direction_of;
use super::verify::Checker;
use super::worker::Worker;
use crate::workload::{Arrivals, Io, IoStream};

/// Decides what each I/O is and when it starts.
pub(super) struct Careful {
    ios: IoStream,
    /// Once everything written is being read back, in order: the next block to look at.
    read_back: Option<u64>,
    /// Drawn, but its block is still being written.
    postponed: Option<Io>,
    arrivals: Option<Arrivals>,
    think: Span,
    /// End of the pause.
    rests_until: Time,
    checker: Option<Checker>,
    latency: bool,
}

impl Careful {
    pub(super) fn new(
        ios: IoStream,
        arrivals: Option<Arrivals>,
        think: Span,
        checker: Option<Checker>,
        latency: bool,
    ) -> Self {
        let rests_until = Time::default();
        Self { ios, read_back: None, postponed: None, arrivals, think, rests_until, checker, latency }
    }

    /// Runs until `until` or until no I/O is left. What is in flight then stays there.
    pub(super) fn run(&mut self, worker: &mut Worker, until: Time) {
        while worker.now < until && !worker.is_over() {
            self.start_due(worker);
            let in_flight = worker.channel.outstanding() > 0;
            let next = self.next_start(worker).filter(|&at| at < until);
            match next {
                None if !in_flight => return,
                None => worker.turn::<true>(),
                Some(at) if in_flight => worker.turn_punctually(at),
                Some(at) => {
                    worker.pause(at);
                    0
                }
            };
            self.collect(worker);
        }
    }

    /// When an idle bio is to start; `None` when there is none, or nothing keeps it but its block.
    fn next_start(&self, worker: &Worker) -> Option<Time> {
        if worker.left == 0 || worker.idle.is_empty() {
            return None;
        }
        match &self.arrivals {
            Some(arrivals) => Some(Time(arrivals.peek())),
            None => (self.rests_until > worker.now).then_some(self.rests_until),
        }
    }

    fn start_due(&mut self, worker: &mut Worker) {
        while worker.left > 0 && !worker.idle.is_empty() && worker.now >= self.rests_until {
            let Some(io) = self.postponed.take().or_else(|| self.draw()) else {
                worker.left = 0;
                return;
            };
            if let (Some(checker), Io::Write(offset)) = (&self.checker, io)
                && checker.is_busy(offset)
            {
                self.postponed = Some(io);
                return;
            }
            let start = match &mut self.arrivals {
                None => worker.now,
                Some(arrivals) => match arrivals.take(worker.now.0) {
                    Some(intended) => Time(intended),
                    None => {
                        self.postponed = Some(io);
                        return;
                    }
                },
            };
            if let Some(bio) = worker.idle.pop().and_then(|bio| self.aim(worker, bio, io)) {
                worker.left -= 1;
                worker.start(bio, start);
            }
        }
    }

    fn draw(&mut self) -> Option<Io> {
        let Some(next) = &mut self.read_back else { return Some(self.ios.next_io()) };
        let (block, offset) = self.checker.as_ref()?.written_from(*next)?;
        *next = block + 1;
        Some(Io::Read(offset))
    }

    /// Makes the bio this I/O. `None` if its buffer is gone: the device still has it after a timeout.
    fn aim(&mut self, worker: &mut Worker, mut bio: Bio, io: Io) -> Option<Bio> {
        let writes = matches!(io, Io::Write(_));
        let fills = writes && self.checker.is_some();
        if matches!(io, Io::Trim(_)) || (!fills && direction_of(bio.op()) == usize::from(writes)) {
            bio.rewind(io.offset(), worker.bs);
            return Some(bio);
        }
        let (token, ioprio, context) = (bio.token(), bio.ioprio(), bio.context());
        let mut buffer: PoolBuf = bio.take_buffer()?;
        if let (true, Some(checker)) = (writes, &mut self.checker) {
            checker.fill(&mut buffer, io.offset());
        }
        let made = match writes {
            true => bio.reset_write(io.offset(), buffer),
            false => bio.reset_read(io.offset(), buffer),
        };
        bio.set_token(token);
        bio.set_ioprio(ioprio);
        bio.set_context(context);
        // One segment always fits.
        made.ok().map(|()| bio)
    }

    fn collect(&mut self, worker: &mut Worker) {
        if worker.done.is_empty() {
            return;
        }
        let mut done = mem::take(&mut worker.done);
        for mut bio in done.drain(..) {
            if let Some(checker) = &mut self.checker {
                checker.completed(&mut bio, &mut worker.tally);
            }
            if bio.status().is_err() {
                worker.failed(bio);
                continue;
            }
            let direction = direction_of(bio.op());
            worker.tally.ios[direction] += 1;
            if self.latency {
                let start = worker.starts.get(bio.token() as usize).copied().unwrap_or(worker.now);
                worker.tally.latency[direction].record(worker.now.since(start).0);
            }
            worker.idle.push(bio);
        }
        worker.done = done;
        if self.think > Span::ZERO {
            self.rests_until = worker.now + self.think;
        }
    }

    /// From now on reads back what was written, as fast as it comes. How many blocks that is.
    pub(super) fn begin_reading_back(&mut self) -> u64 {
        let Some(checker) = &mut self.checker else { return 0 };
        (self.arrivals, self.think, self.rests_until) = (None, Span::ZERO, Time::default());
        self.postponed = None;
        self.read_back = Some(0);
        checker.expect_latest()
    }

    /// What the first bad block was.
    pub(super) fn first_mismatch(&self) -> Option<String> {
        self.checker.as_ref()?.first_mismatch().map(ToString::to_string)
    }
}
