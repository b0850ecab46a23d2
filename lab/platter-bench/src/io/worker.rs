//! One job at work: its channel, its bios, and the closed loop that keeps them in flight.

use platter_block::bio::Bio;
use platter_block::time::{Span, Time};
use platter_disk::channel::Channel;
use platter_disk::clock;

use super::desk::Desk;
use super::tally::{Tally, direction_of};
use crate::workload::{RandomMap, RandomOffsets, Sequential};

/// Polls without a completion after which a device is taken for one that has to be waited for. Memory
/// completes at the next poll, or at the one after that when an elevator plugs.
const PATIENCE: u32 = 4;
/// Turns between two looks at the clock when latency is not recorded.
const COARSE: u32 = 64;

/// A generator of offsets, known at compile time.
pub(super) trait NextOffset {
    /// The next offset, in bytes.
    fn next(&mut self) -> u64;
}

macro_rules! generators {
    ($($generator:ty),*) => {$(
        impl NextOffset for $generator {
            #[inline]
            fn next(&mut self) -> u64 {
                self.next_offset()
            }
        }
    )*};
}

generators!(Sequential, RandomOffsets, RandomMap);

/// The state of a job. Each bio is in `idle`, in `done` or with the channel.
pub(super) struct Worker {
    pub(super) channel: Channel,
    pub(super) desk: Desk,
    pub(super) done: Vec<Bio>,
    pub(super) tally: Tally,
    empty_polls: u32,
    turns: u32,
    /// The device makes its callers wait.
    blocks: bool,
}

impl Worker {
    pub(super) fn new(channel: Channel, desk: Desk) -> Self {
        let done = Vec::with_capacity(desk.idle.len());
        Self { channel, desk, done, tally: Tally::new(), empty_polls: 0, turns: 0, blocks: false }
    }

    /// Whether nothing is in flight and nothing will be.
    pub(super) fn is_over(&self) -> bool {
        self.channel.outstanding() == 0 && (self.desk.left == 0 || self.desk.idle.is_empty())
    }

    /// Hands a bio to the channel, its latency counted from `start`.
    #[inline]
    fn start(&mut self, bio: Bio, start: Time) {
        self.desk.note_start(&bio, start);
        // The channel has room for every bio there is.
        if let Err(full) = self.channel.submit(bio) {
            self.desk.idle.push(full.0);
        }
    }

    /// Submits the plugged bios and moves completed ones to `done`. Memory devices are polled; on other
    /// devices this waits. Returns the number of completed bios.
    #[inline(always)]
    pub(super) fn turn<const LATENCY: bool>(&mut self) -> usize {
        if self.blocks {
            // Without a limit: nothing could be done before a completion, and setting a timer for each wait
            // costs 3 us on a virtual machine.
            return self.wait(None);
        }
        let completed = self.channel.poll_at(self.desk.now, &mut self.done);
        if completed == 0 {
            self.came_back_empty();
            return 0;
        }
        self.empty_polls = 0;
        self.turns = self.turns.wrapping_add(1);
        // One reading is the end of this batch and the start of the next.
        if LATENCY || self.turns.is_multiple_of(COARSE) {
            self.desk.now = clock::now();
        }
        completed
    }

    #[inline]
    fn came_back_empty(&mut self) {
        self.empty_polls += 1;
        // The first poll after a submission finds nothing: no reason to look at the clock.
        if self.empty_polls > 1 {
            self.desk.now = clock::now();
            self.blocks = self.empty_polls >= PATIENCE;
        }
    }

    fn wait(&mut self, timeout: Option<Span>) -> usize {
        let completed = self.channel.wait(&mut self.done, timeout);
        self.desk.now = self.channel.now();
        completed
    }

    /// Lets time pass with nothing in flight: to the `next` start, or to `until` if that is earlier. A sleep ends late, so
    /// the last part before a start is spun; `until` alone is only a time to look around, and being late for it costs
    /// nothing.
    pub(super) fn pause(&mut self, next: Option<Time>, until: Time) {
        let next = next.filter(|&at| at <= until);
        self.desk.now = clock::now();
        let span = match next {
            Some(start) => Span(start.since(self.desk.now).0.saturating_sub(SLEEP_SLACK.0)),
            None => until.since(self.desk.now),
        };
        match span {
            Span::ZERO => core::hint::spin_loop(),
            span => std::thread::sleep(core::time::Duration::from_nanos(span.0)),
        }
        self.desk.now = clock::now();
    }

