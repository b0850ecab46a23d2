//! The replies of a server in the transmission phase, as the client parses them. No I/O.

use super::wire::{Chunk, Reply as Header, SimpleReply, chunk};
use std::fmt;

/// Longest message of an error that is accepted, in bytes.
const MAX_MESSAGE: u32 = 4096;

/// Most bytes of a reply that must be in memory at once to be parsed: the largest chunk of an error. The data of reads
/// is not part of it.
pub const MAX_PARSED: usize = Chunk::BYTES + 14 + MAX_MESSAGE as usize;

/// A reply, or a chunk of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The whole answer. If it answers a read without an error, the data follows.
    Simple {
        /// That of the request.
        cookie: u64,
        /// 0, or an errno of the protocol.
        error: u32,
    },
    /// Data of a read; it follows.
    Data {
        /// That of the request.
        cookie: u64,
        /// Position on the export.
        offset: u64,
        /// Bytes that follow.
        length: u32,
        /// Whether this is the last chunk.
        done: bool,
    },
    /// Zeroes of a read.
    Hole {
        /// That of the request.
        cookie: u64,
        /// Position on the export.
        offset: u64,
        /// Bytes.
        length: u32,
        /// Whether this is the last chunk.
        done: bool,
    },
    /// The first extent of an allocation status.
    Status {
        /// That of the request.
        cookie: u64,
        /// Id of the metadata context.
        context: u32,
        /// Length of the extent in bytes.
        length: u32,
        /// Its flags.
        flags: u32,
        /// Whether this is the last chunk.
        done: bool,
    },
    /// An error.
    Error {
        /// That of the request.
        cookie: u64,
        /// An errno of the protocol.
        error: u32,
        /// Whether this is the last chunk.
        done: bool,
    },
    /// A chunk without contents.
    Nothing {
        /// That of the request.
        cookie: u64,
        /// Whether this is the last chunk.
        done: bool,
    },
}

/// A server has not kept to the protocol. The connection cannot be used any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadReply(pub String);

impl fmt::Display for BadReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadReply {}

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from(be16(bytes, at)) << 16 | u32::from(be16(bytes, at + 2))
}

fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from(be32(bytes, at)) << 32 | u64::from(be32(bytes, at + 4))
}

/// Parses the beginning of a reply: returns it with the number of bytes that it takes. `None`: more bytes are needed, at
/// most [`MAX_PARSED`] in all.
///
/// # Errors
/// No reply begins with these bytes.
pub fn parse(bytes: &[u8]) -> Result<Option<(usize, Reply)>, BadReply> {
    let header = Header::parse(bytes).map_err(|magic| {
        BadReply(format!("a reply begins with {magic:#010x} instead of one of the two magic numbers"))
    })?;
    match header {
        None => Ok(None),
        Some(Header::Simple(SimpleReply { cookie, error })) => {
            Ok(Some((SimpleReply::BYTES, Reply::Simple { cookie, error })))
        }
        Some(Header::Chunk(header)) => parse_chunk(header, &bytes[Chunk::BYTES..]),
    }
}

