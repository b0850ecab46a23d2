//! The parameters, with the kernel's names and units.

use platter_block::params::{Param, Unit};

/// Rows of [`PARAMS`].
pub(super) const FIFO_EXPIRE_SYNC: usize = 0;
pub(super) const FIFO_EXPIRE_ASYNC: usize = 1;
pub(super) const BACK_SEEK_MAX: usize = 2;
pub(super) const BACK_SEEK_PENALTY: usize = 3;
pub(super) const SLICE_IDLE: usize = 4;
pub(super) const MAX_BUDGET: usize = 5;
pub(super) const TIMEOUT_SYNC: usize = 6;
pub(super) const STRICT_GUARANTEES: usize = 7;
pub(super) const LOW_LATENCY: usize = 8;
pub(super) const WR_COEFF: usize = 9;
pub(super) const WR_MAX_TIME: usize = 10;
pub(super) const WR_RT_MAX_TIME: usize = 11;
pub(super) const WR_MIN_IDLE_TIME: usize = 12;
pub(super) const WR_MIN_INTER_ARR_ASYNC: usize = 13;
pub(super) const WR_MAX_SOFTRT_RATE: usize = 14;
pub(super) const ROTATIONAL: usize = 15;
pub(super) const COUNT: usize = 16;

const MAX: i64 = i32::MAX as i64;

const fn millis(name: &'static str, default: i64, help: &'static str) -> Param {
    Param::number(name, Unit::Millis, default, (0, MAX), help)
}

const fn count(name: &'static str, default: i64, range: (i64, i64), help: &'static str) -> Param {
    Param::number(name, Unit::Count, default, range, help)
}

const fn switch(name: &'static str, default: i64, help: &'static str) -> Param {
    Param::number(name, Unit::Switch, default, (0, 1), help)
}

pub(super) static PARAMS: [Param; COUNT] = {
    let mut all = [millis("", 0, ""); COUNT];
    all[FIFO_EXPIRE_SYNC] = millis(
        "fifo_expire_sync",
        125,
        "a synchronous request that waited longer is the second of its queue's service",
    );
    all[FIFO_EXPIRE_ASYNC] = millis(
        "fifo_expire_async",
        250,
        "an asynchronous request that waited longer is the second of its queue's service",
    );
    all[BACK_SEEK_MAX] =
        count("back_seek_max", 16384, (0, MAX), "KiB that the head may go back for a request");
    all[BACK_SEEK_PENALTY] =
        count("back_seek_penalty", 2, (1, MAX), "how much farther back counts than the same way forward");
    all[SLICE_IDLE] =
        millis("slice_idle", 8, "how long to wait for the next request of a process that has none; 0: never");
    all[MAX_BUDGET] = count(
        "max_budget",
        0,
        (0, MAX),
        "most sectors of one service; 0: what the device can do in timeout_sync",
    );
    all[TIMEOUT_SYNC] = Param::number(
        "timeout_sync",
        Unit::Millis,
        125,
        (1, MAX),
        "how long one service of a queue may last",
    );
    all[STRICT_GUARANTEES] =
        switch("strict_guarantees", 0, "one request in the device at a time, and always wait for the next");
    all[LOW_LATENCY] =
        switch("low_latency", 1, "raise the weight of interactive and soft real-time processes");
    all[WR_COEFF] = count(
        "wr_coeff",
        30,
        (1, 1000),
        "factor by which weights are raised; 100 times as much for soft real time",
    );
    all[WR_MAX_TIME] = millis(
        "wr_max_time",
        0,
        "how long an interactive process stays raised; 0: as long as a large program takes to start, 3 to 25 s",
    );
    all[WR_RT_MAX_TIME] = millis("wr_rt_max_time", 300, "how long a soft real-time process stays raised");
    all[WR_MIN_IDLE_TIME] =
        millis("wr_min_idle_time", 2000, "a process that was idle for this long is interactive");
    all[WR_MIN_INTER_ARR_ASYNC] =
        millis("wr_min_inter_arr_async", 500, "asynchronous writes are raised when none has come for longer");
    all[WR_MAX_SOFTRT_RATE] = count(
        "wr_max_softrt_rate",
        7000,
        (0, MAX),
        "most sectors per second of a soft real-time process; 0: no process is one",
    );
    all[ROTATIONAL] = Param::word(
        "rotational",
        &["auto", "yes", "no"],
        0,
        "whether seeks take time (the kernel's `rotational`); auto: measured by lone scattered reads",
    );
    all
};
