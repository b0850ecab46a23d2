//! The commands over a session, as a channel has it.

use super::attempt::{Attempt, Ready};
use super::discover::terms;
use super::library::status;
use super::session::{Answer, Session};
use super::shared::Shared;
use super::verdict::{Judged, Verdict, judge};
use crate::buffers::Buffers;
use crate::reconnect::{self, CANCELLED, FAILED, Protocol, Words};
use crate::slots::{Slot, State};
use crate::unflushed::Change;
use crate::waiter::Waiter;
use platter_block::bio::Op;
use platter_block::time::{Span, Time};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

mod transmit;

/// Longest wait for the answer to a logout.
const FAREWELL: Duration = Duration::from_secs(1);

const BUSY: i64 = -(libc::EAGAIN as i64);
const UNSUPPORTED: i64 = -(libc::EOPNOTSUPP as i64);

/// The unit attention of a nexus that is new, by which a unit says that nothing else has happened (I_T NEXUS LOSS OCCURRED).
const NEXUS_LOSS: (u8, u8) = (0x29, 0x07);

/// A channel to a disk at a target.
pub(super) type Channel = reconnect::Channel<Iscsi>;
type Link = reconnect::Link<Iscsi>;

/// What a channel has of its session.
pub(super) struct Iscsi {
    /// The number of its session, which a new one of this channel takes over.
    port: u16,
    /// Most commands that the target takes at once, as far as is known.
    window: usize,
    /// The logical unit was reset; whether it lost its cache.
    reset: Option<bool>,
    answers: Vec<Answer>,
    /// Whether a wait has received what there was.
    is_fresh: bool,
    /// The session ended during a wait.
    is_lost: bool,
}

/// A channel over a session that is ready.
pub(super) fn channel(shared: Arc<Shared>, port: u16, session: Session) -> Channel {
    let window = shared.bounds.depth as usize;
    let iscsi = Iscsi { port, window, reset: None, answers: Vec::new(), is_fresh: false, is_lost: false };
    Channel::new(shared, session, iscsi)
}

impl Channel {
    fn session(&self) -> Option<&Session> {
        match &self.link {
            Link::Up(session) => Some(session),
            Link::Attempting { attempt, .. } => Some(attempt.session()),
            Link::Down { .. } => None,
        }
    }

    /// The session has ended, for a reason of the library's unless another one is known.
    fn lost(&mut self, now: Time, why: Option<&str>) {
        let Link::Up(session) = &self.link else { return };
        let told = session.loss();
        // A change may land until a session of the same name and number takes the place of this one: the target ends all commands
        // of the old one before it answers the login (RFC 7143, 6.3.5).
        self.lose(now, &format!("the session ended: {}", why.unwrap_or(&told)), false);
    }

    /// Takes the answers that have come.
    fn hear(&mut self) {
        let Link::Up(session) = &mut self.link else { return };
        let mut answers = std::mem::take(&mut self.wire.answers);
        session.take_answers(&mut answers);
        for answer in answers.drain(..) {
            self.answered(answer);
        }
        self.wire.answers = answers;
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
            Verdict::Lost => slot.kept = answer.buffers,
            Verdict::Again => {
                slot.kept = answer.buffers;
                self.repeat(index, &why);
            }
            Verdict::Reset { power } => {
                slot.kept = answer.buffers;
                self.wire.reset = Some(power || self.wire.reset == Some(true));
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
        slot.kept = answer.buffers;
        let result = if slot.op.has_data() { slot.len.saturating_sub(missing) as i64 } else { 0 };
        self.finish(answer.token, result);
    }

    /// Sends a request again that the target has not carried out.
    fn repeat(&mut self, index: u32, why: &str) {
        let slot = self.slots.at_mut(index);
        slot.attempts += 1;
        if Channel::is_over(slot) {
            self.shared.reach.report(&format!("the target answers: {why}"));
            return self.finish(index, FAILED);
        }
        self.stage_again(index);
    }
}

impl Protocol for Iscsi {
    type Shared = Shared;
    type Connection = Session;
    type Attempt = Attempt;
    type Ready = ();
    type Kept = Buffers;

    const ENDS_OLD: bool = true;
    const ATTEMPTS: u8 = 6;
    const WORDS: Words = Words {
        silent: "the target does not answer",
        absent: "no session",
        flush_failed: "a flush failed: the target may have lost earlier writes with a session or a reset",
        unanswered: "a session ended and did not come back, so an earlier write may still change the disk at any time; open it \
                     again when the target is known to be idle",
        left: "a session was closed before the target had answered a write, which may still change the disk at any time; \
               open it again when the target is known to be idle",
    };

    fn connect(channel: &mut Channel) -> Result<Attempt, String> {
        let shared = &channel.shared;
        let place = shared.places[channel.retries.next_place(shared.places.len())];
        let terms = terms(&shared.url, &shared.options, (shared.number, channel.wire.port));
        Attempt::begin(&terms, place).map_err(|error| error.to_string())
    }

