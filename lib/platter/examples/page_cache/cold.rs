//! Reads of data that is not in memory.

use super::{Bench, Side};
use std::error::Error;
use std::os::unix::fs::FileExt;
use std::time::Instant;

/// Bytes that this process has had read from devices, and its seconds of processor time.
fn used() -> (u64, f64) {
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let bytes = io.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.parse().ok());
    let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    (bytes.unwrap_or(0), cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9)
}

/// Runs something that reads `amount` units.
pub(crate) fn measure(
    amount: f64,
    run: impl FnOnce() -> Result<(), Box<dyn Error>>,
) -> Result<Side, Box<dyn Error>> {
    let (bytes, cpu) = used();
    let begin = Instant::now();
    run()?;
    let seconds = begin.elapsed().as_secs_f64();
    let (bytes_after, cpu_after) = used();
    Ok(Side { rate: amount / seconds, cpu: cpu_after - cpu, device_bytes: bytes_after - bytes })
}

pub(crate) type Pair = Result<(Side, Side), Box<dyn Error>>;

pub(crate) fn both(
    round: usize,
    ours: impl FnOnce() -> Result<Side, Box<dyn Error>>,
    theirs: impl FnOnce() -> Result<Side, Box<dyn Error>>,
) -> Pair {
    if round.is_multiple_of(2) {
        let ours = ours()?;
        return Ok((ours, theirs()?));
    }
    let theirs = theirs()?;
    Ok((ours()?, theirs))
}

pub(crate) fn sequential(bench: &Bench, block: usize, size: u64, round: usize) -> Pair {
    let mib = (size >> 20) as f64;
    let ours = || {
        bench.cool()?;
        let handle = bench.cached(256 << 20)?.handle();
        let mut buffer = vec![0u8; block];
        measure(mib, || {
            for pos in (0..size).step_by(block) {
                handle.read_at(&mut buffer, pos)?;
            }
            Ok(())
        })
    };
    let theirs = || {
        bench.cool()?;
        let file = bench.file()?;
        let mut buffer = vec![0u8; block];
        measure(mib, || {
            for pos in (0..size).step_by(block) {
                file.read_exact_at(&mut buffer, pos)?;
            }
            Ok(())
        })
    };
    both(round, ours, theirs)
}

/// Interleaved streams of 64 KiB reads on one handle.
fn interleaved(bench: &Bench, streams: u64) -> Result<Side, Box<dyn Error>> {
    bench.cool()?;
    let (size, block) = (1u64 << 30, 65_536u64);
    let handle = bench.cached(256 << 20)?.handle();
    let mut buffer = vec![0u8; block as usize];
    measure((size >> 20) as f64, || {
        for step in 0..size / streams / block {
            for stream in 0..streams {
                handle.read_at(&mut buffer, stream * (size / streams) + step * block)?;
            }
        }
        Ok(())
    })
}

pub(crate) fn streams(bench: &Bench, round: usize) -> Pair {
    both(round, || interleaved(bench, 16), || interleaved(bench, 1))
}

const THREADS: u64 = 16;
const READS: u64 = 2500;
pub(crate) const BLOCK: u64 = 16_384;

/// Runs `read` at random places of the first `size` bytes on 16 threads.
pub(crate) fn crowd(
    size: u64,
    read: &(dyn Fn(&mut [u8], u64) -> bool + Sync),
) -> Result<Side, Box<dyn Error>> {
    let blocks = size / BLOCK;
    measure((THREADS * READS) as f64 / 1000.0, || {
        let well = std::thread::scope(|scope| {
            let one = |thread: u64| {
                let (mut buffer, mut state) = (vec![0u8; BLOCK as usize], thread * 0x9e37_79b9 + 1);
                (0..READS).all(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    read(&mut buffer, (state >> 33) % blocks * BLOCK)
                })
            };
            let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || one(thread))).collect();
            threads.into_iter().all(|thread| thread.join().unwrap_or(false))
        });
        if well { Ok(()) } else { Err("a read failed".into()) }
    })
}

pub(crate) fn random(bench: &Bench, round: usize) -> Pair {
    let ours = || {
        bench.cool()?;
        let handle = bench.cached(1 << 30)?.handle();
        crowd(bench.size, &|buffer, pos| handle.read_at(buffer, pos).is_ok())
    };
    let theirs = || {
        bench.cool()?;
        let file = bench.file()?;
        crowd(bench.size, &|buffer, pos| file.read_exact_at(buffer, pos).is_ok())
    };
    both(round, ours, theirs)
}
