//! Shared by the tests of arrays.

use crate::script::IgnoresCancel;
use platter_block::backend::Backend;
use platter_block::bio::Op;
use platter_block::disk::FnDisk;
use platter_block::driver::{Completion, Driver, Started};
use platter_block::limits::Limits;
use platter_block::time::{Span, Time};
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_disk::drivers::memory::{Memory, MemoryChannel};
use platter_sim::ideal::Ideal;
use platter_sim::medium::Medium;
use platter_sim::{SimDisk, World};
use platter_stack::raid0::{self, Sizes};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

pub(crate) const CHUNK: u64 = 65536;

pub(crate) fn backends(devices: &[Device]) -> Vec<Arc<dyn Backend>> {
    devices.iter().map(|device| Arc::clone(device.backend())).collect()
}

pub(crate) fn rams(sizes: &[u64]) -> Vec<Device> {
    sizes.iter().map(|&size| Device::ram(size).unwrap()).collect()
}

/// An array of disks in memory, and the disks.
pub(crate) fn array(chunk: u64, sizes: &[u64]) -> (Vec<Device>, Device) {
    let disks = rams(sizes);
    let array = raid0::new(backends(&disks), chunk, Sizes::Zones).unwrap();
    (disks, Device::new(array))
}

/// A simulated disk that takes `latency` for each command, up to 32 at a time.
pub(crate) fn simulated(world: &Arc<World>, latency: Span, write_cache: bool) -> Device {
    simulated_with(world, latency, write_cache, DiskSettings::default())
}

/// As `simulated`, with settings of its queue.
pub(crate) fn simulated_with(
    world: &Arc<World>,
    latency: Span,
    write_cache: bool,
    settings: DiskSettings,
) -> Device {
    let model = Ideal { size: 16 << 20, latency, depth: 32, write_cache };
    let disk = SimDisk::new(world, model.into(), Some(Medium::new()));
    let channels = disk.clone();
    let disk = FnDisk::new("sim", disk.geometry(), move |_| {
        // SAFETY: it reports a request only after the channel has.
        Ok(Box::new(IgnoresCancel(unsafe { channels.channel().into_driver() })) as Box<dyn Driver>)
    })
    .with_clock(Arc::clone(world.clock()));
    Device::from_disk(disk, settings, None).unwrap()
}

/// A memory device on which requests that contain one byte, or flushes, fail with an errno.
pub(crate) fn flawed(name: &str, size: u64, bad: Bad) -> Device {
    made(name, size, bad, Limits::unlimited(512))
}

/// Memory with limits.
pub(crate) fn with_limits(name: &str, size: u64, limits: Limits) -> Device {
    made(name, size, Bad::Nothing, limits)
}

fn made(name: &str, size: u64, bad: Bad, limits: Limits) -> Device {
    let memory = Memory::new(size.min(1 << 30)).unwrap();
    let mut geometry = memory.geometry().with_size(size).with_limits(limits);
    geometry.features.write_cache = true;
    let settings = DiskSettings::default();
    let depth = settings.queue.depth;
    let disk = FnDisk::new(name, geometry, move |_| {
        Ok(Box::new(Flawed { memory: memory.channel(depth), bad, failed: Vec::new() }) as Box<dyn Driver>)
    });
    Device::from_disk(disk, settings, None).unwrap()
}

/// What fails.
#[derive(Clone, Copy)]
pub(crate) enum Bad {
    Byte(u64),
    Flush,
    Nothing,
}

struct Flawed {
    memory: MemoryChannel,
    bad: Bad,
    failed: Vec<Completion>,
}

impl Driver for Flawed {
    fn queue(&mut self, now: Time, request: &Started<'_>) -> bool {
        let fails = match self.bad {
            Bad::Byte(bad) => request.pos <= bad && bad < request.pos + request.len,
            Bad::Flush => request.op == Op::Flush,
            Bad::Nothing => false,
        };
        if fails {
            self.failed.push(Completion { tag: request.tag, result: -5 });
        }
        fails || self.memory.queue(now, request)
    }

    fn submit(&mut self, now: Time) {
        self.memory.submit(now);
    }

    fn reap(&mut self, now: Time, done: &mut Vec<Completion>) {
        done.append(&mut self.failed);
        self.memory.reap(now, done);
    }
}

/// Runs a task that might hang on a thread of its own.
pub(crate) fn spawn<T: Send + 'static>(task: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (tell, result) = channel();
    std::thread::spawn(move || tell.send(task()));
    result
}

/// The result of [`spawn`]; panics if the task hangs.
pub(crate) fn result<T>(task: &Receiver<T>) -> T {
    task.recv_timeout(Duration::from_secs(30)).expect("it ends")
}
