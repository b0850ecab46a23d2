//! One thread of a round: I/O through all three interfaces.

use super::judge::Live;
use super::shared::Round;
use crate::soak::feature::Feature;
use crate::soak::memory::{Layout, Memory};
use crate::soak::stamp;
use platter_block::bio::{Bio, Flags, Op};
use platter_block::fault::Fault;
use platter_block::time::Span;
use platter_disk::channel::Channel;
use platter_disk::future::{Io, Outcome};
use platter_disk::sync_io::IoOptions;
use platter_sim::rng::Rng;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

/// Bios that a channel may have in flight.
const ROOM: usize = 16;

/// Longest time that a thread waits for its waker before it polls. A lost wakeup is thereby detected, because the
/// future then completes only at such a poll.
const PATIENCE: Duration = Duration::from_secs(20);

/// Flags that I/Os have.
const FLAGS: [Flags; 8] = [
    Flags::NONE,
    Flags::NONE,
    Flags::SYNC,
    Flags::NOMERGE,
    Flags::FUA,
    Flags::PREFLUSH,
    Flags::HARD_BARRIER,
    Flags::SOFT_BARRIER,
];

struct Worker<'a> {
    round: &'a Round,
    rng: Rng,
    channel: Option<Channel>,
    done: Vec<Bio>,
}

/// Wakes a thread that is parked.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future. Returns whether the thread had to poll without being woken.
fn block_on(io: &mut Io<Memory>) -> (Outcome<Memory>, bool) {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut asleep = false;
    loop {
        if let Poll::Ready(outcome) = Pin::new(&mut *io).poll(&mut context) {
            return (outcome, asleep);
        }
        let began = std::time::Instant::now();
        thread::park_timeout(PATIENCE);
        asleep = began.elapsed() >= PATIENCE;
    }
}

const FLUSH: Live = Live { op: Op::Flush, sector: 0, count: 0, flags: Flags::NONE };

/// Runs one thread of a round.
pub(super) fn work(round: &Round, rng: Rng) {
    let mut worker = Worker { round, rng, channel: None, done: Vec::new() };
    for _ in 0..round.ios {
        if round.judge.found().is_some() {
            break;
        }
        worker.step();
    }
    worker.drain();
}

