//! Replies that are to be sent.

use crate::nbd::link::Link;
use crate::stream::socket::Mode;
use platter_disk::pool::PoolBuf;
use platter_remote::nbd::wire::{Chunk, SimpleReply, chunk, chunk_flag};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io::IoSlice;

/// Longest beginning of a reply: the header of a chunk with the fields of a hole.
const MAX_HEAD: usize = Chunk::BYTES + 12;

/// Most parts of one call, two for each reply.
const MAX_PARTS: usize = 128;

/// What follows the head of a reply.
pub(super) enum Body {
    Nothing,
    /// The memory that the device has filled: it is sent as it is.
    Data(PoolBuf),
    Bytes(Vec<u8>),
    Text(&'static str),
}

impl Body {
    fn as_bytes(&self) -> &[u8] {
        match self {
            Body::Nothing => &[],
            Body::Data(buffer) => buffer,
            Body::Bytes(bytes) => bytes,
            Body::Text(text) => text.as_bytes(),
        }
    }
}

/// A reply to the request of a slot.
pub(super) struct Reply {
    head: [u8; MAX_HEAD],
    head_bytes: u8,
    slot: u16,
    body: Body,
}

impl Reply {
    fn new(slot: u16, parts: [&[u8]; 3], body: Body) -> Reply {
        let mut reply = Reply { head: [0; MAX_HEAD], head_bytes: 0, slot, body };
        for part in parts {
            let at = usize::from(reply.head_bytes);
            reply.head[at..at + part.len()].copy_from_slice(part);
            reply.head_bytes += part.len() as u8;
        }
        reply
    }

    /// A reply without structure; `error` is 0 or a number of the protocol.
    #[inline]
    pub(super) fn simple(slot: u16, cookie: u64, error: u32, body: Body) -> Reply {
        let mut reply = Reply { head: [0; MAX_HEAD], head_bytes: SimpleReply::BYTES as u8, slot, body };
        reply.head[..SimpleReply::BYTES].copy_from_slice(&SimpleReply { error, cookie }.to_bytes());
        reply
    }

    /// The only chunk of a reply: `fields` and the body.
    fn chunk(slot: u16, cookie: u64, kind: u16, fields: [&[u8]; 2], body: Body) -> Reply {
        let length = (fields[0].len() + fields[1].len() + body.as_bytes().len()) as u32;
        let header = Chunk { flags: chunk_flag::DONE, kind, cookie, length };
        Reply::new(slot, [&header.to_bytes(), fields[0], fields[1]], body)
    }

    /// The data at `offset`.
    pub(super) fn data(slot: u16, cookie: u64, offset: u64, data: PoolBuf) -> Reply {
        Reply::chunk(slot, cookie, chunk::OFFSET_DATA, [&offset.to_be_bytes(), &[]], Body::Data(data))
    }

    /// A hole at `offset`.
    pub(super) fn hole(slot: u16, cookie: u64, offset: u64, length: u32) -> Reply {
        let fields = [&offset.to_be_bytes()[..], &length.to_be_bytes()];
        Reply::chunk(slot, cookie, chunk::OFFSET_HOLE, fields, Body::Nothing)
    }

    /// Success without data.
    pub(super) fn none(slot: u16, cookie: u64) -> Reply {
        Reply::chunk(slot, cookie, chunk::NONE, [&[], &[]], Body::Nothing)
    }

    /// The allocation status: extents of the metadata context `context`.
    pub(super) fn status(slot: u16, cookie: u64, context: u32, extents: Vec<u8>) -> Reply {
        let fields = [&context.to_be_bytes()[..], &[]];
        Reply::chunk(slot, cookie, chunk::BLOCK_STATUS, fields, Body::Bytes(extents))
    }

    /// An error with a message.
    pub(super) fn error(slot: u16, cookie: u64, error: u32, message: Body) -> Reply {
        let length = message.as_bytes().len() as u16;
        let fields = [&error.to_be_bytes()[..], &length.to_be_bytes()];
        Reply::chunk(slot, cookie, chunk::ERROR, fields, message)
    }

    fn head(&self) -> &[u8] {
        &self.head[..usize::from(self.head_bytes)]
    }

    fn bytes(&self) -> usize {
        usize::from(self.head_bytes) + self.body.as_bytes().len()
    }
}

#[derive(Default)]
pub(super) struct Outbox {
    queue: VecDeque<Reply>,
    /// Bytes of the first reply that are sent.
    sent: usize,
}

impl Outbox {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    #[inline]
    pub(super) fn push(&mut self, reply: Reply) {
        self.queue.push_back(reply);
    }

    /// Sends as many replies as the link takes. `sent` gets the slot and the buffer of each that is out completely.
    pub(super) fn send(
        &mut self,
        link: &mut Link,
        mut sent: impl FnMut(u16, Option<PoolBuf>),
    ) -> Result<(), Errno> {
        while !self.queue.is_empty() {
            let mut parts = [IoSlice::new(&[]); MAX_PARTS];
            let mut count = 0;
            let mut skip = self.sent;
            for reply in &self.queue {
                for part in [reply.head(), reply.body.as_bytes()] {
                    let left = &part[skip.min(part.len())..];
                    skip -= part.len() - left.len();
                    if !left.is_empty() {
                        parts[count] = IoSlice::new(left);
                        count += 1;
                    }
                }
                if count + 2 > MAX_PARTS {
                    break;
                }
            }
            self.sent += link.send(&parts[..count], Mode::Try)?;
            while let Some(first) = self.queue.front()
                && self.sent >= first.bytes()
            {
                self.sent -= first.bytes();
                if let Some(reply) = self.queue.pop_front() {
                    sent(reply.slot, if let Body::Data(buffer) = reply.body { Some(buffer) } else { None });
                }
            }
        }
        Ok(())
    }
}
