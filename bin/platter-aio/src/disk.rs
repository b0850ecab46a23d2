//! A disk over the interface itself: what a program gets that does its I/O by POSIX aio, seen by benchmarks and tests.

use crate::block::Block;
use crate::event::{Event, SIGEV_EVENTFD};
use crate::posix::{aio_cancel, aio_error, aio_fsync, aio_read, aio_return, aio_suspend, aio_write};
use platter_block::backend::{Fact, LaneUse};
use platter_block::bio::Op;
use platter_block::disk::{Disk, DiskChannel};
use platter_block::driver::{Completion, Driver, Features, Geometry, Started};
use platter_block::fault::{Error, Fault, Kind, Stage};
use platter_block::time::{Span, Time};
use platter_wait::EventFd;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr::null;
use std::sync::Arc;

/// A file or block device whose I/O goes through `aio_read` and its like.
pub struct AioDisk {
    name: Arc<str>,
    file: Arc<File>,
    geometry: Geometry,
    depth: u32,
}

impl AioDisk {
    /// Opens a file or block device that has this geometry, for reads and, if the geometry allows them, writes.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(path: &Path, geometry: Geometry, depth: u32) -> io::Result<AioDisk> {
        let read_only = geometry.features.read_only;
        let direct = if geometry.limits.length_align > 1 { libc::O_DIRECT } else { 0 };
        let file = OpenOptions::new().read(true).write(!read_only).custom_flags(direct).open(path)?;
        // A block has one piece of memory.
        let limits = geometry.limits.with_max_segments(1);
        let features = Features::default().with_write_cache(true).with_read_only(read_only);
        Ok(AioDisk {
            name: Arc::from(path.to_string_lossy()),
            file: Arc::new(file),
            geometry: Geometry::new(geometry.size, limits).with_features(features),
            depth: depth.max(1),
        })
    }
}

impl Disk for AioDisk {
    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn open_channel(&self, _: LaneUse) -> Result<DiskChannel, Error> {
        let channel = AioChannel::new(Arc::clone(&self.file), self.depth);
        channel.map(DiskChannel::new).map_err(|error| Error {
            fault: Fault::new(Kind::Gone, Stage::Driver),
            op: Op::Read,
            device: self.name(),
            offset: 0,
            len: 0,
            detail: format!("no descriptor to wait on: {error}"),
        })
    }

    fn facts(&self) -> Vec<Fact> {
        vec![("driver", "POSIX aio".to_owned())]
    }
}

/// A request of the channel.
struct Slot {
    block: Box<Block>,
    tag: u32,
    /// Refused when it was submitted; this is its result.
    refused: Option<i64>,
}

/// A channel whose requests are control blocks.
struct AioChannel {
    file: Arc<File>,
    /// Signalled with each end.
    eventfd: EventFd,
    free: Vec<Slot>,
    taken: Vec<Slot>,
    /// Addresses of the blocks to wait for; kept for its memory.
    list: Vec<*const Block>,
}

// SAFETY: the addresses are those of the channel's own blocks.
unsafe impl Send for AioChannel {}

impl AioChannel {
    fn new(file: Arc<File>, depth: u32) -> io::Result<AioChannel> {
        let slot = || Slot { block: Box::default(), tag: 0, refused: None };
        Ok(AioChannel {
            file,
            eventfd: EventFd::new()?,
            free: (0..depth).map(|_| slot()).collect(),
            taken: Vec::with_capacity(depth as usize),
            list: Vec::with_capacity(depth as usize),
        })
    }

    /// Blocks until a request has ended or the time has passed.
    fn suspend(&mut self, timeout: Option<Span>) {
        self.list.clear();
        self.list.extend(self.taken.iter().map(|slot| &raw const *slot.block));
        let time = timeout.map(|span| libc::timespec {
            tv_sec: (span.0 / 1_000_000_000) as libc::time_t,
            tv_nsec: (span.0 % 1_000_000_000) as libc::c_long,
        });
        let time = time.as_ref().map_or(null(), std::ptr::from_ref);
        // SAFETY: the list has that many blocks of the channel, and the time, if any, is on this stack. The caller
        // looks at the blocks whatever the result is.
        unsafe { aio_suspend(self.list.as_ptr(), self.list.len() as i32, time) };
    }

