//! A disk whose reads and writes are SCSI commands to a target over any device.
//!
//! A request of the queue becomes a command descriptor block, reaches a [`Target`] as one initiator port of it, waits in its
//! task set, is carried out as bios on a lane of the device, and comes back as status and sense data, which the port turns into
//! a result as a mid-layer does. Nothing here has a thread or a clock of its own, so it works in virtual time as it does in
//! real time.
//!
//! ```
//! use platter_block::backend::Backend;
//! use platter_block::disk::Disk;
//! use platter_scsi::disk::{Options, ScsiTarget};
//! # fn show(device: std::sync::Arc<dyn Backend>) -> Result<(), platter_block::fault::Error> {
//! let target = ScsiTarget::new(device);
//! // Two adapters at one disk.
//! let first = target.port(Options::default())?;
//! let second = target.port(Options::default().with_initiator("second".to_owned()))?;
//! assert_eq!(first.geometry().size, second.geometry().size);
//! # Ok(())
//! # }
//! ```

mod buffer;
mod carry;
mod channel;
mod discover;
mod faults;
mod hub;
mod inbox;
mod listen;
mod options;
mod port;
mod rng;
mod slot;

pub use crate::target::{AccessState, TargetPort};
pub use faults::{FaultPlan, Ppm};
pub use options::Options;

use crate::target::Target;
use crate::unit::{Identity, Unit};
use channel::Channel;
use hub::Hub;
use platter_block::allocation::Extent;
use platter_block::backend::{Backend, DiskRange, Fact, Identity as DiskIdentity, LaneUse};
use platter_block::bio::Op;
use platter_block::command::{CommandSet, CommandSets};
use platter_block::disk::{Disk, DiskChannel};
use platter_block::driver::Geometry;
use platter_block::fault::{Error, Fault, Kind, Stage};
use platter_block::time::VirtualClock;
use port::{Counts, Port};
use std::borrow::ToOwned;
use std::format;
use std::string::{String, ToString};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::vec;
use std::vec::Vec;

/// A serial number of ranges of disks: the FNV-1a hash, of 128 bits, of their numbers.
fn serial_of(ranges: &[DiskRange]) -> String {
    let numbers = ranges.iter().flat_map(|range| {
        let disk = match range.disk {
            DiskIdentity::File(device, inode) => [1, device, inode],
            DiskIdentity::Node(node) => [2, node, 0],
            DiskIdentity::Process(number) => [3, number, 0],
            DiskIdentity::Remote(hash) => [4, hash, 0],
            _ => [0; 3],
        };
        disk.into_iter().chain([range.begin, range.end])
    });
    let bytes = numbers.flat_map(u64::to_be_bytes);
    let hash = bytes.fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    });
    format!("{hash:032x}")
}

/// A target over a device, which has a task set, reservations and unit attentions for all of its ports.
pub struct ScsiTarget {
    hub: Arc<Hub>,
    name: Arc<str>,
}

impl ScsiTarget {
    /// A target over a device. Its serial number is that of the device's disks and their parts, so that two targets over one
    /// device have the same, also if they are in different processes and the device is a file or a block device.
    pub fn new(device: Arc<dyn Backend>) -> ScsiTarget {
        let serial = serial_of(&device.disk_ranges());
        ScsiTarget::with_serial(device, &serial)
    }

    /// The same, with this serial number, by which VPD page 83h identifies the unit.
    pub fn with_serial(device: Arc<dyn Backend>, serial: &str) -> ScsiTarget {
        let identity = Identity {
            vendor: "PLATTER".to_owned(),
            product: "BLOCK DEVICE".to_owned(),
            revision: env!("CARGO_PKG_VERSION").to_owned(),
            serial: serial.to_owned(),
        };
        let name = Arc::from(format!("scsi({})", device.name()));
        let target = Target::new(Unit::new(identity, device.geometry()));
        ScsiTarget { hub: Arc::new(Hub::new(device, target)), name }
    }

    /// Connects an initiator port, which is a disk.
    ///
    /// # Errors
    /// The unit does not describe itself as a disk.
    pub fn port(&self, options: Options) -> Result<ScsiDisk, Error> {
        let nexus = self.hub.connect(&options);
        let port = Port {
            hub: Arc::clone(&self.hub),
            nexus,
            options,
            hung: AtomicU32::new(0),
            counts: Counts::default(),
        };
        let mut ask = |cdb: &[u8]| port.hub.ask(port.nexus, cdb);
        let local = self.hub.device.geometry().limits;
        let geometry = discover::geometry(&mut ask, local).map_err(|why| Error {
            fault: Fault::new(Kind::Unsupported, Stage::Disk),
            op: Op::Read,
            device: Arc::clone(&self.name),
            offset: 0,
            len: 0,
            detail: format!("the unit cannot be used as a disk: {why}"),
        })?;
        let features = geometry
            .features
            .with_ordered_tags(!port.options.faults.loses_order())
            .with_commands(CommandSets::NONE.with(CommandSet::Scsi));
        let name = Arc::clone(&self.name);
        Ok(ScsiDisk { port: Arc::new(port), name, geometry: geometry.with_features(features) })
    }
}

