//! A copy that continues past unreadable ranges: large reads first, then smaller ones where those failed,
//! then single blocks. The remaining ranges are in the map, and a later run tries only those.

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
    let pass = |from, block, status, skips| (from, block, Bad { status, skips });
    let mut passes = vec![
        pass(Status::Untried, copy.bs.bytes, Status::Failed, true),
        // The ranges that the first pass skipped.
        pass(Status::Untried, copy.bs.bytes, Status::Failed, false),
        pass(Status::Failed, small, Status::Small, false),
        pass(Status::Small, plan.unit, Status::Bad, false),
    ];
    passes.extend((0..copy.retries).map(|_| pass(Status::Bad, plan.unit, Status::Bad, false)));
    for (from, block, bad) in passes {
        let ranges = whole(&work.map.ranges(from), plan);
        if !ranges.is_empty() {
            Transfer::new(plan, ends, work, ranges, block, Some(bad)).run(stop, meter)?;
            work.flush(ends, stop, meter)?;
        }
    }
    Ok(())
}

/// Non-overlapping ranges that begin and end at blocks; an incomplete block at the end of the source is
/// copied separately.
fn whole(ranges: &[(u64, u64)], plan: &Plan) -> Vec<(u64, u64)> {
    let mut all: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
    for &(start, end) in ranges {
        let end = end.next_multiple_of(plan.unit).min(plan.whole());
        let start = (start / plan.unit * plan.unit).max(all.last().map_or(0, |last| last.1));
        if start < end {
            all.push((start, end));
        }
    }
    all
}