    /// Like [`turn`](Self::turn), but back at `until` and not a wake-up later.
    pub(super) fn turn_punctually(&mut self, until: Time) -> usize {
        self.desk.now = clock::now();
        let span = until.since(self.desk.now);
        if self.blocks && span > SLEEP_SLACK {
            return self.wait(Some(Span(span.0 - SLEEP_SLACK.0)));
        }
        let completed = self.channel.poll_at(self.desk.now, &mut self.done);
        self.blocks |= completed == 0;
        self.desk.now = clock::now();
        completed
    }

    /// The closed loop of a job whose I/Os have one direction: keeps all bios in flight until `until` or
    /// until no I/O is left. I/O in flight then remains so.
    pub(super) fn closed_loop<const LATENCY: bool>(&mut self, offsets: &mut impl NextOffset, until: Time) {
        self.start_idle(offsets);
        while self.desk.now < until && self.channel.outstanding() > 0 {
            if self.turn::<LATENCY>() > 0 {
                self.completed::<LATENCY>(offsets);
            }
        }
    }

    /// Takes note of the bios in `done`, and starts as many again as may be started.
    #[inline(always)]
    pub(super) fn completed<const LATENCY: bool>(&mut self, offsets: &mut impl NextOffset) {
        self.tally.pass(self.desk.now);
        let completed = self.done.len() as u64;
        if completed <= self.desk.left {
            self.desk.left -= completed;
            self.go_round::<LATENCY>(offsets);
        } else {
            self.stand_still::<LATENCY>();
            self.start_idle(offsets);
        }
    }

    /// Starts the idle bios, as far as I/Os are left.
    pub(super) fn start_idle(&mut self, offsets: &mut impl NextOffset) {
        while self.desk.left > 0
            && let Some(mut bio) = self.desk.idle.pop()
        {
            self.desk.left -= 1;
            bio.rewind(offsets.next(), self.desk.bs);
            self.start(bio, self.desk.now);
        }
    }

    /// Takes note of a batch and starts all of it again.
    #[inline(always)]
    fn go_round<const LATENCY: bool>(&mut self, offsets: &mut impl NextOffset) {
        let mut batch = Batch::default();
        let (now, bs) = (self.desk.now, self.desk.bs);
        let direction = self.done.first().map_or(0, |bio| direction_of(bio.op()));
        let mut completed = self.done.len() as u64;
        while let Some(mut bio) = self.done.pop() {
            if bio.status().is_err() {
                completed -= 1;
                self.desk.failed(bio, &mut self.tally);
                continue;
            }
            if LATENCY && let Some(start) = self.desk.starts.get_mut(Desk::place(&bio)) {
                let ns = now.since(*start);
                *start = now;
                batch.record(&mut self.tally, direction, ns);
            }
            bio.rewind(offsets.next(), bs);
            if let Err(full) = self.channel.submit(bio) {
                self.desk.idle.push(full.0);
            }
        }
        batch.finish(&mut self.tally, direction);
        self.tally.ios[direction] += completed;
    }

    /// Takes note of a batch and starts none of it.
    #[cold]
    fn stand_still<const LATENCY: bool>(&mut self) {
        while let Some(bio) = self.done.pop() {
            if bio.status().is_err() {
                self.desk.failed(bio, &mut self.tally);
                continue;
            }
            let direction = direction_of(bio.op());
            self.tally.ios[direction] += 1;
            if LATENCY {
                let start = self.desk.start_of(&bio);
                self.tally.latency[direction].record(self.desk.now.since(start).0);
            }
            self.desk.idle.push(bio);
        }
    }
}

/// How late a sleep may end: the kernel's timer slack of 50 us and the way back to the processor.
pub(crate) const SLEEP_SLACK: Span = Span::from_micros(80);

/// Latencies of one batch. Where all of it started and completed together they are equal, and counted at once.
#[derive(Default)]
struct Batch {
    ns: u64,
    times: u64,
}

impl Batch {
    #[inline]
    fn record(&mut self, tally: &mut Tally, direction: usize, ns: Span) {
        if ns.0 != self.ns {
            self.finish(tally, direction);
            self.ns = ns.0;
            self.times = 0;
        }
        self.times += 1;
    }

    #[inline]
    fn finish(&self, tally: &mut Tally, direction: usize) {
        if self.times > 0 {
            tally.latency[direction].record_times(self.ns, self.times);
        }
    }
}
