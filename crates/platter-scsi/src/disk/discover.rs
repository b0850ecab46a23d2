//! What a unit says about itself, as the geometry of a disk.

use crate::cdb::{self, Cdb};
use crate::page;
use crate::unit::{Response, Status};
use platter_block::driver::{Features, Geometry};
use platter_block::limits::Limits;
use std::format;
use std::string::String;
use std::vec::Vec;

/// Bytes of data that are asked for: more than any of these pages has here.
const ROOM: u64 = 252;

/// Most blocks of a command whose length has 32 bits.
const MAX_BLOCKS: u64 = u32::MAX as u64;

/// Asks a unit by `ask`. `local` are limits of the memory of transfers, which no page has.
///
/// # Errors
/// The unit does not tell its capacity, or one that no disk has.
pub(super) fn geometry(
    ask: &mut dyn FnMut(&[u8]) -> Option<Response>,
    local: Limits,
) -> Result<Geometry, String> {
    let capacity = data(ask, Cdb::new(&cdb::READ_CAPACITY_16).with("ALLOCATION LENGTH", 32))
        .ok_or("READ CAPACITY (16) is not answered")?;
    let capacity = page::CAPACITY_16.decode(&capacity);
    let field = |name| capacity.get(name).ok_or_else(|| format!("READ CAPACITY (16) has no {name}"));
    let block = field("LOGICAL BLOCK LENGTH IN BYTES")?;
    let last = field("RETURNED LOGICAL BLOCK ADDRESS")?;
    if !block.is_power_of_two() || !(512..=1 << 20).contains(&block) {
        return Err(format!("a logical block has {block} bytes; expected a power of two from 512 to 1 MiB"));
    }
    let size =
        last.checked_add(1).and_then(|blocks| blocks.checked_mul(block)).filter(|size| *size < 1 << 63);
    let size = size.ok_or_else(|| format!("the last block is {last}; a disk has less than 2^63 bytes"))?;
    let exponent = field("LOGICAL BLOCKS PER PHYSICAL BLOCK EXPONENT")?;
    let limits = local
        .with_logical_block(block as u32)
        .with_physical_block((block << exponent.min(8)).min(1 << 30) as u32)
        .with_atomic_write(0)
        .with_chunk(0);
    let thin = capacity.get("LBPME") == Some(1);
    let geometry = Geometry::new(size, with_pages(ask, limits, thin));
    Ok(geometry.with_features(features(ask)))
}

/// The data of a response.
fn data(ask: &mut dyn FnMut(&[u8]) -> Option<Response>, cdb: Cdb) -> Option<Vec<u8>> {
    let response = ask(cdb.bytes())?;
    (response.status == Status::Good).then_some(response.data_in)
}

fn vital(ask: &mut dyn FnMut(&[u8]) -> Option<Response>, code: u64) -> Option<Vec<u8>> {
    let inquiry = Cdb::new(&cdb::INQUIRY).with("EVPD", 1).with("PAGE CODE", code);
    data(ask, inquiry.with("ALLOCATION LENGTH", ROOM))
}

/// The limits of VPD page B0h, as far as page B2h allows their use.
fn with_pages(ask: &mut dyn FnMut(&[u8]) -> Option<Response>, limits: Limits, thin: bool) -> Limits {
    let block = u64::from(limits.logical_block);
    let own = vital(ask, 0xb0).unwrap_or_default();
    let own = page::BLOCK_LIMITS.decode(&own);
    let number = |name| own.get(name).unwrap_or(0);
    let bytes = |blocks: u64| blocks.saturating_mul(block);
    let most = |blocks: u64, most: u64| if blocks == 0 { most } else { bytes(blocks).min(most) };
    let provisioning = vital(ask, 0xb2).unwrap_or_default();
    let unmaps = thin && page::LOGICAL_BLOCK_PROVISIONING.decode(&provisioning).get("LBPU") == Some(1);
    let unit = bytes(number("OPTIMAL UNMAP GRANULARITY").max(1)).min(1 << 31);
    let granularity = if unmaps { unit as u32 } else { 0 };
    let zeroes = writes_zeroes(ask);
    let discard = most(number("MAXIMUM UNMAP LBA COUNT"), bytes(MAX_BLOCKS));
    let same = most(number("MAXIMUM WRITE SAME LENGTH"), bytes(MAX_BLOCKS));
    // A request cannot be longer than either: a queue has one limit for both.
    let without_data = match (unmaps, zeroes) {
        (true, true) => discard.min(same),
        (true, false) => discard,
        _ => same,
    };
    let transfer = most(number("MAXIMUM TRANSFER LENGTH"), bytes(MAX_BLOCKS));
    limits
        .with_max_transfer(transfer.min(u64::from(limits.max_transfer)) as u32)
        .with_optimal_io(bytes(number("OPTIMAL TRANSFER LENGTH")).min(1 << 30) as u32)
        .with_discard_granularity(granularity)
        .with_max_discard(without_data)
        .with_write_zeroes(zeroes)
}

