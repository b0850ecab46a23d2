//! A layer of the kit that passes a bio on at the wrong time: the bio fails, and comes back with its memory.

use platter_block::backend::Backend;
use platter_block::bio::Bio;
use platter_block::fault::{Kind, Stage, Status};
use platter_block::status::Item;
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::disk_backend::{DiskBackend, DiskSettings};
use platter_sim::ideal::Ideal;
use platter_sim::medium::Medium;
use platter_sim::{SimDisk, World};
use platter_stack::kit::{Below, Frame, Layer, Stateful, Task};
use std::sync::Arc;

const PAGE: u64 = 4096;

// What the layer does with a bio, by its page.
const AFTER_A_PART: u64 = 0;
const BESIDE_A_PART: u64 = 1;
const BESIDE_A_PART_THAT_IS_DROPPED: u64 = 2;
const TWICE: u64 = 3;
const ONCE: u64 = 4;

struct Wrong;

impl Layer for Wrong {
    async fn run(self: Arc<Self>, task: Task) -> Status {
        let (pos, half) = (task.pos(), task.len() / 2);
        match pos / PAGE {
            AFTER_A_PART => {
                task.part(0, half, 0, pos).await?;
                task.pass(0, pos).await
            }
            BESIDE_A_PART => {
                let part = task.part(0, half, 0, pos);
                let passed = task.pass(0, pos).await;
                part.await.and(passed)
            }
            BESIDE_A_PART_THAT_IS_DROPPED => {
                drop(task.part(0, half, 0, pos));
                task.pass(0, pos).await
            }
            TWICE => {
                let first = task.pass(0, pos);
                let second = task.pass(0, pos).await;
                first.await.and(second)
            }
            _ => task.pass(0, pos).await,
        }
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

/// The layer over a disk that takes 10 ms of virtual time for each command.
fn device(world: &Arc<World>) -> Device {
    let model = Ideal { size: 1 << 20, latency: Span::from_millis(10), depth: 32, write_cache: false };
    let disk = SimDisk::new(world, model.into(), Some(Medium::new()));
    let below: Arc<dyn Backend> =
        Arc::new(DiskBackend::new(disk.attach("sim"), DiskSettings::default(), None).unwrap());
    let geometry = below.geometry();
    let frame = Frame::new(vec![below], 1, Below::default(), Arc::new(Wrong)).unwrap();
    Device::new(Arc::new(Stateful::new(&frame, 0, "wrong".into(), geometry)))
}

#[test]
fn a_bio_that_cannot_be_passed_on_completes_with_an_error() {
    let world = World::new(1);
    let device = device(&world);
    let failed = Err((Kind::TimedOut, Stage::Layer));
    for (page, expected) in [
        (AFTER_A_PART, failed),
        (BESIDE_A_PART, failed),
        (BESIDE_A_PART_THAT_IS_DROPPED, failed),
        (TWICE, failed),
        (ONCE, Ok(())),
    ] {
        let mut channel = device.channel(1).unwrap();
        channel.submit(Bio::write(page * PAGE, vec![7; PAGE as usize]).unwrap()).unwrap();
        let mut done = Vec::new();
        assert_eq!(channel.wait(&mut done, Some(Span::from_secs(1))), 1, "page {page} does not complete");
        let mut bio = done.remove(0);
        assert_eq!(bio.status().map_err(|fault| (fault.kind, fault.stage)), expected, "page {page}");
        let memory = bio.take_buffer::<Vec<u8>>().map(|buffer| buffer.len() as u64);
        assert_eq!(memory, Some(PAGE), "page {page}");
    }
}
