//! Handles: open file descriptions on a device.
//!
//! A [`Device`] is the disk; a [`Handle`] is one opening of it by a program or thread, with its own position and, if
//! the device has a cache, its own readahead. Clones share both, as duplicated file descriptors do, and
//! [`Device::handle`] opens another handle. A program can therefore use one handle for many threads, or one for each.
//!
//! # Handles and what answers from memory
//!
//! A `Device` is the disk. A `Handle` (`handle.rs` of `platter-disk`) is an open file description on it: a position,
//! and a number, `HandleId`, which the device is told when the handle is opened and when its last user is dropped. The
//! `Submitter` of the handle's own `Device` puts the number on every bio (`Bio::handle`), so futures, channels and
//! cursors of `Handle::device` belong to the handle too; parts of a bio keep the number. A cache uses it to find the
//! readahead state and the counters of the handle. Clones of a handle share its position: a call takes its range and
//! moves the position with one compare-and-exchange before the transfer (`handle/stream.rs`), so threads that share a
//! handle get distinct ranges.
//!
//! A device gives access to the data that it has in memory through a `Resident`, which `Cached::resident` returns once,
//! when the `Device` is made. `Device::read_at` checks the range and tries it first: a hit is a copy, without a lane, a
//! bio or a clock. A miss becomes a bio. The future of a hit ends when it is made, without a lane, if no barrier is
//! under way (`Resident::read_bio`, docs/decisions/2026-11-27-futures-of-cached-data.md). `Handle::page` returns a
//! reference to a page (`Resident::pin`), which is read first if necessary. All ways of reading give the same data; a
//! synchronous hit waits for no barrier.
//!
//! **Invariant:** only the topmost layer may answer from memory. A layer over another device does not pass on that
//! device's `Resident`, because such reads would bypass the layer (an injected error, a delay, a check). Advice
//! (`Cached::advise`) is passed on, translated to the range of the device below, and so are the bells described below.
//!
//! **A device's own work.** A cache with pages to write back at a later time rings the bell that it got from
//! `Worker::keep`. `Background` (`background.rs`) then tells the service thread, which opens the lane that futures use
//! too and runs it, at its wakeups and when its descriptors are ready, until `Lane::is_idle`. The bell holds the device
//! only weakly: when the last `Device` is dropped, the lane is closed, and a cache writes back while it is dropped.
//! `Device::close` does the same and can report errors. A simulated device gets no bell, because only its callers
//! advance its time.

use crate::device::Device;
use platter_block::backend::Backend;
use platter_block::bio::Op;
use platter_block::fault::Error;
use platter_block::handle::{HandleCounters, HandleId};
use platter_block::hint::Hint;
use std::fmt;
use std::io::{IoSlice, IoSliceMut};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

#[allow(unsafe_code)]
mod page;
mod stream;

pub use page::PageRef;

/// The state that clones of a handle share.
pub(crate) struct Description {
    id: HandleId,
    /// Weak, because a device ends with its last [`Device`] and handles must not keep it open.
    backend: Weak<dyn Backend>,
    position: AtomicU64,
}

impl Description {
    fn open(backend: &Arc<dyn Backend>) -> Arc<Description> {
        // IDs wrap after 2^32 handles.
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let id = HandleId(NEXT.fetch_add(1, Ordering::Relaxed).max(1));
        backend.handle_opened(id);
        Arc::new(Description { id, backend: Arc::downgrade(backend), position: AtomicU64::new(0) })
    }
}

impl Drop for Description {
    fn drop(&mut self) {
        if let Some(backend) = self.backend.upgrade() {
            backend.handle_closed(self.id);
        }
    }
}

/// An open file description on a device: a position, and its own readahead in the device's cache. Cheap to clone;
/// clones share position and readahead. All methods may be called from any thread.
///
/// [`Read`](std::io::Read), [`Write`](std::io::Write) and [`Seek`](std::io::Seek) on it (and on a reference to it)
/// use and move the position. Each call takes its range and moves the position past it in one step, so concurrent
/// calls get different ranges; a call that fails restores the position unless another call has moved it since. Reads
/// are short at the end of the device and then return 0. So do writes, because a device does not grow.
/// [`flush`](std::io::Write::flush) makes written data durable.
///
/// The calls with a position of their own (`*_at`) transfer everything or fail, like those of [`Device`]. Data in the
/// device's cache is copied at once, without a lock of the handle and without a bio.
///
/// ```
/// use platter_disk::device::Device;
/// use std::io::{Read, Seek, SeekFrom, Write};
///
/// let disk = Device::ram(1 << 20)?;
/// let mut handle = disk.handle();
/// handle.write_all(&[1; 4096])?;
/// let mut same = handle.clone();
/// same.write_all(&[2; 4096])?;
/// assert_eq!(handle.position(), 8192);
///
/// let mut other = disk.handle();
/// let mut block = [0; 512];
/// other.read_exact(&mut block)?;
/// assert_eq!((block[0], other.position(), handle.position()), (1, 512, 8192));
/// handle.seek(SeekFrom::End(-10))?;
/// assert_eq!((handle.read(&mut block)?, handle.read(&mut block)?), (10, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Handle {
    description: Arc<Description>,
    /// The device whose bios carry the description's number.
    device: Device,
}

