//! How a page cache scales with processors that this machine may not have: `cache_cores [--ops N] [--move NS]`; and
//! `cache_cores --count hits|futures|misses|writes [--shards N] [--ops N]`, for `scripts/count-cache-costs`.
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
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const PAGE: u64 = 4096;

/// Pages of the region in which hits are.
const HOT: u64 = 4096;

/// What processors do, 4 KiB at a time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    Hits,
    /// Hits of futures, which are only counted.
    Futures,
    Misses,
    Writes,
}

impl Work {
    const ALL: [Work; 4] = [Work::Hits, Work::Futures, Work::Misses, Work::Writes];
    const MODELLED: [Work; 3] = [Work::Hits, Work::Misses, Work::Writes];

    const fn name(self) -> &'static str {
        match self {
            Work::Hits => "hits",
            Work::Futures => "futures",
            Work::Misses => "misses",
            Work::Writes => "writes",
        }
    }
}

fn open(shards: u32) -> Result<Device> {
    // No thread works beside those that are measured.
    let spec = format!("cache(size=256M, shards={shards}, readahead=none, prefault=off, null(1T))");
    let device = platter::open(&spec, Access::read_write())?;
    let mut data = vec![0; PAGE as usize];
    // More than it holds, so that it is full, and then what is hit.
    (HOT..20 * HOT).chain(0..HOT).try_for_each(|page| device.read_at(&mut data, page * PAGE))?;
    Ok(device)
}

/// Numbers of one processor, which no other has had: pages that were read before could still be cached.
struct Numbers(u64);

