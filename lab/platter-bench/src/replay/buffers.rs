//! Memory for the data of I/Os of all sizes: pools of buffers by powers of two, which grow as they are needed.

use platter_disk::device::Device;
use platter_disk::pool::{BadPool, PAGE, Pool, PoolBuf};

use crate::stats::Seeded;

/// Most bytes of all pools together, if each I/O fits alone.
const MOST: u64 = 512 << 20;
/// Bytes of a pool, and most buffers in one.
const POOL: usize = 1 << 20;
const COUNT: usize = 64;

/// The smallest buffer is a page.
const SMALLEST: u32 = 12;
/// Powers of two from there on.
const CLASSES: usize = 20;

fn class(length: u64) -> usize {
    let power = length.max(1).next_power_of_two().trailing_zeros();
    (power.saturating_sub(SMALLEST) as usize).min(CLASSES - 1)
}

/// The size of the buffer for this many bytes, as one bit of a set of sizes.
pub(super) fn class_of(length: u64) -> u64 {
    1 << class(length)
}

/// Buffers for reads and for writes; those of writes have random contents that are never changed.
pub(super) struct Buffers {
    pools: [Vec<Vec<Pool>>; 2],
    align: usize,
    bytes: u64,
    noise: Seeded,
}

impl Buffers {
    pub(super) fn new<'d>(devices: impl Iterator<Item = &'d Device>, seed: u64) -> Buffers {
        let align = |device: &Device| device.geometry().limits.memory_align as usize;
        let pools = core::array::from_fn(|_| (0..CLASSES).map(|_| Vec::new()).collect());
        let align = devices.map(align).fold(PAGE, usize::max);
        Buffers { pools, align, bytes: 0, noise: Seeded::stream(seed, 1) }
    }

    /// Makes room for I/Os of these sizes, as [`class_of`] has them, before the clock runs.
    pub(super) fn prepare(&mut self, classes: [u64; 2]) -> Result<(), BadPool> {
        for (write, set) in classes.into_iter().enumerate() {
            for class in (0..CLASSES).filter(|class| set >> class & 1 == 1) {
                self.grow(write == 1, class)?;
            }
        }
        Ok(())
    }

    /// A buffer of this length; `None` if one has to come back first. `is_last` is whether none is in use.
    pub(super) fn take(
        &mut self,
        write: bool,
        length: u64,
        is_last: bool,
    ) -> Result<Option<PoolBuf>, BadPool> {
        let class = class(length);
        let found = |pools: &[Pool]| pools.iter().find_map(Pool::take);
        let mut buffer = found(&self.pools[usize::from(write)][class]);
        if buffer.is_none() {
            let size = 1u64 << (class as u32 + SMALLEST);
            if self.bytes + size > MOST && !is_last {
                return Ok(None);
            }
            if self.bytes + size > MOST {
                // Nothing is in use: sizes that are no longer asked for give way.
                self.pools.iter_mut().flatten().for_each(Vec::clear);
                self.bytes = 0;
            }
            self.grow(write, class)?;
            buffer = found(&self.pools[usize::from(write)][class]);
        }
        Ok(buffer.map(|mut buffer| {
            buffer.truncate(length as usize);
            buffer
        }))
    }

    fn grow(&mut self, write: bool, class: usize) -> Result<(), BadPool> {
        let size = 1usize << (class as u32 + SMALLEST);
        let pool = Pool::new((POOL / size).clamp(1, COUNT), size, self.align)?;
        let mut all: Vec<PoolBuf> = core::iter::from_fn(|| pool.take()).collect();
        for buffer in &mut all {
            self.bytes += size as u64;
            if write {
                for part in buffer.chunks_mut(8) {
                    part.copy_from_slice(&self.noise.next_u64().to_le_bytes()[..part.len()]);
                }
            } else {
                // The pages are there when the first read needs them.
                buffer.iter_mut().step_by(PAGE).for_each(|byte| *byte = 1);
            }
        }
        self.pools[usize::from(write)][class].push(pool);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_buffers_have_the_length_asked_for() {
        let device = Device::null(1 << 30).unwrap();
        let mut buffers = Buffers::new([&device].into_iter(), 1);
        buffers.prepare([class_of(4096), class_of(100_000)]).unwrap();
        for length in [512, 4096, 4097, 100_000] {
            let buffer = buffers.take(length > 4096, length, false).unwrap().unwrap();
            assert_eq!(buffer.len() as u64, length);
            assert_eq!(buffer.iter().any(|byte| *byte > 1), length > 4096, "noise is written");
        }
        let mut held = Vec::new();
        while let Some(buffer) = buffers.take(false, 64 << 20, held.is_empty()).unwrap() {
            held.push(buffer);
        }
        assert!((4..=8).contains(&held.len()), "{}", held.len());
        held.clear();
        // Larger than what is left: the others give way.
        assert!(buffers.take(true, 256 << 20, true).unwrap().is_some());
        assert!(buffers.bytes <= MOST);
    }
}
