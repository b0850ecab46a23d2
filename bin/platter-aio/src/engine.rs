//! The thread that starts requests and ends them.
//!
//! One thread owns the channel: requests that a thread of the program submits to a ring itself would be cancelled by the
//! kernel when that thread exits. The price is a wake-up of this thread for each request at depth 1; under load it is
//! awake anyway and takes requests and completions in batches.

use crate::board::Board;
use crate::event::Event;
use crate::inbox::{Cancel, Command, Inbox};
use crate::order::Order;
use crate::request::{FileIdentity, Request};
use crate::statistics::STATISTICS;
use libc::c_int;
use platter_block::driver::Completion;
use platter_block::time::{Span, Time};
use platter_disk::clock;
use platter_disk::drivers::descriptors::{CANCELLED, CallOp, Descriptors};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The request was cancelled.
pub const AIO_CANCELED: c_int = 0;
/// It could not be cancelled.
pub const AIO_NOTCANCELED: c_int = 1;
/// It had ended before.
pub const AIO_ALLDONE: c_int = 2;

/// How often a request is started again for which the kernel had no resources.
const RETRIES: u8 = 8;
/// Pause until a notification is tried again for which the system had no resources.
const NOTIFY_PAUSE: Span = Span::from_millis(5);

/// A request with the engine.
struct Job {
    request: Request,
    /// The result; the slot stays taken until the outcome of a cancellation is known.
    ended: bool,
    /// Index of the cancellation that waits for this request.
    cancel: Option<usize>,
    /// The channel owes the outcome of a cancellation.
    outcome_due: bool,
    retries: u8,
}

/// A cancellation that waits for outcomes.
struct Cancelling {
    command: Cancel,
    /// Requests whose fate is open.
    open: u32,
    cancelled: bool,
    refused: bool,
}

/// The state of the thread.
pub(crate) struct Engine {
    board: &'static Board,
    inbox: Arc<Inbox>,
    channel: Box<dyn Descriptors>,
    order: Order,
    jobs: Box<[Option<Job>]>,
    free: Vec<u32>,
    /// Requests that may start and for which the channel has no room yet.
    ready: VecDeque<u32>,
    cancels: Vec<Option<Cancelling>>,
    /// Cancellations of requests that are being cancelled already.
    postponed: Vec<Cancel>,
    /// Notifications to send, in order.
    events: VecDeque<Event>,
    events_bound: usize,
    /// When notifications are tried again.
    events_at: Option<Time>,
    /// Requests that start after one has ended; kept for its memory.
    starts: Vec<u32>,
    /// Requests that have ended since the last announcement.
    ended: u32,
}

impl Engine {
    /// An engine for `depth` requests at once, which announces their ends on `board`.
    pub(crate) fn new(
        board: &'static Board,
        inbox: Arc<Inbox>,
        channel: Box<dyn Descriptors>,
        depth: u32,
    ) -> Engine {
        Engine {
            board,
            inbox,
            channel,
            order: Order::new(depth),
            jobs: (0..depth).map(|_| None).collect(),
            free: (0..depth).rev().collect(),
            ready: VecDeque::with_capacity(depth as usize),
            cancels: Vec::new(),
            postponed: Vec::new(),
            events: VecDeque::new(),
            events_bound: 2 * depth as usize,
            events_at: None,
            starts: Vec::new(),
            ended: 0,
        }
    }

    /// Runs for the rest of the process.
    pub(crate) fn run(mut self) -> ! {
        let mut commands = Vec::with_capacity(self.jobs.len());
        let mut done = Vec::with_capacity(self.jobs.len());
        loop {
            let now = clock::now();
            self.inbox.take(&mut commands);
            for command in commands.drain(..) {
                match command {
                    Command::Start(request) => self.add(request),
                    Command::Cancel(cancel) => self.cancel(cancel),
                }
            }
            self.start();
            self.channel.reap(now, &mut done);
            let busy = !done.is_empty();
            for completion in done.drain(..) {
                self.complete(completion);
            }
            self.announce(now);
            for cancel in std::mem::take(&mut self.postponed) {
                self.cancel(cancel);
            }
            // Requests that ended may let others start. What was queued is submitted by the wait, in the same call.
            if busy {
                self.channel.submit(now);
            } else {
                STATISTICS.sleeps.fetch_add(1, Ordering::Relaxed);
                let inbox = &self.inbox;
                let timeout = self.events_at.map(|at| at.since(now));
                self.channel.wait(now, timeout, &|| !inbox.is_empty());
            }
        }
    }

