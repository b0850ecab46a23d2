//! Destructors of buffers may call the device, whatever layer dropped the buffer: no lock of a layer or of a
//! disk below is held at that time.

#![allow(unsafe_code)]

#[path = "layers/mirrors.rs"]
mod mirrors;

use platter_block::backend::Backend;
use platter_block::bio::Bio;
use platter_block::buf::IoBuf;
use platter_block::fault::Fault;
use platter_block::queue::Settings;
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::disk_backend::{DiskBackend, DiskSettings};
use platter_sim::ideal::Ideal;
use platter_sim::medium::Medium;
use platter_sim::{SimDisk, World};
use platter_stack::LayerType;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// A task that takes longer is considered hung.
const PATIENCE: Duration = Duration::from_secs(30);

/// A buffer that calls its device when it is dropped.
struct Visitor {
    bytes: Vec<u8>,
    device: Device,
    done: Sender<()>,
}

impl Drop for Visitor {
    fn drop(&mut self) {
        drop(self.device.facts());
        // A dropped channel's I/O on a simulated disk is cancelled: at most the four parts of this buffer.
        let failed = self.device.counters().bios_failed;
        assert!(failed <= 4, "{failed} bios failed");
        drop(self.device.handle());
        drop(self.device.channel(1).expect("a channel"));
        self.device.read_at(&mut [0; 512], 0).expect("a read");
        self.done.send(()).expect("the test waits");
    }
}

// SAFETY: the bytes are the vector's, which keeps this promise itself.
unsafe impl IoBuf for Visitor {
    fn byte_len(&self) -> usize {
        self.bytes.byte_len()
    }
    unsafe fn add_segments(&mut self, bio: &mut Bio) -> Result<(), Fault> {
        // SAFETY: the bytes go into the bio with the buffer.
        unsafe { self.bytes.add_segments(bio) }
    }
}

/// A disk whose first command takes long and times out, unless `timeout` is `None`.
fn disk(world: &Arc<World>, elevator: &str, timeout: Option<Span>) -> Arc<dyn Backend> {
    let size = (16 << 20) + mirrors::FRONT;
    let model = Ideal { size, latency: Span::from_millis(5), depth: 32, write_cache: true };
    let disk = SimDisk::new(world, model.into(), Some(Medium::new()));
    Arc::new(
        DiskBackend::new(
            disk.attach("sim"),
            DiskSettings::default().with_queue(Settings { timeout, ..Settings::default() }),
            platter_elevators::by_name(elevator).map(|row| (row.make)()),
        )
        .expect("a device"),
    )
}

fn over(row: &LayerType, world: &Arc<World>, elevator: &str, timeout: Option<Span>) -> Device {
    let members: Vec<_> =
        (0..(*row.members.start()).max(1)).map(|_| disk(world, elevator, timeout)).collect();
    if row.name == "raid1" {
        mirrors::make(&members);
    }
    if row.name == "snapshot-merge" {
        // There must be a snapshot to merge.
        drop(
            platter_cache::by_name("snapshot")
                .expect("its row")
                .make(&[], members.clone())
                .expect("a snapshot"),
        );
    }
    let named: &[(&str, i64)] = match row.name {
        "error" => &[("chance", 0)],
        _ => &[],
    };
    Device::new(row.make(named, members).expect("it can be made"))
}

/// Runs a task that may hang on a thread of its own.
fn within_patience(what: &str, run: impl FnOnce() + Send + 'static) {
    let (tell, told) = channel();
    std::thread::spawn(move || {
        run();
        tell.send(()).expect("the test waits");
    });
    told.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("{what}: {error}"));
}

/// A channel is dropped while its bio is with the disk.
#[test]
fn buffers_of_dropped_channels() {
    for row in platter_cache::layers() {
        for elevator in ["none", "deadline"] {
            let what = format!("{} over {elevator}", row.name);
            within_patience(&what, move || {
                let world = World::new(1);
                let device = over(row, &world, elevator, None);
                let (done, told) = channel();
                let buffer = Visitor { bytes: vec![1; 256 << 10], device: device.clone(), done };
                let mut lost = device.channel(4).expect("a channel");
                lost.submit(Bio::write(0, buffer).expect("fits")).expect("room");
                lost.flush();
                drop(lost);
                // In the shared queue of an elevator the bio continues only when a lane runs that queue.
                world.clock().advance_to(world.clock().now() + Span::from_secs(1));
                let mut reads = 0;
                while told.try_recv().is_err() {
                    device.read_at(&mut [0; 512], 4096 * reads).expect("a read");
                    reads += 1;
                }
            });
        }
    }
}

/// A bio fails at its timeout, and its memory comes back from the disk later, while another bio completes.
#[test]
fn buffers_that_come_back_after_their_timeout() {
    for row in platter_cache::layers() {
        for elevator in ["none", "deadline"] {
            let what = format!("{} over {elevator}", row.name);
            within_patience(&what, move || {
                let world = World::new(1);
                let device = over(row, &world, elevator, Some(Span::from_millis(6)));
                let (done, told) = channel();
                // More than the disk does at a time, so that the rest times out.
                let buffer = Visitor { bytes: vec![1; 8 << 20], device: device.clone(), done };
                let mut polled = device.channel(4).expect("a channel");
                polled.submit(Bio::write(0, buffer).expect("fits")).expect("room");
                let mut bios = Vec::new();
                while polled.outstanding() > 0 {
                    polled.wait(&mut bios, None);
                }
                bios.clear();
                let mut reads = 0;
                while told.try_recv().is_err() {
                    world.clock().advance_to(world.clock().now() + Span::from_secs(1));
                    polled.submit(Bio::read(4096 * reads, vec![0u8; 512]).expect("fits")).expect("room");
                    while polled.outstanding() > 0 {
                        polled.wait(&mut bios, None);
                    }
                    reads += 1;
                }
            });
        }
    }
}
