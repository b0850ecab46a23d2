//! The driver: one session after another, whose requests survive its loss.

use super::attempt::Attempt;
use super::library::status;
use super::session::{Answer, Session};
use super::shared::Shared;
use super::slots::{Slots, State};
use super::verdict::{Judged, Verdict, judge};
use crate::reach::{LONGEST_PAUSE, Retries};
use crate::unflushed::Change;
use crate::waiter::Waiter;
use platter_block::bio::Op;
use platter_block::driver::{Completion, Driver, Started};
use platter_block::time::{Span, Time};
use std::collections::VecDeque;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

mod link;
mod transmit;

/// Longest wait for the answer to a logout.
const FAREWELL: Duration = Duration::from_secs(1);

const GONE: i64 = -(libc::ENODEV as i64);
const UNKNOWN: i64 = -(libc::ENOLINK as i64);
const FAILED: i64 = -(libc::EIO as i64);
const BUSY: i64 = -(libc::EAGAIN as i64);
const UNSUPPORTED: i64 = -(libc::EOPNOTSUPP as i64);
const CANCELLED: i64 = -(libc::ECANCELED as i64);

/// The state of the session.
enum Link {
    /// It works.
    Up(Session),
    /// There is none. The next attempt is made when it is needed, but not before a time.
    Down { retry: Time },
    /// It is being made.
    Attempting { attempt: Box<Attempt>, until: Time },
}

/// A channel to a disk at a target.
pub(super) struct Channel {
    shared: Arc<Shared>,
    /// The number of its session, which a new one of this channel takes over.
    port: u16,
    link: Link,
    slots: Slots,
    /// Requests that wait to be sent, in order.
    outbox: VecDeque<u32>,
    /// Requests that the session has.
    sent: usize,
    /// Changes whose session has ended, and that the target may still carry out.
    unanswered: usize,
    /// Requests that were cancelled, and that the session has.
    cancelled: usize,
    /// Most commands that the target takes at once, as far as is known.
    window: usize,
    /// The logical unit was reset; whether it lost its cache.
    reset: Option<bool>,
    answers: Vec<Answer>,
    ready: Vec<Completion>,
    /// Whether a wait has received what there was.
    is_fresh: bool,
    /// The session ended during a wait.
    is_lost: bool,
    retries: Retries,
    waiter: OnceLock<Waiter>,
    /// Whether the waiter listen for room to send.
    awaits_output: AtomicBool,
}

impl Channel {
    /// A channel over a session that is ready.
    pub(super) fn new(shared: Arc<Shared>, port: u16, session: Session) -> Channel {
        Channel {
            window: shared.options.depth as usize,
            shared,
            port,
            link: Link::Up(session),
            slots: Slots::default(),
            outbox: VecDeque::new(),
            sent: 0,
            unanswered: 0,
            cancelled: 0,
            reset: None,
            answers: Vec::new(),
            ready: Vec::new(),
            is_fresh: false,
            is_lost: false,
            retries: Retries::default(),
            waiter: OnceLock::new(),
            awaits_output: AtomicBool::new(false),
        }
    }

    fn session(&self) -> Option<&Session> {
        match &self.link {
            Link::Up(session) => Some(session),
            Link::Attempting { attempt, .. } => Some(attempt.session()),
            Link::Down { .. } => None,
        }
    }

    /// Completes a request with a result.
    fn finish(&mut self, index: u32, result: i64) {
        let slot = self.slots.at(index);
        match slot.state {
            State::Sent => {
                self.sent -= 1;
                self.cancelled -= usize::from(slot.cancelled.is_some());
            }
            State::Unanswered(_) => self.unanswered -= 1,
            _ => {}
        }
        let mut result = result;
        if result >= 0 && slot.changes() {
            let copy = Vec::new;
            let (op, pos, len, fua) = (slot.op, slot.pos, slot.len, slot.fua);
            let change = Change { op, pos, len, fua, copy: &copy };
            let has_ended = || self.session().is_none_or(Session::is_hung_up);
            self.shared.watches.changed(self.port, &change, &self.shared.unflushed, has_ended);
        }
        if result >= 0 && slot.op == Op::Flush {
            self.shared.watches.look_at_others(self.port, &self.shared.unflushed);
            if self.shared.unflushed.flushed(slot.covers) {
                self.shared.reach.recover();
            } else {
                self.shared.reach.report(
                    "a flush failed: the target may have lost earlier writes with a session or a reset",
                );
                result = FAILED;
            }
        }
        self.ready.push(Completion { tag: slot.tag, result });
        self.slots.put(index);
    }

