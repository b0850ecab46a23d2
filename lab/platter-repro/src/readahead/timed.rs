//! Programs that read through the cache of Platter over a model, in virtual time.

use crate::ReproError;
use platter_bench::load::{Load, Pause, Work};
use platter_bench::readahead::Read;
use platter_block::bio::{Bio, Context};
use platter_block::time::{Span, Time};
use platter_cache as cache;
use platter_disk::channel::Channel;
use platter_disk::device::Device;
use platter_disk::handle::Handle;
use std::collections::VecDeque;
use std::sync::Arc;

/// A policy with its parameters.
#[derive(Clone, Copy)]
pub(super) struct Policy {
    pub(super) name: &'static str,
    /// Values of its parameters, in their order.
    pub(super) values: &'static [i64],
}

/// A cache of `memory` bytes over a device.
pub(super) fn cached(below: &Device, policy: Policy, memory: u64) -> Result<Device, ReproError> {
    let row = crate::policies::by_name(policy.name).ok_or(ReproError::NoPolicy(policy.name))?;
    let settings = cache::Settings {
        size: memory,
        readahead: row,
        values: policy.values.to_vec(),
        ..cache::Settings::default()
    };
    let over = cache::new(Arc::clone(below.backend()), &settings);
    Ok(Device::new(over.map_err(|error| ReproError::Stack(error.to_string()))?))
}

/// Lets threads read, each its own reads one after the other: how long that takes.
pub(super) fn time(device: &Device, reads: &[Read]) -> Result<Span, ReproError> {
    let threads = reads.iter().map(|read| read.thread + 1).max().unwrap_or(0) as usize;
    let handles = reads.iter().map(|read| read.handle + 1).max().unwrap_or(0);
    let mut readers = Readers {
        channel: device.channel(threads.max(1)).map_err(|error| ReproError::Stack(error.to_string()))?,
        handles: (0..handles).map(|_| device.handle()).collect(),
        reads: vec![VecDeque::new(); threads],
    };
    reads.iter().for_each(|read| readers.reads[read.thread as usize].push_back(*read));
    let mut load = Load::new(device.clock(), 1, 0);
    let begin = load.now();
    for thread in 0..threads {
        readers.start(thread, None)?;
    }
    load.settle(&mut readers, 0)?;
    while load.run(&mut readers, Time(u64::MAX))? == Pause::Events {}
    Ok(load.now().since(begin))
}

/// Threads that read.
struct Readers {
    channel: Channel,
    handles: Vec<Handle>,
    /// Of each thread the reads that it has not started.
    reads: Vec<VecDeque<Read>>,
}

impl Readers {
    /// Starts the next read of a thread, with the bio of its last one.
    fn start(&mut self, thread: usize, bio: Option<Bio>) -> Result<(), ReproError> {
        let Some(read) = self.reads[thread].pop_front() else { return Ok(()) };
        let mut bio = match bio {
            Some(bio) => bio,
            None => Bio::read(0, vec![0u8; read.len as usize]).map_err(fault)?,
        };
        bio.rewind(read.pos, read.len);
        bio.set_token(thread as u64);
        bio.set_context(Context::new(thread as u32 + 1));
        bio.set_handle(self.handles[read.handle as usize].id());
        let full = |_| ReproError::Stack("more reads at once than threads".to_owned());
        self.channel.submit(bio).map_err(full)
    }
}

impl Work for Readers {
    type Error = ReproError;

    fn channels(&mut self, _port: u32) -> impl Iterator<Item = &mut Channel> {
        std::iter::once(&mut self.channel)
    }

    fn completed(&mut self, _load: &mut Load, _port: u32, done: &mut Vec<Bio>) -> Result<(), ReproError> {
        for bio in done.drain(..) {
            bio.status().map_err(fault)?;
            self.start(bio.token() as usize, Some(bio))?;
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.channel.outstanding() == 0
    }
}

fn fault(fault: platter_block::fault::Fault) -> ReproError {
    ReproError::Stack(fault.to_string())
}
