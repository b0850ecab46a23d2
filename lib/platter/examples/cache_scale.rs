//! What a page cache costs as it grows: `cache_scale [--rounds N]`. Each line is a ratio of two runs of one round, with the
//! median of the rounds, the smallest and the largest; the goals are those that docs/cache-performance.md names.

use platter::{Access, Bio, Device, Flags, IoOptions};
use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const PAGE: u64 = 4096;

/// Opening a cache with these sizes, in seconds.
fn open(sizes: &str) -> Result<f64> {
    let began = Instant::now();
    let device = platter::open(&format!("cache({sizes}, null(1T))"), Access::read_write())?;
    let took = began.elapsed().as_secs_f64();
    drop(device);
    Ok(took)
}

/// Microseconds of a write with FUA, the median of 2,000, beside this number of dirty pages.
fn fua(dirty: u64) -> Result<f64> {
    let spec = "cache(size=8G, background=100, dirty=100, expire=3600s, null(64G))";
    let device = platter::open(spec, Access::read_write())?;
    let data = vec![1; 1 << 20];
    // Every other page of what is dirty, so that none joins another.
    let step = if dirty > 0 { 2 } else { 1 };
    for page in 0..dirty {
        device.write_at(&data[..PAGE as usize], page * step * PAGE)?;
    }
    let far = 32 << 30;
    let durable = IoOptions::default().with_flags(Flags::FUA);
    let mut times = Vec::new();
    for at in 0..2_000u64 {
        let began = Instant::now();
        device.write_at_with(&data[..PAGE as usize], far + at * PAGE, durable)?;
        times.push(began.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

/// Misses a second of this number of threads.
fn misses(device: &Device, threads: u64) -> Result<f64> {
    const EACH: u64 = 150_000;
    let began = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                let mut data = [0; PAGE as usize];
                let mut at = thread.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                for _ in 0..EACH {
                    at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let _ = device.read_at(&mut data, (at >> 30) % (1 << 28) * PAGE);
                }
            });
        }
    });
    Ok((EACH * threads) as f64 / began.elapsed().as_secs_f64())
}

/// The same for a loop that only counts.
fn counts(threads: u64) -> f64 {
    const EACH: u64 = 200_000_000;
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| (0..EACH).for_each(|n| _ = black_box(n)));
        }
    });
    (EACH * threads) as f64 / began.elapsed().as_secs_f64()
}

/// MiB/s, in virtual time, of a stream of 64 KiB reads beside this number of readers at random places.
fn stream(readers: u64) -> Result<f64> {
    const LEN: u64 = 64 << 10;
    const WHOLE: u64 = 32 << 20;
    let device = platter::open("cache(size=128M, sim(sata_ssd))", Access::read())?;
    let clock = device.backend().clock().ok_or("the disk has no clock of its own")?;
    let (mut random, handle) = (1_u64, device.handle());
    let mut channel = device.channel(512)?;
    let mut place = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (1 << 30) + (random >> 40) % (1 << 18) * (16 << 10)
    };
    let read = |pos: u64, len: u64, token: u64| -> Result<Bio> {
        let mut bio = Bio::read(pos, vec![0; len as usize]).map_err(|fault| fault.to_string())?;
        bio.set_token(token);
        Ok(bio)
    };
    for token in 1..=readers {
        channel.submit(read(place(), 16 << 10, token)?).map_err(|_| "the channel is full")?;
    }
    let (mut at, began, mut done) = (0, clock.now(), Vec::new());
    let next = |at: u64| -> Result<Bio> {
        let mut bio = read(at, LEN, 0)?;
        bio.set_handle(handle.id());
        Ok(bio)
    };
    channel.submit(next(0)?).map_err(|_| "the channel is full")?;
    while at < WHOLE {
        channel.poll(&mut done);
        let came = done.len();
        for bio in done.drain(..) {
            let again = match bio.token() {
                0 => {
                    at += LEN;
                    next(at)?
                }
                token => read(place(), 16 << 10, token)?,
            };
            channel.submit(again).map_err(|_| "the channel is full")?;
        }
        if came == 0 {
            let wakeup = channel.next_wakeup().ok_or("nothing happens any more")?;
            clock.advance_to(wakeup.max(clock.now()));
        }
    }
    Ok(WHOLE as f64 / (1 << 20) as f64 / (clock.now().since(began).0 as f64 / 1e9))
}

fn summary(name: &str, unit: &str, mut values: Vec<f64>) {
    values.sort_by(f64::total_cmp);
    let (first, last) = (values[0], values[values.len() - 1]);
    println!("{name}: {:.2} ({first:.2} to {last:.2}){unit}", values[values.len() / 2]);
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let rounds: usize = match args.next().as_deref() {
        Some("--rounds") => args.next().ok_or("--rounds needs a number")?.parse()?,
        None => 9,
        Some(other) => {
            return Err(format!("unknown argument {other}; usage: cache_scale [--rounds N]").into());
        }
    };
    let all = |run: &dyn Fn() -> Result<f64>| (0..rounds.max(1)).map(|_| run()).collect::<Result<Vec<f64>>>();
    let opening = [("of 16 GiB", "size=16G"), ("that can have 256 GiB", "size=1G, max_size=256G")];
    for (what, sizes) in opening {
        let name = format!("opening a cache {what}");
        summary(&name, " ms (goal below 50)", all(&|| Ok(open(sizes)? * 1e3))?);
    }
    let beside = all(&|| Ok(fua(1_000_000)? / fua(0)?))?;
    summary(
        "a write with FUA beside 1,000,000 dirty pages, against beside none",
        " (goal at most 1.2)",
        beside,
    );
    let (many, some) = (stream(256)?, stream(100)?);
    println!(
        "a stream beside 256 readers at random, against beside 100: {:.2} ({many:.1} and {some:.1} MiB/s; goal 0.33)",
        many / some
    );
    for shards in [1, 8, 32] {
        let spec = format!("cache(size=256M, shards={shards}, readahead=none, null(1T))");
        let device = platter::open(&spec, Access::read())?;
        let scaled = all(&|| {
            let (one, two) = (misses(&device, 1)?, misses(&device, 2)?);
            Ok(two / one / (counts(2) / counts(1)))
        })?;
        summary(
            &format!(
                "shards={shards}: misses of two threads against one, as a part of what counting loops give"
            ),
            " (goal at least 0.9)",
            scaled,
        );
        let alone = all(&|| Ok(misses(&device, 1)? / 1e3))?;
        summary(&format!("shards={shards}: misses of one thread"), " thousand a second", alone);
    }
    Ok(())
}