    /// Takes the answers that have come.
    fn hear(&mut self) {
        let Link::Up(session) = &mut self.link else { return };
        let mut answers = std::mem::take(&mut self.answers);
        session.take_answers(&mut answers);
        for answer in answers.drain(..) {
            self.answered(answer);
        }
        self.answers = answers;
    }

    /// Does what the answer to a request asks for.
    fn answered(&mut self, answer: Answer) {
        if self.slots.at(answer.token).command.is_some() {
            return self.command_answered(answer);
        }
        // What was read is complete unless the target says otherwise.
        if answer.status == status::GOOD && answer.missing == 0 && answer.sense.is_empty() {
            return self.good(answer, 0);
        }
        let Judged { verdict, why, deferred } = judge(&answer);
        let index = answer.token;
        let slot = self.slots.at_mut(index);
        let is_change = slot.changes();
        if deferred {
            self.shared.unflushed.suspect();
        }
        match verdict {
            Verdict::Good => {
                let missing = answer.missing;
                self.good(answer, missing);
            }
            Verdict::Lost if answer.is_aborted => {
                // The target may have carried out a part of a change before it ended it.
                self.finish(index, if is_change { FAILED } else { CANCELLED });
            }
            Verdict::Lost => slot.buffers = answer.buffers,
            Verdict::Again => {
                slot.buffers = answer.buffers;
                self.repeat(index, &why);
            }
            Verdict::Reset { power } => {
                slot.buffers = answer.buffers;
                self.reset = Some(power || self.reset == Some(true));
                self.repeat(index, &why);
            }
            Verdict::Busy => {
                self.shared.counts.busy.fetch_add(1, Ordering::Relaxed);
                self.shared.reach.report(&format!("the target has no room for a command ({why})"));
                self.finish(index, BUSY);
            }
            // A unit without a cache need not know the command.
            Verdict::Failed(libc::EOPNOTSUPP) if slot.op == Op::Flush => self.finish(index, 0),
            Verdict::Failed(errno) => {
                self.shared.reach.report(&format!("the target answers: {why}"));
                self.finish(index, -i64::from(errno));
            }
        }
    }

    fn good(&mut self, answer: Answer, missing: u64) {
        let slot = self.slots.at_mut(answer.token);
        slot.buffers = answer.buffers;
        let result = if slot.op.has_data() { slot.len.saturating_sub(missing) as i64 } else { 0 };
        self.finish(answer.token, result);
    }

    /// Sends a request again that the target has not carried out.
    fn repeat(&mut self, index: u32, why: &str) {
        let slot = self.slots.at_mut(index);
        slot.attempts += 1;
        if slot.is_over() {
            self.shared.reach.report(&format!("the target answers: {why}"));
            return self.finish(index, FAILED);
        }
        self.stage_again(index);
    }

    /// Puts a request that the session had in front of those that wait.
    fn stage_again(&mut self, index: u32) {
        let slot = self.slots.at_mut(index);
        match slot.state {
            State::Sent => self.sent -= 1,
            State::Unanswered(_) => self.unanswered -= 1,
            _ => {}
        }
        slot.state = State::Staged;
        self.shared.counts.repeated.fetch_add(1, Ordering::Relaxed);
        self.outbox.push_front(index);
    }

    /// Makes the wait handle readable: there is something to report.
    fn announce(&self) {
        if let Some(waiter) = self.waiter.get() {
            waiter.bell.ring_once();
        }
    }

    /// Keeps the wait handle up to date. `anew`: there is another connection.
    fn listen(&mut self, anew: bool) {
        let Some(waiter) = self.waiter.get() else { return };
        let Some(session) = self.session() else { return };
        let output = session.wants_output();
        if self.awaits_output.swap(output, Ordering::Relaxed) != output || anew {
            session.with_descriptor(|descriptor| waiter.listen(descriptor, output));
        }
    }
}

impl Driver for Channel {
    fn queue(&mut self, now: Time, request: &Started<'_>) -> bool {
        if self.slots.taken() >= self.shared.options.depth as usize {
            return false;
        }
        let index = self.slots.take(request);
        if request.op == Op::Flush {
            self.slots.at_mut(index).covers = self.shared.unflushed.begin_flush();
        }
        self.outbox.push_back(index);
        if self.shared.reach.failure().is_some() {
            self.fail_all(now);
        }
        true
    }

