//! Programs that read through the cache of Platter over a model, in virtual time.

use crate::ReproError;
use platter_bench::readahead::Read;
use platter_block::bio::{Bio, Context};
use platter_block::time::{Span, Time};
use platter_cache as cache;
use platter_disk::device::Device;
use platter_disk::handle::Handle;
use std::collections::VecDeque;
use std::sync::Arc;

/// A device that wants to be polled again at the same time is polled this much later.
const STALL: Span = Span(1);

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
    let clock = device.backend().clock().ok_or(ReproError::NoDisk("sim"))?;
    let threads = reads.iter().map(|read| read.thread + 1).max().unwrap_or(0);
    let handles = reads.iter().map(|read| read.handle + 1).max().unwrap_or(0);
    let handles: Vec<Handle> = (0..handles).map(|_| device.handle()).collect();
    let mut queues = vec![VecDeque::new(); threads as usize];
    reads.iter().for_each(|read| queues[read.thread as usize].push_back(*read));
    let room = (threads as usize).max(1);
    let mut channel = device.channel(room).map_err(|error| ReproError::Stack(error.to_string()))?;
    let begin = clock.now();
    let (mut now, mut done) = (begin, Vec::new());
    let mut send = |channel: &mut platter_disk::channel::Channel, thread: usize, bio: Option<Bio>| {
        let Some(read) = queues[thread].pop_front() else { return Ok(()) };
        let mut bio = match bio {
            Some(bio) => bio,
            None => Bio::read(0, vec![0u8; read.len as usize]).map_err(fault)?,
        };
        bio.rewind(read.pos, read.len);
        bio.set_token(thread as u64);
        bio.set_context(Context::new(thread as u32 + 1));
        bio.set_handle(handles[read.handle as usize].id());
        channel.submit(bio).map_err(|_| ReproError::Stack("more reads at once than threads".to_owned()))
    };
    for thread in 0..threads as usize {
        send(&mut channel, thread, None)?;
    }
    let mut empty = 0;
    while channel.outstanding() > 0 {
        channel.poll_at(now, &mut done);
        if !done.is_empty() {
            empty = 0;
            for bio in done.drain(..) {
                bio.status().map_err(fault)?;
                let thread = bio.token() as usize;
                send(&mut channel, thread, Some(bio))?;
            }
            continue;
        }
        channel.unplug();
        empty += 1;
        let next = channel.next_wakeup();
        if empty < 2 && next.is_none_or(|at| at <= now) {
            continue;
        }
        let stuck = || ReproError::Stack("the model waits for nothing".to_owned());
        now = Time::max(next.ok_or_else(stuck)?, now + STALL);
        clock.advance_to(now);
    }
    Ok(now.since(begin))
}

fn fault(fault: platter_block::fault::Fault) -> ReproError {
    ReproError::Stack(fault.to_string())
}
