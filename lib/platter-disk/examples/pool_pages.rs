//! Measures what huge pages gain for a pool: reads into the buffers of a large pool in random order, in ordinary and
//! in huge pages.
//!
//! `cargo run --release -p platter-disk --example pool_pages [MiB of the pool [path of a file]]`
//!
//! Each line is one kind of disk. Rounds alternate between the two kinds of pages; the printed values are medians, in ns
//! per read.

use platter_block::bio::Bio;
use platter_disk::channel::Channel;
use platter_disk::device::Device;
use platter_disk::open::DiskOptions;
use platter_disk::pool::{PAGE, Pages, Pool};
use std::error::Error;
use std::time::Instant;

const ROUNDS: usize = 9;
const DEPTH: usize = 32;
/// Size of the disk in bytes: small, so that the pool's pages dominate the measurement.
const DISK: u64 = 256 << 10;

/// A small generator of random numbers (xorshift64).
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % most
    }
}

/// A pool whose buffers are all in bios, in random order.
struct Side {
    pages: Pages,
    bios: Vec<Bio>,
    times: Vec<f64>,
}

impl Side {
    fn new(pool: &Pool) -> Result<Side, Box<dyn Error>> {
        let mut random = Random(88_172_645_463_325_252);
        let mut bios = Vec::new();
        while let Some(mut buffer) = pool.take() {
            // Allocated now, not in the first round.
            buffer.fill(1);
            bios.push(Bio::read(0, buffer)?);
        }
        for i in (1..bios.len()).rev() {
            bios.swap(i, random.below(i as u64 + 1) as usize);
        }
        Ok(Side { pages: pool.pages(), bios, times: Vec::new() })
    }

    /// Reads into every buffer once, and uses a byte of each.
    fn round(&mut self, channel: &mut Channel) -> Result<u64, Box<dyn Error>> {
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let (mut waiting, mut done) = (std::mem::take(&mut self.bios), Vec::new());
        let (count, mut seen, mut sum) = (waiting.len(), 0, 0);
        self.bios.reserve(count);
        let begin = Instant::now();
        while seen < count {
            while channel.outstanding() < DEPTH
                && let Some(mut bio) = waiting.pop()
            {
                bio.rewind(random.below(DISK / PAGE as u64) * PAGE as u64, PAGE as u64);
                channel.submit(bio).map_err(|_| "the channel is full")?;
            }
            channel.wait(&mut done, None);
            seen += done.len();
            for bio in done.drain(..) {
                bio.status()?;
                sum += bio.all_segments().map(|segment| u64::from(segment.len())).sum::<u64>();
                self.bios.push(bio);
            }
        }
        self.times.push(begin.elapsed().as_nanos() as f64 / count as f64);
        Ok(sum)
    }

    fn median(&mut self) -> f64 {
        self.times.sort_by(f64::total_cmp);
        self.times[self.times.len() / 2]
    }
}

fn compare(name: &str, disk: &Device, mib: usize, register: bool) -> Result<(), Box<dyn Error>> {
    let count = mib * 256;
    let pools = [Pool::new(count, PAGE, PAGE)?, Pool::huge(count, PAGE, PAGE)?];
    let mut sides = [Side::new(&pools[0])?, Side::new(&pools[1])?];
    let mut took = Vec::new();
    let mut channels = Vec::new();
    for pool in &pools {
        let mut channel = disk.channel(DEPTH)?;
        let begin = Instant::now();
        if register {
            channel.register(&pool.region());
        }
        took.push(begin.elapsed().as_secs_f64() * 1e3);
        channels.push(channel);
    }
    for _ in 0..ROUNDS {
        for (side, channel) in sides.iter_mut().zip(&mut channels) {
            side.round(channel)?;
        }
    }
    let pages = sides[1].pages;
    let [ordinary, huge] = sides.each_mut().map(Side::median);
    println!(
        "{name:24} ordinary {ordinary:7.1} ns   {pages:?} {huge:7.1} ns   {:+.1} %   registered in {:.1} and {:.1} ms",
        (huge / ordinary - 1.0) * 100.0,
        took[0],
        took[1]
    );
    drop(channels);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let mib = args.next().map_or(Ok(1024), |arg| arg.parse())?;
    println!(
        "reads of 4 KiB into {mib} MiB of buffers in random order, {DEPTH} at a time, median of {ROUNDS} rounds"
    );
    compare("null", &Device::null(DISK)?, mib, false)?;
    compare("ram", &Device::ram(DISK)?, mib, false)?;
    if let Some(path) = args.next() {
        let mut options = DiskOptions::read_write();
        options.open.create = Some(DISK);
        let file = Device::open(path, options)?;
        compare("file", &file, mib.min(256), false)?;
        compare("file, registered", &file, mib.min(256), true)?;
    }
    Ok(())
}
