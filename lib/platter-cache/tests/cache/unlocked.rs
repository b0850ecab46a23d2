//! What the disk does for the engine's own lane is done without the engine's lock.

use crate::rig::{self, small};
use platter_block::bio::{Bio, Op};
use platter_block::disk::FnDisk;
use platter_block::driver::{Completion, Driver, Geometry, Started};
use platter_block::fault::Kind;
use platter_block::hint::Hint;
use platter_block::limits::Limits;
use platter_block::time::{Span, Time};
use platter_cache::Settings;
use platter_disk::device::Device;
use platter_disk::disk_backend::{DiskBackend, DiskSettings};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const MIB: u64 = 1 << 20;

/// A system call that does not return until it is let go.
#[derive(Clone, Default)]
struct Call {
    begun: Arc<AtomicBool>,
    let_go: Arc<AtomicBool>,
    /// It was given up.
    hung: Arc<AtomicBool>,
    reads: Arc<AtomicUsize>,
}

impl Call {
    fn make(&self) {
        self.begun.store(true, Ordering::SeqCst);
        if !rig::until(|| self.let_go.load(Ordering::SeqCst)) {
            self.hung.store(true, Ordering::SeqCst);
        }
    }
}

/// A driver whose system call with a write takes long.
struct Slow {
    call: Call,
    queued: Vec<Completion>,
    writes: bool,
}

impl Driver for Slow {
    fn queue(&mut self, _now: Time, request: &Started<'_>) -> bool {
        self.queued.push(Completion { tag: request.tag, result: request.len as i64 });
        self.writes |= request.op == Op::Write;
        self.call.reads.fetch_add(usize::from(request.op == Op::Read), Ordering::SeqCst);
        true
    }

    fn submit(&mut self, _now: Time) {
        if std::mem::take(&mut self.writes) {
            self.call.make();
        }
    }

    fn reap(&mut self, _now: Time, done: &mut Vec<Completion>) {
        done.append(&mut self.queued);
    }
}

/// Writes a page, and calls `meanwhile` while a system call that writes it back is under way on another thread. Then the
/// call returns, and the flush ends. Returns the number of reads that the disk has got by then.
fn beside_a_call(meanwhile: impl FnOnce(&Device, &Call)) -> usize {
    let call = Call::default();
    let driver = {
        let call = call.clone();
        move |_| Ok(Box::new(Slow { call: call.clone(), queued: Vec::new(), writes: false }) as _)
    };
    let disk = FnDisk::new("slow", Geometry::new(64 << 20, Limits::unlimited(512)), driver);
    let below = Arc::new(DiskBackend::new(disk, DiskSettings::default(), None).unwrap());
    let device = rig::cached(below, &Settings { window: 131_072, ..small(1024) });
    device.write_at(&[1; 4096], 0).unwrap();
    std::thread::scope(|scope| {
        let flush = scope.spawn(|| {
            // What the flush of a channel writes goes to the engine's own lane.
            let mut channel = device.channel(1).unwrap();
            assert!(channel.submit(Bio::flush()).is_ok());
            let mut done = Vec::new();
            channel.wait(&mut done, None);
            assert_eq!(done[0].status(), Ok(()));
        });
        assert!(rig::until(|| call.begun.load(Ordering::SeqCst)), "the disk gets the write");
        meanwhile(&device, &call);
        call.let_go.store(true, Ordering::SeqCst);
        flush.join().unwrap();
    });
    assert!(!call.hung.load(Ordering::SeqCst), "the call is not waited for");
    call.reads.load(Ordering::SeqCst)
}

#[test]
fn writes_and_reads_do_not_wait_for_a_system_call_of_another_thread() {
    beside_a_call(|device, _| {
        device.write_at(&[2; 4096], 8192).unwrap();
        // The page that is being written, which gets another version, and a part of one that is missing.
        device.write_at(&[2; 4096], 0).unwrap();
        device.write_at(&[2; 512], MIB).unwrap();
        let mut found = [0; 4096];
        device.read_at(&mut found, 0).unwrap();
        assert_eq!(found, [2; 4096]);
        device.read_at(&mut found, 2 * MIB).unwrap();
        assert!(device.facts().iter().any(|(key, _)| *key == "cache locks"));
    });
}

/// What other threads leave to the one that has the lane is carried out when its call has returned.
#[test]
fn what_is_ordered_during_a_system_call_is_carried_out_after_it() {
    let reads = beside_a_call(|device, call| {
        device.handle().advise(Hint::WillNeed, MIB, 65536).unwrap();
        assert_eq!(call.reads.load(Ordering::SeqCst), 0);
    });
    assert_eq!(reads, 1);
}

/// A thread that sleeps does not wait for the lane that another thread uses, so a bio ends by its deadline although its I/O was
/// only ordered; nor does one that asks for the descriptors of its channel.
#[test]
fn a_bio_ends_by_its_deadline_beside_a_system_call_of_another_thread() {
    beside_a_call(|device, call| {
        let mut channel = device.channel(1).unwrap();
        let mut bio = Bio::read(2 * MIB, vec![0u8; 4096]).unwrap();
        bio.set_deadline(Some(device.backend().now() + Span::from_millis(100)));
        assert!(channel.submit(bio).is_ok());
        channel.flush();
        let mut descriptors = Vec::new();
        channel.descriptors(&mut descriptors);
        let mut done = Vec::new();
        channel.wait(&mut done, None);
        // The call goes on: a test that fails here ends all the same.
        call.let_go.store(true, Ordering::SeqCst);
        assert!(!descriptors.is_empty());
        assert_eq!(done[0].status().unwrap_err().kind, Kind::TimedOut);
        assert_eq!(done[0].take_buffer::<Vec<u8>>().map(|buffer| buffer.len()), Some(4096));
    });
}
