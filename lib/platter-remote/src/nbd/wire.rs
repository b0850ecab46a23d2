//! The bytes of the NBD protocol: constants, and headers of fixed size. Both sides use it.
//!
//! Source: `doc/proto.md` of the NBD project. All numbers are big-endian.

/// First eight bytes from the server, `NBDMAGIC`.
pub const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Precedes each option of the client, `IHAVEOPT`; the server sends it after [`INIT_MAGIC`].
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Precedes each reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Precedes each request of the transmission phase.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Precedes a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Precedes each chunk of a structured reply.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// The port that the protocol has by convention.
pub const PORT: u16 = 10809;
/// Longest name of an export, and longest string of any kind, in bytes.
pub const MAX_STRING_BYTES: usize = 4096;

/// Flags of the handshake, from the server.
pub mod server_flag {
    /// The fixed newstyle negotiation.
    pub const FIXED_NEWSTYLE: u16 = 1;
    /// The server can leave out the 124 zeroes after `EXPORT_NAME`.
    pub const NO_ZEROES: u16 = 2;
}

/// Flags of the handshake, from the client.
pub mod client_flag {
    /// The fixed newstyle negotiation.
    pub const FIXED_NEWSTYLE: u32 = 1;
    /// The server shall leave out the 124 zeroes after `EXPORT_NAME`.
    pub const NO_ZEROES: u32 = 2;
}

/// Options of the negotiation.
pub mod option {
    /// Choose an export and begin the transmission phase; without a reply in case of an error.
    pub const EXPORT_NAME: u32 = 1;
    /// End the negotiation.
    pub const ABORT: u32 = 2;
    /// List the exports.
    pub const LIST: u32 = 3;
    /// Begin TLS.
    pub const STARTTLS: u32 = 5;
    /// Describe an export.
    pub const INFO: u32 = 6;
    /// Describe an export and begin the transmission phase.
    pub const GO: u32 = 7;
    /// Answer in structured replies from now on.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// List the metadata contexts.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Choose metadata contexts.
    pub const SET_META_CONTEXT: u32 = 10;
    /// Use extended headers.
    pub const EXTENDED_HEADERS: u32 = 11;
}

/// Types of replies to options.
pub mod option_reply {
    /// Done.
    pub const ACK: u32 = 1;
    /// An export of the list.
    pub const SERVER: u32 = 2;
    /// A piece of information, see [`super::info`].
    pub const INFO: u32 = 3;
    /// A metadata context.
    pub const META_CONTEXT: u32 = 4;
    /// The option is not known.
    pub const ERR_UNSUP: u32 = 0x8000_0001;
    /// It is forbidden by the server's policy.
    pub const ERR_POLICY: u32 = 0x8000_0002;
    /// Its data is malformed.
    pub const ERR_INVALID: u32 = 0x8000_0003;
    /// The server was built without it.
    pub const ERR_PLATFORM: u32 = 0x8000_0004;
    /// TLS must begin first.
    pub const ERR_TLS_REQD: u32 = 0x8000_0005;
    /// There is no such export.
    pub const ERR_UNKNOWN: u32 = 0x8000_0006;
    /// The client must ask for block sizes first.
    pub const ERR_BLOCK_SIZE_REQD: u32 = 0x8000_0008;
    /// The server is shutting down.
    pub const ERR_SHUTDOWN: u32 = 0x8000_0007;
    /// The data of the option is too long.
    pub const ERR_TOO_BIG: u32 = 0x8000_0009;
}

