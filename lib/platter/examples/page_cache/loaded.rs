//! Caches that are full, written to, synced often, or hit at one page.

use super::cold::{BLOCK, Pair, both, crowd, measure};
use super::{Bench, Side};
use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// The end of the file, of which pages fill a cache before it is measured.
const OTHER: u64 = 512 << 20;

pub(crate) fn aged(bench: &Bench, round: usize) -> Pair {
    let size = bench.size - OTHER;
    let ours = || {
        bench.cool()?;
        let handle = bench.cached(256 << 20)?.handle();
        let mut block = vec![0; 1 << 20];
        for pos in (size..bench.size).step_by(block.len()) {
            handle.read_at(&mut block, pos)?;
        }
        crowd(size, &|buffer, pos| handle.read_at(buffer, pos).is_ok())
    };
    let theirs = || {
        bench.cool()?;
        let file = bench.file()?;
        crowd(size, &|buffer, pos| file.read_exact_at(buffer, pos).is_ok())
    };
    both(round, ours, theirs)
}

/// Three of ten blocks are for writing: always the same ones, so that both sides do the same.
fn is_written(pos: u64) -> bool {
    (pos / BLOCK) % 10 < 3
}

pub(crate) fn mixed(bench: &Bench, round: usize) -> Pair {
    let ours = || {
        bench.cool()?;
        let device = bench.written(1 << 30)?;
        let handle = device.handle();
        let side = crowd(bench.size, &|buffer, pos| match is_written(pos) {
            true => handle.write_at(buffer, pos).is_ok(),
            false => handle.read_at(buffer, pos).is_ok(),
        })?;
        with_end(side, || Ok(device.flush()?))
    };
    let theirs = || {
        bench.cool()?;
        let file = File::options().read(true).write(true).open(&bench.path)?;
        let side = crowd(bench.size, &|buffer, pos| match is_written(pos) {
            true => file.write_all_at(buffer, pos).is_ok(),
            false => file.read_exact_at(buffer, pos).is_ok(),
        })?;
        with_end(side, || Ok(file.sync_data()?))
    };
    both(round, ours, theirs)
}

/// Adds the time and the costs of what must be done at the end.
fn with_end(side: Side, end: impl FnOnce() -> Result<(), Box<dyn Error>>) -> Result<Side, Box<dyn Error>> {
    let last = measure(1.0, end)?;
    let rate = 1.0 / (1.0 / side.rate + 1.0 / last.rate / AMOUNT);
    Ok(Side { rate, cpu: side.cpu + last.cpu, ..side })
}

/// Thousands of requests of [`crowd`].
const AMOUNT: f64 = 40.0;

const WRITERS: u64 = 4;
const WRITES: u64 = 6000;

/// Has each of four threads write a part of the file of its own, and sync after ten writes.
fn writers(
    write: &(dyn Fn(&[u8], u64) -> bool + Sync),
    sync: &(dyn Fn() -> bool + Sync),
) -> Result<Side, Box<dyn Error>> {
    measure((WRITERS * WRITES) as f64 / 1000.0, || {
        let one = |thread: u64| {
            let page = [thread as u8; 4096];
            (0..WRITES).all(|at| {
                let pos = (thread << 26) + at * 7 % 1024 * 4096;
                write(&page, pos) && (at % 10 != 9 || sync())
            })
        };
        let well = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..WRITERS).map(|thread| scope.spawn(move || one(thread))).collect();
            threads.into_iter().all(|thread| thread.join().unwrap_or(false))
        });
        if well { Ok(()) } else { Err("a write failed".into()) }
    })
}

pub(crate) fn synced(bench: &Bench, round: usize) -> Pair {
    let ours = || {
        bench.cool()?;
        let device = bench.written(256 << 20)?;
        writers(&|page, pos| device.write_at(page, pos).is_ok(), &|| device.flush().is_ok())
    };
    let theirs = || {
        bench.cool()?;
        let file = File::options().read(true).write(true).open(&bench.path)?;
        writers(&|page, pos| file.write_all_at(page, pos).is_ok(), &|| file.sync_data().is_ok())
    };
    both(round, ours, theirs)
}

const TIME: Duration = Duration::from_millis(400);

/// Millions of reads of one page in a second, by four threads.
fn crowd_of_one(read: &(dyn Fn(&mut [u8]) -> bool + Sync)) -> Side {
    let one = || {
        let (mut page, mut count, begin) = ([0u8; 4096], 0u64, Instant::now());
        while begin.elapsed() < TIME {
            count += (0..1000).filter(|_| black_box(read(&mut page))).count() as u64;
        }
        count as f64 / begin.elapsed().as_secs_f64() / 1e6
    };
    let rates = std::thread::scope(|scope| {
        let threads = [(); 4].map(|()| scope.spawn(one));
        threads.map(|thread| thread.join().unwrap_or(0.0))
    });
    Side { rate: rates.iter().sum(), cpu: 0.0, device_bytes: 0 }
}

pub(crate) fn one_page(bench: &Bench, round: usize) -> Pair {
    let ours = || {
        let handle = bench.cached(64 << 20)?.handle();
        Ok(crowd_of_one(&|page| handle.read_at(page, 0).is_ok()))
    };
    let theirs = || {
        let file = bench.file()?;
        Ok(crowd_of_one(&|page| file.read_exact_at(page, 0).is_ok()))
    };
    both(round, ours, theirs)
}
