//! The copies of payload that the server itself makes, counted. Every copy of payload between buffers goes through here,
//! so that the sum can be compared with what an instrument that does not know this code counts.

/// Copies bytes and counts them.
#[derive(Default)]
pub(crate) struct Copies {
    bytes: u64,
}

impl Copies {
    /// Copies `from` to the beginning of `to`.
    #[inline]
    pub(crate) fn copy(&mut self, to: &mut [u8], from: &[u8]) {
        to[..from.len()].copy_from_slice(from);
        self.bytes += from.len() as u64;
    }

    /// Moves `from..to` of `memory` to its beginning.
    #[inline]
    pub(crate) fn move_to_front(&mut self, memory: &mut [u8], from: usize, to: usize) {
        memory.copy_within(from..to, 0);
        self.bytes += (to - from) as u64;
    }

    /// Bytes copied so far.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}