impl Worker<'_> {
    fn step(&mut self) {
        match self.rng.below(100) {
            0..40 => self.by_channel(),
            40..60 => {
                let live = self.draw();
                self.by_call(live);
            }
            60..78 => self.by_futures(),
            78..84 => self.by_thread_that_goes(),
            84..88 => self.round.scripts.iter().for_each(|script| script.release()),
            88 => self.switch(),
            89 => self.drop_channel(),
            90 => self.round.device.acknowledge_flush_failure(),
            91..95 => self.flush_often(),
            _ => self.poll(),
        }
    }

    /// Threads that flush at the same time share their flushes, until one fails.
    fn flush_often(&mut self) {
        self.round.device.acknowledge_flush_failure();
        (0..8).for_each(|_| self.by_call(FLUSH));
    }

    fn draw(&mut self) -> Live {
        let device = &self.round.device;
        let block = u64::from(device.geometry().limits.logical_block) / 512;
        let blocks = device.size() / 512 / block;
        let op = match self.rng.below(20) {
            0..8 => Op::Read,
            8..16 => Op::Write,
            16 if self.round.discards => Op::Discard,
            17 if self.round.discards => Op::WriteZeroes,
            18 => Op::Flush,
            _ => Op::Write,
        };
        let count = 1 + self.rng.below(8);
        let first = self.rng.below(blocks.min(96)).min(blocks - count.min(blocks));
        let (sector, count) = (first * block, count.min(blocks) * block);
        let mut flags = self.rng.pick(&FLAGS);
        if self.round.without.has(Feature::Barriers) {
            flags = flags.without(Flags::HARD_BARRIER | Flags::SOFT_BARRIER);
        }
        match op {
            Op::Flush => FLUSH,
            _ => Live { op, sector, count, flags },
        }
    }

    fn memory(&mut self, number: u64, live: &Live) -> Memory {
        let layout = match self.rng.below(6) {
            0 => Layout::Odd,
            1 => Layout::Pieces(4096),
            2 => Layout::Split(4096),
            _ => Layout::Whole,
        };
        let mut memory = Memory::new(layout, live.count as usize * 512, &self.round.alive);
        if live.op == Op::Write {
            memory.fill(&stamp::contents(number, live.sector, live.count));
        }
        memory
    }

    /// A bio with its number, registered with the oracle.
    fn bio(&mut self) -> Result<(u64, Bio), Fault> {
        let (number, live) = (self.round.judge.number(), self.draw());
        let (pos, len) = (live.sector * 512, live.count * 512);
        let mut bio = match live.op {
            Op::Write => Bio::write(pos, self.memory(number, &live))?,
            Op::Read => Bio::read(pos, self.memory(number, &live))?,
            _ => Bio::new(live.op, pos, len),
        };
        bio.set_token(number);
        bio.add_flags(live.flags);
        if self.rng.below(6) == 0 && !self.round.without.has(Feature::Deadlines) {
            let after = Span::from_millis(self.rng.pick(&[5, 50, 500]));
            bio.set_deadline(Some(self.round.device.clock().now() + after));
        }
        self.round.judge.submit(number, live);
        Ok((number, bio))
    }

    fn channel(&mut self) -> Option<&mut Channel> {
        if self.channel.is_none() {
            match self.round.device.channel(ROOM) {
                Ok(channel) => self.channel = Some(channel),
                Err(error) => self.round.judge.find(format!("no channel can be opened: {error}")),
            }
        }
        self.channel.as_mut()
    }

    fn by_channel(&mut self) {
        for _ in 0..1 + self.rng.below(4) {
            if self.channel().is_none_or(|channel| channel.outstanding() >= ROOM) {
                break;
            }
            let Ok((number, bio)) = self.bio() else { continue };
            if self.rng.below(25) == 0
                && let Some(channel) = self.channel()
            {
                channel.cancel(number);
            }
            if self.channel().is_none_or(|channel| channel.submit(bio).is_err()) {
                self.round.judge.lose(number);
            }
        }
        self.poll();
    }

    fn poll(&mut self) {
        let mut done = std::mem::take(&mut self.done);
        let waits = self.rng.below(3) == 0;
        if let Some(channel) = &mut self.channel {
            if waits {
                channel.wait(&mut done, Some(Span::from_millis(20)));
            } else {
                channel.poll(&mut done);
            }
        }
        for mut bio in done.drain(..) {
            let (number, status) = (bio.token(), bio.status());
            let memory: Option<Memory> = bio.take_buffer();
            let data = memory.map(|memory| memory.gather());
            self.round.judge.complete(number, status, data.as_deref());
        }
        self.done = done;
    }

    /// Waits for all of the channel. It is polled once in any case: only then do late bios leave it, which hold up barriers of others.
    fn drain(&mut self) {
        self.poll();
        while self.channel.as_ref().is_some_and(|channel| channel.outstanding() > 0) {
            self.poll();
        }
    }

    fn drop_channel(&mut self) {
        // Only the oracle knows the numbers of the bios in flight; all that do not complete are lost.
        self.drain();
        self.channel = None;
    }

    fn by_call(&mut self, live: Live) {
        // A thread with bios in a channel must not block in a call: a barrier may wait for the channel.
        self.drain();
        let number = self.round.judge.number();
        let mut memory = self.memory(number, &live);
        let (device, pos, len) = (&self.round.device, live.sector * 512, live.count * 512);
        let options = IoOptions::flags(live.flags);
        self.round.judge.submit(number, live);
        let result = match live.op {
            Op::Read => device.read_vectored_at(&mut memory.slices_mut(), pos),
            Op::Write if live.flags == Flags::NONE => device.write_vectored_at(&memory.slices(), pos),
            Op::Write => device.write_at_with(&memory.gather(), pos, options),
            Op::Flush => device.flush(),
            Op::Discard => device.discard(pos, len),
            Op::WriteZeroes => device.write_zeroes(pos, len),
            Op::Command => unreachable!("no plan has commands"),
        };
        // A write that is late is with the disk in a copy of its memory.
        let data = (result.is_ok() || live.op == Op::Read).then(|| memory.gather());
        self.round.judge.complete(number, result.map_err(|error| error.fault), data.as_deref());
    }

    fn ended(&self, number: u64, outcome: Outcome<Memory>) {
        let (result, memory) = outcome;
        let data = memory.map(|memory| memory.gather());
        self.round.judge.complete(number, result.map_err(|error| error.fault), data.as_deref());
    }

    fn begin(&mut self) -> Vec<(u64, Io<Memory>)> {
        let count = 1 + self.rng.below(4);
        let bios: Vec<(u64, Bio)> = (0..count).filter_map(|_| self.bio().ok()).collect();
        bios.into_iter().map(|(number, bio)| (number, self.round.device.submit::<Memory>(bio))).collect()
    }

    /// Polls all futures, as an executor does with the tasks of one turn. Returns those that have not ended.
    fn turn(&mut self, mut futures: Vec<(u64, Io<Memory>)>) -> Vec<(u64, Io<Memory>)> {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut context = Context::from_waker(&waker);
        futures.retain_mut(|(number, io)| match Pin::new(io).poll(&mut context) {
            Poll::Pending => true,
            Poll::Ready(outcome) => {
                self.ended(*number, outcome);
                false
            }
        });
        futures
    }

    fn finish(&mut self, futures: Vec<(u64, Io<Memory>)>) {
        let futures = if self.rng.below(2) == 0 { self.turn(futures) } else { futures };
        let drives = self.rng.below(4) == 0;
        for (number, mut io) in futures {
            if self.rng.below(15) == 0 {
                drop(io);
                self.round.judge.lose(number);
                continue;
            }
            let (outcome, asleep) = match drives {
                true => (self.round.device.block_on(&mut io), false),
                false => block_on(&mut io),
            };
            self.ended(number, outcome);
            if asleep {
                self.round.judge.find(format!("future {number} completed, and its waker was never called"));
            }
        }
    }

    fn by_futures(&mut self) {
        self.drain();
        let futures = self.begin();
        self.finish(futures);
    }

    /// Futures whose I/O is submitted by a thread that exits, or that blocks until they have completed.
    fn by_thread_that_goes(&mut self) {
        self.drain();
        let mut futures = self.begin();
        self.round.judge.left.fetch_add(futures.len() as u64, std::sync::atomic::Ordering::Relaxed);
        let blocks = self.rng.below(2) == 0;
        let (give, taken) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let body = move || {
            let mut context = Context::from_waker(Waker::noop());
            let mut early = Vec::new();
            futures.retain_mut(|(number, io)| match Pin::new(io).poll(&mut context) {
                Poll::Pending => true,
                Poll::Ready(outcome) => {
                    early.push((*number, outcome));
                    false
                }
            });
            let _ = give.send((futures, early));
            if blocks {
                let _ = released.recv();
            }
        };
        let thread = thread::Builder::new().name("real soak, goes".to_owned()).spawn(body);
        let Ok((futures, early)) = taken.recv() else { return };
        early.into_iter().for_each(|(number, outcome)| self.ended(number, outcome));
        if blocks {
            self.finish(futures);
            drop(release);
        } else {
            if let Ok(thread) = thread {
                // So that it has exited.
                let _ = thread.join();
            }
            self.finish(futures);
        }
    }

    fn switch(&mut self) {
        let rows = platter_elevators::TABLE;
        let row = rows.get(self.rng.below(rows.len() as u64 + 1) as usize);
        let make = || row.map(|row| (row.make)());
        if let Err(error) = self.round.device.backend().switch_elevator(&make) {
            self.round.judge.find(format!("the elevator cannot be switched: {error}"));
        }
    }
}
