//! What `verify` knows about the contents of a device: checksums of written blocks, and ranges of zeroes.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// A block that was written.
#[derive(Default)]
struct Block {
    /// Checksum; `None` if the contents are unknown.
    crc: Option<u32>,
    /// Writes of the block in flight.
    writers: u32,
    /// Two of those writes overlapped in time.
    raced: bool,
    /// When the last write began or ended.
    changed: u64,
}

/// A change in flight.
struct Running {
    numbers: Range<u64>,
    began: u64,
    /// It overlaps another change, and at least one of the two is no write: the contents of blocks that both
    /// change are unknown.
    met: bool,
}

/// The number of a change in flight; 0: no change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Change(u64);

/// Ranges of blocks that do not overlap, each with a number.
#[derive(Default)]
struct Ranges(BTreeMap<u64, (u64, u64)>);

impl Ranges {
    /// The number of the range that contains a block.
    fn get(&self, block: u64) -> Option<u64> {
        let (_, &(end, number)) = self.0.range(..=block).next_back()?;
        (block < end).then_some(number)
    }

    /// Removes blocks.
    fn cut(&mut self, blocks: &Range<u64>) {
        while let Some((&start, &(end, number))) = self.0.range(..blocks.end).next_back()
            && end > blocks.start
        {
            self.0.remove(&start);
            if end > blocks.end {
                self.0.insert(blocks.end, (end, number));
            }
            if start < blocks.start {
                self.0.insert(start, (blocks.start, number));
                break;
            }
        }
    }

    /// Adds blocks. Ranges that touch them are merged with them and get the larger number.
    fn add(&mut self, blocks: &Range<u64>, number: u64) {
        if blocks.is_empty() {
            return;
        }
        self.cut(blocks);
        let (mut start, mut end, mut number) = (blocks.start, blocks.end, number);
        if let Some((&before, &(upto, other))) = self.0.range(..start).next_back()
            && upto == start
        {
            self.0.remove(&before);
            (start, number) = (before, number.max(other));
        }
        if let Some((upto, other)) = self.0.remove(&end) {
            (end, number) = (upto, number.max(other));
        }
        self.0.insert(start, (end, number));
    }
}

/// The state that all lanes share.
pub(super) struct Known {
    /// Checksum of a block of zeroes.
    zero: u32,
    blocks: HashMap<u64, Block>,
    /// Blocks that are zero unless they are in `blocks`, with the moment at which they became zero.
    zeroed: Ranges,
    writes: HashMap<u64, Running>,
    sweeps: HashMap<u64, Running>,
    /// Counts begins and ends of changes.
    moment: u64,
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

/// Marks the changes that overlap a range as having met another one. Returns whether there are any.
fn meet(running: &mut HashMap<u64, Running>, numbers: &Range<u64>) -> bool {
    let mut any = false;
    for other in running.values_mut().filter(|other| overlap(&other.numbers, numbers)) {
        (other.met, any) = (true, true);
    }
    any
}

impl Known {
    /// Knows nothing but the checksum of a block of zeroes.
    pub(super) fn new(zero: u32) -> Known {
        Known {
            zero,
            blocks: HashMap::new(),
            zeroed: Ranges::default(),
            writes: HashMap::new(),
            sweeps: HashMap::new(),
            moment: 0,
        }
    }

