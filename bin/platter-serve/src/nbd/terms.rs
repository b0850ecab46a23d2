//! What server and client have agreed on, and which requests that allows.

use crate::served::Served;
use platter_remote::nbd::wire::{Request, command, command_flag, error, transmission_flag};
use std::ops::Range;

/// Largest payload of a request in bytes. Clients that do not ask for block sizes assume this one.
pub const MAX_PAYLOAD_BYTES: u32 = 32 << 20;

/// Largest minimum block size in bytes that the protocol allows.
const MAX_MIN_BLOCK: u32 = 64 << 10;

/// The terms of one connection. They do not change: a client keeps the size that it was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Terms {
    /// Size of the export in bytes.
    pub size: u64,
    /// Offsets and lengths are multiples of this, in bytes; a transfer may also end at the end of the device.
    pub min_block: u32,
    /// Block of the device in bytes. It is more than `min_block` if the size is no multiple of it: clients could not name the
    /// last bytes then. Requests for parts of blocks read, and write back, what is around them.
    pub device_block: u32,
    /// Size in bytes from which on requests are efficient.
    pub preferred_block: u32,
    /// Writes are refused.
    pub read_only: bool,
    /// Seeks take time.
    pub rotational: bool,
    /// Discards are carried out.
    pub discards: bool,
    /// Zeroes are written faster than data.
    pub fast_zeroes: bool,
    /// There is a cache to read ahead into.
    pub caches: bool,
    /// Replies to reads are structured.
    pub structured: bool,
    /// The client has chosen the metadata context `base:allocation`.
    pub status: bool,
}

impl Terms {
    /// The terms that a device offers; `structured` and `status` are not yet agreed on.
    pub fn of(served: &Served) -> Terms {
        let device = served.device();
        let geometry = device.geometry();
        let limits = geometry.limits;
        let device_block = limits.logical_block.clamp(1, MAX_MIN_BLOCK);
        let is_whole = geometry.size.is_multiple_of(u64::from(device_block));
        Terms {
            size: geometry.size,
            min_block: if is_whole { device_block } else { 1 },
            device_block,
            preferred_block: limits.physical_block.clamp(4096, MAX_MIN_BLOCK).max(device_block),
            read_only: served.is_read_only(),
            rotational: geometry.features.rotational,
            discards: limits.discard_granularity != 0,
            fast_zeroes: limits.write_zeroes,
            caches: device.cache_counters().is_some(),
            structured: false,
            status: false,
        }
    }

    /// The flags that tell the client what it may use.
    ///
    /// A flush of the device covers what any of its channels has completed, so several connections may share it.
    pub fn flags(&self) -> u16 {
        use transmission_flag as flag;
        let when = |on: bool, bits: u16| if on { bits } else { 0 };
        flag::HAS_FLAGS
            | flag::SEND_FLUSH
            | flag::SEND_FUA
            | flag::CAN_MULTI_CONN
            | when(self.read_only, flag::READ_ONLY)
            | when(!self.read_only, flag::SEND_WRITE_ZEROES | flag::SEND_FAST_ZERO)
            | when(!self.read_only && self.discards, flag::SEND_TRIM)
            | when(self.rotational, flag::ROTATIONAL)
            | when(self.caches, flag::SEND_CACHE)
            | when(self.structured, flag::SEND_DF)
    }

    /// What to do about a request.
    pub fn plan(&self, request: &Request) -> Plan {
        match self.check(request) {
            Err((error, message)) => Plan::Refuse { error, message },
            Ok(_) if request.kind == command::FLUSH && self.read_only => Plan::Nothing,
            Ok(_) if request.length == 0 && !matches!(request.kind, command::FLUSH | command::DISC) => {
                Plan::Nothing
            }
            Ok(what) => what,
        }
    }

    fn check(&self, request: &Request) -> Result<Plan, Refusal> {
        let invalid = |message| Err((error::EINVAL, message));
        let fua = request.flags & command_flag::FUA != 0;
        let Some((allowed, plan)) = self.known(request, fua) else { return invalid("unknown command") };
        if request.flags & !(allowed | command_flag::FUA) != 0 {
            return invalid("a flag is not allowed with this command");
        }
        match request.kind {
            command::DISC => return Ok(plan),
            command::FLUSH if (request.offset, request.length) != (0, 0) => {
                return invalid("offset and length of a flush must be 0");
            }
            command::FLUSH => return Ok(plan),
            command::BLOCK_STATUS if !self.status => {
                return invalid("no metadata context was negotiated");
            }
            command::BLOCK_STATUS if request.length == 0 => return invalid("the length is 0"),
            command::WRITE | command::TRIM | command::WRITE_ZEROES if self.read_only => {
                return Err((error::EPERM, "the export is read-only"));
            }
            command::TRIM if !self.discards => return invalid("the export does not offer to discard"),
            command::CACHE if !self.caches => return invalid("the export does not offer to read ahead"),
            _ => {}
        }
        self.check_range(request)?;
        let slow = plan == Plan::Zeroes { fua, unmap: false } || !self.fast_zeroes;
        if request.flags & command_flag::FAST_ZERO != 0 && slow {
            return Err((error::ENOTSUP, "zeroes are no faster than a write"));
        }
        Ok(plan)
    }

