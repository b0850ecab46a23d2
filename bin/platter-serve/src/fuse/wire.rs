//! The bytes of the FUSE protocol, version 7.31 and later (`linux/fuse.h`). Numbers have the host's byte order.

/// The name of the export.
pub(super) const KIND: &str = "fuse";

/// The version of the protocol that this side speaks.
pub(super) const MAJOR: u32 = 7;
/// As above.
pub(super) const MINOR: u32 = 38;
/// The oldest version of the kernel's side: the size of reads and writes is negotiated in pages.
pub(super) const OLDEST_MINOR: u32 = 31;

/// The number of the root directory.
pub(super) const ROOT: u64 = 1;

/// Bytes of the header of a request.
pub(super) const IN_HEADER: usize = 40;
/// Bytes of the arguments of a write, which its data follows.
pub(super) const WRITE_ARGS: usize = 40;
/// Bytes of the header of a reply.
pub(super) const OUT_HEADER: usize = 16;

/// Operations.
pub(super) mod op {
    pub(in crate::fuse) const LOOKUP: u32 = 1;
    pub(in crate::fuse) const FORGET: u32 = 2;
    pub(in crate::fuse) const GETATTR: u32 = 3;
    pub(in crate::fuse) const SETATTR: u32 = 4;
    pub(in crate::fuse) const SYMLINK: u32 = 6;
    pub(in crate::fuse) const MKNOD: u32 = 8;
    pub(in crate::fuse) const MKDIR: u32 = 9;
    pub(in crate::fuse) const UNLINK: u32 = 10;
    pub(in crate::fuse) const RMDIR: u32 = 11;
    pub(in crate::fuse) const RENAME: u32 = 12;
    pub(in crate::fuse) const LINK: u32 = 13;
    pub(in crate::fuse) const OPEN: u32 = 14;
    pub(in crate::fuse) const READ: u32 = 15;
    pub(in crate::fuse) const WRITE: u32 = 16;
    pub(in crate::fuse) const STATFS: u32 = 17;
    pub(in crate::fuse) const RELEASE: u32 = 18;
    pub(in crate::fuse) const FSYNC: u32 = 20;
    pub(in crate::fuse) const INIT: u32 = 26;
    pub(in crate::fuse) const OPENDIR: u32 = 27;
    pub(in crate::fuse) const READDIR: u32 = 28;
    pub(in crate::fuse) const RELEASEDIR: u32 = 29;
    pub(in crate::fuse) const CREATE: u32 = 35;
    pub(in crate::fuse) const INTERRUPT: u32 = 36;
    pub(in crate::fuse) const DESTROY: u32 = 38;
    pub(in crate::fuse) const BATCH_FORGET: u32 = 42;
    pub(in crate::fuse) const FALLOCATE: u32 = 43;
    pub(in crate::fuse) const RENAME2: u32 = 45;
    pub(in crate::fuse) const LSEEK: u32 = 46;
    pub(in crate::fuse) const TMPFILE: u32 = 51;
}

/// What both sides can do.
pub(super) mod ability {
    pub(in crate::fuse) const ASYNC_READ: u32 = 1 << 0;
    pub(in crate::fuse) const BIG_WRITES: u32 = 1 << 5;
    pub(in crate::fuse) const AUTO_INVAL_DATA: u32 = 1 << 12;
    pub(in crate::fuse) const ASYNC_DIO: u32 = 1 << 15;
    pub(in crate::fuse) const PARALLEL_DIROPS: u32 = 1 << 18;
    pub(in crate::fuse) const MAX_PAGES: u32 = 1 << 22;
}

/// How a file is opened.
pub(super) mod open_flag {
    pub(in crate::fuse) const DIRECT_IO: u32 = 1 << 0;
    pub(in crate::fuse) const KEEP_CACHE: u32 = 1 << 1;
    pub(in crate::fuse) const NO_FLUSH: u32 = 1 << 5;
    pub(in crate::fuse) const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
}

