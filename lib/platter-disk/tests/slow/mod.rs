//! A disk that completes nothing until the test says so, and has no descriptor for completions.

use platter_block::disk::FnDisk;
use platter_block::driver::{Completion, Driver, Geometry, Started};
use platter_block::limits::Limits;
use platter_block::time::{Span, Time};
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

struct Slow {
    let_go: Arc<AtomicBool>,
    held: Vec<Completion>,
}

impl Driver for Slow {
    fn queue(&mut self, _now: Time, request: &Started<'_>) -> bool {
        self.held.push(Completion { tag: request.tag, result: request.len as i64 });
        true
    }

    fn submit(&mut self, _now: Time) {}

    fn reap(&mut self, _now: Time, done: &mut Vec<Completion>) {
        if self.let_go.load(Ordering::SeqCst) {
            done.append(&mut self.held);
        }
    }

    fn wait(&mut self, _now: Time, _timeout: Option<Span>) {}
}

pub(crate) fn slow_disk(let_go: &Arc<AtomicBool>) -> Device {
    let let_go = Arc::clone(let_go);
    let driver = move |_| Ok(Box::new(Slow { let_go: Arc::clone(&let_go), held: Vec::new() }) as _);
    let disk = FnDisk::new("slow", Geometry::new(1 << 20, Limits::unlimited(512)), driver);
    Device::from_disk(disk, DiskSettings::default(), None).unwrap()
}