    fn negotiate(attempt: &mut Attempt) -> Result<Option<()>, String> {
        let is_ready = attempt.advance(Duration::ZERO).map_err(|error| error.to_string())?;
        Ok(is_ready.then_some(()))
    }

    fn accept(channel: &mut Channel, attempt: Attempt, (): ()) -> Result<Session, String> {
        let ready = attempt.into_ready().ok_or("the target has not told what the logical unit is")?;
        let Ready { session, found, attentions } = ready;
        let (shared, port) = (&channel.shared, channel.wire.port);
        if let Some(difference) = shared.found.difference(&found) {
            return Err(format!("the target came back with another disk: {difference}"));
        }
        // A unit that says nothing but that the nexus was lost still has its cache.
        let keeps_cache = !attentions.is_empty() && attentions.iter().all(|code| *code == NEXUS_LOSS);
        shared.watches.reopened(port, session.duplicate(), keeps_cache, &shared.unflushed);
        channel.wire.window = shared.bounds.depth as usize;
        Ok(session)
    }

    fn disconnect(channel: &mut Channel, why: Option<&str>) {
        if let Some(why) = why {
            channel.shared.reach.report(why);
        }
        let link = std::mem::replace(&mut channel.link, Link::Down { retry: Time(0) });
        let Link::Up(session) = link else { return };
        // Without another descriptor the library closes the connection.
        channel.shared.watches.ended(channel.wire.port);
        for answer in session.end() {
            channel.answered(answer);
        }
        let wire = &mut channel.wire;
        (wire.is_fresh, wire.is_lost, wire.reset) = (false, false, None);
    }

    fn transmit(channel: &mut Channel, now: Time) {
        channel.transmit(now);
    }

    fn receive(channel: &mut Channel, now: Time) {
        channel.receive(now);
    }

    fn wants_output(channel: &mut Channel) -> Option<bool> {
        channel.session().map(Session::wants_output)
    }

    fn listen(channel: &Channel, waiter: &Waiter, output: bool) {
        if let Some(session) = channel.session() {
            session.with_descriptor(|descriptor| waiter.listen(descriptor, output));
        }
    }

    fn wait(channel: &mut Channel, limit: Option<Span>) {
        let time = limit.map_or(Duration::MAX, |limit| Duration::from_nanos(limit.0));
        match &mut channel.link {
            Link::Up(session) => {
                channel.wire.is_lost |= !session.service_after(time);
                channel.wire.is_fresh = true;
            }
            Link::Attempting { attempt, .. } => attempt.session().wait(time),
            Link::Down { .. } => {}
        }
    }

    fn changed(channel: &Channel, slot: &Slot<Buffers>) {
        let (op, pos, len, fua) = (slot.op, slot.pos, slot.len, slot.fua);
        let change = Change { op, pos, len, fua, copy: &Vec::new };
        let has_ended = || channel.session().is_none_or(Session::is_hung_up);
        channel.shared.watches.changed(channel.wire.port, &change, &channel.shared.unflushed, has_ended);
    }

    fn look_at_others(channel: &Channel) {
        channel.shared.watches.look_at_others(channel.wire.port, &channel.shared.unflushed);
    }

    /// Asks the target to abort a command that the session has, once it is sent. The target answers the abort within
    /// `peer_timeout` from now, or the session is ended.
    fn abort(channel: &mut Channel, now: Time, index: u32) -> bool {
        let slot = channel.slots.at_mut(index);
        if slot.state != State::Sent {
            slot.cancelled.get_or_insert(Time(u64::MAX));
            return false;
        }
        if slot.cancelled.is_none() {
            slot.cancelled = Some(now + channel.shared.bounds.peer_timeout);
            channel.cancelled += 1;
            channel.shared.counts.aborts.fetch_add(1, Ordering::Relaxed);
            if let Link::Up(session) = &mut channel.link {
                session.abort(index);
                channel.wire.is_lost |= !session.service(false, true);
            }
        }
        true
    }

    fn abort_failed(channel: &mut Channel, now: Time) {
        channel.lost(now, Some("the target does not answer an abort"));
    }

    /// Waits for the answers to what was sent, so that the target works on nothing any more when the disk is closed.
    fn close(channel: &mut Channel) {
        let begin = Instant::now();
        // Before the target sees that the session is over, and closes the connection.
        channel.shared.watches.closed(channel.wire.port, &channel.shared.unflushed);
        channel.outbox.clear();
        let patience = Duration::from_nanos(channel.shared.bounds.peer_timeout.0);
        while let Link::Up(session) = &mut channel.link
            && channel.sent > 0
        {
            let left = patience.saturating_sub(begin.elapsed());
            let works = !left.is_zero() && session.service_after(left);
            channel.hear();
            // What the target wants again has ended too.
            channel.outbox.clear();
            if !works {
                break;
            }
        }
        channel.leave_unanswered();
        if let (Link::Up(session), 0) = (&mut channel.link, channel.sent)
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
        channel.shared.put_port(channel.wire.port);
    }
}
