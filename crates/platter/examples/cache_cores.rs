//! How a page cache scales with processors that this machine may not have: `cache_cores [--ops N] [--move NS]`.
//!
//! A model with real code: each operation is carried out on a real cache over a device that does nothing, on this thread, and the
//! times for which it had the locks of shards are recorded. The model gives each operation to the processor that is next in virtual
//! time, and lets it wait for the locks that others have. A shard that another processor used last costs more time under
//! its lock, since its state has to move; how much is measured with two threads that take turns (or given: `--move`).
//!
//! Two processors are measured as well, with threads, beside what the model says of two. What the model leaves out: threads that
//! sleep for a lock and have to be woken, memory bandwidth, and the device.

use platter::stack::kit::lock_times::{self, LockTime};
use platter::{Access, Device};
use std::collections::HashMap;
use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const PAGE: u64 = 4096;

/// Pages of the region in which hits are.
const HOT: u64 = 4096;

/// What processors do, 4 KiB at a time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    Hits,
    Misses,
    Writes,
}

impl Work {
    const ALL: [Work; 3] = [Work::Hits, Work::Misses, Work::Writes];

    const fn name(self) -> &'static str {
        match self {
            Work::Hits => "hits",
            Work::Misses => "misses",
            Work::Writes => "writes",
        }
    }
}

fn open(shards: u32) -> Result<Device> {
    let spec = format!("cache(size=64M, shards={shards}, readahead=none, null(1T))");
    let device = platter::open(&spec, Access::read_write())?;
    let mut data = [0; PAGE as usize];
    (0..HOT).try_for_each(|page| device.read_at(&mut data, page * PAGE))?;
    Ok(device)
}

/// Numbers of one processor.
struct Numbers(u64);

impl Numbers {
    const fn new(of: u64) -> Numbers {
        Numbers(of.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 30
    }
}

fn operate(device: &Device, work: Work, numbers: &mut Numbers, data: &mut [u8]) -> Result<()> {
    let page = numbers.next() % (1 << 28);
    match work {
        Work::Hits => device.read_at(data, page % HOT * PAGE)?,
        Work::Misses => device.read_at(data, page * PAGE)?,
        Work::Writes => device.write_at(data, page * PAGE)?,
    }
    Ok(())
}

/// A part of an operation, in nanoseconds: alone, or with a lock.
#[derive(Clone, Copy)]
struct Part {
    lock: Option<usize>,
    nanos: f64,
}

/// The parts of an operation, without the time that the clock takes.
fn parts(began: Instant, ended: Instant, locks: &[LockTime], tick: f64, out: &mut Vec<Part>) {
    out.clear();
    let mut at = began;
    let span = |from: Instant, to: Instant| (to.duration_since(from).as_nanos() as f64 - tick).max(0.0);
    for time in locks {
        out.push(Part { lock: None, nanos: span(at, time.from) });
        out.push(Part { lock: Some(time.lock), nanos: span(time.from, time.until) });
        at = time.until;
    }
    out.push(Part { lock: None, nanos: span(at, ended) });
}

/// Nanoseconds from one reading of the clock to the next.
fn tick() -> f64 {
    const READINGS: u32 = 100_000;
    let began = Instant::now();
    (0..READINGS).for_each(|_| _ = std::hint::black_box(Instant::now()));
    began.elapsed().as_nanos() as f64 / f64::from(READINGS)
}

struct Model<'a> {
    device: &'a Device,
    work: Work,
    tick: f64,
    /// Nanoseconds that a shard costs more if another processor used it last.
    moved: f64,
    /// Operations longer than this were interrupted, and are left out.
    longest: f64,
}

/// A shard's lock: when it is free, and the processor that had it last.
#[derive(Clone, Copy, Default)]
struct Lock {
    free: f64,
    last: usize,
}

impl Model<'_> {
    /// Operations a second of this number of processors, `ops` in all.
    fn run(&self, processors: usize, ops: usize) -> Result<f64> {
        let mut clocks = vec![0.0_f64; processors];
        let mut numbers: Vec<Numbers> = (0..processors as u64).map(|of| Numbers::new(of + 1)).collect();
        let mut locks: HashMap<usize, Lock> = HashMap::new();
        let (mut list, mut data, mut done) = (Vec::new(), vec![0; PAGE as usize], 0);
        while done < ops {
            let next = (0..processors).min_by(|&a, &b| clocks[a].total_cmp(&clocks[b])).unwrap_or(0);
            let (began, times, ended) = self.record(&mut numbers[next], &mut data)?;
            parts(began, ended, &times, self.tick, &mut list);
            if list.iter().map(|part| part.nanos).sum::<f64>() > self.longest {
                continue;
            }
            done += 1;
            let mut now = clocks[next];
            for part in &list {
                let Some(name) = part.lock else {
                    now += part.nanos;
                    continue;
                };
                let lock = locks.entry(name).or_insert(Lock { free: 0.0, last: next });
                let moved = if lock.last == next { 0.0 } else { self.moved };
                now = now.max(lock.free) + part.nanos + moved;
                *lock = Lock { free: now, last: next };
            }
            clocks[next] = now;
        }
        let all: f64 = clocks.iter().sum::<f64>() / processors as f64;
        Ok(ops as f64 / all * 1e9)
    }

    fn record(&self, numbers: &mut Numbers, data: &mut [u8]) -> Result<(Instant, Vec<LockTime>, Instant)> {
        lock_times::record();
        let began = Instant::now();
        let result = operate(self.device, self.work, numbers, data);
        let ended = Instant::now();
        let times = lock_times::take();
        result.map(|()| (began, times, ended))
    }

    /// Ten times the middle of some operations.
    fn measure_longest(&mut self) -> Result<()> {
        let (mut numbers, mut data, mut all) = (Numbers::new(99), vec![0; PAGE as usize], Vec::new());
        for _ in 0..2_001 {
            let (began, _, ended) = self.record(&mut numbers, &mut data)?;
            all.push(ended.duration_since(began).as_nanos() as f64);
        }
        all.sort_by(f64::total_cmp);
        self.longest = 10.0 * all[all.len() / 2];
        Ok(())
    }
}