    /// Takes a new request. There is a slot, because places are reserved and slots are freed before places.
    fn add(&mut self, request: Request) {
        let Some(slot) = self.free.pop() else { unreachable!("more requests than places") };
        let count = match request.call.op() {
            CallOp::Read => &STATISTICS.reads,
            CallOp::Write => &STATISTICS.writes,
            CallOp::Sync | CallOp::DataSync => &STATISTICS.syncs,
        };
        count.fetch_add(1, Ordering::Relaxed);
        let starts = self.order.add(slot, request.call.fd(), request.class);
        self.jobs[slot as usize] =
            Some(Job { request, ended: false, cancel: None, outcome_due: false, retries: 0 });
        if starts {
            self.ready.push_back(slot);
        } else {
            STATISTICS.held.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Queues what may start.
    fn start(&mut self) {
        let mut queued = false;
        while let Some(slot) = self.ready.pop_front() {
            let Some(job) = &self.jobs[slot as usize] else { continue };
            let call = job.request.call;
            // The descriptor may be closed, or another file's, by now.
            if FileIdentity::of(call.fd()) != Some(job.request.file) {
                self.end(slot, -i64::from(libc::ECANCELED));
            } else if !self.channel.queue(slot, &call) {
                self.ready.push_front(slot);
                break;
            } else {
                queued = true;
            }
        }
        STATISTICS.batches.fetch_add(u64::from(queued), Ordering::Relaxed);
    }

    fn complete(&mut self, completion: Completion) {
        let Completion { tag, result } = completion;
        if tag & CANCELLED != 0 {
            return self.learn_outcome(tag & !CANCELLED, result);
        }
        let Some(job) = &mut self.jobs[tag as usize] else { return };
        // A signal of the kernel's own, or no memory at the moment: not the file's answer. Without positions EAGAIN
        // is the answer of a non-blocking descriptor.
        let passes = match -result as c_int {
            libc::EINTR => true,
            libc::EAGAIN | libc::ENOMEM => job.request.seekable,
            _ => false,
        };
        if result < 0 && passes && job.retries < RETRIES {
            job.retries += 1;
            self.ready.push_back(tag);
            return;
        }
        self.end(tag, result);
    }

    /// A request has ended with this result.
    fn end(&mut self, slot: u32, result: i64) {
        let Some(job) = &mut self.jobs[slot as usize] else { return };
        let add = |count: &AtomicU64, n: u64| count.fetch_add(n, Ordering::Relaxed);
        match (job.request.call.op(), result) {
            (_, ..0) if result == -i64::from(libc::ECANCELED) => add(&STATISTICS.cancelled, 1),
            (_, ..0) => add(&STATISTICS.failed, 1),
            (CallOp::Read, bytes) => add(&STATISTICS.read_bytes, bytes as u64),
            (CallOp::Write, bytes) => add(&STATISTICS.written_bytes, bytes as u64),
            _ => 0,
        };
        job.ended = true;
        // Before the program can see the end: it may have as many requests as the depth, and start the next one.
        if !job.outcome_due {
            self.inbox.release(1);
        }
        // The program may use the block and the descriptor again from here on.
        job.request.block.end(result);
        let (event, group) = (job.request.event, job.request.group.take());
        let last = group.and_then(|group| group.leave(result < 0));
        self.notify([Some(event), last]);
        self.ended += 1;
        let mut starts = std::mem::take(&mut self.starts);
        self.order.remove(slot, &mut starts);
        self.ready.extend(starts.drain(..));
        self.starts = starts;
        self.settle(slot, result == -i64::from(libc::ECANCELED));
    }

    fn notify(&mut self, events: [Option<Event>; 2]) {
        for event in events.into_iter().flatten().filter(Event::is_sent) {
            if self.events.len() < self.events_bound {
                self.events.push_back(event);
            } else {
                STATISTICS.lost_notifications.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Announces the ends of requests, then sends notifications.
    fn announce(&mut self, now: Time) {
        if self.ended > 0 {
            self.ended = 0;
            self.board.post();
        }
        if self.events_at.is_some_and(|at| now < at) {
            return;
        }
        self.events_at = None;
        while let Some(event) = self.events.front() {
            if !event.send() {
                self.events_at = Some(now + NOTIFY_PAUSE);
                return;
            }
            self.events.pop_front();
        }
    }

    /// Begins a cancellation.
    fn cancel(&mut self, command: Cancel) {
        let matches = |job: &Job| {
            let Job { request, ended, .. } = job;
            !ended
                && request.call.fd() == command.fd
                && command.block.is_none_or(|block| block == request.block)
        };
        let jobs = self.jobs.iter().enumerate();
        let found = jobs.filter(|(_, job)| job.as_ref().is_some_and(matches));
        let slots: Vec<u32> = found.map(|(slot, _)| slot as u32).collect();
        let is_cancelled =
            |slot: &u32| self.jobs[*slot as usize].as_ref().is_some_and(|job| job.cancel.is_some());
        if slots.iter().any(is_cancelled) {
            return self.postponed.push(command);
        }
        let index = self.cancels.iter().position(Option::is_none).unwrap_or(self.cancels.len());
        if index == self.cancels.len() {
            self.cancels.push(None);
        }
        // One is open until all have begun, so that none of their ends answers too early.
        let whole = Cancelling { command, open: 1, cancelled: false, refused: false };
        self.cancels[index] = Some(whole);
        for slot in slots.iter().rev() {
            self.cancel_one(*slot, index);
        }
        self.close(index, |_| {});
    }

    /// Begins the cancellation of one request.
    fn cancel_one(&mut self, slot: u32, index: usize) {
        let (Some(job), Some(Some(cancelling))) =
            (&mut self.jobs[slot as usize], self.cancels.get_mut(index))
        else {
            return;
        };
        cancelling.open += 1;
        job.cancel = Some(index);
        let waiting = self.ready.iter().position(|ready| *ready == slot);
        if let Some(at) = waiting {
            self.ready.remove(at);
        }
        if waiting.is_some() || self.order.is_held(slot) {
            return self.end(slot, -i64::from(libc::ECANCELED));
        }
        job.outcome_due = true;
        while !self.channel.cancel(slot) {
            // Not the time of this round: without resources the channel waits for a later one.
            self.channel.submit(clock::now());
        }
    }

    /// The channel reports what became of a cancellation.
    fn learn_outcome(&mut self, slot: u32, outcome: i64) {
        let Some(job) = &mut self.jobs[slot as usize] else { return };
        job.outcome_due = false;
        let ended = job.ended;
        if outcome < 0
            && !ended
            && let Some(index) = job.cancel.take()
        {
            self.close(index, |cancelling| cancelling.refused = true);
        }
        if ended {
            self.inbox.release(1);
            self.free_slot(slot);
        }
    }

    /// A request has ended: tells the cancellation that waits for it, and frees its slot.
    fn settle(&mut self, slot: u32, cancelled: bool) {
        let Some(job) = &mut self.jobs[slot as usize] else { return };
        let outcome_due = job.outcome_due;
        if let Some(index) = job.cancel.take() {
            self.close(index, |cancelling| cancelling.cancelled |= cancelled);
        }
        if !outcome_due {
            self.free_slot(slot);
        }
    }

    fn free_slot(&mut self, slot: u32) {
        self.jobs[slot as usize] = None;
        self.free.push(slot);
    }

    /// One fate of a cancellation is known; answers if it was the last.
    fn close(&mut self, index: usize, note: impl FnOnce(&mut Cancelling)) {
        let Some(Some(cancelling)) = self.cancels.get_mut(index) else { return };
        note(cancelling);
        cancelling.open -= 1;
        if cancelling.open == 0
            && let Some(whole) = self.cancels[index].take()
        {
            let answer = match whole {
                Cancelling { refused: true, .. } => AIO_NOTCANCELED,
                Cancelling { cancelled: true, .. } => AIO_CANCELED,
                _ => AIO_ALLDONE,
            };
            whole.command.reply.give(answer);
        }
    }
}
