//! A page cache at its limit of memory under mixed load for a long time: `cache_endurance [--cache
//! shards=4] [--virtual 43200s | --real 3600s FILE]`.
//!
//! Clients of five kinds share a cache over a data set four times its size, and its size changes at times. Each tenth of the
//! time has a line. The exit status is 1 if a call took longer than a second or the process grew after the first tenth.

use platter::block::time::{Span, Time};
use platter::spec::parse_time;
use platter::{Access, Bio, Channel, Device, Op};
use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const PAGE: u64 = 4096;
const SIZE: u64 = 256 << 20;
const DATA: u64 = 4 * SIZE;

/// What a client does, how long it pauses between two calls in microseconds, and how many there are of it.
const KINDS: [(&str, u64, u64); 5] = [
    ("stream", 20_000, 2),
    ("random reader", 2_000, 4),
    ("random writer", 5_000, 4),
    ("hot page", 1_000, 1),
    ("syncer", 10_000, 2),
];

/// Tenths of the time after which the size changes.
const RESIZES: u64 = 100;

struct Client {
    kind: usize,
    random: u64,
    at: u64,
    calls: u64,
    longest: u64,
}

impl Client {
    fn all() -> impl Iterator<Item = Client> {
        let each = |kind: usize| (0..KINDS[kind].2).map(move |number| (kind, number));
        let seed = |(kind, number): (usize, u64)| (kind as u64 + 1) << 32 | number;
        let one = move |who: (usize, u64)| Client {
            kind: who.0,
            random: seed(who),
            at: who.1 * DATA / 2,
            calls: 0,
            longest: 0,
        };
        (0..KINDS.len()).flat_map(each).map(one)
    }

    fn page(&mut self) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % (DATA / PAGE) * PAGE
    }

    fn next(&mut self) -> Result<Bio> {
        self.calls += 1;
        let bio = match KINDS[self.kind].0 {
            "stream" => {
                self.at = (self.at + (64 << 10)) % DATA;
                Bio::read(self.at, vec![0u8; 64 << 10])
            }
            "random reader" => Bio::read(self.page(), vec![0u8; PAGE as usize]),
            "hot page" => Bio::write(0, vec![self.calls as u8; 512]),
            "syncer" if self.calls.is_multiple_of(10) => return Ok(Bio::flush()),
            _ => Bio::write(self.page(), vec![self.calls as u8; PAGE as usize]),
        };
        bio.map_err(|fault| format!("{fault:?}").into())
    }

    fn took(&mut self, nanos: u64) {
        self.longest = self.longest.max(nanos);
    }
}

/// The end of a run.
#[derive(Default)]
struct End(Mutex<bool>, Condvar);

impl End {
    /// Waits, and returns whether the run goes on.
    fn pause(&self, pause: Duration) -> bool {
        let over = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.1.wait_timeout_while(over, pause, |over| !*over);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn come(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.1.notify_all();
    }
}

/// Bytes of this process in memory.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|text| text.split_whitespace().next());
    kib.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) << 10
}

fn fact(device: &Device, name: &str) -> String {
    device.facts().into_iter().find(|fact| fact.0 == name).map(|fact| fact.1).unwrap_or_default()
}

/// The lines of a run, and what it has found.
struct Log {
    tenths: u64,
    sizes: u64,
    resident: Vec<u64>,
}

impl Log {
    /// To be called often, with the part of the time that has passed in thousandths.
    fn look(&mut self, device: &Device, passed: u64, calls: u64, longest: u64) -> Result<()> {
        if passed * RESIZES / 1000 > self.sizes {
            self.sizes += 1;
            // From a half to the whole, in steps that do not repeat with the tenths.
            let size = SIZE / 2 + self.sizes * 37 % 129 * (SIZE / 256);
            device.set_layer_param(None, "size", size.cast_signed()).map_err(|error| error.to_string())?;
        }
        if passed / 100 > self.tenths {
            self.tenths = passed / 100;
            // Full size, so that the lines can be compared.
            device.set_layer_param(None, "size", SIZE.cast_signed()).map_err(|error| error.to_string())?;
            self.resident.push(resident());
            println!(
                "{:>3} %: {calls} calls, longest {:.1} ms, {} MiB resident, {} dirty pages, {} evicted",
                self.tenths * 10,
                longest as f64 / 1e6,
                resident() >> 20,
                fact(device, "dirty pages"),
                fact(device, "pages evicted"),
            );
        }
        Ok(())
    }

    fn end(&self, clients: &[Client]) -> bool {
        for (kind, (name, ..)) in KINDS.iter().enumerate() {
            let of = || clients.iter().filter(|client| client.kind == kind);
            let (calls, longest) =
                (of().map(|client| client.calls).sum::<u64>(), of().map(|client| client.longest).max());
            println!("{name:>14}: {calls} calls, longest {:.1} ms", longest.unwrap_or(0) as f64 / 1e6);
        }
        let longest = clients.iter().map(|client| client.longest).max().unwrap_or(0);
        let (first, last) =
            (self.resident.first().copied().unwrap_or(0), self.resident.last().copied().unwrap_or(0));
        println!("resident after the first tenth {} MiB, at the end {} MiB", first >> 20, last >> 20);
        longest <= 1_000_000_000 && last <= first + first / 20
    }
}

