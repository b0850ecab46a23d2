//! Operations on a large file.

use super::place::File;
use super::step::{Step, Steps};
use crate::stats::Seeded;
use platter_block::bio::Op;
use platter_block::time::Span;

/// How a file is read from its start to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadPlan {
    /// Size of each read in bytes.
    pub request: u64,
    /// Readahead: bytes that the page cache reads at once, and how far it is ahead; 0: direct I/O.
    pub window: u64,
    /// Time that the process takes for each read's bytes.
    pub think: Span,
    /// Once the file is read, it is read again, for ever.
    pub again: bool,
}

impl ReadPlan {
    /// 4 KiB reads through the page cache, 10 us for each, with a window of readahead.
    pub fn buffered(window: u64) -> ReadPlan {
        ReadPlan { request: 4096, window, think: Span::from_micros(10), again: false }
    }

    /// Direct reads, one after the other without a pause.
    pub fn direct(request: u64) -> ReadPlan {
        ReadPlan { request, window: 0, think: Span::ZERO, again: false }
    }

    /// The same for ever.
    pub fn endless(self) -> ReadPlan {
        ReadPlan { again: true, ..self }
    }
}

/// Slots of windows, in turn.
const WINDOWS: u64 = 2;

/// Reads a file.
///
/// With readahead the file is divided into windows. When the first page of a window has arrived, the next
/// window is requested, as in 2.4 and 2.6; then the process spends its time on this one.
pub fn read_file(file: File, plan: ReadPlan) -> Steps {
    let size = if plan.window == 0 { plan.request } else { plan.window };
    let windows = file.len.div_ceil(size.max(1));
    let last = match plan.again {
        _ if windows == 0 => 0,
        true => u64::MAX,
        false => windows,
    };
    let part = move |number: u64| {
        let at = number % windows.max(1) * size;
        (at, size.min(file.len - at))
    };
    let start = move |number: u64| {
        let (at, len) = part(number);
        Step::Start { op: Op::Read, offset: file.offset + at, len, slot: (number % WINDOWS) as u8 }
    };
    let steps = (0..last).flat_map(move |number| {
        let ahead = plan.window > 0;
        let first = (!ahead || number == 0).then(|| start(number));
        let next = (ahead && number + 1 < last).then(|| start(number + 1));
        let reads = part(number).1.div_ceil(plan.request.max(1));
        let think = Some(Step::Think(Span(plan.think.0.saturating_mul(reads))));
        let think = think.filter(|think| *think != Step::Think(Span::ZERO));
        first.into_iter().chain([Step::Await((number % WINDOWS) as u8)]).chain(next).chain(think)
    });
    Box::new(steps)
}

/// How a file is written from its start to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WritePlan {
    /// Bytes of each write.
    pub request: u64,
    /// Through the page cache; else direct, each write waited for.
    pub buffered: bool,
    /// Time that each write takes the process: with the page cache, the time of the copy.
    pub think: Span,
    /// Ends with a sync.
    pub sync: bool,
    /// Once the file is written, it is written again, for ever.
    pub again: bool,
}

impl WritePlan {
    /// 64 KiB writes into the page cache, at 200 MB/s.
    pub fn buffered() -> WritePlan {
        let think = Span::from_micros(328);
        WritePlan { request: 64 << 10, buffered: true, think, sync: false, again: false }
    }

    /// Direct writes, one after the other without a pause.
    pub fn direct(request: u64) -> WritePlan {
        WritePlan { request, buffered: false, think: Span::ZERO, sync: false, again: false }
    }

    /// The same for ever.
    pub fn endless(self) -> WritePlan {
        WritePlan { again: true, ..self }
    }

    /// The same with a sync at the end.
    pub fn synced(self) -> WritePlan {
        WritePlan { sync: true, ..self }
    }
}

