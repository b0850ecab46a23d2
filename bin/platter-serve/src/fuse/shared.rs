//! What the threads of a FUSE export share, and requests that need no device.

use super::device_users::DeviceUsers;
use super::nodes::Nodes;
use super::wire::{self, Fields, Header, Transfer, op, open_flag, seek};
use crate::events::Log;
use crate::export::Options;
use platter_block::lane::Bell;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Attributes that cannot be changed: mode, owner and group.
const FIXED: u32 = 1 | 2 | 4;

/// What all threads of an export share.
pub(super) struct Shared {
    pub(super) nodes: Nodes,
    pub(super) options: Options,
    pub(super) log: Log,
    pub(super) users: Arc<DeviceUsers>,
    /// No file is opened any more.
    closing: AtomicBool,
    /// The threads end, whatever is still mounted.
    over: AtomicBool,
}

type Answer = Result<Vec<u8>, Errno>;

impl Shared {
    pub(super) fn new(nodes: Nodes, options: Options, log: Log, users: Arc<DeviceUsers>) -> Shared {
        let (closing, over) = (AtomicBool::new(false), AtomicBool::new(false));
        Shared { nodes, options, log, users, closing, over }
    }

    /// Opens no more files.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }

    /// Has the threads end at their next turn.
    pub(super) fn set_over(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.users.bells.ring();
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Answers a request that needs no I/O. `None`: it has no reply.
    pub(super) fn answer(&self, header: &Header, args: &[u8]) -> Option<Answer> {
        Some(match header.opcode {
            op::FORGET | op::BATCH_FORGET => return None,
            op::LOOKUP => wire::parse_name(args)
                .and_then(|name| self.nodes.find(name))
                .map_or(Err(Errno::NOENT), |found| Ok(found.entry())),
            op::GETATTR => self.attributes(header),
            op::SETATTR => self.set_attributes(header, args),
            op::OPEN => self.open(header, args),
            op::OPENDIR => Ok(Fields::default().zeroes(16).bytes()),
            op::RELEASE => {
                wire::parse_handle(args).into_iter().for_each(|handle| self.users.close(handle));
                Ok(Vec::new())
            }
            op::RELEASEDIR | op::DESTROY => Ok(Vec::new()),
            op::READDIR => match wire::parse_read_directory(args) {
                Some((from, most)) => Ok(self.nodes.list(from, most.min(super::post::MAX_TRANSFER))),
                None => Err(Errno::INVAL),
            },
            op::STATFS => Ok(self.statistics()),
            op::LSEEK => self.seek(header, args),
            // The files are the devices that are served.
            op::CREATE | op::MKNOD | op::MKDIR | op::SYMLINK | op::LINK | op::TMPFILE => Err(Errno::PERM),
            op::UNLINK | op::RMDIR | op::RENAME | op::RENAME2 => Err(Errno::PERM),
            // Requests that are taken back are carried out all the same.
            op::INTERRUPT => Err(Errno::NOSYS),
            _ => Err(Errno::NOSYS),
        })
    }

    fn attributes(&self, header: &Header) -> Answer {
        self.nodes.attributes(header.node).map_or(Err(Errno::NOENT), |found| Ok(found.reply()))
    }

    /// The size of a device is not changed through the file; setting the present size does nothing, nor do times.
    fn set_attributes(&self, header: &Header, args: &[u8]) -> Answer {
        let (changes, size) = wire::parse_set_attributes(args).ok_or(Errno::INVAL)?;
        let now = self.nodes.attributes(header.node).ok_or(Errno::NOENT)?;
        let resizes = changes & wire::SET_SIZE != 0 && size != now.size;
        if resizes || changes & FIXED != 0 { Err(Errno::PERM) } else { Ok(now.reply()) }
    }

    fn open(&self, header: &Header, args: &[u8]) -> Answer {
        if self.closing.load(Ordering::Relaxed) {
            return Err(Errno::SHUTDOWN);
        }
        let served = self.nodes.device(header.node).ok_or(Errno::NOENT)?;
        let flags = wire::parse_open(args).ok_or(Errno::INVAL)?;
        if served.is_read_only() && OFlags::from_bits_retain(flags) & OFlags::ACCMODE != OFlags::RDONLY {
            return Err(Errno::ROFS);
        }
        let how = match self.options.kernel_cache {
            true => open_flag::KEEP_CACHE,
            false => open_flag::DIRECT_IO | open_flag::PARALLEL_DIRECT_WRITES,
        };
        let handle = self.users.open(&served).ok_or(Errno::NFILE)?;
        Ok(Fields::default().u64(handle).u32(how | open_flag::NO_FLUSH).u32(0).bytes())
    }

    /// The kernel does not wait for this answer any more.
    pub(super) fn take_back(&self, header: &Header, answer: &[u8]) {
        if header.opcode == op::OPEN {
            wire::parse_handle(answer).into_iter().for_each(|handle| self.users.close(handle));
        }
    }

    fn statistics(&self) -> Vec<u8> {
        const BLOCK: u32 = 4096;
        let fields = Fields::default().u64(self.nodes.total() / u64::from(BLOCK)).zeroes(32);
        fields.u32(BLOCK).u32(255).u32(BLOCK).zeroes(28).bytes()
    }

    /// Finds data or a hole, as `lseek(2)` does.
    fn seek(&self, header: &Header, args: &[u8]) -> Answer {
        let Transfer { pos, len: direction } = Transfer::parse(args).ok_or(Errno::INVAL)?;
        let served = self.nodes.device(header.node).ok_or(Errno::NOENT)?;
        let (device, wants_hole) = match direction {
            seek::DATA => (served.device(), false),
            seek::HOLE => (served.device(), true),
            _ => return Err(Errno::INVAL),
        };
        let (mut at, size) = (pos, device.size());
        while at < size {
            let extent = device
                .allocation(at, size - at)
                .map_err(|error| Errno::from_raw_os_error(error.fault.errno()))?;
            if extent.is_hole() == wants_hole {
                return Ok(Fields::default().u64(at).bytes());
            }
            at = extent.end();
        }
        // The end of a file counts as a hole.
        if wants_hole && pos < size { Ok(Fields::default().u64(size).bytes()) } else { Err(Errno::NXIO) }
    }
}
