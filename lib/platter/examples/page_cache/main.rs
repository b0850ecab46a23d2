//! Compares Platter's page cache with the kernel's, alternately on the same file: `page_cache [--rounds N]
//! [--cells NAME,...] [--size BYTES] [--cache PARAMETERS] [DIRECTORY]`.
//!
//! Each round runs both sides of a cell once, in an order that changes from round to round. A ratio is
//! between two runs of the same round; the median of the ratios is printed with the smallest and the largest.
//! Ratios above 1 are in Platter's favour, except that of processor time. Before each side of a cold file the
//! kernel's cache reads the file and drops it, so that both begin with memory in the same state.

mod cold;
mod hits;
mod limited;
mod loaded;
mod throttled;

use platter::{Access, Device};
use std::error::Error;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The measurements of one side of a round.
#[derive(Clone, Copy)]
pub(crate) struct Side {
    /// Operations, or bytes, in a second.
    pub(crate) rate: f64,
    /// Seconds of processor time for as much work.
    pub(crate) cpu: f64,
    /// Bytes read from the device.
    pub(crate) device_bytes: u64,
}

/// The names of cells, the two sides, and the unit.
const CELLS: [(&str, &str); 15] = [
    ("hit-4k-8m", "copied 4 KiB hits, 8 MiB of pages, against pread(2); M/s"),
    ("hit-4k-256m", "copied 4 KiB hits, 256 MiB of pages, against pread(2); M/s"),
    ("ref-4k-8m", "4 KiB hits by reference, 8 MiB of pages, against pread(2); M/s"),
    ("seq-512", "sequential reads of 512 bytes, in memory, against read(2); M/s"),
    ("two-threads", "4 KiB hits of two threads against one of Platter's own; M/s"),
    ("cold-sequential", "a cold file in 1 MiB reads, against pread(2); MiB/s"),
    ("cold-512", "a cold file in 512-byte reads, against read(2); MiB/s"),
    ("streams-16", "16 interleaved streams on one handle against one stream, cold, Platter's own; MiB/s"),
    ("random-16k", "16 threads on one handle of a cold file, 16 KiB, against pread(2); thousands/s"),
    ("aged-16k", "the same, through a cache of 256 MiB that is full of other pages; thousands/s"),
    (
        LIMITED,
        "the same through 256 MiB of memory, four of five reads in 192 MiB, against a memory cgroup; thousands/s",
    ),
    (
        "mixed-16k",
        "the same, three writes for seven reads, synced at the end, against pread(2), pwrite(2); thousands/s",
    ),
    (
        "sync-10",
        "4 threads, each syncs after 10 writes of 4 KiB, against pwrite(2), fdatasync(2); thousand writes/s",
    ),
    ("one-page", "4 threads, 4 KiB hits of one page, against pread(2); M/s"),
    (
        THROTTLED,
        "4 threads, random writes of 4 KiB, 8 to 16 MiB dirty, against pwrite(2): the slowest write of a thousand; 1/s",
    ),
];

/// It needs a memory cgroup.
const LIMITED: &str = "limited-16k";

/// It sets the kernel's limits of dirty pages for a while, so it runs only if it is named.
const THROTTLED: &str = "throttled";

pub(crate) struct Bench {
    pub(crate) path: PathBuf,
    pub(crate) size: u64,
    /// More parameters of the cache.
    cache: String,
}

impl Bench {
    /// The file under a cache.
    pub(crate) fn cached(&self, size: u64) -> Result<Device, Box<dyn Error>> {
        self.open(size, Access::read())
    }

    /// The same, to read and write.
    pub(crate) fn written(&self, size: u64) -> Result<Device, Box<dyn Error>> {
        self.open(size, Access::read_write())
    }

    /// The same, with more parameters.
    pub(crate) fn written_with(&self, size: u64, more: &str) -> Result<Device, Box<dyn Error>> {
        let spec = format!("cache(size={size}, {more} {} \"{}\")", self.cache, self.path.display());
        Ok(platter::open(&spec, Access::read_write())?)
    }

    fn open(&self, size: u64, access: Access) -> Result<Device, Box<dyn Error>> {
        let spec = format!("cache(size={size}, {} \"{}\")", self.cache, self.path.display());
        Ok(platter::open(&spec, access)?)
    }

    /// The file, opened through the kernel.
    pub(crate) fn file(&self) -> Result<File, Box<dyn Error>> {
        Ok(File::open(&self.path)?)
    }