/// Parses a chunk of which `rest` follows the header.
fn parse_chunk(header: Chunk, rest: &[u8]) -> Result<Option<(usize, Reply)>, BadReply> {
    let Chunk { flags, kind, cookie, length } = header;
    let done = flags & super::wire::chunk_flag::DONE != 0;
    let bad = |what: &str| Err(BadReply(format!("{what} (chunk of type {kind:#x} with {length} bytes)")));
    // How much of the chunk is parsed; what follows is data of a read.
    let parsed = match kind {
        chunk::NONE if length == 0 => 0,
        chunk::OFFSET_DATA if length > 8 => 8,
        chunk::OFFSET_HOLE if length == 12 => 12,
        chunk::BLOCK_STATUS if (12..=MAX_MESSAGE).contains(&length) && (length - 4) % 8 == 0 => length,
        _ if chunk::is_error(kind) && (6..=MAX_MESSAGE + 14).contains(&length) => length,
        chunk::NONE | chunk::OFFSET_DATA | chunk::OFFSET_HOLE | chunk::BLOCK_STATUS => {
            return bad("a chunk has the wrong length");
        }
        _ if chunk::is_error(kind) => return bad("an error has the wrong length"),
        _ => return bad("a chunk has an unknown type"),
    } as usize;
    let Some(body) = rest.get(..parsed) else { return Ok(None) };
    let reply = match kind {
        chunk::NONE => Reply::Nothing { cookie, done },
        chunk::OFFSET_DATA => Reply::Data { cookie, offset: be64(body, 0), length: length - 8, done },
        chunk::OFFSET_HOLE => Reply::Hole { cookie, offset: be64(body, 0), length: be32(body, 8), done },
        chunk::BLOCK_STATUS => {
            let (context, length, flags) = (be32(body, 0), be32(body, 4), be32(body, 8));
            Reply::Status { cookie, context, length, flags, done }
        }
        _ => {
            let (error, message) = (be32(body, 0), usize::from(be16(body, 4)));
            let least = if kind == chunk::ERROR_OFFSET { 14 } else { 6 };
            if body.len() < least + message {
                return bad("the message of an error is longer than its chunk");
            }
            let _message = &body[6..6 + message];
            if error == 0 {
                return bad("an error has the number 0");
            }
            Reply::Error { cookie, error, done }
        }
    };
    if let Reply::Hole { length: 0, .. } | Reply::Status { length: 0, .. } = reply {
        return bad("a chunk describes no bytes");
    }
    Ok(Some((Chunk::BYTES + parsed, reply)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk_bytes(flags: u16, kind: u16, body: &[u8]) -> Vec<u8> {
        let header = Chunk { flags, kind, cookie: 7, length: body.len() as u32 };
        [&header.to_bytes()[..], body].concat()
    }

    #[test]
    fn every_shape_is_parsed_from_any_prefix() {
        let error = [&22u32.to_be_bytes()[..], &3u16.to_be_bytes(), b"why"].concat();
        let error_at = [&error[..], &4096u64.to_be_bytes()].concat();
        let status = [1u32, 4096, 3, 512, 0].map(u32::to_be_bytes).concat();
        let hole = [&512u64.to_be_bytes()[..], &1024u32.to_be_bytes()].concat();
        let shapes = [
            (SimpleReply { error: 5, cookie: 7 }.to_bytes().to_vec(), Reply::Simple { cookie: 7, error: 5 }),
            (chunk_bytes(1, chunk::NONE, &[]), Reply::Nothing { cookie: 7, done: true }),
            (
                chunk_bytes(0, chunk::OFFSET_HOLE, &hole),
                Reply::Hole { cookie: 7, offset: 512, length: 1024, done: false },
            ),
            (chunk_bytes(1, chunk::ERROR, &error), Reply::Error { cookie: 7, error: 22, done: true }),
            (
                chunk_bytes(0, chunk::ERROR_OFFSET, &error_at),
                Reply::Error { cookie: 7, error: 22, done: false },
            ),
            (chunk_bytes(0, 0x8099, &error), Reply::Error { cookie: 7, error: 22, done: false }),
            (
                chunk_bytes(1, chunk::BLOCK_STATUS, &status),
                Reply::Status { cookie: 7, context: 1, length: 4096, flags: 3, done: true },
            ),
        ];
        for (bytes, reply) in shapes {
            for cut in 0..bytes.len() {
                assert_eq!(parse(&bytes[..cut]), Ok(None), "{reply:?} at {cut}");
            }
            assert_eq!(parse(&bytes), Ok(Some((bytes.len(), reply))));
        }
        let data = chunk_bytes(1, chunk::OFFSET_DATA, &[&8u64.to_be_bytes()[..], &[1; 100]].concat());
        let reply = Reply::Data { cookie: 7, offset: 8, length: 100, done: true };
        assert_eq!(parse(&data), Ok(Some((28, reply))), "the data is not parsed");
    }

    #[test]
    fn garbage_is_refused() {
        let long = [&22u32.to_be_bytes()[..], &9u16.to_be_bytes(), b"why"].concat();
        let none = [&0u32.to_be_bytes()[..], &0u16.to_be_bytes()].concat();
        for bytes in [
            vec![0x55; 16],
            chunk_bytes(1, chunk::NONE, &[0]),
            chunk_bytes(1, chunk::OFFSET_DATA, &[0; 8]),
            chunk_bytes(1, chunk::OFFSET_HOLE, &[0; 12]),
            chunk_bytes(1, chunk::OFFSET_HOLE, &[0; 13]),
            chunk_bytes(1, chunk::BLOCK_STATUS, &[0; 12]),
            chunk_bytes(1, chunk::BLOCK_STATUS, &[0; 13]),
            chunk_bytes(1, chunk::ERROR, &[0; 5]),
            chunk_bytes(1, chunk::ERROR, &long),
            chunk_bytes(1, chunk::ERROR, &none),
            chunk_bytes(1, chunk::ERROR_OFFSET, &[&22u32.to_be_bytes()[..], &[0; 4]].concat()),
            chunk_bytes(1, 99, &[]),
            Chunk { flags: 0, kind: chunk::ERROR, cookie: 1, length: u32::MAX }.to_bytes().to_vec(),
        ] {
            assert!(parse(&bytes).is_err(), "{bytes:?}");
        }
    }
}
