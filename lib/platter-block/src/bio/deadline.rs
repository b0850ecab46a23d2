//! A deadline in six bytes, so that a bio's descriptor fits in three cache lines.

use crate::time::Time;

/// A point in time in steps of 1,024 ns, at most 9 years after the clock's origin. All ones: no deadline.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Deadline([u16; 3]);

const STEP_BITS: u32 = 10;
const MAX_STEPS: u64 = (1 << 48) - 2;

impl Deadline {
    pub(super) const NONE: Deadline = Deadline([u16::MAX; 3]);

    /// The first representable deadline at or after `time`.
    #[inline]
    pub(super) fn new(time: Option<Time>) -> Deadline {
        let Some(Time(ns)) = time else { return Deadline::NONE };
        let steps = ns.div_ceil(1 << STEP_BITS).min(MAX_STEPS);
        Deadline([steps as u16, (steps >> 16) as u16, (steps >> 32) as u16])
    }

    #[inline]
    pub(super) fn time(self) -> Option<Time> {
        if self == Deadline::NONE {
            return None;
        }
        let [low, middle, high] = self.0.map(u64::from);
        Some(Time((low | middle << 16 | high << 32) << STEP_BITS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_never_early_and_less_than_a_step_late() {
        for ns in [0, 1, 1023, 1024, 1025, 987_654_321, 1 << 57] {
            let kept = Deadline::new(Some(Time(ns))).time().expect("a deadline");
            assert!(kept.0 >= ns && kept.0 - ns < 1 << STEP_BITS, "{ns}: {kept:?}");
        }
        assert_eq!(Deadline::new(None).time(), None);
        assert!(Deadline::new(Some(Time(u64::MAX))).time().is_some());
    }
}
