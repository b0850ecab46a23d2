//! A copy that continues past unreadable ranges: large reads first, then smaller ones where those failed,
//! then single blocks of the source, one at a time. The remaining ranges are in the map, and a later run tries only those.

use super::args::Copy;
use super::ends::Ends;
use super::map::Status;
use super::meter::Meter;
use super::plan::Plan;
use super::stop::{Stopped, Stopper};
use super::transfer::{Bad, Transfer};
use super::work::Work;

/// Size of the reads of the second pass.
const SMALL: u64 = 64 << 10;

/// Copies the ranges that the map does not mark as copied.
pub(super) fn run(
    copy: &Copy,
    plan: &Plan,
    (ends, work): (&mut Ends, &mut Work),
    stop: &mut Stopper<'_>,
    meter: &mut Meter,
) -> Result<(), Stopped> {
    let small = SMALL.clamp(plan.unit, copy.bs.bytes);
    let pass = |from, block, status, skips| (from, block, Bad { status, skips, alone: false });
    let single = |from| (from, plan.source_unit, Bad { status: Status::Bad, skips: false, alone: true });
    let mut passes = vec![
        pass(Status::Untried, copy.bs.bytes, Status::Failed, true),
        // The ranges that the first pass skipped.
        pass(Status::Untried, copy.bs.bytes, Status::Failed, false),
        pass(Status::Failed, small, Status::Small, false),
        single(Status::Small),
    ];
    passes.extend((0..copy.retries).map(|_| single(Status::Bad)));
    for (from, block, bad) in passes {
        let ranges = whole(&work.map.ranges(from), block.min(plan.unit), plan.whole());
        if !ranges.is_empty() {
            Transfer::new(plan, ends, work, ranges, block, Some(bad)).run(stop, meter)?;
            work.flush(ends, stop, meter)?;
        }
    }
    Ok(())
}

/// Non-overlapping ranges that begin and end at blocks; an incomplete block at the end of the source is
/// copied separately.
fn whole(ranges: &[(u64, u64)], unit: u64, whole: u64) -> Vec<(u64, u64)> {
    let mut all: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
    for &(start, end) in ranges {
        let end = end.next_multiple_of(unit).min(whole);
        let start = (start / unit * unit).max(all.last().map_or(0, |last| last.1));
        if start < end {
            all.push((start, end));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::map::Map;
    use super::*;
    use crate::cli::Context;
    use crate::cli::progress::Progress;
    use clap::{Args, FromArgMatches};
    use platter_block::disk::FnDisk;
    use platter_block::driver::{Completion, Driver, Geometry, Started};
    use platter_block::limits::Limits;
    use platter_block::time::Time;
    use platter_disk::device::Device;
    use platter_disk::disk_backend::DiskSettings;
    use std::ops::Range;

    const SIZE: u64 = 1 << 20;
    const BAD: Range<u64> = 300_032..301_056;

    /// A disk whose kernel merges all reads of a batch: if one of them has a bad sector, all fail.
    #[derive(Default)]
    struct Merging {
        batch: Vec<(u32, u64, u64)>,
        done: Vec<Completion>,
    }

    impl Driver for Merging {
        fn queue(&mut self, _now: Time, request: &Started<'_>) -> bool {
            self.batch.push((request.tag, request.pos, request.len));
            true
        }

        fn submit(&mut self, _now: Time) {
            let is_bad = |(_, pos, len): &(u32, u64, u64)| *pos < BAD.end && pos + len > BAD.start;
            let fails = self.batch.iter().any(is_bad);
            let result = |len: u64| if fails { -i64::from(libc::EIO) } else { len as i64 };
            self.done
                .extend(self.batch.drain(..).map(|(tag, _, len)| Completion { tag, result: result(len) }));
        }

        fn reap(&mut self, _now: Time, done: &mut Vec<Completion>) {
            done.append(&mut self.done);
        }
    }

    #[test]
    fn only_what_cannot_be_read_is_given_up_where_neighbours_fail_together() {
        let geometry = Geometry::new(SIZE, Limits::unlimited(512));
        let disk = FnDisk::new("merging", geometry, |_| Ok(Box::new(Merging::default())));
        let source = Device::from_disk(disk, DiskSettings::default(), None).unwrap();
        for retries in ["0", "1"] {
            let command = Copy::augment_args(clap::Command::new("copy"));
            let args = ["copy", "--rescue", "map", "--retries", retries, "--bs", "128K", "a", "b"];
            let copy = Copy::from_arg_matches(&command.get_matches_from(args)).unwrap();
            let plan = Plan {
                source: source.clone(),
                destination: Device::ram(SIZE).unwrap(),
                size: SIZE,
                start: 0,
                map: None,
                known: Map::new(SIZE),
                unit: 4096,
                source_unit: 512,
                skips_holes: false,
                created: false,
                reads_as_zeroes: false,
                zero_blocks: false,
            };
            let context = Context::quiet();
            let mut work = Work::begin(&plan);
            let mut ends = Ends::open(&plan, 128 << 10, 64).unwrap();
            let mut meter = Meter::new("copied", Progress::new(false));
            run(&copy, &plan, (&mut ends, &mut work), &mut Stopper::new(&context), &mut meter).unwrap();
            assert_eq!(work.map.ranges(Status::Bad), [(BAD.start, BAD.end)]);
            assert_eq!(work.map.bytes(Status::Done), SIZE - (BAD.end - BAD.start));
        }
    }
}
