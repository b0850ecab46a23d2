//! Whether reading ahead pays.
//!
//! Among many reads of a small region the next one often continues another by chance, and so does the one after that: evidence
//! of position is then worthless. What became of the pages that were read ahead is not. While most are evicted unused, windows
//! become smaller, and at last streams need better evidence to begin.

use crate::readahead::Fate;

/// Pages whose fate is judged at a time: at first, and at least when windows are smaller.
const SAMPLE: u64 = 256;
const SMALLEST: u64 = 32;
/// How often windows are halved.
const LEVELS: u32 = 5;
/// Good judgements in a row after which they are doubled.
const PATIENCE: u32 = 4;
/// Reads after which it is tried again, at first and at most.
const FIRST: u32 = 1024;
const MOST: u32 = 1 << 16;

/// Watches the fate of the pages of a handle.
#[derive(Clone, Debug)]
pub(super) struct Care {
    /// When the sample began.
    before: Fate,
    /// Pages read ahead before windows changed their size, which are not judged.
    old: u64,
    /// Base-2 logarithm of what windows are divided by.
    level: u32,
    /// Good judgements in a row.
    good: u32,
    /// Reads left until reading ahead on weak evidence is tried again; 0: it is done.
    left: u32,
    /// How many these will be the next time.
    pause: u32,
}

impl Care {
    pub(super) fn new() -> Care {
        Care { before: Fate::default(), old: 0, level: 0, good: 0, left: 0, pause: FIRST }
    }

    /// Whether streams need better evidence.
    pub(super) fn is_strict(&self) -> bool {
        self.left > 0
    }

    /// Base-2 logarithm of what windows are divided by.
    pub(super) fn level(&self) -> u32 {
        self.level
    }

    /// A read has missed a page. Returns whether streams need better evidence from now on.
    pub(super) fn look(&mut self, fate: Fate) -> bool {
        if self.left > 0 {
            self.left -= 1;
        }
        if fate.used + fate.unused < self.old {
            self.before = fate;
            return false;
        }
        let (used, unused) = (fate.used - self.before.used, fate.unused - self.before.unused);
        if used + unused < (SAMPLE >> self.level).max(SMALLEST) {
            return false;
        }
        self.before = fate;
        let (level, was_strict) = (self.level, self.is_strict());
        match () {
            () if unused > used => self.is_bad(),
            () if 3 * unused <= used => self.is_good(),
            () => self.good = 0,
        }
        if (level, was_strict) != (self.level, self.is_strict()) {
            self.old = fate.read;
        }
        self.is_strict() && !was_strict
    }

    /// Most pages were evicted unused.
    fn is_bad(&mut self) {
        self.good = 0;
        if self.level < LEVELS {
            self.level += 1;
        } else if self.left == 0 {
            (self.left, self.pause) = (self.pause, (2 * self.pause).min(MOST));
        }
    }

    /// At least three of four pages were used.
    fn is_good(&mut self) {
        self.left = 0;
        self.good += 1;
        if self.good == PATIENCE {
            self.good = 0;
            self.level = self.level.saturating_sub(1);
        }
        if self.level == 0 {
            self.pause = FIRST;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sample of the current size has these parts of used and unused pages.
    fn judge(care: &mut Care, fate: &mut Fate, used: u64, unused: u64) -> bool {
        let sample = (SAMPLE >> care.level).max(SMALLEST);
        fate.used += used * sample / (used + unused);
        fate.unused += unused * sample / (used + unused);
        fate.read = fate.used + fate.unused;
        care.look(*fate)
    }

    #[test]
    fn waste_makes_windows_smaller_and_then_stops_them_for_longer_each_time() {
        let (mut care, mut fate) = (Care::new(), Fate::default());
        for level in 1..=LEVELS {
            assert!(!judge(&mut care, &mut fate, 0, 1));
            assert_eq!((care.level(), care.is_strict()), (level, false));
        }
        for pause in [FIRST, 2 * FIRST, 4 * FIRST] {
            assert!(judge(&mut care, &mut fate, 0, 1));
            (0..pause).for_each(|_| assert!(care.is_strict() && !care.look(fate)));
            assert!(!care.is_strict());
        }
    }

    #[test]
    fn use_ends_the_strictness_and_lets_windows_grow() {
        let (mut care, mut fate) = (Care::new(), Fate::default());
        (0..=LEVELS).for_each(|_| assert!(judge(&mut care, &mut fate, 0, 1) || !care.is_strict()));
        assert!(care.is_strict());
        judge(&mut care, &mut fate, 3, 1);
        assert!(!care.is_strict());
        (1..PATIENCE * LEVELS).for_each(|_| assert!(!judge(&mut care, &mut fate, 3, 1)));
        assert_eq!((care.level(), care.pause), (0, FIRST));
    }

    #[test]
    fn what_is_neither_changes_nothing() {
        let (mut care, mut fate) = (Care::new(), Fate::default());
        judge(&mut care, &mut fate, 0, 1);
        (0..100).for_each(|_| assert!(!judge(&mut care, &mut fate, 1, 1)));
        assert_eq!(care.level(), 1);
    }
}
