//! A record of a layer on a device below, in two copies, so that a power cut leaves one of them.

use super::core::Below;
use super::memory::Buffer;
use super::table::GROUP;
use platter_block::bio::Flags;
use platter_block::fault::{Fault, Status};

/// Bytes at the beginning of the device that the copies take.
pub const COPIES_BYTES: u64 = 2 * GROUP;

/// Writes both copies of a record of at most [`GROUP`] bytes, durably, one after the other. The record has a checksum and a
/// number that grows, so that [`read_copies`] can tell the newest one.
///
/// # Errors
/// That of a write. The device has the old record or the new one.
pub async fn write_copies(below: &Below, device: usize, record: &[u8]) -> Status {
    for pos in [0, GROUP] {
        let mut buffer = Buffer::new(GROUP as usize);
        buffer.bytes_mut()[..record.len()].copy_from_slice(record);
        below.write(device, pos, buffer, Flags::FUA).await?;
    }
    Ok(())
}

/// Reads both copies: the bytes, and the newest record of those that `decode` finds sound.
///
/// # Errors
/// That of the read.
pub async fn read_copies<R>(
    below: &Below,
    device: usize,
    decode: impl Fn(&[u8]) -> Option<R>,
    number: impl Fn(&R) -> u64,
) -> Result<(Buffer, Option<R>), Fault> {
    let bytes = below.read(device, 0, Buffer::new(COPIES_BYTES as usize)).await?;
    let newest = bytes.bytes().chunks_exact(GROUP as usize).filter_map(decode).max_by_key(number);
    Ok((bytes, newest))
}
