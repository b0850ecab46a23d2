//! Random reads of 4 KiB of one file, as one of several ways to wait for them does them:
//! `compare-futures SIDE FILE DEPTH MILLISECONDS`. Prints the I/Os, the seconds and the processor time of the process.

mod bare;
mod others;
mod ours;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub const BLOCK: usize = 4096;

/// What a side is asked to do.
pub struct Job {
    pub path: String,
    pub depth: usize,
    blocks: u64,
    over: AtomicBool,
    done: AtomicU64,
}

impl Job {
    /// Whether to start another I/O.
    pub fn goes_on(&self) -> bool {
        !self.over.load(Ordering::Relaxed)
    }

    pub fn count(&self, ios: u64) {
        self.done.fetch_add(ios, Ordering::Relaxed);
    }
}

/// Positions of reads, different for each seed.
pub struct Positions {
    state: u64,
    blocks: u64,
}

impl Positions {
    pub fn new(job: &Job, seed: usize) -> Positions {
        Positions { state: (seed as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15), blocks: job.blocks }
    }

    pub fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 16) % self.blocks * BLOCK as u64
    }
}

/// The processor time of this process.
fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let [_, side, path, depth, millis] = &args[..] else { panic!("SIDE FILE DEPTH MILLISECONDS") };
    let blocks = std::fs::metadata(path).expect("the file").len() / BLOCK as u64;
    let job = Arc::new(Job {
        path: path.clone(),
        depth: depth.parse().expect("a depth"),
        blocks,
        over: AtomicBool::new(false),
        done: AtomicU64::new(0),
    });
    let (timer, millis) = (Arc::clone(&job), millis.parse().expect("milliseconds"));
    let (begin, before) = (Instant::now(), cpu());
    let timer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(millis));
        timer.over.store(true, Ordering::Relaxed);
    });
    match side.as_str() {
        "channel" => ours::channel(&job),
        "bare" => ours::bare(&job),
        "tokio-current" => ours::tokio_current(&job),
        "block-on" => ours::block_on(&job),
        "tokio-current-driven" => ours::tokio_current_driven(&job),
        "tokio-multi-driven" => ours::tokio_multi_driven(&job),
        "tokio-multi" => ours::tokio_multi(&job),
        "io-uring" => others::ring(&job),
        "tokio-uring" => others::tokio_uring(&job),
        "compio" => others::compio(&job),
        other => panic!("there is no side {other}"),
    }
    let (seconds, busy) = (begin.elapsed().as_secs_f64(), cpu() - before);
    timer.join().expect("the timer does not panic");
    let ios = job.done.load(Ordering::Relaxed);
    println!("{{\"ios\": {ios}, \"seconds\": {seconds}, \"cpu_ns\": {}}}", busy.as_nanos());
}
