//! Platter's channel and its futures.

use crate::{BLOCK, Job, Positions, bare};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use platter::{Access, Bio, Device, Pool, PoolBuf, open};
use std::sync::Arc;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::{Builder, Runtime};

fn device(job: &Job) -> Device {
    open(&job.path, Access::read()).expect("the device opens")
}

fn buffers(job: &Job) -> Vec<PoolBuf> {
    let pool = Pool::new(job.depth, BLOCK, BLOCK).expect("a pool");
    (0..job.depth).map(|_| pool.take().expect("there is one for each")).collect()
}

pub fn channel(job: &Job) {
    let mut channel = device(job).channel(job.depth).expect("a channel");
    let mut positions = Positions::new(job, 0);
    let mut done: Vec<Bio> =
        buffers(job).into_iter().map(|buffer| Bio::read(0, buffer).expect("a bio")).collect();
    loop {
        for mut bio in done.drain(..).filter(|_| job.goes_on()) {
            let buffer: PoolBuf = bio.take_buffer().expect("its buffer");
            bio.reset_read(positions.next(), buffer).expect("a bio");
            assert!(channel.submit(bio).is_ok());
        }
        if channel.outstanding() == 0 {
            break;
        }
        channel.wait(&mut done, None);
        assert!(done.iter().all(|bio| bio.status().is_ok()));
        job.count(done.len() as u64);
    }
}

/// One task: reads, one after the other.
async fn task(device: Device, job: Arc<Job>, seed: usize, mut buffer: PoolBuf) {
    let mut positions = Positions::new(&job, seed);
    let mut ios = 0;
    while job.goes_on() {
        let (result, back) = device.read(positions.next(), buffer).await;
        result.expect("a read");
        buffer = back.expect("its buffer");
        ios += 1;
    }
    job.count(ios);
}

fn tasks(device: &Device, job: &Arc<Job>) -> impl Iterator<Item = impl Future<Output = ()> + Send + 'static> {
    let (device, job) = (device.clone(), Arc::clone(job));
    let buffers = buffers(&job).into_iter().enumerate();
    buffers.map(move |(seed, buffer)| task(device.clone(), Arc::clone(&job), seed, buffer))
}

pub fn bare(job: &Arc<Job>) {
    bare::run(tasks(&device(job), job).map(|task| Box::pin(task) as _));
}

async fn spawned(device: Device, job: Arc<Job>) {
    let all: Vec<_> = tasks(&device, &job).map(tokio::spawn).collect();
    for one in all {
        one.await.expect("no panic");
    }
}

/// On the device's own executor.
pub fn block_on(job: &Arc<Job>) {
    let device = device(job);
    device.block_on(async {
        let all: FuturesUnordered<_> = tasks(&device, job).collect();
        all.collect::<Vec<()>>().await;
    });
}

#[expect(deprecated, reason = "what replaces it is unsafe")]
/// [`spawned`], while the runtime's event loop waits for the device.
async fn driven(device: Device, job: Arc<Job>) {
    let reactor = device.reactor().expect("a descriptor");
    let events = AsyncFd::with_interest(reactor, Interest::READABLE).expect("a place in the event loop");
    let events = tokio::spawn(async move {
        loop {
            events.readable().await.expect("the event loop").clear_ready();
            events.get_ref().turn();
        }
    });
    spawned(device, job).await;
    events.abort();
}

fn current() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn multi() -> Runtime {
    Builder::new_multi_thread().enable_all().build().expect("a runtime")
}

pub fn tokio_current(job: &Arc<Job>) {
    current().block_on(spawned(device(job), Arc::clone(job)));
}

pub fn tokio_current_driven(job: &Arc<Job>) {
    current().block_on(driven(device(job), Arc::clone(job)));
}

pub fn tokio_multi(job: &Arc<Job>) {
    multi().block_on(spawned(device(job), Arc::clone(job)));
}

pub fn tokio_multi_driven(job: &Arc<Job>) {
    multi().block_on(driven(device(job), Arc::clone(job)));
}
