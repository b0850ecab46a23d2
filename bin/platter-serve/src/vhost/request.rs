//! Requests of a virtio block device: from a chain of descriptors to what is to be done.
//!
//! Virtual I/O Device (VIRTIO) Version 1.2, section 5.2.6. A request is a header that the device reads, data, and a status
//! byte, the last one that the device may write. How they are cut into descriptors is up to the driver.

use super::memory::{Memory, Piece};
use super::ring::{Buffer, Malformed, Ring, outside};
use vm_memory::Bytes;

/// Bytes of a sector, the unit of positions and lengths.
pub(super) const SECTOR: u64 = 512;

/// Longest data of a request in bytes.
pub const MAX_DATA_BYTES: u64 = 32 << 20;

/// Most ranges of a discard or of zeroes.
pub const MAX_RANGES: usize = 32;

/// Bytes of a device's identity.
pub const ID_BYTES: usize = 20;

const HEADER: u64 = 16;
const RANGE: usize = 16;
const UNMAP: u32 = 1;

/// Types of requests.
mod kind {
    pub(super) const IN: u32 = 0;
    pub(super) const OUT: u32 = 1;
    pub(super) const FLUSH: u32 = 4;
    pub(super) const GET_ID: u32 = 8;
    pub(super) const DISCARD: u32 = 11;
    pub(super) const WRITE_ZEROES: u32 = 13;
}

/// How a request ended, as the driver is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// It was carried out.
    Done = 0,
    /// It failed.
    Failed = 1,
    /// There is no such request, or it has a flag that is unknown.
    Unsupported = 2,
}

/// A range of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Its position in bytes.
    pub pos: u64,
    /// Its length in bytes.
    pub len: u64,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Read the range into the pieces.
    Read(Range),
    /// Write the pieces to the range.
    Write(Range),
    /// Make everything durable.
    Flush,
    /// Discard the ranges.
    Discard,
    /// Make the ranges read as zeroes; `unmap`: they may lose their space.
    Zero {
        /// Whether they may lose their space.
        unmap: bool,
    },
    /// Write the identity of the device into the pieces.
    Identify,
    /// Answer at once.
    Refuse(Status),
}

/// A request. It is used again for other ones, because it has memory.
#[derive(Debug, Default)]
pub struct Request {
    /// The data.
    pub(super) pieces: Vec<Piece>,
    /// The ranges of a discard or of zeroes.
    pub ranges: Vec<Range>,
    /// Where the status goes.
    pub(super) status: Option<Piece>,
}

impl Request {
    /// Bytes of memory of the guest that the request names for its data.
    pub fn data_bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| u64::from(piece.len)).sum()
    }

    /// Bytes of the ranges of a discard or of zeroes.
    pub(super) fn range_bytes(&self) -> u64 {
        self.ranges.iter().map(|range| range.len).sum()
    }
}

/// What a request is checked against.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Size of the device in bytes.
    pub size: u64,
    /// Writes are refused.
    pub read_only: bool,
}

/// Takes requests apart. It has memory for one.
#[derive(Debug, Default)]
pub struct Parser {
    buffers: Vec<Buffer>,
    readable: Vec<Piece>,
}

impl Parser {
    /// Takes apart the chain that begins with descriptor `head`.
    ///
    /// # Errors
    /// The chain is no request, so that there is not even a place for a status.
    pub fn parse(
        &mut self,
        ring: &Ring,
        head: u16,
        rules: &Rules,
        request: &mut Request,
    ) -> Result<Work, Malformed> {
        request.ranges.clear();
        request.status = None;
        ring.chain(head, &mut self.buffers)?;
        let memory = ring.memory();
        let readable = self.split(memory, &mut request.pieces)?;
        let status = cut_last(&mut request.pieces);
        let Some(status) = status else {
            return Err(Malformed("a request without room for its status".to_owned()));
        };
        request.status = Some(status);
        if readable < HEADER {
            return Err(Malformed(format!("a request of {readable} bytes; its header has {HEADER}")));
        }
        let mut header = [0; HEADER as usize];
        self.copy_front(memory, &mut header);
        let (kind, sector) = (word(&header, 0), long(&header, 8));
        let data = readable - HEADER;
        let room = request.data_bytes();
        Ok(match kind {
            kind::IN => match check(rules, sector, room) {
                Some(range) if data == 0 => Work::Read(range),
                _ => Work::Refuse(Status::Failed),
            },
            kind::OUT => {
                std::mem::swap(&mut self.readable, &mut request.pieces);
                match check(rules, sector, data).filter(|_| !rules.read_only && room == 0) {
                    Some(range) => Work::Write(range),
                    None => Work::Refuse(Status::Failed),
                }
            }
            kind::FLUSH => Work::Flush,
            kind::GET_ID => Work::Identify,
            kind::DISCARD => self.ranges(memory, rules, data, 0, request, |_| Work::Discard),
            kind::WRITE_ZEROES => {
                self.ranges(memory, rules, data, UNMAP, request, |unmap| Work::Zero { unmap })
            }
            _ => Work::Refuse(Status::Unsupported),
        })
    }