    /// Drops the file's pages from the kernel's cache, which has just read all of it.
    ///
    /// A virtual machine may report free memory to its host, which takes it away. The first use after that waits for it:
    /// 3 microseconds a page were measured, where the kernel's cache takes 0.2 otherwise. With these reads before
    /// each side both find memory that the kernel's cache has just used, which is the better case for that one.
    pub(crate) fn cool(&self) -> Result<(), Box<dyn Error>> {
        let file = self.file()?;
        file.sync_all()?;
        let mut block = vec![0; 1 << 20];
        for pos in (0..self.size).step_by(block.len()) {
            file.read_exact_at(&mut block, pos)?;
        }
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        Ok(())
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn show(name: &str, what: &str, pairs: &[(Side, Side)]) {
    let column = |of: &dyn Fn(&(Side, Side)) -> f64| pairs.iter().map(of).collect::<Vec<f64>>();
    let mut ratios = column(&|(ours, theirs)| ours.rate / theirs.rate);
    let ratio = median(&mut ratios);
    let (ours, theirs) = (median(&mut column(&|p| p.0.rate)), median(&mut column(&|p| p.1.rate)));
    println!(
        "{name:16} {ratio:6.2} ({:.2} to {:.2})   {ours:.2} against {theirs:.2}",
        ratios[0],
        ratios[ratios.len() - 1]
    );
    if pairs.iter().all(|(ours, theirs)| ours.cpu > 0.0 && theirs.cpu > 0.0) {
        let mut cpu = column(&|(ours, theirs)| ours.cpu / theirs.cpu);
        let (ours, theirs) = (median(&mut column(&|p| p.0.cpu)), median(&mut column(&|p| p.1.cpu)));
        println!(
            "{:16} {:6.2} of their processor time   {ours:.2} s against {theirs:.2}",
            "",
            median(&mut cpu)
        );
    }
    if let Some((ours, theirs)) = pairs.first().filter(|(ours, _)| ours.device_bytes > 0) {
        let mib = |bytes: u64| bytes >> 20;
        println!(
            "{:16} {} MiB from the device against {}",
            "",
            mib(ours.device_bytes),
            mib(theirs.device_bytes)
        );
    }
    println!("{:16} ({what})", "");
}

/// A file of data that does not compress, made if it is not there.
fn make(path: &Path, size: u64) -> Result<(), Box<dyn Error>> {
    use std::io::Write;
    if path.metadata().is_ok_and(|meta| meta.len() == size) {
        return Ok(());
    }
    let mut file = File::create(path)?;
    let (mut block, mut state) = (vec![0u8; 1 << 20], 1u64);
    for _ in 0..size >> 20 {
        for word in block.chunks_exact_mut(8) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            word.copy_from_slice(&state.to_le_bytes());
        }
        file.write_all(&block)?;
    }
    file.sync_all()?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let (mut rounds, mut size, mut cells, mut dir) = (5, 4u64 << 30, Vec::new(), PathBuf::from("."));
    let mut cache = String::new();
    if let [_, side, path, size] = &std::env::args().collect::<Vec<_>>()[..]
        && side == limited::SIDE
    {
        return limited::kernel_side(path, size);
    }
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--rounds" => rounds = value()?.parse()?,
            "--size" => size = value()?.parse::<u64>()? >> 20 << 20,
            "--cache" => cache = format!("{},", value()?),
            "--cells" => cells = value()?.split(',').map(str::to_string).collect(),
            _ => dir = PathBuf::from(word),
        }
    }
    if let Some(wrong) = cells.iter().find(|name| !CELLS.iter().any(|(cell, _)| cell == name)) {
        let names: Vec<&str> = CELLS.iter().map(|(name, _)| *name).collect();
        return Err(format!("no cell \"{wrong}\"; there are: {}", names.join(", ")).into());
    }
    if rounds == 0 || size < 1 << 30 {
        return Err("--rounds must be 1 or more, --size 1073741824 (1 GiB) or more".into());
    }
    let bench = Bench { path: dir.join("page-cache.dat"), size, cache };
    make(&bench.path, size)?;
    let is_meant =
        |name: &str| (cells.is_empty() && name != THROTTLED) || cells.iter().any(|cell| cell == name);
    for (name, what) in CELLS.iter().filter(|(name, _)| is_meant(name)) {
        if let Some(why) = (*name == LIMITED).then(limited::obstacle).flatten() {
            println!("{name:16} skipped: {why}");
            continue;
        }
        let mut pairs = Vec::new();
        for round in 0..rounds {
            pairs.push(match *name {
                "hit-4k-8m" => hits::copied(&bench, 8 << 20, round)?,
                "hit-4k-256m" => hits::copied(&bench, 256 << 20, round)?,
                "ref-4k-8m" => hits::by_reference(&bench, 8 << 20, round)?,
                "seq-512" => hits::sequential(&bench, 64 << 20, round)?,
                "two-threads" => hits::two_threads(&bench, 8 << 20)?,
                "cold-sequential" => cold::sequential(&bench, 1 << 20, bench.size, round)?,
                "cold-512" => cold::sequential(&bench, 512, 1 << 30, round)?,
                "streams-16" => cold::streams(&bench, round)?,
                "random-16k" => cold::random(&bench, round)?,
                "aged-16k" => loaded::aged(&bench, round)?,
                LIMITED => limited::limited(&bench, round)?,
                "mixed-16k" => loaded::mixed(&bench, round)?,
                "sync-10" => loaded::synced(&bench, round)?,
                THROTTLED => throttled::throttled(&bench, round)?,
                _ => loaded::one_page(&bench, round)?,
            });
        }
        show(name, what, &pairs);
    }
    std::fs::remove_file(&bench.path)?;
    Ok(())
}