/// Writes a file.
pub fn write_file(file: File, plan: WritePlan) -> Steps {
    let request = plan.request.max(1);
    let count = file.len.div_ceil(request);
    let last = if plan.again && count > 0 { u64::MAX } else { count };
    let steps = (0..last).flat_map(move |number| {
        let at = number % count.max(1) * request;
        let (offset, len) = (file.offset + at, request.min(file.len - at));
        let think = Some(Step::Think(plan.think)).filter(|_| plan.think > Span::ZERO);
        let (first, second) = match plan.buffered {
            true => (Step::Dirty { offset, len }, None),
            false => (Step::Start { op: Op::Write, offset, len, slot: 0 }, Some(Step::Await(0))),
        };
        think.into_iter().chain([first]).chain(second)
    });
    Box::new(steps.chain(plan.sync.then_some(Step::Sync)))
}

/// Direct I/Os at random places of a file, one after the other: `count` of them, or for ever.
pub fn random_io(file: File, op: Op, request: u64, think: Span, seed: u64, count: Option<u64>) -> Steps {
    let mut rng = Seeded::new(seed);
    let places = file.len / request.max(1);
    let steps = (0..count.unwrap_or(u64::MAX)).flat_map(move |_| {
        let offset = file.offset + rng.below(places) * request;
        let think = Some(Step::Think(think)).filter(|_| think > Span::ZERO);
        [Step::Start { op, offset, len: request, slot: 0 }, Step::Await(0)].into_iter().chain(think)
    });
    Box::new(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(offset: u64, len: u64, slot: u8) -> Step {
        Step::Start { op: Op::Read, offset, len, slot }
    }

    #[test]
    fn readahead_is_one_window_ahead() {
        let file = File { offset: 1000, len: 20 };
        let plan = ReadPlan { request: 4, window: 8, think: Span(5), again: false };
        let steps: Vec<Step> = read_file(file, plan).collect();
        let expected = [
            read(1000, 8, 0),
            Step::Await(0),
            read(1008, 8, 1),
            Step::Think(Span(10)),
            Step::Await(1),
            read(1016, 4, 0),
            Step::Think(Span(10)),
            Step::Await(0),
            Step::Think(Span(5)),
        ];
        assert_eq!(steps, expected);
        let again: Vec<Step> = read_file(file, plan.endless()).take(12).collect();
        assert_eq!(again[..7], expected[..7]);
        assert_eq!(again[7..9], [Step::Await(0), read(1000, 8, 1)]);
    }

    #[test]
    fn direct_reads_and_writes_wait_for_each() {
        let file = File { offset: 0, len: 10 };
        let steps: Vec<Step> = read_file(file, ReadPlan::direct(8)).collect();
        assert_eq!(steps, [read(0, 8, 0), Step::Await(0), read(8, 2, 1), Step::Await(1)]);
        let steps: Vec<Step> = write_file(file, WritePlan::direct(8).synced()).collect();
        let write = |offset, len| Step::Start { op: Op::Write, offset, len, slot: 0 };
        assert_eq!(steps, [write(0, 8), Step::Await(0), write(8, 2), Step::Await(0), Step::Sync]);
    }

    #[test]
    fn empty_files_have_no_steps() {
        let file = File { offset: 0, len: 0 };
        assert_eq!(read_file(file, ReadPlan::direct(8).endless()).next(), None);
        assert_eq!(write_file(file, WritePlan::buffered().endless()).next(), None);
    }

    #[test]
    fn random_places_are_inside() {
        let file = File { offset: 4096, len: 1 << 20 };
        let steps: Vec<Step> = random_io(file, Op::Read, 4096, Span(1), 3, Some(500)).collect();
        assert_eq!(steps.len(), 1500);
        for step in steps.chunks(3) {
            let Step::Start { offset, len, .. } = step[0] else { panic!("{step:?}") };
            assert!(offset >= 4096 && offset + len <= 4096 + (1 << 20) && offset.is_multiple_of(4096));
        }
    }
}
