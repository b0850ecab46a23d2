//! Error handling as a mid-layer's: sending again, abort, reset, offline.

use super::super::port::count;
use super::super::slot::{Patience, State};
use super::Channel;
use crate::host::verdict::Verdict;
use crate::target::Attribute;
use platter_block::bio::Bio;
use platter_block::lane::{Cancel, Lane};
use platter_block::time::{Span, Time};
use std::boxed::Box;
use std::sync::atomic::Ordering;
use std::vec::Vec;

/// ENODEV: the port is offline.
const OFFLINE: i64 = 19;
/// EAGAIN: the unit has refused the command for the time being.
pub(super) const REFUSED: i32 = 11;
/// EOPNOTSUPP: there is no command for the request.
pub(super) const UNSUPPORTED: i32 = 95;
/// ETIMEDOUT: nothing is known of the result.
const UNKNOWN: i64 = 110;
/// ECANCELED: the command was not carried out.
const CANCELLED: i64 = 125;

/// The first pause before a command is sent again to a unit that is busy; it doubles up to the last.
const PAUSE: Span = Span::from_millis(1);
const LONGEST_PAUSE: Span = Span::from_millis(256);

impl Channel {
    /// The unit has refused a command for a reason that is over, or will be.
    pub(super) fn refused(&mut self, now: Time, index: u32, verdict: &Verdict) {
        if self.slot(index).attribute == Attribute::Ordered {
            // What must follow it was ended; the queue sends them again in order.
            return self.complete(index, -i64::from(REFUSED));
        }
        if self.slot(index).cancelled && !self.slot(index).changed {
            return self.complete(index, -CANCELLED);
        }
        if *verdict == Verdict::Again {
            return self.send_again(now, index, now);
        }
        let patience = self.port.options.busy_timeout;
        let slot = self.slot(index);
        let was_again = slot.attempts > 0 || slot.refused.is_some();
        let since = *slot.refused.get_or_insert(now);
        let pause = Span(PAUSE.0 << slot.refusals.min(16)).0.min(LONGEST_PAUSE.0);
        slot.refusals += 1;
        self.again += u32::from(!was_again);
        if now.since(since) >= patience {
            count(&self.port.counts.failures);
            return self.complete(index, -i64::from(REFUSED));
        }
        self.send_at(now, index, now + Span(pause));
    }

    /// The port is offline. The answer takes a moment, in which callers look after the commands that hang.
    pub(super) fn turn_away(&mut self, now: Time, index: u32) {
        let slot = self.slot(index);
        // What follows an ordered command is turned back until its queue knows.
        if std::mem::replace(&mut slot.turned_away, true) || slot.attribute == Attribute::Ordered {
            return self.complete(index, -OFFLINE);
        }
        self.slot(index).state = State::Due;
        self.set_timer(index, Some(now + PAUSE));
    }

    /// Sends a command again, unless it has failed too often.
    fn send_again(&mut self, now: Time, index: u32, at: Time) {
        let retries = self.port.options.retries;
        let slot = self.slot(index);
        let was_again = slot.attempts > 0 || slot.refused.is_some();
        slot.attempts += 1;
        // A layer that ended a write before its last part still has its data.
        let too_often = slot.attempts > retries || slot.data.bytes().len() < slot.data_out;
        self.again += u32::from(!was_again);
        if too_often {
            count(&self.port.counts.failures);
            return self.complete(index, -UNKNOWN);
        }
        self.send_at(now, index, at);
    }

    fn send_at(&mut self, now: Time, index: u32, at: Time) {
        count(&self.port.counts.retries);
        self.slot(index).state = State::Due;
        if at <= now {
            self.set_timer(index, None);
            self.outgoing.push_back(index);
        } else {
            self.set_timer(index, Some(at));
        }
    }

