//! COMPARE AND WRITE as an operation of a device.

use platter_block::command::Transfer;
use platter_block::fault::{Error, Fault, Kind, Stage};
use platter_disk::device::Device;
use platter_disk::sync_io::{CommandData, IoOptions};
use platter_scsi::cdb::{COMPARE_AND_WRITE, Cdb};
use platter_scsi::host::queued::queued;
use platter_scsi::sense::{Key, Sense};
use std::fmt;
use std::sync::Arc;

/// What became of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// The device had the expected data, and has the new data now.
    Written,
    /// The device had other data, which it keeps; the first byte that differs is at this offset of the data, if the device
    /// tells.
    Differs(Option<u64>),
}

/// Why a comparison was not made, or what became of it is not known.
#[derive(Debug)]
#[non_exhaustive]
pub enum CompareError {
    /// The device of this name takes no SCSI commands.
    NoCommands(Arc<str>),
    /// The data or the place does not suit the device.
    Unfit(String),
    /// The device of this name has answered with more unit attentions than devices have.
    Attentions(Arc<str>),
    /// The device failed, or refused the command.
    Device(Error),
}

impl fmt::Display for CompareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompareError::NoCommands(name) => write!(
                f,
                "{name} takes no SCSI commands, and COMPARE AND WRITE is one: use a SCSI disk (sg, iscsi), or put a target in \
                 front of it with scsi(DEVICE)"
            ),
            CompareError::Unfit(what) => f.write_str(what),
            CompareError::Attentions(name) => {
                write!(f, "{name} answers with one unit attention after the other")
            }
            CompareError::Device(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CompareError {}

impl From<Error> for CompareError {
    fn from(error: Error) -> CompareError {
        CompareError::Device(error)
    }
}

/// Most unit attentions that are taken before the command is carried out.
const ATTENTIONS: usize = 16;

/// Replaces `expected` by `new` at byte `pos`, if that is what the device has there, in one step: of several that compare and
/// write the same blocks, each sees the blocks as they were before or after another. Both have the same length, whole
/// logical blocks of at most the device's MAXIMUM COMPARE AND WRITE LENGTH (a target of Platter: 128 blocks). Whether other
/// writes are excluded too is the device's matter: a target of Platter excludes those that reach the unit by commands.
///
/// It is the SCSI command COMPARE AND WRITE (SBC-3), sent once, so it passes layers as commands do: under a cache the blocks are
/// coherent with cached ones, a partition refuses it.
///
/// ```
/// use platter::scsi::{Compared, compare_and_write};
///
/// let device = platter::open("scsi(ram(1M))", platter::Access::read_write())?;
/// assert_eq!(compare_and_write(&device, 4096, &[0; 512], &[1; 512])?, Compared::Written);
/// // Another one has been first.
/// assert_eq!(compare_and_write(&device, 4096, &[0; 512], &[2; 512])?, Compared::Differs(Some(0)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The device takes no SCSI commands, the place or the lengths do not suit it, or it failed: then the write may have been
/// carried out.
pub fn compare_and_write(
    device: &Device,
    pos: u64,
    expected: &[u8],
    new: &[u8],
) -> Result<Compared, CompareError> {
    let geometry = device.geometry();
    if !geometry.features.commands.contains(platter_block::command::CommandSet::Scsi) {
        return Err(CompareError::NoCommands(device.name()));
    }
    let block = u64::from(geometry.limits.logical_block);
    let cdb = cdb(pos, [expected.len() as u64, new.len() as u64], (geometry.size, block))?;
    let data = [expected, new].concat();
    for _ in 0..=ATTENTIONS {
        let command = queued(cdb.bytes(), Transfer::ToDevice, Some(&data), block as u32)
            .map_err(|fault| CompareError::Unfit(fault.to_string()))?;
        let command = Arc::new(command);
        let sent = device.command(&command, CommandData::ToDevice(&data), IoOptions::default());
        let Some(outcome) = command.outcome() else {
            return Err(sent.err().map_or_else(|| silent(device, pos), CompareError::from));
        };
        if outcome.is_good() {
            return Ok(Compared::Written);
        }
        match Sense::decode(outcome.sense.bytes()) {
            Ok(sense) if sense.key() == Key::MISCOMPARE => return Ok(Compared::Differs(sense.information())),
            // Nothing was done.
            Ok(sense) if sense.key() == Key::UNIT_ATTENTION => {}
            _ => return Err(sent.err().map_or_else(|| silent(device, pos), CompareError::from)),
        }
    }
    Err(CompareError::Attentions(device.name()))
}

/// A command that failed without an error of the device.
fn silent(device: &Device, pos: u64) -> CompareError {
    CompareError::Device(Error {
        fault: Fault::new(Kind::Io, Stage::Disk),
        op: platter_block::bio::Op::Command,
        device: device.name(),
        offset: pos,
        len: 0,
        detail: "the command ended without an answer".to_owned(),
    })
}

fn cdb(pos: u64, [expected, new]: [u64; 2], (size, block): (u64, u64)) -> Result<Cdb, CompareError> {
    let unfit = |what: String| Err(CompareError::Unfit(what));
    if expected != new {
        return unfit(format!(
            "{expected} bytes are expected and {new} are new: COMPARE AND WRITE has as many of both"
        ));
    }
    let blocks = expected / block;
    if expected == 0 || !expected.is_multiple_of(block) || blocks > 255 {
        return unfit(format!(
            "{expected} bytes: COMPARE AND WRITE has whole blocks of {block} bytes, from 1 to 255"
        ));
    }
    if !pos.is_multiple_of(block) || pos.checked_add(expected).is_none_or(|end| end > size) {
        return unfit(format!(
            "{expected} bytes at {pos}: they begin at a multiple of {block} and end within {size} bytes"
        ));
    }
    Ok(Cdb::new(&COMPARE_AND_WRITE)
        .with("LOGICAL BLOCK ADDRESS", pos / block)
        .with("NUMBER OF LOGICAL BLOCKS", blocks))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, open};

    fn device(spec: &str) -> Device {
        open(spec, Access::read_write()).unwrap()
    }

    #[test]
    fn counters_that_threads_advance_lose_no_step() {
        const EACH: u64 = 200;
        for spec in ["scsi(ram(1M))", "cache(size=1M, scsi(ram(1M)))", "multipath(scsi(ram(1M)))"] {
            let device = device(spec);
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        for _ in 0..EACH {
                            let mut now = [0; 512];
                            loop {
                                device.read_at(&mut now, 8192).unwrap();
                                let mut next = now;
                                let count = u64::from_le_bytes(now[..8].try_into().unwrap()) + 1;
                                next[..8].copy_from_slice(&count.to_le_bytes());
                                if compare_and_write(&device, 8192, &now, &next).unwrap() == Compared::Written
                                {
                                    break;
                                }
                            }
                        }
                    });
                }
            });
            let mut count = [0; 512];
            device.read_at(&mut count, 8192).unwrap();
            assert_eq!(u64::from_le_bytes(count[..8].try_into().unwrap()), 3 * EACH, "{spec}");
        }
    }

    #[test]
    fn what_differs_is_told_and_kept() {
        let device = device("scsi(ram(1M))");
        device.write_at(&[7; 1024], 0).unwrap();
        let mut wrong = [7; 1024];
        wrong[600] = 8;
        assert_eq!(compare_and_write(&device, 0, &wrong, &[9; 1024]).unwrap(), Compared::Differs(Some(600)));
        let mut kept = [0; 1024];
        device.read_at(&mut kept, 0).unwrap();
        assert_eq!(kept, [7; 1024]);
    }

    /// Unit attentions say that nothing was done.
    #[test]
    fn unit_attentions_are_passed_over() {
        let device = device("scsi(ram(1M), attentions=500000, fault_seed=3)");
        for n in 0..32_u8 {
            let swapped = compare_and_write(&device, 0, &[n; 512], &[n + 1; 512]).unwrap();
            assert_eq!(swapped, Compared::Written, "{n}");
        }
    }

    #[test]
    fn what_does_not_suit_is_refused_by_name() {
        let disk = device("scsi(ram(1M))");
        for (pos, expected, new, words) in [
            (0, 512, 1024, "as many of both"),
            (0, 0, 0, "whole blocks of 512 bytes, from 1 to 255"),
            (0, 100, 100, "whole blocks"),
            (0, 256 * 512, 256 * 512, "from 1 to 255"),
            (100, 512, 512, "multiple of 512"),
            ((1 << 20) - 512, 1024, 1024, "within 1048576"),
            (u64::MAX - 511, 512, 512, "within 1048576"),
        ] {
            let error =
                compare_and_write(&disk, pos, &vec![0; expected], &vec![0; new]).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        // The target takes fewer, and says so.
        let error = compare_and_write(&disk, 0, &[0; 200 * 512], &[0; 200 * 512]).unwrap_err();
        assert!(matches!(error, CompareError::Device(_)), "{error}");
        let error = compare_and_write(&device("ram(1M)"), 0, &[0; 512], &[0; 512]).unwrap_err().to_string();
        assert!(error.contains("takes no SCSI commands") && error.contains("scsi(DEVICE)"), "{error}");
        let error =
            compare_and_write(&device("partition(offset=64K, scsi(ram(1M)))"), 0, &[0; 512], &[0; 512]);
        let error = error.unwrap_err();
        assert!(error.to_string().contains("not supported by the device"), "{error}");
    }
}
