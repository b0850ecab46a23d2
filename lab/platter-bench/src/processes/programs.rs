//! Programs that touch many files, and databases.

use super::files::{ReadPlan, read_file};
use super::place::{File, Tree, TreeFile};
use super::step::{Step, Steps};
use crate::stats::Seeded;
use platter_block::bio::Op;
use platter_block::time::Span;
use std::collections::BTreeSet;

/// Bytes of a block of a directory or of inodes.
const BLOCK: u64 = 4096;

/// Directories and inodes that were read: they stay in memory.
#[derive(Default)]
struct Known(BTreeSet<u64>);

impl Known {
    /// The steps of opening a file and reading all of it: its directory, its inode, its contents.
    fn read(&mut self, file: TreeFile, plan: ReadPlan) -> Vec<Step> {
        let mut steps = Vec::new();
        for offset in [file.directory, file.inode] {
            if self.0.insert(offset) {
                steps.extend([Step::Start { op: Op::Read, offset, len: BLOCK, slot: 7 }, Step::Await(7)]);
            }
        }
        steps.extend(read_file(file.data, plan));
        steps
    }
}

/// Reads all files of a tree, one after the other, as `find | xargs cat` does; each read of a directory, an inode
/// and a file's first window depends on the one before it.
pub fn read_tree(tree: Tree, plan: ReadPlan) -> Steps {
    let mut known = Known::default();
    Box::new(tree.files.into_iter().flat_map(move |file| known.read(file, plan)))
}

/// Reads two trees file by file in turns, as `diff -r` does.
pub fn compare_trees(first: Tree, second: Tree, plan: ReadPlan) -> Steps {
    let mut known = Known::default();
    let pairs = first.files.into_iter().zip(second.files);
    Box::new(pairs.flat_map(move |(first, second)| {
        let mut steps = known.read(first, plan);
        steps.extend(known.read(second, plan));
        steps
    }))
}

/// Copies a tree to the places of another through the page cache; ends with a sync.
pub fn copy_tree(from: Tree, to: Tree, plan: ReadPlan) -> Steps {
    let mut known = Known::default();
    let mut made = BTreeSet::new();
    let pairs = from.files.into_iter().zip(to.files);
    let steps = pairs.flat_map(move |(from, to)| {
        let mut steps = known.read(from, plan);
        for offset in [to.directory, to.inode] {
            if made.insert(offset) {
                steps.push(Step::Dirty { offset, len: BLOCK });
            }
        }
        let len = from.data.len.min(to.data.len);
        steps.push(Step::Dirty { offset: to.data.offset, len });
        steps
    });
    Box::new(steps.chain([Step::Sync]))
}

/// The I/Os of a database client in each transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transactions {
    /// The tables.
    pub data: File,
    /// The log, which this client appends to and begins again at its end.
    pub log: File,
    /// Random reads of a page of 8 KiB, each waited for.
    pub reads: u32,
    /// Random writes of a page, for which the process does not wait before the next transaction ends.
    pub writes: u32,
    /// Time between two transactions.
    pub think: Span,
    /// Number of transactions; `None`: for ever.
    pub count: Option<u64>,
}

/// Bytes of a page of a database.
const PAGE: u64 = 8 << 10;

/// Runs transactions: reads, writes, then a write of 8 KiB to the log and a flush.
pub fn transactions(plan: Transactions, seed: u64) -> Steps {
    let mut rng = Seeded::new(seed);
    let (pages, entries) = (plan.data.len / PAGE, (plan.log.len / PAGE).max(1));
    let steps = (0..plan.count.unwrap_or(u64::MAX)).flat_map(move |number| {
        let mut steps = Vec::new();
        let mut page = || plan.data.offset + rng.below(pages) * PAGE;
        for _ in 0..plan.reads {
            let read = Step::Start { op: Op::Read, offset: page(), len: PAGE, slot: 0 };
            steps.extend([read, Step::Await(0)]);
        }
        steps.push(Step::Await(1));
        for _ in 0..plan.writes {
            steps.push(Step::Start { op: Op::Write, offset: page(), len: PAGE, slot: 1 });
        }
        let offset = plan.log.offset + number % entries * PAGE;
        steps.extend([Step::Start { op: Op::Write, offset, len: PAGE, slot: 2 }, Step::Await(2)]);
        steps.extend([Step::Start { op: Op::Flush, offset: 0, len: 0, slot: 2 }, Step::Await(2)]);
        steps.push(Step::Think(plan.think));
        steps
    });
    Box::new(steps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processes::Placement;

    fn reads(steps: Steps) -> Vec<u64> {
        let offset = |step| match step {
            Step::Start { op: Op::Read, offset, .. } => Some(offset),
            _ => None,
        };
        steps.filter_map(offset).collect()
    }

    #[test]
    fn directories_and_inodes_are_read_once() {
        let tree = Placement::new(1 << 40).tree(64, 32, 1).unwrap();
        let read = reads(read_tree(tree.clone(), ReadPlan::buffered(128 << 10)));
        let blocks: BTreeSet<u64> = tree.files.iter().flat_map(|f| [f.directory, f.inode]).collect();
        assert_eq!(blocks.len(), 4);
        assert_eq!(read.len(), 64 + 4);
        assert_eq!(read[..3], [tree.files[0].directory, tree.files[0].inode, tree.files[0].data.offset]);
    }

    #[test]
    fn comparing_goes_to_and_fro_and_copying_ends_with_a_sync() {
        let mut place = Placement::new(1 << 40);
        let (a, b) = (place.tree(3, 3, 1).unwrap(), place.tree(3, 3, 2).unwrap());
        let read = reads(compare_trees(a.clone(), b.clone(), ReadPlan::buffered(64 << 10)));
        let expected: Vec<u64> =
            [0, 1, 2].into_iter().flat_map(|i| [a.files[i], b.files[i]]).map(|f| f.data.offset).collect();
        let data: Vec<u64> = read.into_iter().filter(|at| expected.contains(at)).collect();
        assert_eq!(data, expected);
        let steps: Vec<Step> = copy_tree(a, b.clone(), ReadPlan::buffered(64 << 10)).collect();
        assert_eq!(steps.last(), Some(&Step::Sync));
        assert!(
            steps
                .iter()
                .any(|s| matches!(s, Step::Dirty { offset, .. } if *offset == b.files[2].data.offset))
        );
    }

    #[test]
    fn transactions_end_in_the_log() {
        let file = |offset| File { offset, len: 1 << 20 };
        let plan = Transactions {
            data: file(1 << 20),
            log: file(0),
            reads: 2,
            writes: 1,
            think: Span(9),
            count: Some(3),
        };
        let steps: Vec<Step> = transactions(plan, 5).collect();
        assert_eq!(steps.len(), 3 * 11);
        assert_eq!(steps[6], Step::Start { op: Op::Write, offset: 0, len: PAGE, slot: 2 });
        assert_eq!(steps[11 + 6], Step::Start { op: Op::Write, offset: PAGE, len: PAGE, slot: 2 });
    }
}
