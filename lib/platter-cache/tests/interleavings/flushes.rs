//! Models of the writes and flushes of shards that have one disk.

use crate::disk_writes::DiskWrites;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use std::sync::Arc;

/// Which of two shards' writes a disk has received and has made durable. The order in which threads see this is only what
/// the numbers of writes and flushes bring about.
#[derive(Default)]
struct Disk {
    received: [AtomicBool; 2],
    durable: [AtomicBool; 2],
    writes: DiskWrites,
}

impl Disk {
    /// A write of a shard, which completes.
    fn write(&self, shard: usize) -> u64 {
        self.received[shard].store(true, Ordering::Relaxed);
        self.writes.wrote()
    }

    /// A flush that begins and makes durable what the disk has received, and no more.
    fn flush(&self) {
        let last = self.writes.last();
        for (received, durable) in self.received.iter().zip(&self.durable) {
            if received.load(Ordering::Relaxed) {
                durable.store(true, Ordering::Relaxed);
            }
        }
        self.writes.flushed(last);
    }

    fn assert_durable(&self, shard: usize) {
        assert!(
            self.durable[shard].load(Ordering::Relaxed),
            "write of shard {shard} counts as flushed and is not durable"
        );
    }
}

/// Two shards that write and flush at the same time, of which one covers the write of the other.
#[test]
fn flushes_at_the_same_time_cover_all_that_was_written_before() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let disk = Arc::new(Disk::default());
        let write_and_flush = |disk: &Disk, shard: usize| {
            let write = disk.write(shard);
            if !disk.writes.is_flushed(write) {
                disk.flush();
            }
            assert!(disk.writes.is_flushed(write));
            disk.assert_durable(shard);
        };
        let other = {
            let disk = Arc::clone(&disk);
            thread::spawn(move || write_and_flush(&disk, 1))
        };
        write_and_flush(&disk, 0);
        other.join().unwrap();
    });
}
