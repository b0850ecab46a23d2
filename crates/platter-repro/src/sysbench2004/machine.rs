//! The machines of the test: one IDE disk, its queue with an elevator, and a page cache with a readahead policy.

use crate::ReproError;
use crate::disk::{IDE, open_unflushed};
use platter_cache as cache;
use platter_disk::device::Device;
use std::sync::Arc;

/// Kopytov's machine. Its memory is not published; his counters are: 1066 of 5860 windows after a jump were there
/// already, 18 % of 3 GB.
pub(super) const KOPYTOV: u64 = 512 << 20;
/// Piggin's machine, "an IDE disk, 256MB ram", and Morton's, with two processors.
pub(super) const SMALL: u64 = 256 << 20;

/// The properties of a kernel and its machine in the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kernel {
    /// Its readahead policy.
    pub(super) readahead: &'static str,
    /// The kernel whose elevator it is.
    pub(super) preset: &'static str,
    /// Its elevator.
    pub(super) elevator: &'static str,
    /// Bytes of memory.
    pub(super) memory: u64,
    /// Bytes of all files.
    pub(super) files: u64,
    /// The file system has a journal: ext3, not ext2.
    pub(super) journal: bool,
}

impl Kernel {
    /// Bytes for pages of files: the memory that the kernel, programs and their data leave.
    pub(super) fn pages(&self) -> u64 {
        self.memory / 8 * 7
    }
}

/// The disk, and the cache over it.
pub(super) struct Machine {
    /// Past the cache: journal and indirect blocks.
    pub(super) disk: Device,
    /// Through it: data of files.
    pub(super) cache: Device,
}

impl Machine {
    pub(super) fn new(kernel: &Kernel, seed: u64) -> Result<Machine, ReproError> {
        let disk = open_unflushed(IDE, (kernel.preset, kernel.elevator), seed)?;
        let settings = cache::Settings {
            size: kernel.pages(),
            readahead: crate::policies::by_name(kernel.readahead)
                .ok_or(ReproError::NoPolicy(kernel.readahead))?,
            // dirty_background_ratio and dirty_ratio of 2.6; they are never reached between two rounds of
            // fsync.
            background: 10,
            dirty: 40,
            ..cache::Settings::default()
        };
        let over = cache::new(Arc::clone(disk.backend()), &settings);
        let cache = Device::new(over.map_err(|error| ReproError::Stack(error.to_string()))?);
        Ok(Machine { disk, cache })
    }
}