    /// Whether a request, which must have been checked, begins or ends inside a block of the device.
    #[inline]
    pub(super) fn is_partial(&self, request: &Request) -> bool {
        self.min_block < self.device_block && {
            let block = u64::from(self.device_block);
            let end = range(request).end;
            !request.offset.is_multiple_of(block) || (!end.is_multiple_of(block) && end != self.size)
        }
    }

    /// The blocks of the device that a request touches.
    pub(super) fn blocks(&self, request: &Request) -> Range<u64> {
        let (block, range) = (u64::from(self.device_block), range(request));
        range.start / block * block..range.end.next_multiple_of(block).min(self.size)
    }

    /// The part of a request that is whole blocks of the device; it may be empty.
    pub(super) fn whole_blocks(&self, request: &Request) -> Range<u64> {
        let (block, range) = (u64::from(self.device_block), range(request));
        let start = range.start.next_multiple_of(block).min(range.end);
        let end = if range.end == self.size { range.end } else { range.end / block * block };
        start..end.max(start)
    }

    /// The flags that a command may have, and what to do if all else is right.
    fn known(&self, request: &Request, fua: bool) -> Option<(u16, Plan)> {
        let has = |flag| request.flags & flag != 0;
        Some(match request.kind {
            command::READ if self.structured => {
                (command_flag::DF, Plan::Read { whole: has(command_flag::DF) })
            }
            command::READ => (0, Plan::Read { whole: true }),
            command::WRITE => (0, Plan::Write { fua }),
            command::DISC => (u16::MAX, Plan::Disconnect),
            command::FLUSH => (0, Plan::Flush),
            command::TRIM => (0, Plan::Discard { fua }),
            command::CACHE => (0, Plan::ReadAhead),
            command::WRITE_ZEROES => {
                let allowed = command_flag::NO_HOLE | command_flag::FAST_ZERO;
                (allowed, Plan::Zeroes { fua, unmap: !has(command_flag::NO_HOLE) })
            }
            command::BLOCK_STATUS => {
                (command_flag::REQ_ONE, Plan::Status { one: has(command_flag::REQ_ONE) })
            }
            _ => return None,
        })
    }

    fn check_range(&self, request: &Request) -> Result<(), Refusal> {
        let length = u64::from(request.length);
        let end = request.offset.checked_add(length);
        let Some(end) = end.filter(|end| *end <= self.size) else {
            let grows = matches!(request.kind, command::WRITE | command::WRITE_ZEROES);
            return Err((if grows { error::ENOSPC } else { error::EINVAL }, "past the end of the export"));
        };
        let mask = u64::from(self.min_block - 1);
        if request.offset & mask != 0 || (length & mask != 0 && end != self.size) {
            return Err((error::EINVAL, "not aligned to the minimum block size"));
        }
        if request.length > MAX_PAYLOAD_BYTES {
            match request.kind {
                command::READ if self.structured => {
                    return Err((error::EOVERFLOW, "longer than the maximum payload"));
                }
                command::READ | command::WRITE => {
                    return Err((error::EINVAL, "longer than the maximum payload"));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

type Refusal = (u32, &'static str);

/// What to do about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Plan {
    /// Read its range; `whole`: the reply must be one piece.
    Read {
        /// Whether the reply must be one piece.
        whole: bool,
    },
    /// Write the payload that follows.
    Write {
        /// Whether it must be durable before the reply.
        fua: bool,
    },
    /// Make everything durable.
    Flush,
    /// Discard its range.
    Discard {
        /// Whether it must be durable before the reply.
        fua: bool,
    },
    /// Make its range read as zeroes.
    Zeroes {
        /// Whether it must be durable before the reply.
        fua: bool,
        /// Whether the range may lose its space.
        unmap: bool,
    },
    /// Read its range into the device's cache.
    ReadAhead,
    /// Report the allocation status of its range.
    Status {
        /// Only the first extent.
        one: bool,
    },
    /// Succeed without doing anything.
    Nothing,
    /// End the connection.
    Disconnect,
    /// Answer with an error, and drop the payload if there is one.
    Refuse {
        /// Error number of the protocol.
        error: u32,
        /// The reason, for people.
        message: &'static str,
    },
}

/// Bytes of payload that follow the header of a request.
pub fn payload_bytes(request: &Request) -> u32 {
    if request.kind == command::WRITE { request.length } else { 0 }
}

/// The range of a request, which must have been checked.
pub(super) fn range(request: &Request) -> Range<u64> {
    request.offset..request.offset + u64::from(request.length)
}

#[cfg(test)]
mod tests;