    /// A command has ended, or never began (`ran` is false), and there will be no response.
    pub(super) fn not_answered(&mut self, now: Time, index: u32, ran: bool) {
        let slot = self.slot(index);
        let (changed, cancelled) = (slot.changed, slot.cancelled);
        if slot.own.is_some() {
            // It is never sent again, because only its submitter knows what that would do.
            return self.complete(index, if ran { -UNKNOWN } else { -CANCELLED });
        }
        match slot.attribute {
            Attribute::Ordered => self.complete(index, -i64::from(REFUSED)),
            // What has changed the medium in part is carried out to its end.
            _ if cancelled && !changed => self.complete(index, -CANCELLED),
            _ => self.send_again(now, index, now),
        }
    }

    /// Runs the timers that are due.
    pub(super) fn run_timers(&mut self, now: Time) -> bool {
        let mut any = false;
        while let Some(&(at, index)) = self.timers.first().filter(|&&(at, _)| at <= now) {
            any = true;
            debug_assert!(at <= now);
            self.set_timer(index, None);
            self.timed_out(now, index);
        }
        any
    }

    fn timed_out(&mut self, now: Time, index: u32) {
        match &self.slot(index).state {
            State::Free => {}
            State::Due => self.outgoing.push_back(index),
            State::Lost | State::Unanswered => {
                // The target confirms that it does not have the command.
                self.abort(index);
                self.not_answered(now, index, true);
            }
            State::Waits => self.abort(index),
            State::Runs(_) => self.lose_patience(now, index),
        }
    }

    fn abort(&mut self, index: u32) {
        count(&self.port.counts.aborts);
        let token = self.token(index);
        let order = self.slot(index).order.unwrap_or_default();
        self.port.hub.abort((self.port.nexus, order), token);
    }

    /// A command that runs takes too long, again.
    fn lose_patience(&mut self, now: Time, index: u32) {
        let token = self.token(index).number();
        let next = match self.slot(index).patience {
            Patience::Waits => {
                self.abort(index);
                Patience::Aborted
            }
            Patience::Aborted => {
                count(&self.port.counts.resets);
                self.port.hub.reset(self.port.nexus);
                Patience::Reset
            }
            Patience::Reset | Patience::Offline => {
                self.port.hung.fetch_add(1, Ordering::Relaxed);
                Patience::Offline
            }
        };
        self.slot(index).patience = next;
        if next != Patience::Offline {
            self.set_timer(index, Some(now + self.port.options.command_timeout));
            self.cancel_bio(now, index, token);
        }
    }

    fn cancel_bio(&mut self, now: Time, index: u32, token: u64) {
        if matches!(&self.slot(index).state, State::Runs(carried) if carried.may_cancel()) {
            self.lane.cancel(now, &Cancel::token(token));
        }
    }

    /// The queue wants a command back.
    pub(super) fn cancel_slot(&mut self, now: Time, index: u32) {
        let token = self.token(index);
        let slot = self.slot(index);
        slot.cancelled = true;
        match slot.state {
            State::Due if slot.changed => {}
            State::Due => {
                self.outgoing.retain(|other| *other != index);
                self.complete(index, -CANCELLED);
            }
            State::Waits => self.abort(index),
            State::Runs(_) => self.cancel_bio(now, index, token.number()),
            State::Free | State::Lost | State::Unanswered => {}
        }
    }

    /// Closes the lane of the device, which waits for what it has as far as lanes do, and leaves the target.
    pub(super) fn finish(&mut self) {
        drop(std::mem::replace(&mut self.lane, Box::new(Closed)));
        let tasks = self.slots.iter().filter_map(|slot| match &slot.state {
            State::Runs(carried) => Some(carried.task),
            _ => None,
        });
        let running: Vec<_> = tasks.collect();
        let untold = self.ended_behind + self.unread_behind();
        self.port.hub.remove_channel(self.port.nexus, self.number, &running, untold);
    }
}

/// In place of a lane that was closed.
struct Closed;

impl Lane for Closed {
    fn submit(&mut self, _now: Time, _bio: Bio) {}

    fn take_done(&mut self, _out: &mut Vec<Bio>) {}

    fn has_done(&self) -> bool {
        false
    }
}
