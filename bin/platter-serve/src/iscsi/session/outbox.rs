//! Units that are to be sent.

use super::slots::Slots;
use crate::stream::socket::{Mode, Socket};
use platter_remote::iscsi::wire::{DIGEST_BYTES, HEADER_BYTES, Header, padding};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::Range;

/// Most parts of one call: up to three for each unit.
const MAX_PARTS: usize = 192;

/// The data segment of a unit.
pub(super) enum Body {
    Nothing,
    Bytes(Vec<u8>),
    /// A part of the data of a slot, which is sent from where the device has put it.
    Slot(u16, Range<u32>),
}

impl Body {
    fn own_bytes(&self) -> usize {
        if let Body::Bytes(bytes) = self { bytes.len() } else { 0 }
    }
}

struct Unit {
    head: [u8; HEADER_BYTES + DIGEST_BYTES],
    head_bytes: u8,
    body: Body,
    tail: [u8; 3 + DIGEST_BYTES],
    tail_bytes: u8,
    /// The slot that is free when the unit is sent.
    frees: Option<u16>,
}

impl Unit {
    fn parts<'a>(&'a self, slots: &'a Slots) -> [&'a [u8]; 3] {
        [
            &self.head[..usize::from(self.head_bytes)],
            body(&self.body, slots),
            &self.tail[..usize::from(self.tail_bytes)],
        ]
    }

    fn bytes(&self) -> usize {
        let body = match &self.body {
            Body::Nothing => 0,
            Body::Bytes(bytes) => bytes.len(),
            Body::Slot(_, range) => range.len(),
        };
        usize::from(self.head_bytes) + body + usize::from(self.tail_bytes)
    }
}

fn body<'a>(body: &'a Body, slots: &'a Slots) -> &'a [u8] {
    match body {
        Body::Nothing => &[],
        Body::Bytes(bytes) => bytes,
        Body::Slot(slot, range) => {
            let data = slots.data(*slot);
            &data[range.start as usize..range.end as usize]
        }
    }
}

/// Which digests follow headers and data.
#[derive(Clone, Copy, Default)]
pub(super) struct Digests {
    pub(super) header: bool,
    pub(super) data: bool,
}

#[derive(Default)]
pub(super) struct Outbox {
    queue: VecDeque<Unit>,
    /// Bytes of the first unit that are sent.
    sent: usize,
    /// Bytes of the units that are not data of a slot.
    held: usize,
}

impl Outbox {
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.held
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Adds a unit; its header gets the length of the data. `frees` is the slot that the last unit of a command frees.
    pub(super) fn push(
        &mut self,
        header: Header,
        data: Body,
        frees: Option<u16>,
        digests: Digests,
        slots: &Slots,
    ) {
        let bytes = body(&data, slots);
        let header = header.with_data_bytes(bytes.len());
        let mut head = [0; HEADER_BYTES + DIGEST_BYTES];
        head[..HEADER_BYTES].copy_from_slice(&header.0);
        let mut head_bytes = HEADER_BYTES;
        if digests.header {
            head[HEADER_BYTES..].copy_from_slice(&crc32c::crc32c(&header.0).to_le_bytes());
            head_bytes += DIGEST_BYTES;
        }
        let mut tail = [0; 3 + DIGEST_BYTES];
        let pad = padding(bytes.len());
        let mut tail_bytes = pad;
        if digests.data && !bytes.is_empty() {
            let sum = crc32c::crc32c_append(crc32c::crc32c(bytes), &tail[..pad]);
            tail[pad..pad + DIGEST_BYTES].copy_from_slice(&sum.to_le_bytes());
            tail_bytes += DIGEST_BYTES;
        }
        self.held += data.own_bytes();
        self.queue.push_back(Unit {
            head,
            head_bytes: head_bytes as u8,
            body: data,
            tail,
            tail_bytes: tail_bytes as u8,
            frees,
        });
    }

    /// Sends as many units as the socket takes. `sent` gets each slot that is free now.
    pub(super) fn send(
        &mut self,
        socket: &Socket,
        slots: &mut Slots,
        mut sent: impl FnMut(&mut Slots, u16),
    ) -> Result<(), Errno> {
        while !self.queue.is_empty() {
            let count = self.send_some(socket, slots)?;
            self.sent += count;
            while let Some(first) = self.queue.front()
                && self.sent >= first.bytes()
            {
                self.sent -= first.bytes();
                let Some(unit) = self.queue.pop_front() else { break };
                self.held -= unit.body.own_bytes();
                if let Some(slot) = unit.frees {
                    sent(slots, slot);
                }
            }
        }
        Ok(())
    }

    fn send_some(&self, socket: &Socket, slots: &Slots) -> Result<usize, Errno> {
        let mut parts = [IoSlice::new(&[]); MAX_PARTS];
        let mut count = 0;
        let mut skip = self.sent;
        for unit in &self.queue {
            for part in unit.parts(slots) {
                let left = &part[skip.min(part.len())..];
                skip -= part.len() - left.len();
                if !left.is_empty() {
                    parts[count] = IoSlice::new(left);
                    count += 1;
                }
            }
            if count + 3 > MAX_PARTS {
                break;
            }
        }
        socket.send(&parts[..count], Mode::Try)
    }
}