/// Operations a second of threads that run at the same time.
fn measure(device: &Device, work: Work, threads: u64, ops: u64) -> Result<f64> {
    let began = Instant::now();
    std::thread::scope(|scope| {
        let run = |of: u64| {
            let (mut numbers, mut data) = (Numbers::new(of), vec![0; PAGE as usize]);
            (0..ops).try_for_each(|_| operate(device, work, &mut numbers, &mut data)).is_ok()
        };
        let all: Vec<_> = (1..=threads).map(|of| scope.spawn(move || run(of))).collect();
        all.into_iter()
            .all(|thread| thread.join().unwrap_or(false))
            .then_some(())
            .ok_or("an operation failed")
    })?;
    Ok((threads * ops) as f64 / began.elapsed().as_secs_f64())
}

/// Nanoseconds of an operation when two threads take turns, or of a turn without one.
fn in_turns(device: &Device, work: Option<Work>) -> f64 {
    const TURNS: usize = 40_000;
    let turn = AtomicUsize::new(0);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let turn = &turn;
            scope.spawn(move || {
                let (mut numbers, mut data) = (Numbers::new(7 + thread as u64), vec![0; PAGE as usize]);
                for at in (thread..TURNS).step_by(2) {
                    while turn.load(Ordering::Acquire) != at {
                        std::hint::spin_loop();
                    }
                    if let Some(work) = work {
                        let _ = operate(device, work, &mut numbers, &mut data);
                    }
                    turn.store(at + 1, Ordering::Release);
                }
            });
        }
    });
    began.elapsed().as_nanos() as f64 / TURNS as f64
}

/// The middle of five.
fn middle(mut run: impl FnMut() -> f64) -> f64 {
    let mut all: Vec<f64> = (0..5).map(|_| run()).collect();
    all.sort_by(f64::total_cmp);
    all[2]
}

/// Nanoseconds that an operation takes longer after another processor's one.
fn measure_moved(device: &Device, work: Work) -> Result<f64> {
    let alone = 1e9 / measure(device, work, 1, 40_000)?;
    let (with, without) = (middle(|| in_turns(device, Some(work))), middle(|| in_turns(device, None)));
    Ok((with - without - alone).max(0.0))
}

fn main() -> Result<()> {
    let (mut ops, mut given) = (40_000, None);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let value = args.next().ok_or_else(|| format!("{arg} needs a number"))?;
        match arg.as_str() {
            "--ops" => ops = value.parse()?,
            "--move" => given = Some(value.parse()?),
            _ => {
                return Err(
                    format!("unknown argument {arg}; usage: cache_cores [--ops N] [--move NS]").into()
                );
            }
        }
    }
    let tick = tick();
    for work in Work::ALL {
        let moved = match given {
            Some(nanos) => nanos,
            None => measure_moved(&open(1)?, work)?,
        };
        println!(
            "{}, million a second; {moved:.0} ns more for a shard that another processor used last",
            work.name()
        );
        print!("{:>8}", "shards");
        let counts = [1, 2, 4, 8, 16, 32, 64];
        counts.iter().for_each(|count| print!("{count:>8}"));
        println!("{:>18}", "2 measured, of 1");
        for shards in [1, 8, 64] {
            let device = open(shards)?;
            let mut model = Model { device: &device, work, tick, moved, longest: f64::MAX };
            model.measure_longest()?;
            print!("{shards:>8}");
            for processors in counts {
                print!("{:>8.2}", model.run(processors, ops)? / 1e6);
            }
            let of = |threads| measure(&device, work, threads, 100_000);
            let mut ratios = (0..5).map(|_| Ok(of(2)? / of(1)?)).collect::<Result<Vec<f64>>>()?;
            ratios.sort_by(f64::total_cmp);
            println!("{:>18.2}", ratios[2]);
        }
    }
    Ok(())
}