/// Kinds of information about an export.
pub mod info {
    /// Size and transmission flags.
    pub const EXPORT: u16 = 0;
    /// Its name.
    pub const NAME: u16 = 1;
    /// Its description.
    pub const DESCRIPTION: u16 = 2;
    /// Smallest, preferred and largest size of a request.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Flags of the transmission phase: what the export can do.
pub mod transmission_flag {
    /// There are flags.
    pub const HAS_FLAGS: u16 = 1 << 0;
    /// Clients may only read.
    pub const READ_ONLY: u16 = 1 << 1;
    /// `FLUSH` is supported.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// The flag `FUA` is supported.
    pub const SEND_FUA: u16 = 1 << 3;
    /// A rotating disk.
    pub const ROTATIONAL: u16 = 1 << 4;
    /// `TRIM` is supported.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// `WRITE_ZEROES` is supported.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// The flag `DF` of reads is supported.
    pub const SEND_DF: u16 = 1 << 7;
    /// A flush on one connection covers what all connections have been answered.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// `CACHE` is supported.
    pub const SEND_CACHE: u16 = 1 << 10;
    /// The flag `FAST_ZERO` is supported.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Types of requests.
pub mod command {
    /// Read.
    pub const READ: u16 = 0;
    /// Write; the data follows the header.
    pub const WRITE: u16 = 1;
    /// Disconnect, without a reply.
    pub const DISC: u16 = 2;
    /// Make durable what was answered before.
    pub const FLUSH: u16 = 3;
    /// Discard.
    pub const TRIM: u16 = 4;
    /// Read ahead into a cache of the server.
    pub const CACHE: u16 = 5;
    /// Write zeroes.
    pub const WRITE_ZEROES: u16 = 6;
    /// Report the allocation status.
    pub const BLOCK_STATUS: u16 = 7;
}

/// Flags of requests.
pub mod command_flag {
    /// Durable before the reply.
    pub const FUA: u16 = 1 << 0;
    /// Zeroes must stay allocated.
    pub const NO_HOLE: u16 = 1 << 1;
    /// The answer to a read is one chunk.
    pub const DF: u16 = 1 << 2;
    /// Only one extent of the status.
    pub const REQ_ONE: u16 = 1 << 3;
    /// Fail if zeroes are no faster than a write.
    pub const FAST_ZERO: u16 = 1 << 4;
}

/// Flags of chunks of structured replies.
pub mod chunk_flag {
    /// The last chunk of the reply.
    pub const DONE: u16 = 1;
}

/// Types of chunks of structured replies.
pub mod chunk {
    /// Nothing.
    pub const NONE: u16 = 0;
    /// Offset and data.
    pub const OFFSET_DATA: u16 = 1;
    /// Offset and length of zeroes.
    pub const OFFSET_HOLE: u16 = 2;
    /// Allocation status.
    pub const BLOCK_STATUS: u16 = 5;
    /// An error, with a message.
    pub const ERROR: u16 = 0x8001;
    /// An error at an offset, with a message.
    pub const ERROR_OFFSET: u16 = 0x8002;

    /// Whether chunks of this type report an error.
    pub const fn is_error(kind: u16) -> bool {
        kind & 0x8000 != 0
    }
}

/// States of extents in the metadata context [`BASE_ALLOCATION`].
pub mod allocation {
    /// Takes no space.
    pub const HOLE: u32 = 1;
    /// Reads as zeroes.
    pub const ZERO: u32 = 2;
}

/// The name of the metadata context for the allocation status.
pub const BASE_ALLOCATION: &str = "base:allocation";

/// Error numbers of the protocol. They have Linux's values.
pub mod error {
    /// Not permitted: a write to a read-only export.
    pub const EPERM: u32 = 1;
    /// Input/output error.
    pub const EIO: u32 = 5;
    /// Out of memory.
    pub const ENOMEM: u32 = 12;
    /// Invalid argument.
    pub const EINVAL: u32 = 22;
    /// No space left.
    pub const ENOSPC: u32 = 28;
    /// Too large for one chunk.
    pub const EOVERFLOW: u32 = 75;
    /// Not supported.
    pub const ENOTSUP: u32 = 95;
    /// The server is shutting down.
    pub const ESHUTDOWN: u32 = 108;
}

/// The errno of the protocol for an error of a disk, a Linux errno.
///
/// The protocol has few numbers, and four of them say something about a request or about the server that an error of the
/// disk does not: `EOVERFLOW`, `ENOTSUP`, `ESHUTDOWN`, and `EPERM` if it does not mean read-only. What the disk cannot do is
/// `EINVAL`, a read-only disk (`EROFS`) `EPERM`, too large a file (`EFBIG`) and an exceeded quota (`EDQUOT`) are `ENOSPC`.
/// All that the protocol has no number for is `EIO`.
pub fn error_from_errno(errno: i32) -> u32 {
    const EROFS: u32 = 30;
    const EFBIG: u32 = 27;
    const EOPNOTSUPP: u32 = 95;
    const EDQUOT: u32 = 122;
    match errno.unsigned_abs() {
        EROFS | error::EPERM => error::EPERM,
        EFBIG | EDQUOT | error::ENOSPC => error::ENOSPC,
        EOPNOTSUPP | error::EINVAL => error::EINVAL,
        error::ENOMEM => error::ENOMEM,
        _ => error::EIO,
    }
}

fn be16(bytes: &[u8]) -> u16 {
    u16::from_be_bytes([bytes[0], bytes[1]])
}

fn be32(bytes: &[u8]) -> u32 {
    u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

fn be64(bytes: &[u8]) -> u64 {
    u64::from(be32(bytes)) << 32 | u64::from(be32(&bytes[4..]))
}

/// A request of the transmission phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Request {
    /// See [`command_flag`].
    pub flags: u16,
    /// See [`command`].
    pub kind: u16,
    /// Chosen by the client, repeated in the reply.
    pub cookie: u64,
    /// Position, in bytes.
    pub offset: u64,
    /// Length, in bytes.
    pub length: u32,
}

impl Request {
    /// Bytes of the header.
    pub const BYTES: usize = 28;