impl Device {
    /// Opens the device once more: a handle with its own position, at 0, and its own readahead. Its I/Os have the
    /// same context and priority as those of this device.
    ///
    /// A cache tells 65,535 handles that are open at the same time apart. Further ones have a position of their own, but
    /// read as the device does: its readahead is theirs, [`Handle::counters`] is `None`, [`Handle::advise`] about future
    /// reads has no effect, and an error of write-back is reported to one of them.
    pub fn handle(&self) -> Handle {
        let mut device = self.clone();
        let description = Description::open(self.backend());
        device.submitter.handle = description.id;
        device.description = Some(Arc::clone(&description));
        Handle { description, device }
    }
}

impl Handle {
    /// The device, for futures, channels and cursors that share the handle's readahead: all their I/O carries the
    /// handle's number.
    ///
    /// ```
    /// # use platter_disk::device::Device;
    /// let handle = Device::ram(1 << 20)?.handle();
    /// let mut channel = handle.device().channel(32)?;
    /// # Ok::<(), platter_block::fault::Error>(())
    /// ```
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The number that the handle's bios carry.
    pub fn id(&self) -> HandleId {
        self.description.id
    }

    /// The offset of the next read or write of the stream, in bytes. May lie past the end of the device.
    pub fn position(&self) -> u64 {
        self.description.position.load(Ordering::Relaxed)
    }

    /// [`Device::read_at`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn read_at(&self, buffer: &mut [u8], pos: u64) -> Result<(), Error> {
        self.device.read_at(buffer, pos)
    }

    /// [`Device::write_at`].
    ///
    /// # Errors
    /// As there.
    pub fn write_at(&self, data: &[u8], pos: u64) -> Result<(), Error> {
        self.device.write_at(data, pos)
    }

    /// [`Device::read_vectored_at`].
    ///
    /// # Errors
    /// As there.
    pub fn read_vectored_at(&self, buffers: &mut [IoSliceMut<'_>], pos: u64) -> Result<(), Error> {
        self.device.read_vectored_at(buffers, pos)
    }

    /// [`Device::write_vectored_at`].
    ///
    /// # Errors
    /// As there.
    pub fn write_vectored_at(&self, buffers: &[IoSlice<'_>], pos: u64) -> Result<(), Error> {
        self.device.write_vectored_at(buffers, pos)
    }

    /// [`Device::write_durable_at`].
    ///
    /// # Errors
    /// As there.
    pub fn write_durable_at(&self, data: &[u8], pos: u64) -> Result<(), Error> {
        self.device.write_durable_at(data, pos)
    }

    /// [`Device::flush`].
    ///
    /// # Errors
    /// As there.
    pub fn flush(&self) -> Result<(), Error> {
        self.device.flush()
    }

    /// [`Device::flush_range`].
    ///
    /// # Errors
    /// As there.
    pub fn flush_range(&self, pos: u64, len: u64) -> Result<(), Error> {
        self.device.flush_range(pos, len)
    }

    /// [`Device::discard`].
    ///
    /// # Errors
    /// As there.
    pub fn discard(&self, pos: u64, len: u64) -> Result<(), Error> {
        self.device.discard(pos, len)
    }

    /// [`Device::write_zeroes`].
    ///
    /// # Errors
    /// As there.
    pub fn write_zeroes(&self, pos: u64, len: u64) -> Result<(), Error> {
        self.device.write_zeroes(pos, len)
    }

    /// Tells the cache how the program will read the `len` bytes at `pos` (0: to the end of the device) through this
    /// handle. [`Normal`](Hint::Normal), [`Sequential`](Hint::Sequential), [`Random`](Hint::Random) and
    /// [`NoReuse`](Hint::NoReuse) apply to all future reads of the handle, whatever the range; `NoReuse` holds beside the
    /// others until `Normal`. [`WillNeed`](Hint::WillNeed) has the range read, but no more of it than half the cache has
    /// room for; ranges wait for each other, and while 1,024 wait, further ones are ignored. [`DontNeed`](Hint::DontNeed) drops the clean pages of the range and
    /// writes the dirty ones, which are evicted before others then; pages of which a part is outside the range stay. Without a
    /// cache the hint has no effect.
    ///
    /// ```
    /// # use platter_disk::device::Device;
    /// use platter_block::hint::Hint;
    /// let handle = Device::ram(1 << 20)?.handle();
    /// handle.advise(Hint::Random, 0, 0)?;
    /// # Ok::<(), platter_block::fault::Error>(())
    /// ```
    ///
    /// # Errors
    /// The range reaches past the end, or the cache could not carry out the hint.
    pub fn advise(&self, hint: Hint, pos: u64, len: u64) -> Result<(), Error> {
        let len = self.device.range_to(Op::Read, pos, len)?;
        self.device.backend().advise(self.id(), hint, pos, len)
    }

    /// The counts that the device's cache keeps for this handle; `None` without a cache. Reads that the handle
    /// answered from memory are counted only for the device ([`Device::cache_counters`]).
    pub fn counters(&self) -> Option<HandleCounters> {
        self.device.backend().handle_counters(self.id())
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({:?}, at {})", self.device, self.position())
    }
}
