//! Requests: what a control block asks for, checked.

use crate::block::{BlockRef, Fields};
use crate::event::Event;
use crate::group::Group;
use crate::options::Personality;
use crate::order::{Chain, Class};
use crate::statistics::STATISTICS;
use libc::c_int;
use platter_block::bio::{Class as PrioClass, IoPrio};
use platter_block::segment::{RegionId, Segment};
use platter_disk::drivers::descriptors::{CallOp, DescriptorCall};
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Most bytes of one transfer in Linux; longer ones are short.
const MAX_TRANSFER: usize = 0x7fff_f000;
/// By how much a priority can be lowered (`AIO_PRIO_DELTA_MAX`).
const MAX_REQPRIO: c_int = 20;

/// An open file, as far as `fstat` tells it from others. A descriptor may have been closed and used again between the
/// call of the program and the start of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    device: libc::dev_t,
    inode: libc::ino_t,
}

/// A request of the program.
pub(crate) struct Request {
    pub(crate) block: BlockRef,
    pub(crate) call: DescriptorCall,
    pub(crate) class: Class,
    pub(crate) file: FileIdentity,
    /// Whether its descriptor has positions.
    pub(crate) seekable: bool,
    pub(crate) event: Event,
    pub(crate) group: Option<Arc<Group>>,
}

fn stat(fd: RawFd) -> Option<libc::stat> {
    let mut stat = MaybeUninit::uninit();
    // SAFETY: the call fills the structure if it succeeds.
    unsafe { (libc::fstat(fd, stat.as_mut_ptr()) == 0).then(|| stat.assume_init()) }
}

/// The flags of a descriptor; `None` if it is not open.
pub(crate) fn flags(fd: RawFd) -> Option<c_int> {
    // SAFETY: takes no memory.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    (flags >= 0).then_some(flags)
}

impl FileIdentity {
    /// The file behind a descriptor now.
    pub(crate) fn of(fd: RawFd) -> Option<FileIdentity> {
        stat(fd).map(|stat| FileIdentity { device: stat.st_dev, inode: stat.st_ino })
    }
}

impl Request {
    /// The request of a block.
    ///
    /// # Errors
    /// `EINVAL` for values out of range, `EBADF` for a descriptor that is not open for the operation.
    pub(crate) fn new(block: BlockRef, op: CallOp, personality: Personality) -> Result<Request, c_int> {
        let Fields { fd, reqprio, memory, len, offset, event, .. } = block.fields();
        let transfers = matches!(op, CallOp::Read | CallOp::Write);
        if !(0..=MAX_REQPRIO).contains(&reqprio) || !event.is_valid() {
            return Err(libc::EINVAL);
        }
        if transfers && len > isize::MAX as usize {
            return Err(libc::EINVAL);
        }
        let flags = flags(fd).ok_or(libc::EBADF)?;
        let refused = match op {
            CallOp::Read => Some(libc::O_WRONLY),
            CallOp::Write => Some(libc::O_RDONLY),
            CallOp::Sync | CallOp::DataSync => None,
        };
        if flags & libc::O_PATH != 0 || refused == Some(flags & libc::O_ACCMODE) {
            return Err(libc::EBADF);
        }
        let stat = stat(fd).ok_or(libc::EBADF)?;
        let seekable = matches!(stat.st_mode & libc::S_IFMT, libc::S_IFREG | libc::S_IFBLK | libc::S_IFDIR);
        let appends = op == CallOp::Write && flags & libc::O_APPEND != 0;
        if transfers && seekable && !appends && offset < 0 {
            return Err(libc::EINVAL);
        }
        let class = match op {
            _ if seekable && personality == Personality::ThreadPerFile => Class::Chained(Chain::First),
            CallOp::Sync | CallOp::DataSync => Class::Sync,
            CallOp::Read if !seekable => Class::Chained(Chain::First),
            CallOp::Write if !seekable || appends => Class::Chained(Chain::Second),
            CallOp::Read | CallOp::Write => Class::Free,
        };
        let memory = match transfers {
            // SAFETY: the program keeps the buffer of an asynchronous request in place, and uses it for nothing else
            // until the request has ended, as POSIX asks of it.
            true => unsafe { Segment::new(memory, len.min(MAX_TRANSFER) as u32, RegionId::NONE) },
            false => Segment::EMPTY,
        };
        // Some character devices have positions; pipes and sockets ignore them.
        let pos = if appends { 0 } else { offset.max(0) as u64 };
        // SAFETY: as above. A request is queued once.
        let call = unsafe { DescriptorCall::new(fd, op, pos, memory, priority(reqprio)) };
        Ok(Request {
            block,
            call,
            class,
            file: FileIdentity { device: stat.st_dev, inode: stat.st_ino },
            seekable,
            event,
            group: None,
        })
    }
}

impl Request {
    /// Ends a request that the engine does not have. A notification for which the system has no resources is lost.
    pub(crate) fn give_up(self, error: c_int) {
        let Request { block, event, group, .. } = self;
        block.end(-i64::from(error));
        let last = group.and_then(|group| group.leave(true));
        for event in [Some(event), last].into_iter().flatten().filter(Event::is_sent) {
            if !event.send() {
                STATISTICS.lost_notifications.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// The I/O priority of a request that is lowered by this much: none for 0, else best-effort below the default level.
fn priority(reqprio: c_int) -> IoPrio {
    const DEFAULT_LEVEL: c_int = 4;
    match reqprio {
        0 => IoPrio::NONE,
        lowered => IoPrio::new(PrioClass::BestEffort, (DEFAULT_LEVEL + (lowered + 6) / 7) as u8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lowered_priorities_are_levels_5_to_7() {
        assert_eq!(priority(0), IoPrio::NONE);
        let levels: Vec<_> = [1, 7, 8, 14, 15, 20].map(|lowered| priority(lowered).level()).to_vec();
        assert_eq!(levels, [5, 5, 6, 6, 7, 7]);
    }
}