    /// Parses a header; `None`: the magic number is wrong, and the stream cannot be used any more.
    pub fn parse(bytes: &[u8; Request::BYTES]) -> Option<Request> {
        (be32(bytes) == REQUEST_MAGIC).then(|| Request {
            flags: be16(&bytes[4..]),
            kind: be16(&bytes[6..]),
            cookie: be64(&bytes[8..]),
            offset: be64(&bytes[16..]),
            length: be32(&bytes[24..]),
        })
    }

    /// The header.
    pub fn to_bytes(&self) -> [u8; Request::BYTES] {
        let mut bytes = [0; Request::BYTES];
        bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.kind.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_be_bytes());
        bytes[24..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }
}

/// The header of a simple reply. The data of a successful read follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SimpleReply {
    /// 0, or one of [`error`].
    pub error: u32,
    /// That of the request.
    pub cookie: u64,
}

impl SimpleReply {
    /// Bytes of the header.
    pub const BYTES: usize = 16;

    /// The header.
    pub fn to_bytes(&self) -> [u8; SimpleReply::BYTES] {
        let mut bytes = [0; SimpleReply::BYTES];
        bytes[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.error.to_be_bytes());
        bytes[8..].copy_from_slice(&self.cookie.to_be_bytes());
        bytes
    }
}

/// The header of a chunk of a structured reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Chunk {
    /// See [`chunk_flag`].
    pub flags: u16,
    /// See [`chunk`].
    pub kind: u16,
    /// That of the request.
    pub cookie: u64,
    /// Bytes that follow the header.
    pub length: u32,
}

impl Chunk {
    /// Bytes of the header.
    pub const BYTES: usize = 20;

    /// The header.
    pub fn to_bytes(&self) -> [u8; Chunk::BYTES] {
        let mut bytes = [0; Chunk::BYTES];
        bytes[..4].copy_from_slice(&STRUCTURED_REPLY_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.kind.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }
}

/// The header of a reply, simple or structured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A simple reply.
    Simple(SimpleReply),
    /// A chunk of a structured reply.
    Chunk(Chunk),
}

impl Reply {
    /// Parses the beginning of a reply. `Ok(None)`: more bytes are needed.
    ///
    /// # Errors
    /// The magic number, which is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Option<Reply>, u32> {
        if bytes.len() < SimpleReply::BYTES {
            return Ok(None);
        }
        match be32(bytes) {
            SIMPLE_REPLY_MAGIC => {
                Ok(Some(Reply::Simple(SimpleReply { error: be32(&bytes[4..]), cookie: be64(&bytes[8..]) })))
            }
            STRUCTURED_REPLY_MAGIC if bytes.len() < Chunk::BYTES => Ok(None),
            STRUCTURED_REPLY_MAGIC => Ok(Some(Reply::Chunk(Chunk {
                flags: be16(&bytes[4..]),
                kind: be16(&bytes[6..]),
                cookie: be64(&bytes[8..]),
                length: be32(&bytes[16..]),
            }))),
            wrong => Err(wrong),
        }
    }

    /// Bytes of its header.
    pub fn bytes(&self) -> usize {
        match self {
            Reply::Simple(_) => SimpleReply::BYTES,
            Reply::Chunk(_) => Chunk::BYTES,
        }
    }
}