/// `SETATTR` changes the size.
pub(super) const SET_SIZE: u32 = 1 << 3;

/// Modes of `FALLOCATE`.
pub(super) mod fallocate {
    pub(in crate::fuse) const KEEP_SIZE: u32 = 1;
    pub(in crate::fuse) const PUNCH_HOLE: u32 = 2;
    pub(in crate::fuse) const ZERO_RANGE: u32 = 16;
}

/// The directions of `LSEEK`.
pub(super) mod seek {
    pub(in crate::fuse) const DATA: u32 = 3;
    pub(in crate::fuse) const HOLE: u32 = 4;
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// The header of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Bytes of the whole request.
    pub(super) len: u32,
    /// See [`op`].
    pub(super) opcode: u32,
    /// Repeated in the reply.
    pub(super) unique: u64,
    /// The file.
    pub(super) node: u64,
    /// The process that makes the request; 0: the kernel itself.
    pub(super) process: u32,
}

impl Header {
    pub(super) fn parse(bytes: &[u8]) -> Option<Header> {
        Some(Header {
            len: u32_at(bytes, 0)?,
            opcode: u32_at(bytes, 4)?,
            unique: u64_at(bytes, 8)?,
            node: u64_at(bytes, 16)?,
            process: u32_at(bytes, 32)?,
        })
    }
}

/// The number that the reply of `OPEN` gave a file, with which the arguments of all its requests begin.
pub(super) fn parse_handle(args: &[u8]) -> Option<u64> {
    u64_at(args, 0)
}

/// The flags (`O_DSYNC` and others) of the file that a `WRITE` comes from.
pub(super) fn parse_write_flags(args: &[u8]) -> Option<u32> {
    u32_at(args, 32)
}

/// A range of a file, as `READ`, `WRITE` and `LSEEK` begin with it. For `LSEEK` the length is the direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Transfer {
    pub(super) pos: u64,
    pub(super) len: u32,
}

impl Transfer {
    pub(super) fn parse(args: &[u8]) -> Option<Transfer> {
        Some(Transfer { pos: u64_at(args, 8)?, len: u32_at(args, 16)? })
    }
}

/// The arguments of `INIT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Init {
    pub(super) major: u32,
    pub(super) minor: u32,
    pub(super) max_readahead: u32,
    pub(super) flags: u32,
}

impl Init {
    pub(super) fn parse(args: &[u8]) -> Option<Init> {
        Some(Init {
            major: u32_at(args, 0)?,
            minor: u32_at(args, 4)?,
            max_readahead: u32_at(args, 8)?,
            flags: u32_at(args, 12)?,
        })
    }
}

/// The arguments of `FALLOCATE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fallocate {
    pub(super) pos: u64,
    pub(super) len: u64,
    pub(super) mode: u32,
}

impl Fallocate {
    pub(super) fn parse(args: &[u8]) -> Option<Fallocate> {
        Some(Fallocate { pos: u64_at(args, 8)?, len: u64_at(args, 16)?, mode: u32_at(args, 24)? })
    }
}

/// What `SETATTR` changes, and the new size.
pub(super) fn parse_set_attributes(args: &[u8]) -> Option<(u32, u64)> {
    Some((u32_at(args, 0)?, u64_at(args, 16)?))
}

/// The position from which a directory is read, and the most bytes.
pub(super) fn parse_read_directory(args: &[u8]) -> Option<(u64, usize)> {
    Some((u64_at(args, 8)?, u32_at(args, 16)? as usize))
}

/// The flags with which a file is opened.
pub(super) fn parse_open(args: &[u8]) -> Option<u32> {
    u32_at(args, 0)
}

/// The name that `LOOKUP` asks for.
pub(super) fn parse_name(args: &[u8]) -> Option<&str> {
    std::str::from_utf8(args.split(|byte| *byte == 0).next()?).ok()
}

/// Collects the fields of a reply.
#[derive(Default)]
pub(super) struct Fields(Vec<u8>);