    /// Divides the chain into memory that is read and memory that is written. Returns the bytes of the former.
    fn split(&mut self, memory: &Memory, writable: &mut Vec<Piece>) -> Result<u64, Malformed> {
        self.readable.clear();
        writable.clear();
        let mut bytes = 0;
        for buffer in &self.buffers {
            if !buffer.is_writable && !writable.is_empty() {
                return Err(Malformed("a chain with memory to read after memory to write".to_owned()));
            }
            let out = if buffer.is_writable { &mut *writable } else { &mut self.readable };
            if !memory.pieces(buffer.guest, buffer.len, out) {
                return Err(outside("a buffer", buffer.guest, buffer.len));
            }
            bytes += if buffer.is_writable { 0 } else { u64::from(buffer.len) };
        }
        Ok(bytes)
    }

    /// Copies the first bytes that are read, and removes them.
    fn copy_front(&mut self, memory: &Memory, out: &mut [u8]) {
        let (mut filled, mut used) = (0, 0);
        for piece in &mut self.readable {
            let part = (out.len() - filled).min(piece.len as usize);
            memory.piece(*piece).copy_to(&mut out[filled..filled + part]);
            filled += part;
            *piece = piece.skip(part as u32);
            if piece.len > 0 {
                break;
            }
            used += 1;
        }
        self.readable.drain(..used);
    }

    /// The ranges of a discard or of zeroes; `allowed` are the flags that they may have.
    fn ranges(
        &mut self,
        memory: &Memory,
        rules: &Rules,
        data: u64,
        allowed: u32,
        request: &mut Request,
        work: impl Fn(bool) -> Work,
    ) -> Work {
        let count = data as usize / RANGE;
        if rules.read_only || count == 0 || count > MAX_RANGES || !data.is_multiple_of(RANGE as u64) {
            return Work::Refuse(Status::Failed);
        }
        let mut flags = None;
        for _ in 0..count {
            let mut bytes = [0; RANGE];
            self.copy_front(memory, &mut bytes);
            let (sector, sectors, own) = (long(&bytes, 0), word(&bytes, 8), word(&bytes, 12));
            if own & !allowed != 0 {
                return Work::Refuse(Status::Unsupported);
            }
            // One request is carried out in one way.
            if *flags.get_or_insert(own) != own {
                return Work::Refuse(Status::Unsupported);
            }
            let len = u64::from(sectors) * SECTOR;
            let Some(range) = on_device(rules, sector, len) else { return Work::Refuse(Status::Failed) };
            request.ranges.push(range);
        }
        work(flags.is_some_and(|flags| flags & UNMAP != 0))
    }
}

impl Piece {
    /// The piece without its first bytes.
    fn skip(self, bytes: u32) -> Piece {
        self.after(bytes.min(self.len))
    }
}

/// Removes the last byte.
fn cut_last(pieces: &mut Vec<Piece>) -> Option<Piece> {
    let last = pieces.pop()?;
    let rest = last.len - 1;
    if rest > 0 {
        pieces.push(last.first(rest));
    }
    Some(last.after(rest))
}

/// The range of a transfer of `len` bytes, if it is possible.
fn check(rules: &Rules, sector: u64, len: u64) -> Option<Range> {
    on_device(rules, sector, len).filter(|_| len <= MAX_DATA_BYTES)
}

/// A range that has a length and lies on the device.
fn on_device(rules: &Rules, sector: u64, len: u64) -> Option<Range> {
    let pos = sector.checked_mul(SECTOR)?;
    let fits = len > 0 && len.is_multiple_of(SECTOR) && pos.checked_add(len)? <= rules.size;
    fits.then_some(Range { pos, len })
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Writes the status of a request where it belongs.
#[inline]
pub(super) fn write_status(memory: &Memory, request: &Request, status: Status) {
    if let Some(piece) = request.status {
        let _ = memory.piece(piece).write_obj(status as u8, 0);
    }
}

/// Writes bytes into the pieces of a request; returns how many fitted.
pub(super) fn write_data(memory: &Memory, pieces: &[Piece], mut bytes: &[u8]) -> u32 {
    let all = bytes.len();
    for piece in pieces {
        let part = bytes.len().min(piece.len as usize);
        memory.piece(*piece).copy_from(&bytes[..part]);
        bytes = &bytes[part..];
    }
    (all - bytes.len()) as u32
}
