//! Platter: a block I/O layer in user space.
//!
//! [`open`] makes a [`Device`] of a [device spec](spec): a path, a disk in memory, a stack of layers. A device
//! is called in three ways, all of which submit bios to the same request queues:
//!
//! - **Synchronous calls** borrow memory and may be made from any number of threads: [`Device::read_at`],
//!   [`Device::write_at`], [vectored](Device::read_vectored_at), [`Device::flush`], [`Device::discard`], or
//!   `Read`, `Write` and `Seek` by [`Device::cursor`], or by [`Device::handle`] with a position that clones share.
//! - **Futures** own their buffer and give it back with the result, on any executor: [`Device::read`],
//!   [`Device::write`].
//! - **Polled channels** take and give batches of bios, without waker or allocation: [`Device::channel`].
//!
//! ```
//! use platter::{Access, open};
//!
//! let disk = open("ram(16M, elevator=deadline)", Access::read_write())?;
//! disk.write_at(b"durable when flushed", 4096)?;
//! disk.flush()?;
//! let mut word = [0; 7];
//! disk.read_at(&mut word, 4096)?;
//! assert_eq!(&word, b"durable");
//!
//! let reads = [0, 4096, 8192].map(|pos| disk.read(pos, vec![0u8; 512]));
//! for (result, buffer) in futures::executor::block_on(futures::future::join_all(reads)) {
//!     result?;
//!     assert_eq!(buffer.map(|b| b.len()), Some(512));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A program can add I/O schedulers, layers and drivers of its own: [`register_elevator`], [`register_layer`] and
//! [`register_driver`] make them known under their names, which device specs can then contain.

#[cfg(feature = "nvme")]
pub mod nvme;
#[cfg(feature = "layers")]
pub mod raid;
pub mod registry;
#[cfg(feature = "scsi")]
pub mod scsi;
pub mod spec;
#[cfg(any(feature = "nvme", feature = "scsi"))]
mod steps;

pub use platter_block as block;
#[cfg(feature = "cache")]
pub use platter_cache as cache;
pub use platter_disk as disk;
#[cfg(feature = "elevators")]
pub use platter_elevators as elevators;
#[cfg(any(feature = "iscsi", feature = "nbd"))]
pub use platter_remote as remote;
#[cfg(feature = "sim")]
pub use platter_sim as sim;
#[cfg(feature = "layers")]
pub use platter_stack as stack;

pub use platter_block::bio::{Bio, Class, Flags, IoPrio, Op};
pub use platter_block::buf::{IoBuf, IoBufMut};
pub use platter_block::fault::{Error, Kind};
pub use platter_block::handle::HandleCounters;
pub use platter_block::hint::Hint;
pub use platter_block::register::RegisterError;
pub use platter_disk::adapters::{Cursor, io_error};
pub use platter_disk::channel::Channel;
pub use platter_disk::device::Device;
pub use platter_disk::future::Io;
pub use platter_disk::handle::{Handle, PageRef};
pub use platter_disk::open::DiskOptions;
pub use platter_disk::pool::{Pool, PoolBuf};
pub use platter_disk::sync_io::IoOptions;
#[cfg(feature = "layers")]
pub use registry::register_layer;
pub use registry::{Access, open, register_driver, register_elevator, set_default_elevator};

/// The examples in pages of documentation, which run as tests. A symbolic link to each page is in the crate's own
/// directory, so that the package is complete.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../docs/cache.md")]
    struct Cache;
    #[doc = include_str!("../README.md")]
    struct Readme;
}
