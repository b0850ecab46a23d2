//! The parameters, and their values in the kernels.

use super::Rule;
use platter_block::params::{Param, Unit};

/// Rows of [`PARAMS`].
pub(super) const KERNEL: usize = 0;
pub(super) const RULE: usize = 1;
pub(super) const READ_EXPIRE: usize = 2;
pub(super) const WRITE_EXPIRE: usize = 3;
pub(super) const READ_BATCH_EXPIRE: usize = 4;
pub(super) const WRITE_BATCH_EXPIRE: usize = 5;
pub(super) const ANTIC_EXPIRE: usize = 6;
pub(super) const STALE_WRITE_BATCH: usize = 7;

/// By direction.
pub(super) const FIFO_EXPIRE: [usize; 2] = [READ_EXPIRE, WRITE_EXPIRE];
pub(super) const BATCH_EXPIRE: [usize; 2] = [READ_BATCH_EXPIRE, WRITE_BATCH_EXPIRE];

/// The kernels' values of the rows from `RULE` to `ANTIC_EXPIRE`.
pub(super) const PRESETS: [[i64; 6]; 4] = [
    [Rule::V2_6_0 as i64, 50, 200, 200, 50, 6],
    [Rule::V2_6_2 as i64, 125, 250, 250, 62, 6],
    [Rule::V2_6_2 as i64, 125, 250, 500, 125, 6],
    [Rule::V2_6_16 as i64, 125, 250, 500, 125, 6],
];

/// Index of the last preset.
const DEFAULT: usize = 3;

const fn millis(name: &'static str, row: usize, help: &'static str) -> Param {
    Param::number(name, Unit::Millis, PRESETS[DEFAULT][row - RULE], (0, i32::MAX as i64), help)
}

pub(super) static PARAMS: [Param; 8] = {
    let mut all = [Param::number("", Unit::Count, 0, (0, 0), ""); 8];
    all[KERNEL] = Param::word(
        "kernel",
        &["2.6.0", "2.6.2", "2.6.7", "2.6.16"],
        DEFAULT,
        "sets the rule and all times to a kernel's values",
    );
    all[RULE] = Param::word(
        "rule",
        &["2.6.0", "2.6.2", "2.6.16"],
        Rule::V2_6_16 as usize,
        "what ends or forbids a wait for a process, and how close another request must be to go first",
    );
    all[READ_EXPIRE] = millis(
        "read_expire",
        READ_EXPIRE,
        "a read (or synchronous write) that waited longer may go first, once in this time",
    );
    all[WRITE_EXPIRE] =
        millis("write_expire", WRITE_EXPIRE, "a write that waited longer may go first, once in this time");
    all[READ_BATCH_EXPIRE] =
        millis("read_batch_expire", READ_BATCH_EXPIRE, "time of a batch of reads while writes wait");
    all[WRITE_BATCH_EXPIRE] = millis(
        "write_batch_expire",
        WRITE_BATCH_EXPIRE,
        "time of a batch of writes while reads wait; its number of requests is tuned to this",
    );
    all[ANTIC_EXPIRE] =
        millis("antic_expire", ANTIC_EXPIRE, "longest wait for the next read of a process; 0: never wait");
    all[STALE_WRITE_BATCH] = Param::number(
        "stale_write_batch",
        Unit::Switch,
        0,
        (0, 1),
        "as in the kernels, a batch of writes that had to wait for the driver gets no time of its own",
    );
    all
};
