//! Why a workload could not run.

use platter_block::fault::Error as DeviceError;
use platter_disk::pool::BadPool;

use crate::load::Stuck;
use crate::workload::JobError;

/// Why a workload could not run at all. An I/O that fails once it runs is counted in the report instead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IoError {
    /// An option that does not fit the others or the device.
    #[error(transparent)]
    Job(#[from] JobError),
    /// No device was given.
    #[error("no device was given to run the workload on; name at least one")]
    NoDevice,
    /// A device gave no channel.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The buffers could not be had.
    #[error("{0}; lower bs or iodepth")]
    Buffers(#[from] BadPool),
    /// The system gave no thread for a job.
    #[error("no thread for job {job}: {source}; lower numjobs")]
    Thread {
        /// Number of the job, from 0.
        job: u32,
        /// The error of the system.
        source: std::io::Error,
    },
    /// Real and simulated devices, or simulated ones of different worlds, in one run.
    #[error(
        "the devices have different clocks: run real devices and simulated ones apart, and simulated ones in \
         one world"
    )]
    Clocks,
    /// Simulated devices that will never complete their I/Os.
    #[error(transparent)]
    Stuck(#[from] Stuck),
    /// A job's thread panicked: a mistake in this program.
    #[error("job {job} ended in a panic; this is a mistake in the program")]
    Panicked {
        /// Number of the job, from 0.
        job: u32,
    },
}
