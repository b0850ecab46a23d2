//! The loop of jobs that decide about each I/O: mixes, rates, pauses, verification.

use platter_block::bio::{Bio, Flags};
use platter_block::time::{Span, Time};
use platter_disk::channel::Full;
use platter_disk::pool::PoolBuf;

use super::desk::Desk;
use super::tally::{Tally, direction_of};
use super::verify::Checker;
use super::worker::Worker;
use crate::workload::{Arrivals, Io, IoStream};

/// Pauses of a job, as with fio: after each `blocks` I/Os it waits until all of them have completed, and then for the time.
/// With a pause there are never more I/Os in flight than that, whatever the depth.
pub(super) struct Thinking {
    time: Span,
    blocks: u32,
    /// I/Os started since the last pause.
    started: u32,
    in_flight: u32,
    /// End of the pause.
    until: Time,
}

impl Thinking {
    pub(super) fn new(time: Span, blocks: u32) -> Self {
        Self { time, blocks, started: 0, in_flight: 0, until: Time::default() }
    }

    /// Whether only the completion of I/Os in flight lets another one start.
    fn holds(&self) -> bool {
        self.time > Span::ZERO && self.started >= self.blocks
    }

    fn start(&mut self) {
        self.started = self.started.saturating_add(1);
        self.in_flight += 1;
    }

    fn end(&mut self, now: Time) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if self.holds() && self.in_flight == 0 {
            self.started = 0;
            self.until = now + self.time;
        }
    }
}

/// Decides the kind and the start of each I/O.
pub(super) struct Careful {
    ios: IoStream,
    /// Once everything written is being read back, in order: the next block to look at.
    read_back: Option<u64>,
    /// Drawn, but its block is still being written.
    postponed: Option<Io>,
    arrivals: Option<Arrivals>,
    thinking: Thinking,
    checker: Option<Checker>,
    latency: bool,
}

impl Careful {
    pub(super) fn new(
        ios: IoStream,
        arrivals: Option<Arrivals>,
        thinking: Thinking,
        checker: Option<Checker>,
        latency: bool,
    ) -> Self {
        Self { ios, read_back: None, postponed: None, arrivals, thinking, checker, latency }
    }

    /// Runs until `until` or until no I/O is left, and returns with the desk's time there. I/O in flight
    /// remains so.
    pub(super) fn run(&mut self, worker: &mut Worker, until: Time) {
        while worker.desk.now < until && !worker.is_over() {
            let channel = &mut worker.channel;
            self.start_due(&mut worker.desk, &mut |bio| channel.submit(bio));
            // A due start ends the wait even if it is beyond `until`: a device that stalls must not delay it.
            match self.next_start(&worker.desk) {
                Some(at) if worker.channel.outstanding() > 0 => worker.turn_punctually(at),
                None if worker.channel.outstanding() > 0 => worker.turn::<true>(),
                next => {
                    worker.pause(next, until);
                    0
                }
            };
            self.collect(&mut worker.desk, &mut worker.done, &mut worker.tally);
        }
    }

    /// When an idle bio is to start, which is after the time of the desk; `None` when no bio is idle, or when only a
    /// completion can start it.
    pub(super) fn next_start(&self, desk: &Desk) -> Option<Time> {
        if desk.left == 0 || desk.idle.is_empty() || self.thinking.holds() {
            return None;
        }
        let paced = self.arrivals.as_ref().map_or(Time::default(), |arrivals| Time(arrivals.peek()));
        Some(paced.max(self.thinking.until)).filter(|&at| at > desk.now)
    }

    /// I/Os that were meant to start before `end` and had no free bio by then, of `left` that might have started.
    pub(super) fn missed(&self, left: u64, end: Time) -> u64 {
        self.arrivals.as_ref().map_or(0, |arrivals| arrivals.missed(end.0)).min(left)
    }

    /// Starts the I/Os that are due at the desk's time.
    pub(super) fn start_due(&mut self, desk: &mut Desk, submit: &mut impl FnMut(Bio) -> Result<(), Full>) {
        let may_start = |thinking: &Thinking, now| !thinking.holds() && now >= thinking.until;
        while desk.left > 0 && !desk.idle.is_empty() && may_start(&self.thinking, desk.now) {
            let Some(io) = self.postponed.take().or_else(|| self.draw()) else {
                desk.left = 0;
                return;
            };
            if let (Some(checker), Io::Write(offset)) = (&self.checker, io)
                && checker.is_busy(offset)
            {
                self.postponed = Some(io);
                return;
            }
            let start = match &mut self.arrivals {
                None => desk.now,
                Some(arrivals) => match arrivals.take(desk.now.0) {
                    Some(intended) => Time(intended),
                    None => {
                        self.postponed = Some(io);
                        return;
                    }
                },
            };
            if let Some(bio) = desk.idle.pop().and_then(|bio| self.aim(desk, bio, io)) {
                desk.left -= 1;
                desk.note_start(&bio, start);
                // The channel has room for every bio there is.
                match submit(bio) {
                    Ok(()) => self.thinking.start(),
                    Err(full) => desk.idle.push(full.0),
                }
            }
        }
    }

    fn draw(&mut self) -> Option<Io> {
        let Some(next) = &mut self.read_back else { return Some(self.ios.next_io()) };
        let (block, offset) = self.checker.as_ref()?.written_from(*next)?;
        *next = block + 1;
        Some(Io::Read(offset))
    }

    /// Prepares a bio for this I/O. `None` if its buffer is missing: the device still has it after a timeout.
    fn aim(&mut self, desk: &Desk, mut bio: Bio, io: Io) -> Option<Bio> {
        let writes = matches!(io, Io::Write(_));
        let fills = writes && self.checker.is_some();
        if matches!(io, Io::Trim(_)) || (!fills && direction_of(bio.op()) == usize::from(writes)) {
            bio.rewind(io.offset(), desk.bs);
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
        if writes {
            bio.add_flags(Flags::SYNC);
        }
        // One segment always fits.
        made.ok().map(|()| bio)
    }

    /// Processes completions.
    pub(super) fn collect(&mut self, desk: &mut Desk, done: &mut Vec<Bio>, tally: &mut Tally) {
        for bio in done.drain(..) {
            self.completed(desk, bio, tally);
        }
    }

    /// Takes note of a bio that has completed.
    #[inline]
    pub(super) fn completed(&mut self, desk: &mut Desk, mut bio: Bio, tally: &mut Tally) {
        if let Some(checker) = &mut self.checker {
            checker.completed(&mut bio, tally);
        }
        self.thinking.end(desk.now);
        if bio.status().is_err() {
            return desk.failed(bio, tally);
        }
        let direction = direction_of(bio.op());
        tally.pass(desk.now);
        tally.ios[direction] += 1;
        if self.latency {
            tally.latency[direction].record(desk.now.since(desk.start_of(&bio)).0);
        }
        desk.idle.push(bio);
    }

    /// Starts to read back all written blocks, as fast as possible. Returns their number.
    pub(super) fn begin_reading_back(&mut self) -> u64 {
        let Some(checker) = &mut self.checker else { return 0 };
        (self.arrivals, self.thinking) = (None, Thinking::new(Span::ZERO, 1));
        self.postponed = None;
        self.read_back = Some(0);
        checker.expect_latest()
    }

    /// A description of the first bad block.
    pub(super) fn first_mismatch(&self) -> Option<String> {
        self.checker.as_ref()?.first_mismatch().map(ToString::to_string)
    }
}