/// In virtual time, over a simulated disk: all clients on this thread.
fn simulated(span: Duration, params: &str) -> Result<bool> {
    let device = platter::open(&format!("cache(size={SIZE}{params}, sim(sata_ssd))"), Access::read_write())?;
    let clock = device.backend().clock().ok_or("the disk has no clock of its own")?;
    let mut clients: Vec<Client> = Client::all().collect();
    let mut lanes = Vec::new();
    for _ in &clients {
        lanes.push((device.channel(1)?, Time(0), false));
    }
    let (end, mut log, mut done) =
        (span.as_nanos() as u64, Log { tenths: 0, sizes: 0, resident: Vec::new() }, Vec::new());
    loop {
        let now = clock.now();
        if now.0 >= end {
            break;
        }
        for (at, (client, (channel, due, is_out))) in clients.iter_mut().zip(&mut lanes).enumerate() {
            // The cache's own work is done by any lane that is run.
            if *is_out || at == 0 {
                channel.poll(&mut done);
            }
            if let Some(bio) = done.pop() {
                bio.status().map_err(|fault| format!("{}: {fault:?}", KINDS[client.kind].0))?;
                // While it is out, this is when it was submitted.
                client.took(now.since(*due).0);
                let pause = KINDS[client.kind].1 * 1000;
                (*due, *is_out) = (now + Span(pause / 2 + client.page() % pause), false);
            }
            if !*is_out && *due <= now {
                (*due, *is_out) = (now, true);
                channel.submit(client.next()?).map_err(|_| "a channel of one had no room")?;
                channel.flush();
            }
        }
        let asked = lanes.iter().enumerate().filter(|(at, lane)| lane.2 || *at == 0).map(|(_, lane)| lane);
        let wakeups = asked.filter_map(|(channel, ..)| Channel::next_wakeup(channel));
        let dues = lanes.iter().filter(|lane| !lane.2).map(|lane| lane.1);
        let next = wakeups.chain(dues).min().unwrap_or(now + Span(1_000));
        clock.advance_to(next.max(now));
        let (calls, longest) =
            (clients.iter().map(|c| c.calls).sum(), clients.iter().map(|c| c.longest).max());
        log.look(&device, (u128::from(now.0) * 1000 / u128::from(end)) as u64, calls, longest.unwrap_or(0))?;
    }
    Ok(log.end(&clients))
}

/// In real time, over a file that is made for it: each client on a thread.
fn real(span: Duration, file: &str, params: &str) -> Result<bool> {
    std::fs::File::create_new(file)?.set_len(DATA)?;
    let device = platter::open(&format!("cache(size={SIZE}{params}, {file})"), Access::read_write())?;
    let (calls, longest) = (AtomicU64::new(0), AtomicU64::new(0));
    let began = Instant::now();
    let mut log = Log { tenths: 0, sizes: 0, resident: Vec::new() };
    let end = End::default();
    let work = |mut client: Client| {
        let mut memory = vec![0; 64 << 10];
        loop {
            let bio = client.next().map_err(|error| error.to_string())?;
            let (pos, len) = (bio.pos(), bio.len() as usize);
            let start = Instant::now();
            let result = match bio.op() {
                Op::Read => device.read_at(&mut memory[..len], pos),
                Op::Write => device.write_at(&memory[..len], pos),
                _ => device.flush(),
            };
            result.map_err(|error| error.to_string())?;
            let took = start.elapsed().as_nanos() as u64;
            client.took(took);
            longest.fetch_max(took, Ordering::Relaxed);
            calls.fetch_add(1, Ordering::Relaxed);
            if !end.pause(Duration::from_micros(KINDS[client.kind].1)) {
                return Ok::<Client, String>(client);
            }
        }
    };
    let clients = std::thread::scope(|scope| -> Result<Vec<Client>> {
        let work = &work;
        let threads: Vec<_> = Client::all().map(|client| scope.spawn(move || work(client))).collect();
        while began.elapsed() < span && end.pause(Duration::from_millis(100)) {
            let passed = (began.elapsed().as_millis() * 1000 / span.as_millis()) as u64;
            let (calls, longest) = (calls.load(Ordering::Relaxed), longest.load(Ordering::Relaxed));
            log.look(&device, passed.min(1000), calls, longest).inspect_err(|_| end.come())?;
        }
        end.come();
        let ended = threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| "a client panicked")?.map_err(Into::into));
        ended.collect()
    });
    // A call is at least as long as the longest I/O that it waits for.
    let statistics = device.statistics();
    for op in [Op::Read, Op::Write, Op::Flush] {
        let longest = statistics.latency(op).map(|(nanos, _)| nanos).max().unwrap_or(0);
        println!("the disk's longest {op}: {:.1} ms", longest as f64 / 1e6);
    }
    drop(device);
    std::fs::remove_file(file)?;
    Ok(log.end(&clients?))
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (params, args) = match args[..] {
        ["--cache", params, ..] => (format!(", {params}"), &args[2..]),
        _ => (String::new(), &args[..]),
    };
    let well = match args {
        [] => simulated(Duration::from_secs(60), &params)?,
        ["--virtual", time] => simulated(parse_time(time)?, &params)?,
        ["--real", time, file] => real(parse_time(time)?, file, &params)?,
        _ => {
            return Err(
                "usage: cache_endurance [--cache PARAMETERS] [--virtual TIME | --real TIME FILE]".into()
            );
        }
    };
    std::process::exit(i32::from(!well));
}
