//! The device's plug (2.5.60 to 2.6.38): a queue that gets its first request delays it briefly, so that
//! neighbours can merge, until enough requests wait, a timer fires or a thread waits for one.

use super::SchedQueue;
use crate::time::{Span, Time};
use crate::trace::{Action, Event};

/// When a plugged device starts without being asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlugSettings {
    /// Start when this many requests wait (`unplug_thresh`).
    pub threshold: u32,
    /// Start after this time (`unplug_delay`).
    pub delay: Span,
}

impl PlugSettings {
    /// Linux 2.4: neither a count nor a timer, the device starts when a thread waits. The delay only bounds how long I/O
    /// that no thread waits for is held back.
    pub const BY_WAITERS: PlugSettings = PlugSettings { threshold: u32::MAX, delay: Span::from_secs(3600) };
}

impl Default for PlugSettings {
    fn default() -> PlugSettings {
        PlugSettings { threshold: 4, delay: Span::from_millis(3) }
    }
}

pub(super) struct DevicePlug {
    settings: Option<PlugSettings>,
    since: Option<Time>,
}

impl DevicePlug {
    pub(super) fn new(settings: Option<PlugSettings>) -> DevicePlug {
        DevicePlug { settings, since: None }
    }

    #[inline]
    pub(super) fn is_plugged(&self) -> bool {
        self.since.is_some()
    }

    #[inline]
    pub(super) fn deadline(&self) -> Option<Time> {
        Some(self.since? + self.settings?.delay)
    }
}

impl SchedQueue {
    /// Plugs an empty queue just before it gets a request.
    #[inline]
    pub(super) fn plug_if_empty(&mut self, now: Time) {
        let empty = self.store.queued == 0 && self.store.plug.since.is_none();
        if self.store.plug.settings.is_some() && empty && !self.order.is_closed() {
            self.store.plug.since = Some(now);
            self.store.plug.deadline().into_iter().for_each(|at| self.arm(at));
            self.counters.plugs.add(1);
            self.trace(|| Event::of_queue(now, Action::Plug, 0));
        }
    }

    /// After an insertion: unplugs if enough requests wait, or if a thread waits for this one.
    #[inline]
    pub(super) fn unplug_if_due(&mut self, now: Time, sync: bool) {
        let Some(settings) = self.store.plug.settings else { return };
        if self.store.plug.since.is_some() && (sync || self.store.queued >= settings.threshold) {
            self.unplug(now, Action::Unplug);
        }
    }

    pub(super) fn unplug(&mut self, now: Time, why: Action) {
        if self.store.plug.since.take().is_none() {
            return;
        }
        let timer = why == Action::UnplugTimer;
        if timer { &self.counters.unplugs_timer } else { &self.counters.unplugs }.add(1);
        let queued = u64::from(self.store.queued);
        self.trace(|| Event::of_queue(now, why, queued));
    }
}
