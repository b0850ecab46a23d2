//! The messages of the vhost-user protocol, as bytes.
//!
//! The protocol is described in QEMU's documentation, `docs/interop/vhost-user.rst`. All numbers have the byte order of the
//! machine.

use super::inflight::Shape;
use super::memory::{MAX_REGIONS, Region};
use super::ring::Addresses;

/// Requests of a front end.
pub(super) mod request {
    pub(in crate::vhost) const GET_FEATURES: u32 = 1;
    pub(in crate::vhost) const SET_FEATURES: u32 = 2;
    pub(in crate::vhost) const SET_OWNER: u32 = 3;
    pub(in crate::vhost) const RESET_OWNER: u32 = 4;
    pub(in crate::vhost) const SET_MEM_TABLE: u32 = 5;
    pub(in crate::vhost) const SET_VRING_NUM: u32 = 8;
    pub(in crate::vhost) const SET_VRING_ADDR: u32 = 9;
    pub(in crate::vhost) const SET_VRING_BASE: u32 = 10;
    pub(in crate::vhost) const GET_VRING_BASE: u32 = 11;
    pub(in crate::vhost) const SET_VRING_KICK: u32 = 12;
    pub(in crate::vhost) const SET_VRING_CALL: u32 = 13;
    pub(in crate::vhost) const SET_VRING_ERR: u32 = 14;
    pub(in crate::vhost) const GET_PROTOCOL_FEATURES: u32 = 15;
    pub(in crate::vhost) const SET_PROTOCOL_FEATURES: u32 = 16;
    pub(in crate::vhost) const GET_QUEUE_NUM: u32 = 17;
    pub(in crate::vhost) const SET_VRING_ENABLE: u32 = 18;
    pub(in crate::vhost) const SET_BACKEND_REQ_FD: u32 = 21;
    pub(in crate::vhost) const GET_CONFIG: u32 = 24;
    pub(in crate::vhost) const SET_CONFIG: u32 = 25;
    pub(in crate::vhost) const GET_INFLIGHT_FD: u32 = 31;
    pub(in crate::vhost) const SET_INFLIGHT_FD: u32 = 32;
    pub(in crate::vhost) const RESET_DEVICE: u32 = 34;
    pub(in crate::vhost) const GET_MAX_MEM_SLOTS: u32 = 36;
    pub(in crate::vhost) const ADD_MEM_REG: u32 = 37;
    pub(in crate::vhost) const REM_MEM_REG: u32 = 38;
}

/// Request of a back end: the configuration space has changed.
pub(super) const CONFIG_CHANGE: u32 = 2;

/// Bits of protocol features.
pub(super) mod protocol {
    pub(in crate::vhost) const MQ: u64 = 1;
    pub(in crate::vhost) const REPLY_ACK: u64 = 1 << 3;
    pub(in crate::vhost) const BACKEND_REQ: u64 = 1 << 5;
    pub(in crate::vhost) const CONFIG: u64 = 1 << 9;
    pub(in crate::vhost) const INFLIGHT_SHMFD: u64 = 1 << 12;
    pub(in crate::vhost) const RESET_DEVICE: u64 = 1 << 13;
    pub(in crate::vhost) const CONFIGURE_MEM_SLOTS: u64 = 1 << 15;
    pub(in crate::vhost) const ALL: u64 =
        MQ | REPLY_ACK | BACKEND_REQ | CONFIG | INFLIGHT_SHMFD | RESET_DEVICE | CONFIGURE_MEM_SLOTS;
}

/// Flags of a message.
const VERSION_MASK: u32 = 3;
const VERSION: u32 = 1;
const REPLY: u32 = 4;
const NEEDS_REPLY: u32 = 8;

/// Bit of the number of a queue: no descriptor comes with the message.
const NO_DESCRIPTOR: u64 = 1 << 8;

/// Bytes of a header.
pub const HEADER: usize = 12;

/// Most bytes of the body of a message.
pub const MAX_BODY: usize = 4096;

/// Most descriptors that come with a message.
pub(super) const MAX_DESCRIPTORS: usize = MAX_REGIONS;

/// The head of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its number.
    pub request: u32,
    /// The front end waits for a reply.
    pub needs_reply: bool,
    /// Length of its body.
    pub bytes: usize,
}

impl Header {
    /// Takes a header apart.
    ///
    /// # Errors
    /// It is none of a request of this version, or announces too long a body.
    pub fn parse(bytes: &[u8; HEADER]) -> Result<Header, String> {
        let [request, flags, len] = [0, 4, 8].map(|at| Body(bytes).word(at).unwrap_or(0));
        if flags & VERSION_MASK != VERSION || flags & REPLY != 0 {
            return Err(format!("the peer does not speak version 1 of vhost-user (flags {flags:#x})"));
        }
        if len as usize > MAX_BODY {
            return Err(format!("a message of {len} bytes; at most {MAX_BODY}"));
        }
        Ok(Header { request, needs_reply: flags & NEEDS_REPLY != 0, bytes: len as usize })
    }
}

/// A reply with its header.
pub(super) fn reply(request: u32, body: &[u8]) -> Vec<u8> {
    message(request, VERSION | REPLY, body)
}

/// A message that tells the front end of a new configuration space.
pub(super) fn config_change() -> Vec<u8> {
    message(CONFIG_CHANGE, VERSION, &[])
}