    fn submit(&mut self, now: Time) {
        self.advance(now);
        if !self.ready.is_empty() {
            self.announce();
        }
        self.listen(false);
    }

    fn reap(&mut self, now: Time, done: &mut Vec<Completion>) {
        if let Some(waiter) = self.waiter.get() {
            waiter.bell.clear();
        }
        // An idle session is looked at only for threads that would otherwise see it readable forever.
        if self.sent > 0 || self.waiter.get().is_some() {
            self.receive(now);
        }
        self.advance(now);
        self.listen(false);
        done.append(&mut self.ready);
    }

    fn next_event(&self) -> Option<Time> {
        let link = match &self.link {
            Link::Up(_) => None,
            Link::Down { retry } => (!self.outbox.is_empty() || self.unanswered > 0).then_some(*retry),
            Link::Attempting { until, .. } => Some(*until),
        };
        Time::earliest(link, Time::earliest(self.next_unanswered(), self.next_silence()))
    }

    fn wait(&mut self, now: Time, timeout: Option<Span>) {
        self.submit(now);
        if !self.ready.is_empty() || self.slots.taken() == 0 {
            return;
        }
        let event = self.next_event().map(|at| at.since(now));
        let limit = timeout.into_iter().chain(event).min();
        let time = limit.map_or(Duration::MAX, |limit| Duration::from_nanos(limit.0));
        match &mut self.link {
            Link::Up(session) => {
                self.is_lost |= !session.service_after(time);
                self.is_fresh = true;
            }
            Link::Attempting { attempt, .. } => attempt.session().wait(time),
            // An interrupted sleep ends early, as the caller expects.
            Link::Down { .. } => platter_wait::nap(limit.unwrap_or(LONGEST_PAUSE).min(LONGEST_PAUSE)),
        }
    }

    fn wait_handle(&self) -> Option<i32> {
        if self.waiter.get().is_none() {
            let waiter = Waiter::new().ok()?;
            // Listens for room to send too, until the channel is run next.
            self.awaits_output.store(true, Ordering::Relaxed);
            if let Some(session) = self.session() {
                session.with_descriptor(|descriptor| waiter.listen(descriptor, true));
            }
            let _ = self.waiter.set(waiter);
            self.announce();
        }
        self.waiter.get().map(|waiter| waiter.descriptor().as_raw_fd())
    }

    /// Asks the target to abort a command that the session has, once it is sent. The target answers the abort within
    /// `peer_timeout` from now, or the session is ended.
    fn cancel(&mut self, now: Time, tag: u32) -> bool {
        let Some(index) = self.slots.with_tag(tag) else { return false };
        match self.slots.at(index).state {
            State::Staged => {
                self.outbox.retain(|&other| other != index);
                self.finish(index, CANCELLED);
                self.announce();
                true
            }
            State::Sent => {
                let slot = self.slots.at_mut(index);
                if slot.cancelled.is_none() {
                    slot.cancelled = Some(now + self.shared.options.peer_timeout);
                    self.cancelled += 1;
                    self.shared.counts.aborts.fetch_add(1, Ordering::Relaxed);
                    if let Link::Up(session) = &mut self.link {
                        session.abort(index);
                        self.is_lost |= !session.service(false, true);
                    }
                }
                true
            }
            _ => {
                self.slots.at_mut(index).cancelled.get_or_insert(Time(u64::MAX));
                false
            }
        }
    }
}

impl Drop for Channel {
    /// Waits for the answers to what was sent, so that the target works on nothing any more when the disk is closed.
    fn drop(&mut self) {
        let begin = Instant::now();
        // Before the target sees that the session is over, and closes the connection.
        self.shared.watches.closed(self.port, &self.shared.unflushed);
        self.outbox.clear();
        let patience = Duration::from_nanos(self.shared.options.peer_timeout.0);
        while let Link::Up(session) = &mut self.link
            && self.sent > 0
        {
            let left = patience.saturating_sub(begin.elapsed());
            let works = !left.is_zero() && session.service_after(left);
            self.hear();
            // What the target wants again has ended too.
            self.outbox.clear();
            if !works {
                break;
            }
        }
        self.leave_unanswered();
        if let (Link::Up(session), 0) = (&mut self.link, self.sent)
            && session.log_out()
        {
            let until = Instant::now() + FAREWELL;
            while session.staged().is_none() {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() || !session.service_after(left) {
                    break;
                }
            }
        }
        self.shared.put_port(self.port);
    }
}
