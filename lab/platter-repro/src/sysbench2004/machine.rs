//! The machines of the test: one IDE disk, its queue with an elevator, and a page cache with a readahead policy.

use crate::disk::{IDE, SCSI, open_unflushed};
use crate::{Elevators, ReproError};
use platter_cache as cache;
use platter_disk::device::Device;
use std::sync::Arc;

/// Kopytov's machine. Its memory is not published; his counters are: 1066 of 5860 windows after a jump were there
/// already, 18 % of 3 GB.
pub(super) const KOPYTOV: u64 = 512 << 20;
/// Piggin's machine, "an IDE disk, 256MB ram", and Morton's, with two processors.
pub(super) const SMALL: u64 = 256 << 20;

/// What a run changes of a machine or its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Nothing,
    /// Requests of the queue for each direction, instead of 128.
    Requests(u32),
    /// The times after which requests go first, this many times as long.
    Expiry(i64),
    /// A SCSI disk with 16 tagged commands instead of the IDE disk.
    Tags,
}

/// Parameters of elevators of 2.6 that are the times after which requests go first.
const EXPIRIES: [&str; 2] = ["read_expire", "write_expire"];

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
    /// What else differs.
    pub(super) change: Change,
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
    pub(super) fn new(kernel: &Kernel, seed: u64, elevators: &Elevators) -> Result<Machine, ReproError> {
        let disk = open(kernel, seed, elevators)?;
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

/// The disk with its queue.
fn open(kernel: &Kernel, seed: u64, elevators: &Elevators) -> Result<Device, ReproError> {
    let plan = if kernel.change == Change::Tags { SCSI } else { IDE };
    let requests = match kernel.change {
        Change::Requests(requests) => Some(requests),
        _ => None,
    };
    let disk = open_unflushed(plan, ((kernel.preset, kernel.elevator), elevators), seed, requests)?;
    if let Change::Expiry(times) = kernel.change {
        for (param, value) in disk.elevator_params() {
            if EXPIRIES.contains(&param.name) {
                let set = disk.set_elevator_param(param.name, value * times);
                set.map_err(|error| ReproError::Stack(error.to_string()))?;
            }
        }
    }
    Ok(disk)
}

#[cfg(test)]
mod tests {
    use super::super::cells::CELLS;
    use super::*;

    #[test]
    fn changes_reach_the_queue_and_the_disk() {
        let of = |name: &str| {
            let (_, kernel) = CELLS.iter().find(|(cell, _)| *cell == name).unwrap();
            let disk = open(kernel, 1, &Elevators::default()).unwrap();
            let fact = |of: &str| disk.facts().into_iter().find(|(name, _)| *name == of).unwrap().1;
            let params = disk.elevator_params();
            let param = |of: &str| params.iter().find(|(param, _)| param.name == of).unwrap().1;
            (fact("nr_requests"), fact("depth"), EXPIRIES.map(param))
        };
        let (requests, depth, times) = of("piggin-2.6");
        assert_eq!((requests.as_str(), depth.as_str()), ("128", "1"));
        assert_eq!(of("piggin-requests"), ("1024".to_owned(), depth.clone(), times));
        assert_eq!(of("piggin-expiry"), (requests.clone(), depth, times.map(|time| time * 10)));
        assert_eq!(of("tags-as"), (requests, "16".to_owned(), times));
    }
}