    /// The result of a request that has ended.
    fn result(slot: &mut Slot) -> Option<i64> {
        if let Some(result) = slot.refused {
            return Some(result);
        }
        // SAFETY: a block of the channel.
        match unsafe { aio_error(&raw const *slot.block) } {
            libc::EINPROGRESS => None,
            // SAFETY: as above.
            0 => Some(unsafe { aio_return(&raw mut *slot.block) } as i64),
            error => Some(-i64::from(error)),
        }
    }
}

impl Driver for AioChannel {
    fn queue(&mut self, _now: Time, request: &Started<'_>) -> bool {
        let Some(mut slot) = self.free.pop() else { return false };
        let block = &mut *slot.block;
        block.aio_fildes = self.file.as_raw_fd();
        block.aio_offset = request.pos as libc::off_t;
        block.aio_sigevent =
            Event { sigev_notify: SIGEV_EVENTFD, sigev_signo: self.eventfd.raw(), ..Event::NONE };
        let segment = request.single_segment();
        if let Some(segment) = segment {
            block.aio_buf = segment.addr().cast();
            block.aio_nbytes = segment.len() as usize;
        }
        let block = &raw mut *block;
        // SAFETY: the block stays in place until the request has ended, and so does the memory, by the contract of
        // segments.
        let result = unsafe {
            match (request.op, segment) {
                (Op::Read, Some(_)) => aio_read(block),
                (Op::Write, Some(_)) => aio_write(block),
                (Op::Flush, _) => aio_fsync(libc::O_DSYNC, block),
                _ => -1,
            }
        };
        let supported = request.op == Op::Flush || segment.is_some();
        let errno =
            if supported { io::Error::last_os_error().raw_os_error() } else { Some(libc::EOPNOTSUPP) };
        slot.tag = request.tag;
        slot.refused = (result < 0).then_some(-i64::from(errno.unwrap_or(libc::EIO)));
        if slot.refused == Some(-i64::from(libc::EAGAIN)) && !self.taken.is_empty() {
            self.free.push(slot);
            return false;
        }
        if slot.refused.is_some() {
            self.eventfd.signal();
        }
        self.taken.push(slot);
        true
    }

    fn submit(&mut self, _now: Time) {}

    fn reap(&mut self, _now: Time, done: &mut Vec<Completion>) {
        if self.taken.is_empty() {
            return;
        }
        self.eventfd.clear();
        let mut at = 0;
        while let Some(slot) = self.taken.get_mut(at) {
            match AioChannel::result(slot) {
                Some(result) => {
                    done.push(Completion { tag: slot.tag, result });
                    let slot = self.taken.swap_remove(at);
                    self.free.push(slot);
                }
                None => at += 1,
            }
        }
    }

    fn wait(&mut self, _now: Time, timeout: Option<Span>) {
        if !self.taken.is_empty() && self.taken.iter().all(|slot| slot.refused.is_none()) {
            self.suspend(timeout);
        }
    }

    fn wait_handle(&self) -> Option<i32> {
        Some(self.eventfd.raw())
    }

    fn cancel(&mut self, _now: Time, tag: u32) -> bool {
        let Some(slot) = self.taken.iter_mut().find(|slot| slot.tag == tag) else { return false };
        // SAFETY: a block of the channel.
        unsafe { aio_cancel(self.file.as_raw_fd(), &raw mut *slot.block) >= 0 }
    }
}

impl Drop for AioChannel {
    /// Waits until no request uses its memory. The descriptor stays open until then.
    fn drop(&mut self) {
        let mut done = Vec::new();
        while !self.taken.is_empty() {
            self.wait(Time(0), None);
            self.reap(Time(0), &mut done);
        }
    }
}
