//! Carries out the steps of commands on a device.

use platter_block::bio::Flags;
use platter_block::fault::{Error, Kind};
use platter_disk::device::Device;
use platter_disk::sync_io::IoOptions;
use platter_protocol::step::{Action, Step, StepError};

/// Bytes that are read at once when the initiator does not get the data.
const PIECE: usize = 1 << 20;

/// Carries out a step, with this data from the initiator. What it reads is put into `data_in`, as far as it was read.
pub(crate) fn carry_out(
    device: &Device,
    step: &Step,
    data_out: &[u8],
    data_in: &mut Vec<u8>,
) -> Result<(), StepError> {
    let (pos, len) = (step.pos, step.len);
    let of_device = |result: Result<(), Error>| result.map_err(|error| at_device(step, &error));
    match step.action {
        Action::Read { at } => {
            let from = at as usize;
            data_in.resize(from + len as usize, 0);
            match device.read_at(&mut data_in[from..], pos) {
                Err(error) if matches!(error.fault.kind, Kind::Io | Kind::Corrupt | Kind::Short) => {
                    read_blocks(device, step, from, data_in)
                }
                read => of_device(read),
            }
        }
        Action::Verify => in_pieces(device, step, |_, _| Ok(())),
        Action::Compare { at } => in_pieces(device, step, |offset, data| {
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
        Action::Fill { block } => fill(device, step, &data_out[..block as usize]),
        Action::WriteZeroes => of_device(device.write_zeroes(pos, len)),
        Action::Discard => of_device(device.discard(pos, len)),
        Action::Flush => of_device(device.flush()),
    }
}

/// Reads block by block after a read has failed: initiators take the blocks before the one that the error names as good.
/// Blocks from there on are removed from the data.
fn read_blocks(device: &Device, step: &Step, from: usize, data_in: &mut Vec<u8>) -> Result<(), StepError> {
    let block = device.geometry().limits.logical_block as usize;
    for offset in (0..step.len as usize).step_by(block) {
        let pos = step.pos + offset as u64;
        if let Err(error) = device.read_at(&mut data_in[from + offset..][..block], pos) {
            data_in.truncate(from + offset);
            return Err(StepError::Device { kind: error.fault.kind, pos });
        }
    }
    Ok(())
}

/// Reads the range of a step piece by piece; `each` gets the offset in the range and the data.
fn in_pieces(
    device: &Device,
    step: &Step,
    each: impl Fn(u64, &[u8]) -> Result<(), StepError>,
) -> Result<(), StepError> {
    let mut piece = vec![0; PIECE.min(step.len as usize)];
    for offset in (0..step.len).step_by(PIECE) {
        let data = &mut piece[..PIECE.min((step.len - offset) as usize)];
        device.read_at(data, step.pos + offset).map_err(|error| at_device(step, &error))?;
        each(offset, data)?;
    }
    Ok(())
}

/// Writes a block again and again.
fn fill(device: &Device, step: &Step, block: &[u8]) -> Result<(), StepError> {
    let at_once = (PIECE / block.len()).max(1).min((step.len / block.len() as u64) as usize);
    let piece = block.repeat(at_once);
    for offset in (0..step.len).step_by(piece.len()) {
        let data = &piece[..piece.len().min((step.len - offset) as usize)];
        device.write_at(data, step.pos + offset).map_err(|error| at_device(step, &error))?;
    }
    Ok(())
}

/// An error of the device, with its place inside the step.
fn at_device(step: &Step, error: &Error) -> StepError {
    let pos = error.offset.clamp(step.pos, step.pos + step.len.saturating_sub(1));
    StepError::Device { kind: error.fault.kind, pos }
}
