//! The ways in which a thread reads.

use super::LocksError;
use crate::stats::mix64;
use platter_block::bio::Bio;
use platter_disk::device::Device;
use platter_disk::pool::{PAGE, Pool, PoolBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

/// How a thread reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Caller {
    /// Synchronous calls.
    Sync,
    /// Futures, one after another on each thread.
    Future,
    /// A channel of the thread's own, which waits for each bio.
    Channel,
}

impl Caller {
    /// All of them.
    pub const ALL: [Caller; 3] = [Caller::Sync, Caller::Future, Caller::Channel];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Caller::Sync => "sync",
            Caller::Future => "future",
            Caller::Channel => "channel",
        }
    }

    /// The caller of this name.
    pub fn by_name(name: &str) -> Option<Caller> {
        Caller::ALL.into_iter().find(|caller| caller.name() == name)
    }

    /// Reads until `stop`. Returns the number of reads.
    pub(super) fn read(
        self,
        device: &Device,
        seed: u64,
        block: u64,
        stop: &AtomicBool,
    ) -> Result<u64, LocksError> {
        let places = Places { seed, count: 0, block, blocks: device.size() / block };
        let pool = Pool::new(1, block as usize, PAGE)?;
        let Some(buffer) = pool.take() else { return Ok(0) };
        match self {
            Caller::Sync => by_calls(device, buffer, places, stop),
            Caller::Future => by_futures(device, buffer, places, stop),
            Caller::Channel => by_channel(device, buffer, places, stop),
        }
    }
}

/// Positions of reads: the same sequence for the same seed.
struct Places {
    seed: u64,
    count: u64,
    block: u64,
    blocks: u64,
}

impl Places {
    fn next(&mut self) -> u64 {
        self.count += 1;
        mix64(self.seed.wrapping_add(self.count)) % self.blocks * self.block
    }
}

fn by_calls(
    device: &Device,
    mut buffer: PoolBuf,
    mut places: Places,
    stop: &AtomicBool,
) -> Result<u64, LocksError> {
    while !stop.load(Ordering::Relaxed) {
        device.read_at(&mut buffer, places.next())?;
    }
    Ok(places.count)
}

fn by_futures(
    device: &Device,
    mut buffer: PoolBuf,
    mut places: Places,
    stop: &AtomicBool,
) -> Result<u64, LocksError> {
    while !stop.load(Ordering::Relaxed) {
        let (result, back) = block_on(device.read(places.next(), buffer));
        result?;
        // Missing only after a timeout, which is an error.
        let Some(back) = back else { return Ok(places.count) };
        buffer = back;
    }
    Ok(places.count)
}

fn by_channel(
    device: &Device,
    buffer: PoolBuf,
    mut places: Places,
    stop: &AtomicBool,
) -> Result<u64, LocksError> {
    let mut channel = device.channel(1)?;
    let mut done: Vec<Bio> = Vec::with_capacity(1);
    let fail = |fault, pos, len| device.error(fault, platter_block::bio::Op::Read, pos, len, String::new());
    let len = buffer.len() as u64;
    let mut bio = Bio::read(0, buffer).map_err(|fault| fail(fault, 0, len))?;
    while !stop.load(Ordering::Relaxed) {
        let pos = places.next();
        bio.rewind(pos, len);
        // The only bio of the channel is here, so the channel has room.
        if channel.submit(bio).is_err() {
            break;
        }
        while channel.wait(&mut done, None) == 0 {}
        let Some(back) = done.pop() else { break };
        back.status().map_err(|fault| fail(fault, pos, len))?;
        bio = back;
    }
    Ok(places.count)
}

/// Wakes a thread that waits for a future.
struct Unpark(Thread, AtomicBool);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.1.store(true, Ordering::Release);
        self.0.unpark();
    }
}

/// Runs a future on this thread.
fn block_on<F: Future>(future: F) -> F::Output {
    let unpark = Arc::new(Unpark(std::thread::current(), AtomicBool::new(false)));
    let waker = Waker::from(Arc::clone(&unpark));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        while !unpark.1.swap(false, Ordering::Acquire) {
            std::thread::park();
        }
    }
}
