//! A disk in memory: its contents are freed with its last channel.

use platter_block::allocation::Extent;
use platter_block::backend::{Fact, LaneUse};
use platter_block::bio::Op;
use platter_block::disk::{Disk, DiskChannel};
use platter_block::driver::{Completion, Driver, Features, Geometry, Outstanding, Started};
use platter_block::fault::Error;
use platter_block::limits::Limits;
use platter_block::time::Time;
use std::io;
use std::sync::Arc;

mod store;

use super::null::Nothing;
use store::Store;

/// A disk in memory. Clones share the contents; every channel of the disk comes from [`Memory::channel`].
#[derive(Clone)]
pub struct Memory {
    store: Arc<Store>,
}

impl Memory {
    /// A zero-filled disk of `size` bytes. Memory is allocated when it is written to.
    ///
    /// # Errors
    /// `InvalidInput` for a size of 0 or one beyond the address space; otherwise the error of `mmap`.
    pub fn new(size: u64) -> io::Result<Memory> {
        Ok(Memory { store: Arc::new(Store::new(size)?) })
    }

    /// Size in bytes, blocks of 512 bytes, no limits, no write cache.
    pub fn geometry(&self) -> Geometry {
        let features = Features::default().with_fua(true).with_prebuild(true);
        Geometry::new(self.store.size(), Limits::unlimited(512)).with_features(features)
    }

    /// A channel that takes `depth` requests at a time.
    pub fn channel(&self, depth: u32) -> MemoryChannel {
        let depth = depth as usize;
        MemoryChannel { store: Arc::clone(&self.store), done: Vec::with_capacity(depth), depth, rung: 0 }
    }
}

/// A disk in memory whose channels take `depth` requests at a time.
pub(crate) struct MemoryDisk {
    pub(crate) memory: Memory,
    pub(crate) depth: u32,
}

impl Disk for MemoryDisk {
    fn name(&self) -> Arc<str> {
        Arc::from("ram")
    }

    fn geometry(&self) -> Geometry {
        self.memory.geometry()
    }

    fn open_channel(&self, _lane_use: LaneUse) -> Result<DiskChannel, Error> {
        Ok(DiskChannel::new(self.memory.channel(self.depth)))
    }

    fn facts(&self) -> Vec<Fact> {
        vec![("driver", "ram".to_string())]
    }

    fn holds_unflushed(&self) -> bool {
        true
    }

    fn allocation(&self, pos: u64, len: u64) -> Result<Extent, Error> {
        Ok(self.memory.store.allocation(pos, len))
    }
}

/// A channel of a [`Memory`] disk. Data is copied when a request is queued, and its memory is not used any more; the completion
/// comes at a later reap.
pub struct MemoryChannel {
    store: Arc<Store>,
    /// Completions since the last reap; never more than `depth`.
    done: Vec<Completion>,
    depth: usize,
    /// How many of them were submitted by a doorbell.
    rung: usize,
}

impl MemoryChannel {
    /// Carries out the request; returns the bytes done, or a negative errno.
    fn run(&self, request: &Started<'_>) -> i64 {
        // The queue lets nothing past the end through. If it did, reads would be short and writes would find
        // no space.
        let room = self.store.size().saturating_sub(request.pos);
        let len = request.len.min(room);
        match request.op {
            Op::Read => self.transfer(request, len, Store::read),
            _ if len < request.len => return -i64::from(libc::ENOSPC),
            Op::Write => self.transfer(request, len, Store::write),
            Op::Discard | Op::WriteZeroes => self.store.zero(request.pos, len),
            Op::Flush => {}
            Op::Command => return -i64::from(libc::EOPNOTSUPP),
        }
        len as i64
    }

    fn transfer(
        &self,
        request: &Started<'_>,
        len: u64,
        copy: impl Fn(&Store, u64, platter_block::segment::Segment),
    ) {
        if let Some(segment) = request.single_segment() {
            copy(&self.store, request.pos, segment.slice(0, len as u32));
            return;
        }
        let mut done = 0;
        request.for_each_segment(|segment| {
            let piece = segment.slice(0, u64::from(segment.len()).min(len - done) as u32);
            copy(&self.store, request.pos + done, piece);
            done += u64::from(piece.len());
        });
    }
}

impl Driver for MemoryChannel {
    fn queue(&mut self, _now: Time, request: &Started<'_>) -> bool {
        if self.done.len() == self.depth {
            return false;
        }
        let result = self.run(request);
        self.done.push(Completion { tag: request.tag, result });
        true
    }

    fn submit(&mut self, _now: Time) {
        self.rung = self.done.len();
    }

    fn reap(&mut self, _now: Time, done: &mut Vec<Completion>) {
        done.extend(self.done.drain(..self.rung).rev());
        self.rung = 0;
    }

    /// A request has been carried out when it is queued.
    fn is_prompt(&self) -> bool {
        true
    }

    fn outstanding(&self) -> Option<Arc<dyn Outstanding>> {
        Some(Arc::new(Nothing))
    }
}