impl Numbers {
    fn new() -> Numbers {
        static TAKEN: AtomicUsize = AtomicUsize::new(1);
        let of = TAKEN.fetch_add(1, Ordering::Relaxed) as u64;
        // Well mixed (SplitMix64), or sequences would run side by side.
        let mixed = (of.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (of << 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        Numbers(mixed ^ (mixed >> 29))
    }

    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 30
    }
}

fn operate(device: &Device, work: Work, numbers: &mut Numbers, data: &mut Vec<u8>) -> Result<()> {
    let page = numbers.next() % (1 << 28);
    match work {
        Work::Hits => device.read_at(data, page % HOT * PAGE)?,
        Work::Futures => {
            let mut io = device.read(page % HOT * PAGE, std::mem::take(data));
            let mut context = Context::from_waker(Waker::noop());
            let Poll::Ready((result, buffer)) = Pin::new(&mut io).poll(&mut context) else {
                return Err("a hit was not ready at once".into());
            };
            result?;
            *data = buffer.unwrap_or_default();
        }
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

/// What parts of operations take, by the number of parts of the operation and the place among them: the mean of some thousand
/// operations, of which none counts more than ten times the middle one. So an interrupt of the machine is not part of it.
struct Costs(HashMap<(usize, usize), f64>);

impl Costs {
    fn measure(device: &Device, work: Work, tick: f64) -> Result<Costs> {
        let (mut numbers, mut list) = (Numbers::new(), Vec::new());
        let mut all: HashMap<(usize, usize), Vec<f64>> = HashMap::new();
        for _ in 0..20_000 {
            let (began, times, ended) = record(device, work, &mut numbers)?;
            parts(began, ended, &times, tick, &mut list);
            let count = list.len();
            list.iter()
                .enumerate()
                .for_each(|(at, part)| all.entry((count, at)).or_default().push(part.nanos));
        }
        let mean = |nanos: &mut Vec<f64>| {
            nanos.sort_by(f64::total_cmp);
            let most = 10.0 * nanos[nanos.len() / 2].max(1.0);
            nanos.iter().map(|nanos| nanos.min(most)).sum::<f64>() / nanos.len() as f64
        };
        Ok(Costs(all.iter_mut().map(|(&place, nanos)| (place, mean(nanos))).collect()))
    }

    fn of(&self, count: usize, at: usize, part: Part) -> f64 {
        self.0.get(&(count, at)).copied().unwrap_or(part.nanos)
    }
}

/// Carries out an operation, and says when it had locks.
fn record(device: &Device, work: Work, numbers: &mut Numbers) -> Result<(Instant, Vec<LockTime>, Instant)> {
    let mut data = vec![0; PAGE as usize];
    lock_times::record();
    let began = Instant::now();
    let result = operate(device, work, numbers, &mut data);
    let ended = Instant::now();
    let times = lock_times::take();
    result.map(|()| (began, times, ended))
}

struct Model<'a> {
    device: &'a Device,
    work: Work,
    tick: f64,
    costs: Costs,
    /// Nanoseconds that a shard costs more if another processor used it last.
    moved: f64,
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
        let mut numbers: Vec<Numbers> = (0..processors).map(|_| Numbers::new()).collect();
        let mut locks: HashMap<usize, Lock> = HashMap::new();
        let mut list = Vec::new();
        for _ in 0..ops {
            let next = (0..processors).min_by(|&a, &b| clocks[a].total_cmp(&clocks[b])).unwrap_or(0);
            let (began, times, ended) = record(self.device, self.work, &mut numbers[next])?;
            parts(began, ended, &times, self.tick, &mut list);
            let mut now = clocks[next];
            for (at, &part) in list.iter().enumerate() {
                let nanos = self.costs.of(list.len(), at, part);
                let Some(name) = part.lock else {
                    now += nanos;
                    continue;
                };
                let lock = locks.entry(name).or_insert(Lock { free: 0.0, last: next });
                let moved = if lock.last == next { 0.0 } else { self.moved };
                now = now.max(lock.free) + nanos + moved;
                *lock = Lock { free: now, last: next };
            }
            clocks[next] = now;
        }
        let all: f64 = clocks.iter().sum::<f64>() / processors as f64;
        Ok(ops as f64 / all * 1e9)
    }
}

/// Operations a second of threads that run at the same time.
fn measure(device: &Device, work: Work, threads: u64, ops: u64) -> Result<f64> {
    let began = Instant::now();
    std::thread::scope(|scope| {
        let run = || {
            let (mut numbers, mut data) = (Numbers::new(), vec![0; PAGE as usize]);
            (0..ops).try_for_each(|_| operate(device, work, &mut numbers, &mut data)).is_ok()
        };
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
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
                let (mut numbers, mut data) = (Numbers::new(), vec![0; PAGE as usize]);
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

/// The least of nine: what else the machine does only adds to it.
fn least(mut run: impl FnMut() -> Result<f64>) -> Result<f64> {
    (0..9).try_fold(f64::MAX, |least, _| Ok(run()?.min(least)))
}

/// Nanoseconds that an operation takes longer after another processor's one.
fn measure_moved(device: &Device, work: Work) -> Result<f64> {
    let alone = least(|| Ok(1e9 / measure(device, work, 1, 40_000)?))?;
    let (with, without) =
        (least(|| Ok(in_turns(device, Some(work))))?, least(|| Ok(in_turns(device, None)))?);
    Ok((with - without - alone).max(0.0))
}

/// What the command line asks for.
struct Asked {
    ops: usize,
    /// Nanoseconds that a shard costs more if another processor used it last; `None`: they are measured.
    moved: Option<f64>,
    /// Only carry this out, for a program that counts what it costs.
    count: Option<Work>,
    shards: u32,
}

impl Asked {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Asked> {
        let mut asked = Asked { ops: 40_000, moved: None, count: None, shards: 1 };
        while let Some(arg) = args.next() {
            let value = args.next().ok_or_else(|| format!("{arg} needs a value"))?;
            match arg.as_str() {
                "--ops" => asked.ops = value.parse()?,
                "--move" => asked.moved = Some(value.parse()?),
                "--shards" => asked.shards = value.parse()?,
                "--count" => {
                    let work = Work::ALL.into_iter().find(|work| work.name() == value);
                    asked.count =
                        Some(work.ok_or_else(|| format!("{value} is not hits, futures, misses or writes"))?);
                }
                _ => return Err(format!("unknown argument {arg}; {USAGE}").into()),
            }
        }
        Ok(asked)
    }
}

const USAGE: &str = "usage: cache_cores [--ops N] [--move NS]; cache_cores --count hits|futures|misses|writes [--shards N] [--ops N]";

fn main() -> Result<()> {
    let asked = Asked::parse(std::env::args().skip(1))?;
    if let Some(work) = asked.count {
        let (device, mut numbers, mut data) = (open(asked.shards)?, Numbers::new(), vec![0; PAGE as usize]);
        return (0..asked.ops).try_for_each(|_| operate(&device, work, &mut numbers, &mut data));
    }
    let tick = tick();
    for work in Work::MODELLED {
        let moved = match asked.moved {
            Some(nanos) => nanos,
            None => measure_moved(&open(1)?, work)?,
        };
        println!(
            "{}, million a second; {moved:.0} ns more for a shard that another processor used last",
            work.name()
        );
        print!("{:>8}", "shards");
        COUNTS.iter().for_each(|count| print!("{count:>8}"));
        println!("{:>18}", "2 measured, of 1");
        for shards in [1, 8, 64] {
            print!("{shards:>8}");
            row(&open(shards)?, work, (tick, moved), asked.ops)?;
        }
    }
    Ok(())
}

/// Processors of the model.
const COUNTS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Prints what the model says of a cache, and what two threads do.
fn row(device: &Device, work: Work, (tick, moved): (f64, f64), ops: usize) -> Result<()> {
    let costs = Costs::measure(device, work, tick)?;
    let model = Model { device, work, tick, costs, moved };
    for processors in COUNTS {
        print!("{:>8.2}", model.run(processors, ops)? / 1e6);
    }
    let of = |threads| measure(device, work, threads, 100_000);
    let mut ratios = (0..9).map(|_| Ok(of(2)? / of(1)?)).collect::<Result<Vec<f64>>>()?;
    ratios.sort_by(f64::total_cmp);
    println!("{:>18.2}", ratios[4]);
    Ok(())
}
