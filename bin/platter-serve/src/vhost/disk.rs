//! What a guest sees of the device: features and the configuration space.
//!
//! Virtual I/O Device (VIRTIO) Version 1.2, sections 5.2.3 and 5.2.4.

use super::request::{MAX_DATA_BYTES, MAX_RANGES, SECTOR};
use crate::served::Served;

/// Bits of features.
pub(super) mod feature {
    pub(in crate::vhost) const SIZE_MAX: u64 = 1 << 1;
    pub(in crate::vhost) const SEG_MAX: u64 = 1 << 2;
    pub(in crate::vhost) const RO: u64 = 1 << 5;
    pub(in crate::vhost) const BLK_SIZE: u64 = 1 << 6;
    pub(in crate::vhost) const FLUSH: u64 = 1 << 9;
    pub(in crate::vhost) const TOPOLOGY: u64 = 1 << 10;
    pub(in crate::vhost) const CONFIG_WCE: u64 = 1 << 11;
    pub(in crate::vhost) const MQ: u64 = 1 << 12;
    pub(in crate::vhost) const DISCARD: u64 = 1 << 13;
    pub(in crate::vhost) const WRITE_ZEROES: u64 = 1 << 14;
    pub(in crate::vhost) const INDIRECT_DESC: u64 = 1 << 28;
    pub(in crate::vhost) const EVENT_IDX: u64 = 1 << 29;
    /// Of the vhost-user protocol: there are protocol features.
    pub(in crate::vhost) const PROTOCOL: u64 = 1 << 30;
    pub(in crate::vhost) const VERSION_1: u64 = 1 << 32;
}

/// Most queues of a guest.
pub(super) const MAX_QUEUES: u16 = 16;

/// Most pieces of data of a request: as many as fit into a queue of 128 entries with header and status.
const MAX_SEGMENTS: u32 = 126;

/// Largest piece in bytes, so that as many pieces as there may be are no more than the longest data.
const MAX_SEGMENT_BYTES: u32 = 256 << 10;

const _: () = assert!(MAX_SEGMENTS as u64 * MAX_SEGMENT_BYTES as u64 <= MAX_DATA_BYTES);

/// Bytes of the configuration space, and the place of the one byte that the driver may change.
pub(super) const CONFIG_BYTES: usize = 60;
pub(super) const WRITE_BACK: u32 = 32;

/// The features of a device.
pub(super) fn features(served: &Served) -> u64 {
    let limits = served.device().geometry().limits;
    let when = |on: bool, bits: u64| if on { bits } else { 0 };
    let read_only = served.is_read_only();
    feature::SIZE_MAX
        | feature::SEG_MAX
        | feature::BLK_SIZE
        | feature::FLUSH
        | feature::TOPOLOGY
        | feature::MQ
        | feature::INDIRECT_DESC
        | feature::EVENT_IDX
        | feature::PROTOCOL
        | feature::VERSION_1
        | when(read_only, feature::RO)
        | when(!read_only, feature::CONFIG_WCE | feature::WRITE_ZEROES)
        | when(!read_only && limits.discard_granularity != 0, feature::DISCARD)
}

/// The configuration space. `write_back`: writes are durable only after a flush.
pub(super) fn config(served: &Served, write_back: bool) -> [u8; CONFIG_BYTES] {
    let device = served.device();
    let geometry = device.geometry();
    let limits = geometry.limits;
    let block = limits.logical_block.max(SECTOR as u32);
    let physical = limits.physical_block.max(block);
    let blocks = |bytes: u32| bytes / block;
    let sectors = |bytes: u64| u32::try_from(bytes / SECTOR).unwrap_or(u32::MAX);
    let discard = if limits.discard_granularity == 0 { 0 } else { sectors(limits.max_discard) };
    let mut out = [0; CONFIG_BYTES];
    let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &(geometry.size / SECTOR).to_le_bytes());
    put(8, &MAX_SEGMENT_BYTES.to_le_bytes());
    put(12, &MAX_SEGMENTS.to_le_bytes());
    put(20, &block.to_le_bytes());
    put(24, &[(physical / block).trailing_zeros() as u8]);
    put(26, &u16::try_from(blocks(physical)).unwrap_or(u16::MAX).to_le_bytes());
    put(28, &blocks(limits.optimal_io).to_le_bytes());
    put(WRITE_BACK as usize, &[u8::from(write_back)]);
    put(34, &MAX_QUEUES.to_le_bytes());
    put(36, &discard.to_le_bytes());
    put(40, &(MAX_RANGES as u32).to_le_bytes());
    put(44, &sectors(u64::from(limits.discard_granularity.max(block))).to_le_bytes());
    // Zeroes are split below, in whatever way the device carries them out.
    put(48, &sectors(geometry.size).to_le_bytes());
    put(52, &(MAX_RANGES as u32).to_le_bytes());
    put(56, &[u8::from(limits.discard_granularity != 0)]);
    out
}