    pub(super) fn tick(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    /// A write of blocks begins.
    pub(super) fn begin_write(&mut self, numbers: Range<u64>) -> Change {
        let now = self.tick();
        for number in numbers.clone() {
            let block = self.blocks.entry(number).or_default();
            block.writers += 1;
            block.raced |= block.writers > 1;
            block.changed = now;
        }
        let met = self.sweeps.values().any(|sweep| overlap(&sweep.numbers, &numbers));
        self.writes.insert(now, Running { numbers, began: now, met });
        Change(now)
    }

    /// A write of blocks has ended. `crcs` are their checksums now, if these are known.
    pub(super) fn end_write(
        &mut self,
        change: Change,
        numbers: Range<u64>,
        crc: impl Fn(usize) -> Option<u32>,
    ) {
        let met = self.writes.remove(&change.0).is_none_or(|write| write.met);
        let now = self.tick();
        for (at, number) in numbers.enumerate() {
            let block = self.blocks.entry(number).or_default();
            block.crc = if block.raced || met { None } else { crc(at) };
            block.writers = block.writers.saturating_sub(1);
            block.raced &= block.writers > 0;
            block.changed = now;
        }
    }

    /// A discard or write-zeroes begins.
    pub(super) fn begin_sweep(&mut self, numbers: Range<u64>) -> Change {
        let now = self.tick();
        meet(&mut self.writes, &numbers);
        let met = meet(&mut self.sweeps, &numbers);
        self.sweeps.insert(now, Running { numbers, began: now, met });
        Change(now)
    }

    /// A discard or write-zeroes has ended; `zeroes`: its blocks are zero now.
    pub(super) fn end_sweep(&mut self, change: Change, zeroes: bool) {
        let Some(Running { numbers, began, met }) = self.sweeps.remove(&change.0) else { return };
        let now = self.tick();
        // The contents of blocks that were written meanwhile stay unknown.
        let stays = |block: &Block| block.writers > 0 || block.changed >= began;
        if numbers.end - numbers.start < self.blocks.len() as u64 {
            for number in numbers.clone() {
                if self.blocks.get(&number).is_some_and(|block| !stays(block)) {
                    self.blocks.remove(&number);
                }
            }
        } else {
            self.blocks.retain(|number, block| !numbers.contains(number) || stays(block));
        }
        self.zeroed.cut(&numbers);
        if zeroes && !met {
            self.zeroed.add(&numbers, now);
        }
    }

    /// Whether a block read from moment `began` on cannot have this checksum.
    pub(super) fn differs(&self, number: u64, crc: u32, began: u64) -> bool {
        let (known, changed) = match (self.blocks.get(&number), self.zeroed.get(number)) {
            (Some(block), _) if block.writers > 0 => return false,
            (Some(block), _) => (block.crc, block.changed),
            (None, Some(changed)) => (Some(self.zero), changed),
            (None, None) => return false,
        };
        known.is_some_and(|known| known != crc)
            && changed < began
            && !self.sweeps.values().any(|sweep| sweep.numbers.contains(&number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HUGE: Range<u64> = 0..1 << 40;

    fn sweep(known: &mut Known, numbers: Range<u64>, zeroes: bool) {
        let change = known.begin_sweep(numbers);
        known.end_sweep(change, zeroes);
    }

    fn write(known: &mut Known, numbers: Range<u64>, crc: u32) {
        let change = known.begin_write(numbers.clone());
        known.end_write(change, numbers, |_| Some(crc));
    }

    /// Whether a read of a block now must return a checksum, and `crc` is a different one.
    fn wrong(known: &mut Known, number: u64, crc: u32) -> bool {
        let now = known.tick();
        known.differs(number, crc, now)
    }

    #[test]
    fn a_discard_of_any_size_takes_no_memory() {
        let mut known = Known::new(7);
        write(&mut known, 100..110, 1);
        assert!(wrong(&mut known, 100, 2) && !wrong(&mut known, 100, 1));
        sweep(&mut known, HUGE, false);
        assert!(!wrong(&mut known, 100, 2));
        assert_eq!((known.blocks.len(), known.zeroed.0.len()), (0, 0));
        sweep(&mut known, HUGE, true);
        assert!(wrong(&mut known, 1 << 39, 1) && !wrong(&mut known, 1 << 39, 7));
        (0..1000).for_each(|at| sweep(&mut known, at * 1000..at * 1000 + 1000, true));
        assert_eq!((known.blocks.len(), known.zeroed.0.len()), (0, 1));
        write(&mut known, 5..6, 3);
        assert!(wrong(&mut known, 5, 7) && !wrong(&mut known, 5, 3) && wrong(&mut known, 6, 3));
        sweep(&mut known, 10..1 << 39, false);
        assert!(!wrong(&mut known, 11, 3) && wrong(&mut known, 9, 3) && wrong(&mut known, 1 << 39, 3));
        let running = known.begin_sweep(0..8);
        assert!(!wrong(&mut known, 5, 7) && wrong(&mut known, 9, 3));
        known.end_sweep(running, false);
        assert!(!wrong(&mut known, 5, 7) && wrong(&mut known, 9, 3));
    }

    /// After two overlapping changes the contents of the blocks of both are unknown, in whatever order they
    /// begin and end.
    #[test]
    fn changes_that_meet_leave_blocks_unknown() {
        for order in 0..6 {
            let mut known = Known::new(7);
            // The first of each pair begins before the second, and they overlap in time.
            let (mut write, zeroes) = match order % 3 {
                0 => {
                    let write = known.begin_write(0..8);
                    (Some(write), known.begin_sweep(4..12))
                }
                1 => {
                    let zeroes = known.begin_sweep(4..12);
                    (Some(known.begin_write(0..8)), zeroes)
                }
                _ => {
                    let zeroes = known.begin_sweep(4..12);
                    sweep(&mut known, 0..8, true);
                    (None, zeroes)
                }
            };
            let mut end_write = |known: &mut Known| {
                write.take().into_iter().for_each(|write| known.end_write(write, 0..8, |_| Some(1)));
            };
            if order < 3 {
                end_write(&mut known);
            }
            known.end_sweep(zeroes, true);
            end_write(&mut known);
            for number in 4..8 {
                assert!((0..9).all(|crc| !wrong(&mut known, number, crc)), "{order}: {number}");
            }
        }
    }

    #[test]
    fn a_read_that_began_before_the_end_of_a_change_is_not_judged() {
        let mut known = Known::new(7);
        let before = known.tick();
        sweep(&mut known, 0..8, true);
        assert!(!known.differs(3, 1, before) && wrong(&mut known, 3, 1));
        let before = known.tick();
        write(&mut known, 3..4, 2);
        assert!(!known.differs(3, 1, before) && wrong(&mut known, 3, 1));
    }

    #[test]
    fn ranges_are_cut_and_joined() {
        let mut ranges = Ranges::default();
        let list = |ranges: &Ranges| ranges.0.iter().map(|(&a, &(b, n))| (a, b, n)).collect::<Vec<_>>();
        ranges.add(&(10..20), 1);
        ranges.add(&(30..40), 2);
        assert_eq!(
            (ranges.get(9), ranges.get(10), ranges.get(19), ranges.get(20)),
            (None, Some(1), Some(1), None)
        );
        ranges.add(&(20..30), 5);
        assert_eq!(list(&ranges), [(10, 40, 5)]);
        ranges.cut(&(15..18));
        assert_eq!(list(&ranges), [(10, 15, 5), (18, 40, 5)]);
        ranges.cut(&(12..20));
        ranges.cut(&(0..5));
        assert_eq!(list(&ranges), [(10, 12, 5), (20, 40, 5)]);
        ranges.cut(&(0..100));
        ranges.add(&(3..3), 1);
        assert_eq!(list(&ranges), []);
    }
}
