//! A device that is given one bio at a time, as glibc's POSIX aio does: it has one thread for each file.

use platter_block::backend::{Backend, LaneUse};
use platter_block::bio::Bio;
use platter_block::driver::Geometry;
use platter_block::fault::{Error, Fault, Kind, Stage};
use platter_block::lane::Lane;
use platter_block::limits::{LimitSource, Limits};
use platter_block::time::{Span, Time};
use std::collections::VecDeque;
use std::sync::Arc;

/// A device that gets one bio at a time from each lane, in order of arrival.
pub(super) struct Serial(pub(super) Arc<dyn Backend>);

impl LimitSource for Serial {
    fn limits_at(&self, pos: u64) -> (Limits, u64) {
        self.0.limits_at(pos)
    }
}

impl Backend for Serial {
    fn name(&self) -> Arc<str> {
        self.0.name()
    }

    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn open_lane(&self, lane_use: LaneUse) -> Result<Box<dyn Lane>, Error> {
        let below = self.0.open_lane(lane_use)?;
        Ok(Box::new(SerialLane { below, waiting: VecDeque::new(), busy: false, done: Vec::new() }))
    }

    fn locate(&self, pos: u64) -> Option<(usize, u64)> {
        Some((0, pos))
    }

    fn below(&self) -> Vec<Arc<dyn Backend>> {
        vec![Arc::clone(&self.0)]
    }
}

struct SerialLane {
    below: Box<dyn Lane>,
    waiting: VecDeque<Bio>,
    /// Whether the device has a bio.
    busy: bool,
    done: Vec<Bio>,
}

impl SerialLane {
    /// Fails bios that wait for the one before them, and are late or were called back.
    fn fail_waiting(&mut self, kind: Kind, fails: impl Fn(&Bio) -> bool) {
        while let Some(at) = self.waiting.iter().position(&fails) {
            let Some(mut bio) = self.waiting.remove(at) else { return };
            bio.fail(Fault::new(kind, Stage::Layer));
            self.done.push(bio);
        }
    }
}

impl Lane for SerialLane {
    fn below(&self) -> Option<&dyn Lane> {
        Some(&*self.below)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Lane> {
        Some(&mut *self.below)
    }

    fn submit(&mut self, _now: Time, bio: Bio) {
        self.waiting.push_back(bio);
    }

    fn run(&mut self, now: Time) {
        loop {
            if !self.busy
                && let Some(bio) = self.waiting.pop_front()
            {
                self.busy = true;
                self.below.submit(now, bio);
            }
            self.fail_waiting(Kind::TimedOut, |bio| bio.deadline().is_some_and(|at| at <= now));
            self.below.run(now);
            if !self.below.has_done() {
                return;
            }
            self.below.take_done(&mut self.done);
            self.busy = false;
            if self.waiting.is_empty() {
                return;
            }
        }
    }

    fn take_done(&mut self, out: &mut Vec<Bio>) {
        out.append(&mut self.done);
    }

    fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    fn next_wakeup(&self) -> Option<Time> {
        self.waiting.iter().filter_map(Bio::deadline).chain(self.below.next_wakeup()).min()
    }

    fn wait(&mut self, now: Time, timeout: Option<Span>) {
        self.run(now);
        if self.done.is_empty() {
            self.below.wait(now, timeout);
        }
    }

    fn cancel(&mut self, now: Time, token: u64) {
        self.fail_waiting(Kind::Cancelled, |bio| bio.token() == token);
        self.below.cancel(now, token);
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.below.is_idle()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_disk::device::Device;

    /// Bios that wait for an earlier one can end by their deadlines or by cancellation.
    #[test]
    fn bios_that_wait_can_end() {
        let serial = Serial(Arc::clone(Device::ram(1 << 20).unwrap().backend()));
        let mut lane = serial.open_lane(LaneUse::Exclusive).unwrap();
        for token in 0..4 {
            let mut bio = Bio::write(0, vec![1u8; 512]).unwrap();
            bio.set_token(token);
            bio.set_deadline((token == 2).then_some(Time(1024)));
            lane.submit(Time(0), bio);
        }
        lane.cancel(Time(0), 1);
        let mut done = Vec::new();
        lane.take_done(&mut done);
        assert_eq!(lane.next_wakeup(), Some(Time(1024)));
        while !lane.is_idle() {
            lane.run(Time(2048));
            lane.take_done(&mut done);
        }
        done.sort_by_key(Bio::token);
        let kinds: Vec<_> = done.iter().map(|bio| bio.status().err().map(|fault| fault.kind)).collect();
        assert_eq!(kinds, [None, Some(Kind::Cancelled), Some(Kind::TimedOut), None]);
    }
}
