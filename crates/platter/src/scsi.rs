//! A device as a SCSI logical unit: commands and their data in, responses out.
//!
//! ```
//! use platter::scsi::{LogicalUnit, cdb::{self, Cdb}, unit::Status};
//! use platter::{Access, open};
//!
//! let unit = LogicalUnit::new(open("ram(1M)", Access::read_write())?);
//! let write = Cdb::new(&cdb::WRITE_10).with("LOGICAL BLOCK ADDRESS", 8).with("TRANSFER LENGTH", 1);
//! let answer = unit.execute(write.bytes(), &[7; 512]);
//! assert_eq!(answer.status, Status::Good);
//!
//! let read = Cdb::new(&cdb::READ_10).with("LOGICAL BLOCK ADDRESS", 8).with("TRANSFER LENGTH", 1);
//! assert_eq!(unit.execute(read.bytes(), &[]).data_in, [7; 512]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use platter_scsi::{cdb, disk, effect, layout, page, sense, structure, target, unit};

use crate::steps;
use platter_disk::device::Device;
use platter_scsi::unit::{Identity, Plan, Response, Unit, is_exclusive};
use std::sync::{PoisonError, RwLock};

/// A device that takes SCSI commands, one after the other on each calling thread.
///
/// Commands of several threads run at the same time and are not ordered against each other; COMPARE AND WRITE runs alone
/// among those of this unit. [`target::Target`] is for several initiators. The data of a command is held
/// in memory as a whole, at most [`unit::MAX_TRANSFER`] bytes.
pub struct LogicalUnit {
    device: Device,
    identity: Identity,
    /// Written to by a command that must run alone.
    gate: RwLock<()>,
}

impl LogicalUnit {
    /// The unit of a device. Its serial number is the device's name.
    pub fn new(device: Device) -> LogicalUnit {
        let identity = Identity {
            vendor: "PLATTER".to_owned(),
            product: "BLOCK DEVICE".to_owned(),
            revision: env!("CARGO_PKG_VERSION").to_owned(),
            serial: device.name().to_string(),
        };
        LogicalUnit { device, identity, gate: RwLock::new(()) }
    }

    /// Carries a command out, with this data from the initiator. Data of the medium is in the response's `data_in`, as far
    /// as it was read. Failures are in its status and sense data.
    pub fn execute(&self, cdb: &[u8], data_out: &[u8]) -> Response {
        // Of now: a file below the device may have grown.
        let unit = Unit::new(self.identity.clone(), self.device.geometry());
        let steps = match unit.plan(cdb, data_out) {
            Plan::Done(response) => return response,
            Plan::Steps(steps) => steps,
        };
        let alone = cdb::Cdb::decode(cdb).is_ok_and(|cdb| is_exclusive(cdb.command()));
        let _others = (!alone).then(|| self.gate.read().unwrap_or_else(PoisonError::into_inner));
        let _alone = alone.then(|| self.gate.write().unwrap_or_else(PoisonError::into_inner));
        let mut data_in = Vec::new();
        for step in &steps {
            if let Err(error) = steps::carry_out(&self.device, step, data_out, &mut data_in) {
                return Response { data_in, ..unit.failed(step, error) };
            }
        }
        Response { data_in, ..unit.done() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, open};
    use cdb::Cdb;
    use platter_scsi::unit::Status;

    fn unit(spec: &str) -> LogicalUnit {
        LogicalUnit::new(open(spec, Access::read_write()).unwrap())
    }

    fn at(command: &'static cdb::Command, lba: u64) -> Cdb {
        Cdb::new(command).with("LOGICAL BLOCK ADDRESS", lba)
    }

    #[test]
    fn a_pattern_of_one_block_fills_more_than_a_piece() {
        let unit = unit("ram(8M)");
        let block: Vec<u8> = (0..512).map(|n| n as u8).collect();
        let fill = at(&cdb::WRITE_SAME_16, 3).with("NUMBER OF LOGICAL BLOCKS", 5000);
        assert_eq!(unit.execute(fill.bytes(), &block).status, Status::Good);
        let read = |lba, blocks| {
            unit.execute(at(&cdb::READ_10, lba).with("TRANSFER LENGTH", blocks).bytes(), &[]).data_in
        };
        assert!(read(3, 5000) == block.repeat(5000));
        assert_eq!((read(2, 1), read(5003, 1)), (vec![0; 512], vec![0; 512]));
        let mut wanted = block.repeat(5000);
        let verify = at(&cdb::VERIFY_16, 3).with("BYTCHK", 1).with("VERIFICATION LENGTH", 5000);
        assert_eq!(unit.execute(verify.bytes(), &wanted).status, Status::Good);
        wanted[2_000_000] ^= 1;
        let sense = unit.execute(verify.bytes(), &wanted).sense;
        assert_eq!(sense::Sense::decode(&sense).unwrap().information(), Some(2_000_000));
    }

    #[test]
    fn counters_that_threads_advance_by_compare_and_write_lose_no_step() {
        const STEPS: u64 = 200;
        let unit = unit("ram(64K)");
        let advance = || {
            for _ in 0..STEPS {
                loop {
                    let now =
                        unit.execute(at(&cdb::READ_10, 3).with("TRANSFER LENGTH", 1).bytes(), &[]).data_in;
                    let count = u64::from_le_bytes(now[..8].try_into().unwrap());
                    let mut next = now.clone();
                    next[..8].copy_from_slice(&(count + 1).to_le_bytes());
                    let swap = at(&cdb::COMPARE_AND_WRITE, 3).with("NUMBER OF LOGICAL BLOCKS", 1);
                    let answer = unit.execute(swap.bytes(), &[now, next].concat());
                    if answer.status == Status::Good {
                        break;
                    }
                    assert_eq!(sense::Sense::decode(&answer.sense).unwrap().key(), sense::Key::MISCOMPARE);
                }
            }
        };
        std::thread::scope(|scope| (0..3).for_each(|_| _ = scope.spawn(advance)));
        let read = unit.execute(at(&cdb::READ_10, 3).with("TRANSFER LENGTH", 1).bytes(), &[]).data_in;
        assert_eq!(u64::from_le_bytes(read[..8].try_into().unwrap()), 3 * STEPS);
    }

    #[test]
    fn a_bad_sector_is_a_medium_error_at_its_block() {
        let unit = unit("error(offset=64K, length=4K, op=read, ram(1M))");
        let read = unit.execute(at(&cdb::READ_10, 120).with("TRANSFER LENGTH", 16).bytes(), &[]);
        let sense = sense::Sense::decode(&read.sense).unwrap();
        assert_eq!((sense.key(), sense.code()), (sense::Key::MEDIUM_ERROR, (0x11, 0)));
        assert_eq!((sense.information(), read.data_in.len()), (Some(128), 8 * 512));
    }
}
