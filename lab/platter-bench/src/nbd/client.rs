//! A client: a thread with a connection, which keeps a number of requests under way.

use super::{NbdBenchError, Transfer};
use crate::stats::mix64;
use platter_block::bio::{Bio, Op};
use platter_disk::device::Device;
use platter_disk::pool::{PAGE, Pool};
use rustix::time::{ClockId, clock_gettime};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What a client does.
pub(super) struct Client<'a> {
    pub(super) device: &'a Device,
    pub(super) transfer: Transfer,
    pub(super) block: u64,
    pub(super) depth: usize,
    pub(super) seed: u64,
}

/// The processor time of this thread.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

impl Client<'_> {
    /// Connects, waits at `start` and transfers until `stop`. Returns the processor time from then on. The barrier is
    /// passed in any case, because others wait at it.
    pub(super) fn run(&self, start: &Barrier, stop: &AtomicBool) -> Result<Duration, NbdBenchError> {
        let prepared = self.prepare();
        start.wait();
        let (mut channel, bios) = prepared?;
        let begin = thread_time();
        let mut done: Vec<Bio> = bios;
        let mut count = 0u64;
        while !stop.load(Ordering::Relaxed) {
            for mut bio in done.drain(..) {
                bio.status().map_err(|fault| self.error(fault))?;
                count += 1;
                let at = mix64(self.seed.wrapping_add(count)) % (self.device.size() / self.block);
                bio.rewind(at * self.block, self.block);
                // As many bios as the channel has room for.
                channel.submit(bio).map_err(|full| {
                    let _ = full;
                    NbdBenchError::Unfit("the channel is full".to_owned())
                })?;
            }
            channel.wait(&mut done, None);
        }
        while channel.outstanding() > 0 {
            channel.wait(&mut done, None);
        }
        for bio in &done {
            bio.status().map_err(|fault| self.error(fault))?;
        }
        Ok(thread_time().saturating_sub(begin))
    }

    fn prepare(&self) -> Result<(platter_disk::channel::Channel, Vec<Bio>), NbdBenchError> {
        let channel = self.device.channel(self.depth)?;
        let pool = Pool::new(self.depth, self.block as usize, PAGE)?;
        let mut bios = Vec::with_capacity(self.depth);
        while let Some(mut buffer) = pool.take() {
            let bio = match self.transfer {
                Transfer::Read => Bio::read(0, buffer),
                Transfer::Write => {
                    buffer.fill(0x5a);
                    Bio::write(0, buffer)
                }
            };
            bios.push(bio.map_err(|fault| self.error(fault))?);
        }
        Ok((channel, bios))
    }

    fn error(&self, fault: platter_block::fault::Fault) -> NbdBenchError {
        let op = match self.transfer {
            Transfer::Read => Op::Read,
            Transfer::Write => Op::Write,
        };
        self.device.error(fault, op, 0, self.block, String::new()).into()
    }
}
