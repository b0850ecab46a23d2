//! A disk that records what it gets, and whose writes and flushes can be made to fail at once.

use platter_block::backend::Backend;
use platter_block::bio::Op;
use platter_block::disk::FnDisk;
use platter_block::driver::{Completion, Driver, Geometry, Started};
use platter_block::limits::Limits;
use platter_block::time::Time;
use platter_disk::disk_backend::{DiskBackend, DiskSettings};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

const EIO: i64 = -5;

/// What such a disk has got, and what fails.
#[derive(Clone, Default)]
pub(crate) struct Log {
    /// Operations and positions in order, without reads.
    done: Arc<Mutex<Vec<(Op, u64)>>>,
    pub(crate) writes_fail: Arc<AtomicBool>,
    pub(crate) flushes_fail: Arc<AtomicBool>,
}

impl Log {
    /// Writes and flushes since the last call, failed ones among them.
    pub(crate) fn take(&self) -> Vec<(Op, u64)> {
        std::mem::take(&mut *self.done.lock().unwrap())
    }
}

struct Logged {
    log: Log,
    queued: Vec<Completion>,
}

impl Driver for Logged {
    fn queue(&mut self, _now: Time, request: &Started<'_>) -> bool {
        let fails = match request.op {
            Op::Flush => self.log.flushes_fail.load(Ordering::SeqCst),
            Op::Write => self.log.writes_fail.load(Ordering::SeqCst),
            _ => false,
        };
        if request.op != Op::Read {
            self.log.done.lock().unwrap().push((request.op, request.pos));
        }
        let result = if fails { EIO } else { request.len as i64 };
        self.queued.push(Completion { tag: request.tag, result });
        true
    }

    fn submit(&mut self, _now: Time) {}

    fn reap(&mut self, _now: Time, done: &mut Vec<Completion>) {
        done.append(&mut self.queued);
    }
}

/// A disk of 64 MiB, with a volatile cache or without.
pub(crate) fn disk(write_cache: bool) -> (Log, Arc<dyn Backend>) {
    let log = Log::default();
    let driver = {
        let log = log.clone();
        move |_| Ok(Box::new(Logged { log: log.clone(), queued: Vec::new() }) as _)
    };
    let mut geometry = Geometry::new(64 << 20, Limits::unlimited(512));
    geometry.features.write_cache = write_cache;
    let disk = FnDisk::new("logged", geometry, driver);
    (log, Arc::new(DiskBackend::new(disk, DiskSettings::default(), None).unwrap()))
}