impl Fields {
    pub(super) fn u16(mut self, value: u16) -> Fields {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    pub(super) fn u32(mut self, value: u32) -> Fields {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    pub(super) fn u64(mut self, value: u64) -> Fields {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    pub(super) fn zeroes(mut self, bytes: usize) -> Fields {
        self.0.resize(self.0.len() + bytes, 0);
        self
    }

    pub(super) fn bytes(self) -> Vec<u8> {
        self.0
    }
}

/// The header of a reply with `bytes` bytes of data. `errno` is 0 or a positive error number.
pub(super) fn reply_header(unique: u64, errno: i32, bytes: usize) -> [u8; OUT_HEADER] {
    let mut header = [0; OUT_HEADER];
    header[..4].copy_from_slice(&((OUT_HEADER + bytes) as u32).to_ne_bytes());
    header[4..8].copy_from_slice(&(-errno).to_ne_bytes());
    header[8..].copy_from_slice(&unique.to_ne_bytes());
    header
}

/// The attributes of a file or directory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attributes {
    pub(super) node: u64,
    pub(super) size: u64,
    pub(super) mode: u32,
    pub(super) links: u32,
    pub(super) owner: (u32, u32),
    pub(super) block: u32,
    /// Seconds since 1970.
    pub(super) time: u64,
}

impl Attributes {
    fn write(&self, fields: Fields) -> Fields {
        let fields = fields.u64(self.node).u64(self.size).u64(self.size.div_ceil(512));
        let fields = fields.u64(self.time).u64(self.time).u64(self.time).zeroes(12);
        let fields = fields.u32(self.mode).u32(self.links).u32(self.owner.0).u32(self.owner.1);
        fields.u32(0).u32(self.block).u32(0)
    }

    /// The reply of `GETATTR`. The kernel asks again each time, so that a new size is seen at once.
    pub(super) fn reply(&self) -> Vec<u8> {
        self.write(Fields::default().u64(0).u32(0).u32(0)).bytes()
    }

    /// The reply of `LOOKUP`.
    pub(super) fn entry(&self) -> Vec<u8> {
        let fields = Fields::default().u64(self.node).u64(0).u64(0).u64(0).u32(0).u32(0);
        self.write(fields).bytes()
    }
}

/// Appends an entry of a directory; `false` if it does not fit in `most` bytes.
pub(super) fn push_entry(
    out: &mut Vec<u8>,
    most: usize,
    node: u64,
    next: u64,
    kind: u32,
    name: &str,
) -> bool {
    let padded = (24 + name.len()).next_multiple_of(8);
    if out.len() + padded > most {
        return false;
    }
    let end = out.len() + padded;
    let head = Fields::default().u64(node).u64(next).u32(name.len() as u32).u32(kind).bytes();
    out.extend_from_slice(&head);
    out.extend_from_slice(name.as_bytes());
    out.resize(end, 0);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_have_the_sizes_of_the_protocol() {
        let attributes =
            Attributes { node: 2, size: 4096, mode: 0, links: 1, owner: (0, 0), block: 512, time: 0 };
        assert_eq!(attributes.reply().len(), 104);
        assert_eq!(attributes.entry().len(), 128);
        let mut entries = Vec::new();
        assert!(push_entry(&mut entries, 64, 2, 1, 8, "disk"));
        assert_eq!(entries.len(), 32);
        assert!(!push_entry(&mut entries, 63, 2, 1, 8, "disk"));
    }

    #[test]
    fn short_requests_are_not_parsed() {
        assert_eq!(Header::parse(&[0; 23]), None);
        assert_eq!(Transfer::parse(&[0; 19]), None);
        assert_eq!(parse_handle(&[0; 7]), None);
        assert_eq!(parse_write_flags(&[0; 35]), None);
        assert_eq!(Init::parse(&[0; 15]), None);
        assert_eq!(Fallocate::parse(&[0; 27]), None);
        assert_eq!(parse_name(b"disk\0rest"), Some("disk"));
        assert_eq!(parse_name(&[0xff, 0]), None);
    }
}
