//! From bytes to units: headers, data segments that go to their places, digests.

use super::slots::Slots;
use super::{MAX_UNSENT, Session};
use crate::iscsi::login::MAX_RECEIVE;
use platter_remote::iscsi::wire::{DIGEST_BYTES, HEADER_BYTES, Header, opcode, padding};

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
    filled: usize,
    /// The running digest of the data, if there is one.
    sum: u32,
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

impl Session<'_> {
    /// Takes the units that have arrived, as far as there is room.
    pub(super) fn take_units(&mut self) {
        self.stalled = false;
        while self.ended.is_none() {
            let goes_on = match self.incoming.take() {
                Some(incoming) => self.take_data(incoming),
                None => self.take_header(),
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Takes a header. `false`: it has not arrived completely, or there is no room for its unit.
    fn take_header(&mut self) -> bool {
        let Some(first) = self.inbox.unread().first_chunk::<HEADER_BYTES>() else { return false };
        let header = Header(*first);
        let digest = if self.params.header_digest { DIGEST_BYTES } else { 0 };
        let covered = HEADER_BYTES + header.ahs_bytes();
        let Some(all) = self.inbox.unread().get(..covered + digest) else { return false };
        if digest > 0 && crc32c::crc32c(&all[..covered]).to_le_bytes() != all[covered..] {
            self.end("the digest of a header is wrong");
            return false;
        }
        if header.data_bytes() > MAX_RECEIVE as usize {
            self.end("a data segment is longer than was agreed on");
            return false;
        }
        let full = header.opcode() == opcode::COMMAND && self.slots.is_full();
        if full || self.outbox.len() > MAX_UNSENT {
            self.stalled = true;
            return false;
        }
        self.inbox.consume(covered + digest);
        let place = self.begin_unit(&header);
        if self.ended.is_none() {
            self.incoming = Some(Incoming { header, place, filled: 0, sum: 0 });
        }
        true
    }

    /// Takes what has arrived of a unit's data. `false`: it is not complete.
    fn take_data(&mut self, mut incoming: Incoming) -> bool {
        let bytes = incoming.header.data_bytes();
        let arrived = self.inbox.unread().len().min(bytes - incoming.filled);
        let part = &self.inbox.unread()[..arrived];
        if self.params.data_digest {
            incoming.sum = crc32c::crc32c_append(incoming.sum, part);
        }
        if let Place::Bytes(all) = &mut incoming.place {
            all.extend(part);
        }
        let rest = incoming.rest(&mut self.slots);
        let kept = rest.len().min(part.len());
        self.copies.copy(&mut rest[..kept], &part[..kept]);
        self.inbox.consume(arrived);
        incoming.filled += arrived;
        let digest = if self.params.data_digest && bytes > 0 { DIGEST_BYTES } else { 0 };
        let pad = padding(bytes);
        if incoming.filled < bytes || self.inbox.unread().len() < pad + digest {
            self.incoming = Some(incoming);
            return false;
        }
        let tail = &self.inbox.unread()[..pad + digest];
        let right =
            digest == 0 || crc32c::crc32c_append(incoming.sum, &tail[..pad]).to_le_bytes() == tail[pad..];
        self.inbox.consume(pad + digest);
        if right {
            self.complete_unit(incoming.header, incoming.place);
        } else {
            // Without error recovery within a session, there is no way to ask for it again.
            self.end("the digest of data is wrong");
        }
        true
    }
}
