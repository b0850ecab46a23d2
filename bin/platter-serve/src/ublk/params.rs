//! What the kernel is told of a device.

use super::abi::{MAX_BLOCK, Params, SECTOR, attribute};
use crate::error::ServeError;
use crate::served::Served;

/// Largest read or write, in bytes.
pub(super) const MAX_TRANSFER: u32 = 1 << 20;

/// Largest discard or write-zeroes, in bytes. Both are one request below, which others wait for.
const MAX_RANGE: u64 = 1 << 30;

fn shift(bytes: u32) -> u8 {
    bytes.trailing_zeros() as u8
}

/// The parameters of the block device for a served device.
///
/// # Errors
/// The kernel cannot have a block device of its blocks or size.
pub(super) fn of(served: &Served) -> Result<Params, ServeError> {
    let device = served.device();
    let geometry = device.geometry();
    let limits = geometry.limits;
    let refuse = |what: String| Err(ServeError::usage(format!("{} cannot be served: {what}", device.name())));
    let logical = limits.logical_block.max(SECTOR as u32);
    if logical > MAX_BLOCK {
        return refuse(format!(
            "its blocks have {logical} bytes; a block device has {SECTOR} to {MAX_BLOCK}"
        ));
    }
    // A partial block at the end cannot be a part of a block device.
    let sectors = geometry.size / u64::from(logical) * (u64::from(logical) / SECTOR);
    if sectors == 0 {
        return refuse(format!("it has {} bytes, less than a block of {logical}", geometry.size));
    }
    let physical = limits.physical_block.clamp(logical, 1 << 20);
    let optimal = limits.optimal_io;
    let optimal = if optimal.is_power_of_two() && optimal > physical { optimal } else { physical };
    let mut attributes = 0;
    // Without a volatile cache the kernel sends no flushes, and what the process holds in memory needs them.
    if geometry.features.write_cache || device.backend().holds_unflushed() {
        attributes |= attribute::VOLATILE_CACHE | attribute::FUA;
    }
    let writable = !served.is_read_only();
    if !writable {
        attributes |= attribute::READ_ONLY;
    }
    let range = |most: u64| (most.min(MAX_RANGE) / u64::from(logical) * u64::from(logical) / SECTOR) as u32;
    let discards = writable && limits.discard_granularity > 0;
    Ok(Params {
        attributes,
        logical_shift: shift(logical),
        physical_shift: shift(physical),
        optimal_shift: shift(optimal),
        minimum_shift: shift(physical),
        max_sectors: MAX_TRANSFER / SECTOR as u32,
        sectors,
        // The kernel takes the limit of write-zeroes together with that of discards.
        discard_granularity: if writable { limits.discard_granularity.max(logical) } else { 0 },
        max_discard_sectors: if discards { range(limits.max_discard) } else { 0 },
        max_zeroes_sectors: if writable { range(MAX_RANGE) } else { 0 },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_disk::device::Device;
    use platter_disk::open::DiskOptions;

    fn file(bytes: u64) -> (tempfile::NamedTempFile, Served) {
        let file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.as_file().set_len(bytes).unwrap();
        let device = Device::open(file.path(), DiskOptions::read_write()).unwrap();
        (file, Served::new("d", device).unwrap())
    }

    #[test]
    fn caches_need_flushes_and_read_only_devices_no_discards() {
        let cached = attribute::VOLATILE_CACHE | attribute::FUA;
        let (_guard, served) = file(1 << 20);
        let params = of(&served).unwrap();
        assert_eq!((params.attributes & cached, params.sectors), (cached, 2048));
        assert!(params.max_zeroes_sectors > 0 && params.discard_granularity > 0);
        let params = of(&served.read_only()).unwrap();
        assert_eq!(params.attributes & attribute::READ_ONLY, attribute::READ_ONLY);
        let zero = (params.discard_granularity, params.max_discard_sectors, params.max_zeroes_sectors);
        assert_eq!(zero, (0, 0, 0));
        // Memory has no volatile cache, but is lost with the process.
        let ram = Served::new("r", Device::ram(1 << 20).unwrap()).unwrap();
        assert_eq!(of(&ram).unwrap().attributes, cached);
    }

    #[test]
    fn a_partial_block_at_the_end_is_left_out() {
        let (_guard, served) = file((1 << 20) + 700);
        let params = of(&served).unwrap();
        let block = 1u64 << params.logical_shift;
        assert_eq!(params.sectors * SECTOR, ((1 << 20) + 700) / block * block);
        let (_guard, served) = file(100);
        let error = of(&served).unwrap_err();
        assert!(error.is_usage() && error.to_string().contains("100 bytes"), "{error}");
    }
}
