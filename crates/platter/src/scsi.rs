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

pub use platter_scsi::{cdb, effect, layout, page, sense, structure, target, unit};

use platter_block::bio::Flags;
use platter_block::fault::{Error, Kind};
use platter_disk::device::Device;
use platter_disk::sync_io::IoOptions;
use platter_scsi::unit::{Action, Identity, Plan, Response, Step, StepError, Unit, is_exclusive};
use std::sync::{PoisonError, RwLock};

/// Bytes that are read at once when the initiator does not get the data.
const PIECE: usize = 1 << 20;

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
            if let Err(error) = self.step(step, data_out, &mut data_in) {
                return Response { data_in, ..unit.failed(step, error) };
            }
        }
        Response { data_in, ..unit.done() }
    }

    fn step(&self, step: &Step, data_out: &[u8], data_in: &mut Vec<u8>) -> Result<(), StepError> {
        let (pos, len, device) = (step.pos, step.len, &self.device);
        let of_device = |result: Result<(), Error>| result.map_err(|error| at_device(step, &error));
        match step.action {
            Action::Read { at } => {
                let from = at as usize;
                data_in.resize(from + len as usize, 0);
                match device.read_at(&mut data_in[from..], pos) {
                    Err(error) if matches!(error.fault.kind, Kind::Io | Kind::Corrupt | Kind::Short) => {
                        self.read_blocks(step, from, data_in)
                    }
                    read => of_device(read),
                }
            }
            Action::Verify => self.in_pieces(step, |_, _| Ok(())),
            Action::Compare { at } => self.in_pieces(step, |offset, data| {
                let from = at + offset;
                let wanted = &data_out[from as usize..];
                let differs = data.iter().zip(wanted).position(|(is, wanted)| is != wanted);
                differs.map_or(Ok(()), |n| Err(StepError::Miscompare { at: from + n as u64 }))
            }),
            Action::Write { at, fua } => {
                let flags = if fua { Flags::FUA } else { Flags::NONE };
                let data = &data_out[at as usize..][..len as usize];
                of_device(device.write_at_with(data, pos, IoOptions::default().with_flags(flags)))
            }
            Action::Fill { block } => self.fill(step, &data_out[..block as usize]),
            Action::WriteZeroes => of_device(device.write_zeroes(pos, len)),
            Action::Discard => of_device(device.discard(pos, len)),
            Action::Flush => of_device(device.flush()),
        }
    }

    /// Reads block by block after a read has failed: initiators take the blocks before the one that the sense data names as
    /// good. Blocks from there on are removed from the data.
    fn read_blocks(&self, step: &Step, from: usize, data_in: &mut Vec<u8>) -> Result<(), StepError> {
        let block = self.device.geometry().limits.logical_block as usize;
        for offset in (0..step.len as usize).step_by(block) {
            let pos = step.pos + offset as u64;
            if let Err(error) = self.device.read_at(&mut data_in[from + offset..][..block], pos) {
                data_in.truncate(from + offset);
                return Err(StepError::Device { kind: error.fault.kind, pos });
            }
        }
        Ok(())
    }

    /// Reads the range of a step piece by piece; `each` gets the offset in the range and the data.
    fn in_pieces(
        &self,
        step: &Step,
        each: impl Fn(u64, &[u8]) -> Result<(), StepError>,
    ) -> Result<(), StepError> {
        let mut piece = vec![0; PIECE.min(step.len as usize)];
        for offset in (0..step.len).step_by(PIECE) {
            let data = &mut piece[..PIECE.min((step.len - offset) as usize)];
            self.device.read_at(data, step.pos + offset).map_err(|error| at_device(step, &error))?;
            each(offset, data)?;
        }
        Ok(())
    }

    /// Writes a block again and again.
    fn fill(&self, step: &Step, block: &[u8]) -> Result<(), StepError> {
        let at_once = (PIECE / block.len()).max(1).min((step.len / block.len() as u64) as usize);
        let piece = block.repeat(at_once);
        for offset in (0..step.len).step_by(piece.len()) {
            let data = &piece[..piece.len().min((step.len - offset) as usize)];
            self.device.write_at(data, step.pos + offset).map_err(|error| at_device(step, &error))?;
        }
        Ok(())
    }
}

/// An error of the device, with its place inside the step.
fn at_device(step: &Step, error: &Error) -> StepError {
    let pos = error.offset.clamp(step.pos, step.pos + step.len.saturating_sub(1));
    StepError::Device { kind: error.fault.kind, pos }
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
