//! While the queue in service is empty and waited for, requests of other queues may be injected, as long as they do not
//! delay its own.
//!
//! Of a queue in service, how long the first request after a pause takes is measured from its arrival, without and with injected
//! requests in the device. While it is less than half as long again, the limit of requests in the device goes up by one at a time,
//! otherwise down. A queue with a long think time, whose requests come right after those of another queue three times, waits
//! for that one: its requests are injected in any case.
//!
//! Source: `bfq_update_inject_limit`, `bfq_choose_bfqq_for_injection` and `bfq_check_waker` of Linux. Left out: the rule that
//! raises a limit of 0 after a long wait; it adds nanoseconds to ticks there and never applies.

use super::Bfq;
use super::params::SLICE_IDLE;
use super::record::{IDLE, SHORT_SECTORS};
use platter_block::elevator::RequestId;
use platter_block::time::{Span, Time};

/// A queue that sends a request within this time after a completion may have waited for it.
const WOKEN: Span = Span::from_millis(4);
/// After this many such requests in a row, the other queue is its waker.
const SEEN: u32 = 3;
/// They must come within this multiple of `slice_idle`.
const SEEN_WITHIN: u64 = 128;
/// The limit begins anew after this time.
const RENEWED: Span = Span::from_millis(1000);
/// After the limit was lowered no sample is taken for this time.
const PAUSE: Span = Span::from_millis(10);
/// A change of the think time leaves the limit alone for this time, unless it became long.
const THINK_PAUSE: Span = Span::from_millis(100);

/// The sample being taken.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trial {
    /// Whether requests were injected.
    injected: bool,
    /// The next request of the queue in service will be the sample.
    due: bool,
    /// The sample, and when it arrived.
    request: Option<RequestId>,
    since: Time,
}

impl Trial {
    /// A request of the queue in service goes to the device.
    #[inline]
    pub(super) fn started(&mut self, id: RequestId) {
        if core::mem::take(&mut self.due) {
            self.request = Some(id);
        }
    }
}

impl Bfq {
    /// A request arrives for a synchronous queue that has no other, neither queued nor in the device.
    pub(super) fn note_lone_arrival(&mut self, now: Time, record: u32) {
        self.look_for_waker(now, record);
        if now >= self.procs[record].inject.since + RENEWED {
            self.renew_limit(now, record);
        }
        let inject = self.procs[record].inject;
        let comparable = self.in_driver == 0 || inject.alone.is_some() && self.trial.injected;
        if self.in_service == Some(record) && comparable && now >= inject.since + PAUSE {
            self.trial.since = now;
            self.trial.due = true;
            self.trial.injected &= self.in_driver > 0;
        }
    }

    /// Whether the queue sends its requests right after those of another queue complete.
    fn look_for_waker(&mut self, now: Time, record: u32) {
        let recent = now.since(self.device.last_done) < WOKEN;
        let Some(last) = self.procs.follow(self.last_completed).filter(|&last| recent && last != record)
        else {
            return;
        };
        let last = self.procs[last].link(last);
        let within = Span(SEEN_WITHIN * self.span(SLICE_IDLE).0);
        let it = &mut self.procs[record];
        if it.short_think {
            return;
        }
        let waker = &mut it.waker;
        if waker.candidate != Some(last) || now > waker.since + within {
            (waker.candidate, waker.seen, waker.since) = (Some(last), 0, now);
        }
        waker.seen += 1;
        if waker.seen == SEEN {
            (waker.known, waker.candidate) = (Some(last), None);
            let link = it.link(record);
            self.procs[last.record].waker.wakes = Some(link);
        }
    }

    /// A request arrives: notes whether the next one can be expected soon.
    pub(super) fn note_think_time(&mut self, now: Time, record: u32) {
        let idle = self.span(SLICE_IDLE);
        let it = &mut self.procs[record];
        it.note_think(now, Span(2 * idle.0));
        if !it.sync || it.class == IDLE || idle == Span::ZERO {
            return;
        }
        let short = it.thinks_within(Span(idle.0 / 2));
        let changed = core::mem::replace(&mut it.short_think, short) != short;
        let stable = short && now < it.inject.since + THINK_PAUSE;
        if changed && it.inject.alone.is_none() && !stable {
            self.renew_limit(now, record);
        }
    }

