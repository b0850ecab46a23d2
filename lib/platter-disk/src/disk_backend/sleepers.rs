//! What lanes that may sleep have been told of the shared queue, so that the thread that runs it knows when to ring them.
//!
//! | | nothing | is to be rung |
//! |---|---|---|
//! | times | no lane relies on one | when the queue must be run earlier than it was told |
//! | completions | descriptors show them | when the driver has a request, and may complete it unseen |
//!
//! All that poll for the queue are rung, and what they had been told is forgotten: each asks again before it sleeps.
//!
//! Example: lane A is told that the queue must be run at 30 ms, and sleeps on the driver's descriptor. Lane B sets a plug's timer to 3 ms and goes away,
//! so A is rung. It asks, is told 3 ms, and a timer of 5 ms that B sets later rings no one.

use platter_block::time::Time;

/// See the [module](self).
#[derive(Default)]
pub(super) struct Sleepers {
    /// When the queue must be run even if nothing completes, as lanes were told; `Some(None)`: not at any time.
    told: Option<Option<Time>>,
    /// A lane sleeps that cannot see the driver's next completion.
    completions_unseen: bool,
}

impl Sleepers {
    /// A lane asks when the queue must be run, and may sleep until then.
    pub(super) fn tell(&mut self, alarm: Option<Time>) {
        self.told = Some(alarm);
    }

    /// A lane listens to the driver's descriptors, which show each completion if they are `complete`. It may know of no time,
    /// or of an old one, so an earlier time than was told to any is news to it.
    pub(super) fn listen(&mut self, complete: bool) {
        self.completions_unseen |= !complete;
        self.told.get_or_insert(None);
    }

    /// Whether the lanes have to be rung after a run of the queue: it has `in_flight` requests with the driver, and must be run
    /// again at `alarm`, which is asked for only if a lane relies on it.
    #[inline]
    pub(super) fn must_be_rung(&mut self, in_flight: u32, alarm: impl FnOnce() -> Option<Time>) -> bool {
        let Some(told) = self.told else { return false };
        let is_earlier = alarm().is_some_and(|at| told.is_none_or(|known| at < known));
        let unseen = self.completions_unseen && in_flight > 0;
        if is_earlier || unseen {
            *self = Sleepers::default();
        }
        is_earlier || unseen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rung(sleepers: &mut Sleepers, in_flight: u32, alarm: Option<u64>) -> bool {
        sleepers.must_be_rung(in_flight, || alarm.map(Time))
    }

    #[test]
    fn an_earlier_time_than_was_told_rings_once() {
        let mut sleepers = Sleepers::default();
        assert!(!rung(&mut sleepers, 1, Some(3)), "no lane relies on a time");
        sleepers.tell(Some(Time(30)));
        assert!(!rung(&mut sleepers, 1, Some(30)) && !rung(&mut sleepers, 1, None));
        assert!(rung(&mut sleepers, 1, Some(3)));
        assert!(!rung(&mut sleepers, 1, Some(2)), "what it was told is forgotten");
        sleepers.tell(None);
        assert!(rung(&mut sleepers, 0, Some(1 << 60)), "any time is earlier than none");
    }

    #[test]
    fn a_lane_that_listens_may_have_asked_before_others_were_told() {
        let mut sleepers = Sleepers::default();
        sleepers.listen(true);
        assert!(!rung(&mut sleepers, 1, None) && rung(&mut sleepers, 1, Some(7)));
        sleepers.tell(Some(Time(5)));
        sleepers.listen(true);
        assert!(!rung(&mut sleepers, 1, Some(7)), "it was told an earlier one");
    }

    #[test]
    fn completions_that_no_descriptor_shows_ring_while_the_driver_has_requests() {
        let mut sleepers = Sleepers::default();
        sleepers.listen(false);
        assert!(!rung(&mut sleepers, 0, None) && rung(&mut sleepers, 1, None));
        assert!(!rung(&mut sleepers, 1, None), "they look before they sleep again");
    }
}
