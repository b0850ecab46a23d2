//! Reads of data in memory.

use super::{Bench, Side};
use platter::Handle;
use std::error::Error;
use std::hint::black_box;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

const TIME: Duration = Duration::from_millis(400);

/// Runs batches of 1,000 for some time: millions of operations in a second.
fn rate(mut batch: impl FnMut()) -> Side {
    let (begin, mut batches) = (Instant::now(), 0u64);
    while begin.elapsed() < TIME {
        batch();
        batches += 1;
    }
    let rate = batches as f64 * 1000.0 / begin.elapsed().as_secs_f64() / 1e6;
    Side { rate, cpu: 0.0, device_bytes: 0 }
}

/// Pages in no order, the same for both sides.
fn offsets(set: u64) -> impl FnMut() -> u64 {
    let (pages, mut state) = (set / 4096, 88_172_645_463_325_252u64);
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) % pages * 4096
    }
}

fn warm(handle: &Handle, set: u64) -> Result<(), Box<dyn Error>> {
    let mut block = vec![0u8; 1 << 20];
    for pos in (0..set).step_by(1 << 20) {
        handle.read_at(&mut block, pos)?;
    }
    Ok(())
}

fn kernel(bench: &Bench, set: u64) -> Result<Side, Box<dyn Error>> {
    let file = bench.file()?;
    let (mut block, mut offset) = (vec![0u8; 1 << 20], offsets(set));
    for pos in (0..set).step_by(1 << 20) {
        file.read_exact_at(&mut block, pos)?;
    }
    let mut page = [0u8; 4096];
    Ok(rate(|| {
        for _ in 0..1000 {
            let _ = black_box(file.read_at(&mut page, offset()));
        }
    }))
}

fn both(
    round: usize,
    ours: impl FnOnce() -> Result<Side, Box<dyn Error>>,
    theirs: impl FnOnce() -> Result<Side, Box<dyn Error>>,
) -> Result<(Side, Side), Box<dyn Error>> {
    if round.is_multiple_of(2) {
        let ours = ours()?;
        return Ok((ours, theirs()?));
    }
    let theirs = theirs()?;
    Ok((ours()?, theirs))
}

fn platter(bench: &Bench, set: u64) -> Result<Side, Box<dyn Error>> {
    let handle = bench.cached(set + (16 << 20))?.handle();
    warm(&handle, set)?;
    let (mut page, mut offset) = ([0u8; 4096], offsets(set));
    Ok(rate(|| {
        for _ in 0..1000 {
            let _ = black_box(handle.read_at(&mut page, offset()));
        }
    }))
}

pub(crate) fn copied(bench: &Bench, set: u64, round: usize) -> Result<(Side, Side), Box<dyn Error>> {
    both(round, || platter(bench, set), || kernel(bench, set))
}

pub(crate) fn by_reference(bench: &Bench, set: u64, round: usize) -> Result<(Side, Side), Box<dyn Error>> {
    let ours = || {
        let handle = bench.cached(set + (16 << 20))?.handle();
        warm(&handle, set)?;
        let mut offset = offsets(set);
        Ok(rate(|| {
            for _ in 0..1000 {
                let _ = black_box(handle.page(offset()).map(|page| page[100]));
            }
        }))
    };
    both(round, ours, || kernel(bench, set))
}

/// Reads 1,000 pieces of 512 bytes, from the start again at the end.
fn pieces(reader: &mut (impl Read + Seek), left: &mut u64, set: u64) {
    let mut piece = [0u8; 512];
    for _ in 0..1000 {
        if *left == 0 {
            *left = set;
            let _ = reader.seek(SeekFrom::Start(0));
        }
        *left -= 512;
        let _ = black_box(reader.read(&mut piece));
    }
}

pub(crate) fn sequential(bench: &Bench, set: u64, round: usize) -> Result<(Side, Side), Box<dyn Error>> {
    let ours = || {
        let mut handle = bench.cached(set + (16 << 20))?.handle();
        warm(&handle, set)?;
        let mut left = 0;
        Ok(rate(|| pieces(&mut handle, &mut left, set)))
    };
    let theirs = || {
        let mut file = bench.file()?;
        let (mut block, mut left) = (vec![0u8; 1 << 20], 0);
        for pos in (0..set).step_by(1 << 20) {
            file.read_exact_at(&mut block, pos)?;
        }
        Ok(rate(|| pieces(&mut file, &mut left, set)))
    };
    both(round, ours, theirs)
}

pub(crate) fn two_threads(bench: &Bench, set: u64) -> Result<(Side, Side), Box<dyn Error>> {
    let handle = bench.cached(set + (16 << 20))?.handle();
    warm(&handle, set)?;
    let one = |seed: usize| {
        let (mut page, mut offset) = ([0u8; 4096], offsets(set));
        (0..seed * 1000).for_each(|_| {
            offset();
        });
        rate(|| {
            for _ in 0..1000 {
                let _ = black_box(handle.read_at(&mut page, offset()));
            }
        })
    };
    let alone = one(0);
    let rates = std::thread::scope(|scope| {
        let threads = [1, 2].map(|seed| scope.spawn(move || one(seed)));
        threads.map(|thread| thread.join().map_or(0.0, |side| side.rate))
    });
    Ok((Side { rate: rates.iter().sum(), ..alone }, alone))
}