    /// The limit begins anew.
    fn renew_limit(&mut self, now: Time, record: u32) {
        self.trial.request = None;
        let it = &mut self.procs[record];
        it.inject = super::record::Inject { limit: u32::from(!it.short_think), alone: None, since: now };
    }

    /// A request completes, which the device still counts: if it is the sample, adapts the limit.
    pub(super) fn note_sample(&mut self, now: Time, record: u32, id: RequestId) {
        if self.trial.request != Some(id) {
            return;
        }
        let (time, injected) = (now.since(self.trial.since), self.trial.injected);
        let (alone_now, most) = (self.in_driver == 1, self.device.most_in_driver);
        let inject = &mut self.procs[record].inject;
        let old = inject.limit;
        if let Some(alone) = inject.alone.filter(|_| injected) {
            let bound = Span(alone.0 * 3 / 2);
            if time >= bound && old > 0 {
                (inject.limit, inject.since) = (old - 1, now);
            } else if time < bound && old <= most {
                inject.limit = old + 1;
            }
        }
        match inject.alone {
            None if alone_now => {
                inject.limit = old.max(1);
                inject.alone = Some(time);
            }
            Some(alone) if time < alone || !injected && alone_now => inject.alone = Some(time),
            _ => {}
        }
        self.trial.request = None;
        self.trial.injected = false;
    }

    /// Another queue to dispatch from while this one, in service, is empty.
    pub(super) fn injected(&mut self, record: u32) -> Option<u32> {
        let it = &self.procs[record];
        let own = self.procs.find(it.async_key()).filter(|&own| it.sync && self.sends_next(own, it.task()));
        let waker = || self.procs.follow(it.waker.known);
        let woken = || {
            let woken = self.procs.follow(it.waker.wakes)?;
            (self.procs.follow(self.procs[woken].waker.known) == Some(record)).then_some(woken)
        };
        let fits = |other: &u32| self.fits(*other);
        let found = own.filter(fits).or_else(|| waker().filter(fits)).or_else(|| woken().filter(fits));
        if found.is_some() {
            return found;
        }
        let harmless = !it.is_raised() || self.busy.raised > 1 || !it.short_think;
        if self.wait_pays(record) || !harmless {
            return None;
        }
        self.within_limit(record)
    }

    /// A queue with a request, as long as the limit allows.
    fn within_limit(&mut self, record: u32) -> Option<u32> {
        let it = &self.procs[record];
        let (limit, any) = (it.inject.limit, !it.is_raised() || !it.short_think);
        if self.in_driver >= limit {
            return None;
        }
        let flash = !self.is_rotational();
        let found = self.procs.waiting().find(|&other| {
            let suits = (any || self.procs[other].is_raised()) && self.fits(other);
            // Of long requests flash has one at a time.
            suits && self.in_driver < if flash && self.next_is_long(other) { 1 } else { limit }
        })?;
        self.trial.injected = true;
        Some(found)
    }

    /// Whether a queue that waits for service has a request within its budget.
    fn fits(&self, other: u32) -> bool {
        let it = &self.procs[other];
        it.busy && self.in_service != Some(other) && it.queued > 0 && self.charge(other, it.next) <= it.left()
    }

    fn next_is_long(&self, other: u32) -> bool {
        let next = self.procs[other].next.and_then(|id| self.requests.get(id));
        next.is_some_and(|entry| entry.sectors() >= SHORT_SECTORS)
    }

    /// Whether the next request of a queue is of this process and thread.
    fn sends_next(&self, own: u32, task: u64) -> bool {
        let next = self.procs[own].next.and_then(|id| self.requests.get(id));
        next.is_some_and(|entry| entry.task == task)
    }
}