fn message(request: u32, flags: u32, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER + body.len());
    [request, flags, body.len() as u32].iter().for_each(|word| out.extend(word.to_ne_bytes()));
    out.extend(body);
    out
}

/// A number for a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbered {
    /// The queue.
    pub queue: u32,
    /// The number.
    pub value: u32,
}

/// The body of a message. Each method takes it as one kind of message; `None`: it is too short, or says too much.
pub struct Body<'a>(pub &'a [u8]);

impl<'a> Body<'a> {
    fn word(&self, at: usize) -> Option<u32> {
        self.0.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
    }

    fn long(&self, at: usize) -> Option<u64> {
        self.0.get(at..)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
    }

    /// One number.
    pub fn number(&self) -> Option<u64> {
        self.long(0)
    }

    /// A number for a queue.
    pub fn numbered(&self) -> Option<Numbered> {
        Some(Numbered { queue: self.word(0)?, value: self.word(4)? })
    }

    /// The queue of a message with a descriptor, and whether there is one.
    pub fn descriptor(&self) -> Option<(u32, bool)> {
        let value = self.number()?;
        Some((value as u32 & 0xff, value & NO_DESCRIPTOR == 0))
    }

    /// A queue, and where it is.
    pub fn addresses(&self) -> Option<(u32, Addresses)> {
        let [descriptors, used, available] = [self.long(8)?, self.long(16)?, self.long(24)?];
        Some((self.word(0)?, Addresses { descriptors, available, used }))
    }

    fn region(&self, at: usize) -> Option<Region> {
        let [guest, len] = [self.long(at)?, self.long(at + 8)?];
        Some(Region { guest, len, user: self.long(at + 16)?, offset: self.long(at + 24)? })
    }

    /// The regions of a table of memory.
    pub fn regions(&self) -> Option<Vec<Region>> {
        let count = self.word(0)? as usize;
        (count <= MAX_REGIONS).then_some(())?;
        (0..count).map(|index| self.region(8 + 32 * index)).collect()
    }

    /// A single region.
    pub fn single_region(&self) -> Option<Region> {
        self.region(8)
    }

    /// Offset and bytes of a part of the configuration space.
    pub fn config(&self) -> Option<(u32, &'a [u8])> {
        let (offset, len) = (self.word(0)?, self.word(4)? as usize);
        Some((offset, self.0.get(12..12 + len)?))
    }

    /// A region of requests in flight.
    pub fn shape(&self) -> Option<Shape> {
        let [queues, size] = [16, 18].map(|at| {
            self.0.get(at..).and_then(|bytes| bytes.first_chunk()).map(|bytes| u16::from_ne_bytes(*bytes))
        });
        Some(Shape { bytes: self.long(0)?, offset: self.long(8)?, queues: queues?, size: size? })
    }
}

/// The body of a reply with the shape of a region of requests in flight. Front ends differ about padding at its end, so it
/// is as long as the body of the request.
pub(super) fn shape_body(shape: &Shape, bytes: usize) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(shape.bytes.to_ne_bytes());
    out.extend(shape.offset.to_ne_bytes());
    out.extend(shape.queues.to_ne_bytes());
    out.extend(shape.size.to_ne_bytes());
    out.resize(bytes.max(out.len()), 0);
    out
}

/// The body of a reply with the base of a queue.
pub(super) fn numbered_body(queue: u32, value: u32) -> Vec<u8> {
    [queue.to_ne_bytes(), value.to_ne_bytes()].concat()
}

/// The body of a reply with a part of the configuration space; `asked` is the body of the request.
pub fn config_body(asked: &[u8], space: &[u8]) -> Option<Vec<u8>> {
    let (offset, wanted) = Body(asked).config()?;
    let mut out = asked.get(..12)?.to_vec();
    let rest = space.get(offset as usize..).unwrap_or(&[]);
    out.extend((0..wanted.len()).map(|at| rest.get(at).copied().unwrap_or(0)));
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_checked() {
        let of = |words: [u32; 3]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            Header::parse(bytes.first_chunk().unwrap())
        };
        assert_eq!(of([5, 9, 40]), Ok(Header { request: 5, needs_reply: true, bytes: 40 }));
        assert!(of([5, 0, 0]).is_err(), "no version");
        assert!(of([5, 5, 0]).is_err(), "a reply");
        assert!(of([5, 1, 4097]).is_err(), "too long");
    }

    #[test]
    fn short_bodies_have_nothing_in_them() {
        let full = [1u8; 72];
        assert!(Body(&full[..39]).addresses().is_some() && Body(&full[..31]).addresses().is_none());
        let table = [2u32.to_ne_bytes(), 0u32.to_ne_bytes()].concat();
        assert!(Body(&table).regions().is_none());
        assert_eq!(Body(&[table, vec![0; 64]].concat()).regions().map(|all| all.len()), Some(2));
        assert!(Body(&[u32::MAX.to_ne_bytes(), [0; 4]].concat()).regions().is_none());
        let config = [[0; 4], u32::MAX.to_ne_bytes(), [0; 4]].concat();
        assert!(Body(&config).config().is_none() && config_body(&config, &[0; 60]).is_none());
        let asked = [58u32.to_ne_bytes().to_vec(), 4u32.to_ne_bytes().to_vec(), vec![0; 8]].concat();
        assert_eq!(config_body(&asked, &[7; 60]).unwrap()[12..], [7, 7, 0, 0]);
    }
}
