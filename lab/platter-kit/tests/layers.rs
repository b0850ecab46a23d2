//! The parts that layers are made of, in what no run of the soak shows.

use platter_block::backend::Backend;
use platter_block::bio::Flags;
use platter_block::fault::{Fault, Kind, Stage, Status};
use platter_block::status::Item;
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_sim::ideal::Ideal;
use platter_sim::medium::Medium;
use platter_sim::{SimDisk, World};
use platter_stack::kit::table::GROUP;
use platter_stack::kit::{Below, Buffer, Frame, Layer, Pace, Run, Task, read_copies, write_copies};
use std::future::{Future, ready};
use std::sync::Arc;
use std::time::{Duration, Instant};

const CHUNK: u64 = 4096;

/// A layer that carries no bios: the checks run tasks of their own in its frame.
struct Idle;

impl Layer for Idle {
    async fn run(self: Arc<Self>, task: Task) -> Status {
        task.pass(0, task.pos()).await
    }
    async fn flush(self: Arc<Self>, below: Below, _port: usize) -> Status {
        below.flush(0).await
    }
    fn locate(&self, _port: usize, pos: u64) -> Option<(usize, u64, u64)> {
        Some((0, pos, u64::MAX))
    }
    fn status(&self, _port: usize) -> Vec<Item> {
        Vec::new()
    }
}

fn corrupt() -> Fault {
    Fault::new(Kind::Corrupt, Stage::Layer)
}

fn simulated(world: &Arc<World>) -> Arc<dyn Backend> {
    let model = Ideal { size: 1 << 20, latency: Span::from_micros(10), depth: 4, write_cache: true };
    let disk = SimDisk::new(world, model.into(), Some(Medium::new()));
    let device = Device::from_disk(disk.attach("sim"), DiskSettings::default(), None).unwrap();
    Arc::clone(device.backend())
}

/// Runs a check in a frame over a device in memory, in real time: no thread advances a virtual clock while work sleeps.
fn within<F>(check: impl FnOnce(Below) -> F) -> bool
where
    F: Future<Output = Status> + Send + 'static,
{
    let (device, below) = (Device::ram(1 << 20).unwrap(), Below::default());
    let frame = Frame::new(vec![Arc::clone(device.backend())], 1, below.clone(), Arc::new(Idle)).unwrap();
    frame.block_on(check(below)).is_ok()
}

/// The newest record is read although its first copy is damaged.
#[test]
fn a_record_survives_damage() {
    let check = |below: Below| async move {
        write_copies(&below, 0, &[0xAA, 1]).await?;
        below.write(0, 0, Buffer::new(GROUP as usize), Flags::FUA).await?;
        let decode = |bytes: &[u8]| (bytes[0] == 0xAA).then_some(bytes[1]);
        let (_, newest) = read_copies(&below, 0, decode, |&number| u64::from(number)).await?;
        newest.map(|_| ()).ok_or(corrupt())
    };
    assert!(within(check));
}

/// Ten pieces of 1,000 bytes at 25,000 bytes per second: nine wait.
#[test]
fn work_keeps_to_its_rate() {
    let begin = Instant::now();
    let is_done = within(|below| async move {
        let (pace, mut left) = (Pace::new(&below, 25_000), 10);
        let next = || {
            left -= 1;
            (left >= 0).then_some((1000, ()))
        };
        pace.run(10_000, next, |()| ready(Ok(()))).await
    });
    assert!(is_done && begin.elapsed() >= Duration::from_millis(350));
}

/// All of a chunk is where it was copied to.
#[test]
fn a_copy_is_whole() {
    let check = |below: Below| async move {
        let mut data = Buffer::new(CHUNK as usize);
        data.bytes_mut().fill(7);
        below.write(0, 0, data, Flags::NONE).await?;
        let run = Run { from: 0, to: 4 * CHUNK, len: CHUNK };
        below.copy(0, 0, &[run]).await.map_err(Fault::from)?;
        let copy = below.read(0, 4 * CHUNK, Buffer::new(CHUNK as usize)).await?;
        match copy.bytes().iter().all(|&byte| byte == 7) {
            true => Ok(()),
            false => Err(corrupt()),
        }
    };
    assert!(within(check));
}

fn snapshot(name: &str, origin: &Arc<dyn Backend>, store: &Arc<dyn Backend>) -> Device {
    let row = platter_cache::by_name(name).unwrap();
    let settings: &[(&str, i64)] = match name {
        "snapshot" => &[("chunk", CHUNK as i64)],
        _ => &[("pause", 1)],
    };
    Device::new(row.make(settings, vec![Arc::clone(origin), Arc::clone(store)]).unwrap())
}

/// The number of bytes in the store of a snapshot is that of the chunks in it.
#[test]
fn sizes_are_bytes() {
    let world = World::new(1);
    let (origin, store) = (simulated(&world), simulated(&world));
    let origin = platter_stack::partition::new(origin, 0, Some(1 << 19)).unwrap();
    let device = snapshot("snapshot", &origin, &store);
    device.write_at(&[1; 2 * CHUNK as usize], 0).unwrap();
    assert_eq!(device.layers()[0].number("snapshot store used"), Some(2 * CHUNK));
}

/// The rate of a merge is what was set while it was open.
#[test]
fn a_parameter_is_set() {
    let world = World::new(1);
    let (origin, store) = (simulated(&world), simulated(&world));
    let origin = platter_stack::partition::new(origin, 0, Some(1 << 19)).unwrap();
    snapshot("snapshot", &origin, &store).close().unwrap();
    let device = snapshot("snapshot-merge", &origin, &store);
    device.set_layer_param(None, "rate", 12_345).unwrap();
    let params = &device.layers()[0].params;
    assert!(params.iter().any(|(param, value)| (param.name, *value) == ("rate", 12_345)));
}
