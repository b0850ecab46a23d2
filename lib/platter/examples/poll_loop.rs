//! Random reads through the polled interface, 32 in flight, with no allocation on the way:
//! `poll_loop SPEC COUNT`

use platter::{Access, Bio, Pool, open};
use std::time::Instant;

const DEPTH: usize = 32;
const BLOCK: u64 = 4096;

/// The next position, by a linear congruential generator (Knuth's MMIX constants).
fn next_pos(state: &mut u64, blocks: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 20) % blocks * BLOCK
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let usage = "usage: poll_loop SPEC COUNT";
    let spec = std::env::args().nth(1).ok_or(usage)?;
    let count: usize = std::env::args().nth(2).ok_or(usage)?.parse()?;
    let disk = open(&spec, Access::read())?;
    let blocks = disk.size() / BLOCK;
    if blocks == 0 {
        return Err(format!("{spec} has {} bytes, less than a block of {BLOCK}", disk.size()).into());
    }
    let pool = Pool::new(DEPTH, BLOCK as usize, BLOCK as usize)?;
    let mut channel = disk.channel(DEPTH)?;
    let (mut random, mut started, mut finished) = (1, 0, 0);
    let mut done = Vec::with_capacity(DEPTH);
    let begin = Instant::now();
    while let Some(buffer) = pool.take().filter(|_| started < count) {
        channel.submit(Bio::read(next_pos(&mut random, blocks), buffer)?).map_err(|_| "no room")?;
        started += 1;
    }
    while finished < count {
        channel.wait(&mut done, None);
        for mut bio in done.drain(..) {
            bio.status()?;
            finished += 1;
            if started < count {
                // The bio keeps its buffer: only the place changes.
                bio.rewind(next_pos(&mut random, blocks), BLOCK);
                channel.submit(bio).map_err(|_| "no room")?;
                started += 1;
            }
        }
    }
    let per_read = begin.elapsed().as_nanos() / count.max(1) as u128;
    println!("{finished} reads, {per_read} ns each");
    Ok(())
}
