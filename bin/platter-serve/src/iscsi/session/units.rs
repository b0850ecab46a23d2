//! Units whose data is being received, and where it goes.

use super::slots::Slots;
use platter_remote::iscsi::wire::Header;

/// Where the data segment of a unit goes.
pub(super) enum Place {
    /// To the data of a command, from its offset on; what is beyond it is forgotten.
    Slot(u16),
    Bytes(Vec<u8>),
    Nowhere,
    /// Nowhere; the unit is ignored.
    Ignored,
}

/// A unit whose data is being received.
pub(super) struct Incoming {
    pub(super) header: Header,
    pub(super) place: Place,
    /// Bytes of the data that are there.
    pub(super) filled: usize,
    /// The running digest of the data, if there is one.
    pub(super) sum: u32,
}

impl Incoming {
    /// The part of a slot's data that is still to be received directly.
    pub(super) fn rest<'a>(&self, slots: &'a mut Slots) -> &'a mut [u8] {
        let Place::Slot(index) = self.place else { return &mut [] };
        let slot = slots.get(index);
        let from = slot.offset as usize + self.filled;
        let end = slot.offset as usize + self.header.data_bytes();
        let data = slot.data.as_deref_mut().unwrap_or_default();
        let end = end.min(data.len());
        data.get_mut(from..end.max(from)).unwrap_or_default()
    }

    /// So many bytes were received directly.
    pub(super) fn advance(&mut self, bytes: usize) {
        self.filled += bytes;
    }
}
