//! A device whose disk holds every request until the test releases it, and buffers that report their drop.

use platter_block::bio::{Bio, Op};
use platter_block::buf::{IoBuf, IoBufMut};
use platter_block::disk::FnDisk;
use platter_block::driver::{Completion, Driver, Features, Geometry, Started};
use platter_block::elevator::Elevator;
use platter_block::fault::Fault;
use platter_block::limits::Limits;
use platter_block::queue::Settings;
use platter_block::segment::Segment;
use platter_block::time::{Span, Time};
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

#[derive(Default)]
struct State {
    /// By channel and tag.
    held: Vec<(u64, u32, Op, u64, Vec<Segment>)>,
    channels: u64,
    open: bool,
    /// The disk releases requests when it is waited for.
    yields: bool,
    /// Writes that the disk has got.
    writes: usize,
}

/// The disk of all channels of one device.
#[derive(Clone, Default)]
pub(crate) struct Disk(Arc<Mutex<State>>);

impl Disk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Number of requests that the disk has.
    pub(crate) fn held(&self) -> usize {
        self.state().held.len()
    }

    /// Number of writes that the disk has got so far.
    pub(crate) fn writes(&self) -> usize {
        self.state().writes
    }

    /// From now on requests complete at the next reap.
    pub(crate) fn let_go(&self) {
        self.state().open = true;
    }

    /// Requests complete from the next wait on.
    pub(crate) fn let_go_when_waited_for(&self) {
        self.state().yields = true;
    }

    /// A device over this disk, with an elevator by name, or none.
    pub(crate) fn device(&self, elevator: &str) -> Device {
        self.make(platter_elevators::by_name(elevator).map(|row| (row.make)()), Settings::default())
    }

    /// A device without an elevator that gives the disk one request at a time.
    pub(crate) fn serial_device(&self) -> Device {
        self.make(None, Settings { depth: 1, ..Settings::default() })
    }

    /// A device with an elevator that the test provides.
    pub(crate) fn device_with(&self, elevator: Box<dyn Elevator>) -> Device {
        self.make(Some(elevator), Settings::default())
    }

    fn make(&self, elevator: Option<Box<dyn Elevator>>, settings: Settings) -> Device {
        let disk = self.clone();
        let limits = Limits::unlimited(512).with_max_transfer(64 << 10);
        let features = Features::default().with_write_cache(true);
        let disk = FnDisk::new("held", Geometry::new(1 << 30, limits).with_features(features), move |_| {
            let number = {
                let mut state = disk.state();
                state.channels += 1;
                state.channels
            };
            Ok(Box::new(Channel { disk: disk.clone(), number }) as _)
        });
        Device::from_disk(disk, DiskSettings::default().with_queue(settings), elevator)
            .expect("a channel can be had")
    }
}

struct Channel {
    disk: Disk,
    number: u64,
}

impl Channel {
    /// Carries out a request: reads return sevens.
    fn perform(segments: &[Segment], op: Op) {
        if op == Op::Read {
            for segment in segments {
                // SAFETY: the request is in flight with this driver.
                unsafe { segment.fill(7) };
            }
        }
    }

    fn finish(&mut self, done: &mut Vec<Completion>) {
        let mut state = self.disk.state();
        state.held.retain(|(channel, tag, op, len, segments)| {
            if *channel != self.number {
                return true;
            }
            Channel::perform(segments, *op);
            done.push(Completion { tag: *tag, result: *len as i64 });
            false
        });
    }
}

impl Driver for Channel {
    fn queue(&mut self, _now: Time, request: &Started<'_>) -> bool {
        let mut segments = Vec::new();
        request.for_each_segment(|segment| segments.push(segment));
        let mut state = self.disk.state();
        state.writes += usize::from(request.op == Op::Write);
        state.held.push((self.number, request.tag, request.op, request.len, segments));
        true
    }

    fn submit(&mut self, _now: Time) {}

    fn reap(&mut self, _now: Time, done: &mut Vec<Completion>) {
        if self.disk.state().open {
            self.finish(done);
        }
    }

    fn wait(&mut self, _now: Time, _timeout: Option<Span>) {
        let mut state = self.disk.state();
        state.open |= state.yields;
    }
}

impl Drop for Channel {
    /// As the contract requires: waits for the device.
    fn drop(&mut self) {
        let waits = |state: &State| !state.open && state.held.iter().any(|held| held.0 == self.number);
        while waits(&self.disk.state()) {
            std::thread::yield_now();
        }
        self.finish(&mut Vec::new());
    }
}

/// Counts freed buffers.
#[derive(Clone, Default)]
pub(crate) struct Freed(Arc<AtomicUsize>);

impl Freed {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// Waits until `count` buffers were freed, by any threads.
    pub(crate) fn wait_for(&self, count: usize) {
        let begin = Instant::now();
        while self.count() < count {
            assert!(begin.elapsed() < Duration::from_secs(30), "{} of {count} buffers freed", self.count());
            std::thread::yield_now();
        }
        assert_eq!(self.count(), count);
    }

    pub(crate) fn buffer(&self) -> Buffer {
        Buffer { bytes: vec![0; 4096], freed: self.clone() }
    }
}

/// A buffer that is counted when it is freed.
pub(crate) struct Buffer {
    pub(crate) bytes: Vec<u8>,
    freed: Freed,
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.freed.0.fetch_add(1, Ordering::SeqCst);
    }
}

// SAFETY: the bytes are the vector's, which keeps this contract itself.
unsafe impl IoBuf for Buffer {
    fn byte_len(&self) -> usize {
        self.bytes.byte_len()
    }
    unsafe fn add_segments(&mut self, bio: &mut Bio) -> Result<(), Fault> {
        // SAFETY: the bytes go into the bio with the buffer.
        unsafe { self.bytes.add_segments(bio) }
    }
}

// SAFETY: as above.
unsafe impl IoBufMut for Buffer {}
