//! How a lane sleeps: on everything that its progress can come from.

use super::lane::LeafLane;
use platter_block::lane::Lane;
use platter_block::time::{Span, Time, VirtualClock};

impl LeafLane {
    /// Lists the descriptors of the shared queue and of the lane's own (that one only if it has something
    /// out, unless `all`). `false`: some of it cannot be seen on a descriptor.
    fn listen(&self, all: bool, handles: &mut Vec<i32>) -> bool {
        let mut heard = true;
        if let Some(local) = &self.local
            && (all || local.in_flight() > 0)
        {
            heard &= local.wait_handles(handles);
        }
        if self.away > 0 {
            heard &= self.shared.with_control(|control| control.listen(handles));
        }
        heard
    }

    /// [`Lane::wait_handles`]: for somebody who will sleep while others may use the lane.
    pub(super) fn list_handles(&self, handles: &mut Vec<i32>) -> bool {
        let bell = self.cell.mailbox.fall_asleep();
        let mut heard = bell.descriptor().map(|fd| handles.push(fd)).is_some();
        heard &= self.listen(true, handles);
        if self.cell.mailbox.has_mail() | self.cell.mailbox.take_nudge() {
            bell.ring();
        }
        heard
    }

    /// Lets virtual time pass until something can be done or `timeout` has passed. Without either another thread
    /// has what this one waits for.
    fn sleep_simulated(&self, now: Time, timeout: Option<Span>, clock: &VirtualClock) {
        let limit = timeout.map(|span| now + span);
        match Time::earliest(self.next_wakeup(), limit) {
            Some(at) => clock.advance_to(at),
            None => std::thread::yield_now(),
        }
    }

    /// Sleeps until something can be done, one of `others` is readable or `timeout` has passed.
    pub(super) fn sleep_on(&mut self, now: Time, timeout: Option<Span>, others: &[i32]) {
        if let Some(clock) = self.shared.clock.simulated() {
            return self.sleep_simulated(now, timeout, clock);
        }
        let mut sleeper = std::mem::take(&mut self.sleeper);
        let bell = self.cell.mailbox.fall_asleep();
        let rings = bell.descriptor().map(|fd| sleeper.handles.push(fd)).is_some();
        let heard = self.listen(false, &mut sleeper.handles);
        sleeper.handles.extend_from_slice(others);
        // What cannot be seen on a descriptor is there at the next run, if it has been started.
        let nudged = self.cell.mailbox.take_nudge();
        if (heard || self.in_flight() == 0) && !self.cell.mailbox.has_mail() && !nudged {
            let wake = self.next_wakeup().map(|at| at.since(now));
            sleeper.sleep(rings, timeout.into_iter().chain(wake).min());
        }
        sleeper.handles.clear();
        self.cell.mailbox.wake_up();
        self.sleeper = sleeper;
    }
}
