//! `partition`: a contiguous part of a device.

use crate::filter::{CommandRule, Filter, Filtered, only};
use crate::reader::Reader;
use crate::{LayerError, LayerType};
use platter_block::backend::Backend;
use platter_block::params::{Param, ParamError, Unit};
use std::sync::Arc;

mod table;

pub(crate) const TYPE: LayerType = LayerType {
    name: "partition",
    summary: "a contiguous part of a device",
    params: &[
        Param::number(
            "offset",
            Unit::Bytes,
            0,
            (0, i64::MAX),
            "where the part begins, a multiple of the logical block",
        ),
        Param::number(
            "length",
            Unit::Bytes,
            0,
            (0, i64::MAX),
            "size of the part, a multiple of the logical block; 0: to the end",
        ),
        Param::number(
            "number",
            Unit::Count,
            0,
            (0, 4096),
            "instead of these: the partition of this number in the disk's partition table (GPT or MBR)",
        ),
    ],
    members: 1..=1,
    build: |values, below| {
        let [offset, length, number] = [values[0], values[1], values[2]].map(i64::unsigned_abs);
        let below = only("partition", below)?;
        if number == 0 {
            return new(below, offset, (length > 0).then_some(length));
        }
        if offset != 0 || length != 0 {
            let both = "partition: number= says where the part is; leave out offset= and length=";
            return Err(LayerError::Param(ParamError(both.to_string())));
        }
        numbered(below, number)
    },
};

/// A partition changes nothing but the range.
#[derive(Clone)]
struct Whole;

impl Filter for Whole {
    const PASSES_IO: bool = true;

    fn commands(&self) -> CommandRule {
        CommandRule::NoBlocks
    }
}

/// The part of `below` from byte `offset`, `length` bytes long or to the end of the device.
///
/// # Errors
/// A part that is empty, extends past the end or is not aligned to logical blocks.
pub fn new(
    below: Arc<dyn Backend>,
    offset: u64,
    length: Option<u64>,
) -> Result<Arc<dyn Backend>, LayerError> {
    part(below, offset, length, Vec::new())
}

/// A part with further facts.
fn part(
    below: Arc<dyn Backend>,
    offset: u64,
    length: Option<u64>,
    more: Vec<(&'static str, String)>,
) -> Result<Arc<dyn Backend>, LayerError> {
    let geometry = below.geometry();
    let block = u64::from(geometry.limits.logical_block);
    let refuse = |what: &str, value: u64, range: String| {
        Err(LayerError::Unfit(ParamError(format!(
            "partition of {}: {what}={value} is out of range: {range}",
            below.name()
        ))))
    };
    if offset >= geometry.size || !offset.is_multiple_of(block) {
        let range = format!("multiples of {block} below {}", geometry.size);
        return refuse("offset", offset, range);
    }
    let rest = (geometry.size - offset) / block * block;
    let size = length.unwrap_or(rest);
    if size == 0 || size > rest || !size.is_multiple_of(block) {
        return refuse("length", size, format!("multiples of {block} from {block} to {rest}"));
    }
    let name = Arc::from(format!("partition({}, offset={offset}, length={size})", below.name()));
    let mut facts = vec![("offset", offset.to_string()), ("length", size.to_string())];
    facts.extend(more);
    let layer = Filtered::new("partition", "", below, Whole).with_name(name, facts);
    Ok(Arc::new(layer.over_part(offset..offset + size)?))
}

/// The partition of `below` with this number (from 1) in its partition table.
///
/// A GUID partition table is checked by its CRCs, and may count in sectors of another size than the blocks of `below`; if the primary table is damaged, the backup at the end of the disk is
/// used. In a master boot record, 1 to 4 are the primary partitions and the logical partitions begin at 5.
///
/// # Errors
/// No partition table, a damaged one, no such partition, or a disk that cannot be read.
pub fn numbered(below: Arc<dyn Backend>, number: u64) -> Result<Arc<dyn Backend>, LayerError> {
    let geometry = below.geometry();
    let block = u64::from(geometry.limits.logical_block);
    let mut reader = Reader::open(&below)?;
    // Reads whole blocks around the bytes.
    let mut bytes = |what: &str, pos: u64, len: usize| {
        let begin = pos / block * block;
        let end = (pos + len as u64).next_multiple_of(block);
        let read = reader.read(what, begin, (end - begin) as usize).map_err(|error| error.to_string())?;
        Ok(read[(pos - begin) as usize..][..len].to_vec())
    };
    let sector = table::sector((block, geometry.size / block * block), &mut bytes);
    let sectors = geometry.size / sector;
    let mut read = |what: &str, first: u64, count: u64| {
        if first.checked_add(count).is_none_or(|end| end > sectors) {
            return Err(format!("block {first} is past the end of the disk"));
        }
        bytes(what, first * sector, (count * sector) as usize)
    };
    let found = table::find(number, (sector, sectors), &mut read).and_then(|(first, count)| {
        let (pos, len) = (first * sector, count * sector);
        match pos.is_multiple_of(block) && len.is_multiple_of(block) {
            true => Ok((pos, len)),
            false => Err(format!(
                "the table counts in sectors of {sector} bytes, and the partition, {len} bytes from {pos} on, is not in whole \
                 blocks of the device, {block} bytes"
            )),
        }
    });
    drop(reader);
    let (pos, len) = found.map_err(|wrong| {
        LayerError::Unfit(ParamError(format!("partition of {}: number={number}: {wrong}", below.name())))
    })?;
    let about = vec![("partition", number.to_string()), ("table_sector", sector.to_string())];
    part(below, pos, Some(len), about)
}
