//! Why a workload could not run.

use core::fmt;

use platter_block::fault::Error as DeviceError;
use platter_disk::pool::BadPool;

use crate::workload::JobError;

/// Why a workload could not run at all. An I/O that fails once it runs is counted in the report instead.
#[derive(Debug)]
#[non_exhaustive]
pub enum IoError {
    /// An option that does not fit the others or the device.
    Job(JobError),
    /// No device was given.
    NoDevice,
    /// A device gave no channel.
    Device(DeviceError),
    /// The buffers could not be had.
    Buffers(BadPool),
    /// The system gave no thread for a job.
    Thread {
        /// Number of the job, from 0.
        job: u32,
        /// The error of the system.
        source: std::io::Error,
    },
    /// Real and simulated devices, or simulated ones of different worlds, in one run.
    Clocks,
    /// Simulated devices that will never complete their I/Os.
    Stuck {
        /// I/Os that were waited for.
        ios: usize,
    },
    /// A job's thread panicked: a mistake in this program.
    Panicked {
        /// Number of the job, from 0.
        job: u32,
    },
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job(error) => error.fmt(f),
            Self::NoDevice => f.write_str("no device was given to run the workload on; name at least one"),
            Self::Device(error) => error.fmt(f),
            Self::Buffers(error) => write!(f, "{error}; lower bs or iodepth"),
            Self::Thread { job, source } => write!(f, "no thread for job {job}: {source}; lower numjobs"),
            Self::Clocks => f.write_str(
                "the devices have different clocks: run real devices and simulated ones apart, and simulated \
                 ones in one world",
            ),
            Self::Stuck { ios } => write!(
                f,
                "{ios} I/Os are out and no device will ever complete them; give the device a timeout (timeout=30s)"
            ),
            Self::Panicked { job } => {
                write!(f, "job {job} ended in a panic; this is a mistake in the program")
            }
        }
    }
}

impl core::error::Error for IoError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Job(error) => Some(error),
            Self::Device(error) => Some(error),
            Self::Buffers(error) => Some(error),
            Self::Thread { source, .. } => Some(source),
            Self::NoDevice | Self::Clocks | Self::Stuck { .. } | Self::Panicked { .. } => None,
        }
    }
}

impl From<JobError> for IoError {
    fn from(error: JobError) -> Self {
        Self::Job(error)
    }
}

impl From<DeviceError> for IoError {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

impl From<BadPool> for IoError {
    fn from(error: BadPool) -> Self {
        Self::Buffers(error)
    }
}
