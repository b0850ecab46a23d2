//! The options of one job of the general workload, with fio's names and meanings.

mod check;
mod error;

use core::time::Duration;

use platter_block::bio::{Class, Context, IoPrio};
use serde::Serialize;

use super::Rw;
use crate::report::json::{by_name, ns};

pub use error::JobError;

/// The default seed, so that runs are reproducible (fio's `randrepeat=1`).
pub const DEFAULT_SEED: u64 = 1;

/// Distribution of the start times of an open loop: fio's `rate_process`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum RateProcess {
    /// At equal distances.
    #[default]
    Linear,
    /// At exponentially distributed distances.
    Poisson,
}

impl RateProcess {
    /// fio's name: `linear` or `poisson`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Poisson => "poisson",
        }
    }
}

by_name!(Rw, RateProcess);

/// What a job does. The fields have fio's names; a field says so where Platter's default is another.
///
/// ```
/// use platter_bench::workload::{DeviceFacts, JobOptions, Rw};
/// let disk = DeviceFacts { size: 1 << 30, logical_block: 512, writable: false, simulated: false };
/// let job = JobOptions { rw: Rw::RandRead, iodepth: 32, ..JobOptions::default() };
/// assert!(job.check(&disk).is_ok());
/// let job = JobOptions { bs: 1000, ..job };
/// assert_eq!(
///     job.check(&disk).unwrap_err().to_string(),
///     "bs=1000 is not allowed: a multiple of the logical block of the device (512); try 1K"
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JobOptions {
    /// Direction and order. Default `read`.
    pub rw: Rw,
    /// Percentage of reads in a mixed workload, 0 to 100. Default 50.
    #[serde(rename = "rwmixread_pct")]
    pub rwmixread: u32,
    /// Bytes per I/O. Default 4096.
    #[serde(rename = "bs_bytes")]
    pub bs: u64,
    /// I/Os that each job keeps in flight. Default 1.
    pub iodepth: u32,
    /// Jobs that run side by side, each with its own thread and channel. Default 1.
    pub numjobs: u32,
    /// Offset of the first byte of the workload's range. Default 0.
    #[serde(rename = "offset_bytes")]
    pub offset: u64,
    /// Bytes of the range from `offset` on, which is also what each job transfers unless another option ends it.
    /// `None`: all up to the end of the device.
    #[serde(rename = "size_bytes")]
    pub size: Option<u64>,
    /// Ends the job after this long, not counting `ramp_time`.
    #[serde(rename = "runtime_ns", serialize_with = "ns")]
    pub runtime: Option<Duration>,
    /// Continues until `runtime` is over, even when `size` has been transferred.
    pub time_based: bool,
    /// How long the job runs before anything is measured.
    #[serde(rename = "ramp_time_ns", serialize_with = "ns")]
    pub ramp_time: Duration,
    /// Ends each job after this many I/Os.
    pub number_ios: Option<u64>,
    /// Open loop: starts this many I/Os per second and job, and counts latency from the intended start.
    pub rate_iops: Option<u64>,
    /// Distribution of the start times of the open loop.
    pub rate_process: RateProcess,
    /// Writes blocks that can be recognised and reads them back (a read job checks the blocks of an earlier
    /// job with the same `seed`).
    pub verify: bool,
    /// Bytes from one verification header to the next. `None`: `bs`.
    #[serde(rename = "verify_interval_bytes")]
    pub verify_interval: Option<u32>,
    /// fio's `randseed`. `None`: [`DEFAULT_SEED`], or chance if `randrepeat` is off.
    #[serde(skip)]
    pub seed: Option<u64>,
    /// Whether a run without `seed` repeats the offsets of the last one. Default true.
    #[serde(skip)]
    pub randrepeat: bool,
    /// Whether random offsets may repeat before all others have been used. Default false.
    pub norandommap: bool,
    /// fio's number of the I/O priority class: 0 none, 1 real-time, 2 best effort, 3 idle.
    pub prioclass: Option<u32>,
    /// Level within the class, 0 (first) to 7 (last).
    pub prio: Option<u32>,
    /// Processes to which the jobs belong, as elevators see them: job number i uses entry i modulo their
    /// number. Empty (default): each job is a separate process with number i + 1.
    pub contexts: Vec<u32>,
    /// Reads no clock per I/O: no latencies, only throughput.
    pub gtod_reduce: bool,
    /// Direct I/O. Default true (fio: false), because the page cache is not to be measured.
    pub direct: bool,
    /// How long a job pauses after each [`thinktime_blocks`](Self::thinktime_blocks) I/Os, once all of them have completed.
    #[serde(rename = "thinktime_ns", serialize_with = "ns")]
    pub thinktime: Duration,
    /// I/Os between two pauses, whatever `iodepth` is. Default 1.
    pub thinktime_blocks: u32,
}

impl Default for JobOptions {
    fn default() -> Self {
        Self {
            rw: Rw::Read,
            rwmixread: 50,
            bs: 4096,
            iodepth: 1,
            numjobs: 1,
            offset: 0,
            size: None,
            runtime: None,
            time_based: false,
            ramp_time: Duration::ZERO,
            number_ios: None,
            rate_iops: None,
            rate_process: RateProcess::Linear,
            verify: false,
            verify_interval: None,
            seed: None,
            randrepeat: true,
            norandommap: false,
            prioclass: None,
            prio: None,
            contexts: Vec::new(),
            gtod_reduce: false,
            direct: true,
            thinktime: Duration::ZERO,
            thinktime_blocks: 1,
        }
    }
}

/// The properties of a device against which a job is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceFacts {
    /// Bytes.
    pub size: u64,
    /// Bytes per logical block: the unit of every direct transfer.
    pub logical_block: u64,
    /// Whether it was opened for writing.
    pub writable: bool,
    /// Whether it is simulated: its jobs are not threads.
    pub simulated: bool,
}

impl JobOptions {
    /// The seed of this run. `chance` is an unpredictable number; it is used only when the run is not
    /// to repeat.
    pub fn effective_seed(&self, chance: u64) -> u64 {
        self.seed.unwrap_or(if self.randrepeat { DEFAULT_SEED } else { chance })
    }

    /// How many I/Os each job makes if time does not end it, over a region of `blocks` blocks; `None` when only
    /// time does.
    pub fn ios_per_job(&self, blocks: u64) -> Option<u64> {
        match (self.number_ios, self.time_based) {
            (Some(ios), true) => Some(ios),
            (Some(ios), false) => Some(ios.min(blocks)),
            (None, true) => None,
            (None, false) => Some(blocks),
        }
    }

    /// The priority that every I/O of the job carries. As with fio, the level is 0 when only a class is given.
    /// A class that [`check`](Self::check) refuses counts as none.
    pub fn ioprio(&self) -> IoPrio {
        match self.prioclass.and_then(class) {
            None | Some(Class::None) => IoPrio::NONE,
            Some(class) => IoPrio::new(class, self.prio.unwrap_or(0).min(7) as u8),
        }
    }
}

impl JobOptions {
    /// The context of job number `index`.
    pub fn context(&self, index: u32) -> Context {
        let own = index.wrapping_add(1);
        let place = (index as usize).checked_rem(self.contexts.len());
        Context::new(place.and_then(|place| self.contexts.get(place)).copied().unwrap_or(own))
    }
}

/// The priority class of fio's number.
fn class(number: u32) -> Option<Class> {
    [Class::None, Class::RealTime, Class::BestEffort, Class::Idle].into_iter().find(|&c| c as u32 == number)
}

#[cfg(test)]
mod tests;