/// The header of an option of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionHeader {
    /// See [`option`].
    pub option: u32,
    /// Bytes of data that follow.
    pub length: u32,
}

impl OptionHeader {
    /// Bytes of the header.
    pub const BYTES: usize = 16;

    /// Parses a header; `None`: the magic number is wrong.
    pub fn parse(bytes: &[u8; OptionHeader::BYTES]) -> Option<OptionHeader> {
        (be64(bytes) == OPTION_MAGIC)
            .then(|| OptionHeader { option: be32(&bytes[8..]), length: be32(&bytes[12..]) })
    }

    /// The header.
    pub fn to_bytes(&self) -> [u8; OptionHeader::BYTES] {
        let mut bytes = [0; OptionHeader::BYTES];
        bytes[..8].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.option.to_be_bytes());
        bytes[12..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }
}

/// The header of a reply to an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionReply {
    /// The option that is answered.
    pub option: u32,
    /// See [`option_reply`].
    pub kind: u32,
    /// Bytes of data that follow.
    pub length: u32,
}

impl OptionReply {
    /// Bytes of the header.
    pub const BYTES: usize = 20;

    /// Whether the reply is an error.
    pub fn is_error(&self) -> bool {
        self.kind & 0x8000_0000 != 0
    }

    /// Parses a header; `None`: the magic number is wrong.
    pub fn parse(bytes: &[u8; OptionReply::BYTES]) -> Option<OptionReply> {
        (be64(bytes) == OPTION_REPLY_MAGIC).then(|| OptionReply {
            option: be32(&bytes[8..]),
            kind: be32(&bytes[12..]),
            length: be32(&bytes[16..]),
        })
    }

    /// The header.
    pub fn to_bytes(&self) -> [u8; OptionReply::BYTES] {
        let mut bytes = [0; OptionReply::BYTES];
        bytes[..8].copy_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.option.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.kind.to_be_bytes());
        bytes[16..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_survive_the_wire() {
        let request = Request { flags: 1, kind: 7, cookie: u64::MAX - 1, offset: 1 << 40, length: 4096 };
        assert_eq!(Request::parse(&request.to_bytes()), Some(request));
        assert_eq!(Request::parse(&[0; Request::BYTES]), None);
        let simple = SimpleReply { error: error::EIO, cookie: 99 };
        assert_eq!(Reply::parse(&simple.to_bytes()), Ok(Some(Reply::Simple(simple))));
        let piece = Chunk { flags: chunk_flag::DONE, kind: chunk::OFFSET_DATA, cookie: 5, length: 4104 };
        assert_eq!(Reply::parse(&piece.to_bytes()), Ok(Some(Reply::Chunk(piece))));
        assert_eq!(Reply::parse(&piece.to_bytes()[..19]), Ok(None));
        assert_eq!(Reply::parse(&[7; 20]), Err(0x0707_0707));
        let option = OptionHeader { option: option::GO, length: 12 };
        assert_eq!(OptionHeader::parse(&option.to_bytes()), Some(option));
        let reply = OptionReply { option: option::GO, kind: option_reply::ERR_UNKNOWN, length: 3 };
        assert_eq!(OptionReply::parse(&reply.to_bytes()), Some(reply));
        assert!(reply.is_error());
    }

    #[test]
    fn errno_values_outside_the_protocol_are_mapped() {
        assert_eq!(error_from_errno(30), error::EPERM);
        assert_eq!(error_from_errno(-28), error::ENOSPC);
        assert_eq!(error_from_errno(110), error::EIO);
        assert_eq!(error_from_errno(12), error::ENOMEM);
        assert_eq!(error_from_errno(95), error::EINVAL);
        // ESHUTDOWN and EOVERFLOW of a disk are not those of the protocol.
        assert_eq!((error_from_errno(108), error_from_errno(75)), (error::EIO, error::EIO));
    }
}
