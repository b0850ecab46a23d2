//! How a thread's requests reach the files.

use super::FileioError;
use super::plan::Plan;
use super::requests::Request;
use crate::stats::Seeded;
use platter_block::time::Span;
use platter_disk::pool::{PAGE, Pool, PoolBuf};

/// How a thread accesses the files. Requests are identified by their slots.
pub(super) trait Engine {
    /// Starts a request; ways that know no other also carry it out.
    fn start(&mut self, slot: u32, request: Request) -> Result<(), FileioError>;

    /// Waits until a request has completed, if any is in flight, and appends the slots of completed ones.
    fn wait(&mut self, done: &mut Vec<u32>) -> Result<(), FileioError>;
}

/// Buffers of a thread, one per slot, filled with random data so that writes are not compressible.
pub(super) fn buffers(plan: &Plan, thread: u32, align: u32, count: u32) -> Result<Vec<PoolBuf>, FileioError> {
    let pool = Pool::new(count as usize, plan.block as usize, PAGE.max(align as usize))?;
    let mut noise = Seeded::stream(plan.seed, 1 + u64::from(thread));
    let mut buffers: Vec<PoolBuf> = std::iter::from_fn(|| pool.take()).collect();
    for buffer in &mut buffers {
        for part in buffer.chunks_mut(8) {
            part.copy_from_slice(&noise.next_u64().to_le_bytes()[..part.len()]);
        }
    }
    Ok(buffers)
}

/// The longest that a way may wait before it lets its thread look at the cancel flag.
pub(super) const NAP: Span = Span::from_millis(50);