/// Whether WRITE SAME (16) is supported, which writes zeroes.
fn writes_zeroes(ask: &mut dyn FnMut(&[u8]) -> Option<Response>) -> bool {
    let report = Cdb::new(&cdb::REPORT_SUPPORTED_OPERATION_CODES)
        .with("REPORTING OPTIONS", 1)
        .with("REQUESTED OPERATION CODE", u64::from(cdb::WRITE_SAME_16.opcode))
        .with("ALLOCATION LENGTH", ROOM);
    // SUPPORT 3: in conformance with a standard.
    data(ask, report).is_some_and(|data| data.get(1).is_some_and(|support| support & 7 == 3))
}

/// The write cache, FUA and write protection, by the mode pages.
fn features(ask: &mut dyn FnMut(&[u8]) -> Option<Response>) -> Features {
    let sense = Cdb::new(&cdb::MODE_SENSE_10).with("PAGE CODE", 0x08).with("ALLOCATION LENGTH", ROOM);
    let modes = data(ask, sense).unwrap_or_default();
    let modes = page::MODE_PARAMETERS_10.decode(&modes);
    let cached = modes.items().iter().any(|page| page.get("WCE") == Some(1));
    Features::NONE
        .with_write_cache(cached)
        .with_fua(modes.get("DPOFUA") == Some(1))
        .with_read_only(modes.get("WP") == Some(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::{Identity, Plan, Unit};

    fn found(geometry: Geometry) -> Geometry {
        let text = String::from("t");
        let identity =
            Identity { vendor: text.clone(), product: text.clone(), revision: text.clone(), serial: text };
        let unit = Unit::new(identity, geometry);
        let mut ask = |cdb: &[u8]| match unit.plan(cdb, &[]) {
            Plan::Done(response) => Some(response),
            Plan::Steps(_) => None,
        };
        super::geometry(&mut ask, geometry.limits).unwrap()
    }

    #[test]
    fn a_disk_is_as_its_pages_say() {
        let limits = Limits::unlimited(4096).with_physical_block(8192).with_discard_granularity(16384);
        let features = Features::NONE.with_write_cache(true);
        let geometry = Geometry::new((1 << 30) + 512, limits.with_max_discard(1 << 20));
        let seen = found(geometry.with_features(features));
        assert_eq!(seen.size, 1 << 30, "SCSI knows whole blocks only");
        let (limits, own) = (seen.limits, geometry.limits);
        assert_eq!((limits.logical_block, limits.physical_block), (4096, 8192));
        assert_eq!((limits.discard_granularity, limits.max_discard), (16384, own.max_discard));
        assert_eq!((limits.max_transfer, limits.write_zeroes), (64 << 20, true));
        assert!(seen.features.write_cache && seen.features.fua && !seen.features.read_only);
    }

    #[test]
    fn a_disk_without_discards_and_cache_has_none() {
        let limits = Limits::unlimited(512).with_discard_granularity(0);
        let features = Features::NONE.with_read_only(true);
        let seen = found(Geometry::new(1 << 20, limits).with_features(features));
        assert_eq!((seen.limits.discard_granularity, seen.features.write_cache), (0, false));
        assert!(seen.features.read_only);
    }

    #[test]
    fn nonsense_is_refused_with_the_value() {
        let told = |bytes: [u8; 32]| {
            let mut ask = |_: &[u8]| Some(Response { data_in: bytes.to_vec(), ..Response::of(Status::Good) });
            super::geometry(&mut ask, Limits::unlimited(512)).map(|_| ()).unwrap_err()
        };
        let mut bytes = [0; 32];
        bytes[10..12].copy_from_slice(&[2, 8]);
        assert!(told(bytes).contains("520 bytes"), "{}", told(bytes));
        bytes[..12].copy_from_slice(&[255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 2, 0]);
        assert!(told(bytes).contains("18446744073709551615"), "{}", told(bytes));
        assert!(super::geometry(&mut |_| None, Limits::unlimited(512)).is_err());
    }
}
