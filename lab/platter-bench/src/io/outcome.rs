//! The result of one job, or of a simulation of all of them.

use platter_block::fault::Error as DeviceError;
use platter_block::time::Time;

use super::tally::Tally;
use super::usage::Usage;

/// The result of a job.
pub(super) struct Outcome {
    pub(super) tally: Tally,
    /// I/Os of the ramp time.
    pub(super) ramp_ios: u64,
    /// I/Os of an open loop that were due before the end, and were not started.
    pub(super) missed: u64,
    /// When measuring began and ended.
    pub(super) begin: Time,
    pub(super) end: Time,
    /// Resources that the whole process had used at these two times.
    pub(super) used: [Usage; 2],
    pub(super) failure: Option<DeviceError>,
    pub(super) mismatch: Option<String>,
    pub(super) cancelled: bool,
}
