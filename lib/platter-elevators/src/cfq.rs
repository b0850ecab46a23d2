//! Shared parts of the three forms of CFQ: records of processes, the requests of each, and the choice of the
//! nearest request.

mod nearest;
mod processes;
mod requests;
#[cfg(test)]
pub(super) mod vectors;

pub(super) use nearest::Nearest;
pub(super) use processes::Processes;
pub(super) use requests::{Entry, Gone, Requests};

use platter_block::bio::Context;
use platter_block::params::{Param, Unit};

/// Largest value of most parameters.
pub(super) const MAX: i64 = i32::MAX as i64;

/// Largest time that parameters may have, in milliseconds.
pub(super) const MAX_MS: i64 = 1_000_000;

/// A parameter with a time in milliseconds.
pub(super) const fn millis(name: &'static str, default: i64, help: &'static str) -> Param {
    Param::number(name, Unit::Millis, default, (0, MAX_MS), help)
}

/// A parameter with a number of requests, at least `min`.
pub(super) const fn requests(name: &'static str, default: i64, min: i64, help: &'static str) -> Param {
    Param::number(name, Unit::Requests, default, (min, MAX), help)
}

/// Whether a context stands for a whole process rather than one of its threads.
pub(super) fn is_whole_process(context: Context) -> bool {
    context == context.thread(0)
}

/// The two parameters of [`Nearest`], for elevators that have them.
pub(super) const BACK_SEEK: [Param; 2] = [
    Param::number(
        "back_seek_max",
        Unit::Count,
        16384,
        (0, MAX),
        "KiB behind the last position within which going back is considered",
    ),
    Param::number(
        "back_seek_penalty",
        Unit::Count,
        2,
        (1, MAX),
        "factor by which distance behind the last position counts more than distance ahead",
    ),
];

#[cfg(test)]
mod tests {
    use super::vectors::parse;
    use crate::by_name;
    use platter_block::bio::Context;
    use platter_block::elevator::{RequestId, RequestInfo};
    use platter_block::time::Time;

    /// More processes at once than there can be records.
    #[test]
    fn any_number_of_processes_is_served() {
        const PROCESSES: u32 = 70_000;
        for name in ["cfq-v1", "cfq-v2", "cfq"] {
            let mut elevator = (by_name(name).expect("a row").make)();
            elevator.reserve(PROCESSES as usize);
            let info = |process| RequestInfo { context: Context::new(process), ..parse("0R8") };
            for index in 0..PROCESSES {
                elevator.insert(Time(0), RequestId { index, generation: 1 }, &info(index));
            }
            for left in (0..PROCESSES as usize).rev() {
                let id = elevator.dispatch(Time(0), true).expect("a request");
                elevator.completed(Time(0), id, &info(id.index));
                elevator.exited(Time(0), Context::new(id.index).thread(1));
                assert_eq!(elevator.len(), left);
            }
            assert_eq!(elevator.dispatch(Time(0), true), None);
        }
    }
}