/// An initiator port of a target, as a disk. Clones are the same port.
#[derive(Clone)]
pub struct ScsiDisk {
    port: Arc<Port>,
    name: Arc<str>,
    geometry: Geometry,
}

impl ScsiDisk {
    /// Changes the faults of the port from now on.
    pub fn set_faults(&self, plan: FaultPlan) {
        self.port.hub.set_faults(self.port.nexus, plan);
    }

    /// The port of the target, and the others of its group, reach the unit in this way from now on (ALUA). Without
    /// [`Options::target_port`] nothing changes.
    pub fn set_access(&self, access: AccessState) {
        self.port.hub.set_access(self.port.nexus, access);
    }

    /// Requests that have failed after all attempts.
    pub fn failures(&self) -> u64 {
        self.port.counts.failures.load(Ordering::Relaxed)
    }

    fn error(&self, fault: Fault) -> Error {
        let device = Arc::clone(&self.name);
        Error { fault, op: Op::Read, device, offset: 0, len: 0, detail: String::new() }
    }
}

impl Disk for ScsiDisk {
    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn open_channel(&self, lane_use: LaneUse) -> Result<DiskChannel, Error> {
        let lane = self.port.hub.device.open_lane(lane_use)?;
        let block = u64::from(self.geometry.limits.logical_block);
        Ok(DiskChannel::new(Channel::new(&self.port, lane, block)))
    }

    fn depth(&self) -> Option<u32> {
        Some(self.port.options.depth)
    }

    fn clock(&self) -> Option<Arc<VirtualClock>> {
        self.port.hub.device.clock()
    }

    fn facts(&self) -> Vec<Fact> {
        let Counts { commands, retries, refusals, aborts, resets, failures } = &self.port.counts;
        let numbers = [
            ("commands", commands),
            ("sent again", retries),
            ("refused for the time being", refusals),
            ("aborts", aborts),
            ("resets", resets),
            ("failed commands", failures),
        ];
        let state = match self.port.hung.load(Ordering::Relaxed) {
            0 => "running".to_owned(),
            hung => format!("offline: {hung} commands do not end"),
        };
        let mut facts = vec![("driver", "scsi".to_owned()), ("port", state)];
        facts.extend(numbers.map(|(name, count)| (name, count.load(Ordering::Relaxed).to_string())));
        facts
    }

    fn identity(&self) -> Option<DiskIdentity> {
        match &self.port.hub.device.disk_ranges()[..] {
            [only] if only.begin == 0 => Some(only.disk),
            _ => None,
        }
    }

    fn current_size(&self) -> Result<Option<u64>, Error> {
        let hub = &self.port.hub;
        match hub.device.measure() {
            Err(error) if error.fault.kind == Kind::Gone => return Ok(None),
            measured => measured?,
        }
        hub.observe();
        let now = discover::size(&mut |cdb| hub.ask(self.port.nexus, cdb));
        now.map(Some).map_err(|_| self.error(Fault::new(Kind::Io, Stage::Disk)))
    }

    fn accept_size(&self, _size: u64) -> Result<(), Error> {
        self.port.hub.device.refresh()
    }

    fn holds_unflushed(&self) -> bool {
        self.port.hub.device.holds_unflushed()
    }

    fn allocation(&self, pos: u64, len: u64) -> Result<Extent, Error> {
        self.port.hub.device.allocation(pos, len)
    }

    fn explain(&self, fault: Fault) -> Option<String> {
        match self.port.hung.load(Ordering::Relaxed) {
            0 => self.port.hub.device.explain(fault),
            hung => Some(format!(
                "the port is offline, because {hung} commands end neither by abort nor by reset"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serial_numbers_tell_disks_and_their_parts_apart() {
        let range = |disk, begin, end| DiskRange { disk, begin, end };
        let all = [
            vec![],
            vec![range(DiskIdentity::File(1, 2), 0, 4096)],
            vec![range(DiskIdentity::File(2, 1), 0, 4096)],
            vec![range(DiskIdentity::Node(1), 0, 4096)],
            vec![range(DiskIdentity::Process(1), 0, 4096)],
            vec![range(DiskIdentity::Remote(1), 0, 4096)],
            vec![range(DiskIdentity::Node(1), 512, 4096)],
            vec![range(DiskIdentity::Node(1), 0, 8192)],
            vec![range(DiskIdentity::Node(1), 0, 4096), range(DiskIdentity::Node(2), 0, 4096)],
            vec![range(DiskIdentity::Node(2), 0, 4096), range(DiskIdentity::Node(1), 0, 4096)],
        ];
        let serials: std::collections::BTreeSet<String> =
            all.iter().map(|ranges| serial_of(ranges)).collect();
        assert_eq!(serials.len(), all.len());
        assert!(serials.iter().all(|serial| serial.len() == 32));
        assert_eq!(serial_of(&all[1]), serial_of(&all[1].clone()));
    }
}
