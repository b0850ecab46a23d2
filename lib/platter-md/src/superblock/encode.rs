//! A superblock as bytes.

use super::{FIXED, MAGIC, MAX_MEMBERS, SECTOR, SUPERBLOCK_BYTES, Superblock, Time, checksum};
use crate::bytes::put;

impl Superblock {
    /// Its position on the device, in bytes.
    pub fn position(&self) -> u64 {
        self.super_offset.saturating_mul(SECTOR)
    }

    /// Its bytes, [`SUPERBLOCK_BYTES`] of them, which lie at [`position`](Superblock::position): the inverse of
    /// [`parse`](super::parse). What is not used is zero, behind the table of roles too.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        self.put_array(&mut bytes);
        self.put_device(&mut bytes);
        let roles = &self.roles[..self.roles.len().min(MAX_MEMBERS as usize)];
        put(&mut bytes, 0xdc, (roles.len() as u32).to_le_bytes());
        for (at, role) in roles.iter().enumerate() {
            put(&mut bytes, FIXED + 2 * at, role.number().to_le_bytes());
        }
        let sum = checksum(&bytes, FIXED + 2 * roles.len());
        put(&mut bytes, 0xd8, sum.to_le_bytes());
        bytes
    }

    /// What is the same on all members.
    fn put_array(&self, bytes: &mut [u8]) {
        put(bytes, 0, MAGIC.to_le_bytes());
        put(bytes, 4, 1u32.to_le_bytes());
        put(bytes, 0x10, self.array.0);
        put(bytes, 0x20, self.name.0);
        put(bytes, 0x40, self.created.bits().to_le_bytes());
        put(bytes, 0x48, self.level.number().to_le_bytes());
        put(bytes, 0x4c, self.layout.to_le_bytes());
        put(bytes, 0x50, self.component.to_le_bytes());
        put(bytes, 0x58, (self.chunk as u32).to_le_bytes());
        put(bytes, 0x5c, self.members.to_le_bytes());
        put(bytes, 0x64, self.reshape.level.to_le_bytes());
        put(bytes, 0x68, self.reshape.position.to_le_bytes());
        put(bytes, 0x70, self.reshape.members.to_le_bytes());
        put(bytes, 0x74, self.reshape.layout.to_le_bytes());
        put(bytes, 0x78, self.reshape.chunk.to_le_bytes());
        put(bytes, 0x7c, self.reshape.offset.to_le_bytes());
        put(bytes, 0xc0, self.updated.bits().to_le_bytes());
        put(bytes, 0xc8, self.events.to_le_bytes());
        put(bytes, 0xd0, self.resync_offset.to_le_bytes());
        put(bytes, 0xe0, self.logical_block.to_le_bytes());
    }

    /// What is that of this device.
    fn put_device(&self, bytes: &mut [u8]) {
        put(bytes, 8, self.features.to_le_bytes());
        match (self.bitmap_offset, self.ppl) {
            (_, Some((offset, size))) => {
                put(bytes, 0x60, offset.to_le_bytes());
                put(bytes, 0x62, size.to_le_bytes());
            }
            (Some(offset), None) => put(bytes, 0x60, offset.to_le_bytes()),
            (None, None) => {}
        }
        put(bytes, 0x80, self.data_offset.to_le_bytes());
        put(bytes, 0x88, self.data_size.to_le_bytes());
        put(bytes, 0x90, self.super_offset.to_le_bytes());
        put(bytes, 0x98, self.recovery_offset.to_le_bytes());
        put(bytes, 0xa0, self.number.to_le_bytes());
        put(bytes, 0xa4, self.corrected_reads.to_le_bytes());
        put(bytes, 0xa8, self.device.0);
        put(bytes, 0xb8, [u8::from(self.write_mostly) | u8::from(self.fails_fast) << 1]);
        put(bytes, 0xb9, [self.bad_shift]);
        put(bytes, 0xba, self.bad_size.to_le_bytes());
        put(bytes, 0xbc, self.bad_offset.to_le_bytes());
    }
}

impl Time {
    /// As md writes it: 40 bits of seconds below 24 of microseconds.
    fn bits(self) -> u64 {
        self.s & 0xff_ffff_ffff | u64::from(self.us) << 40
    }
}
