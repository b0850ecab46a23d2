//! Carries the measurement out.

use super::client::Client;
use super::report::Round;
use super::{NbdBenchError, Options, Point, Report, Transfer, Way};
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_remote::nbd::client::{NbdDisk, NbdOptions};
use platter_remote::nbd::uri::Uri;
use platter_serve::export;
use platter_serve::served::Served;
use platter_serve::server::Server;
use rustix::time::{ClockId, clock_gettime};
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Longest sleep before the flag of an interruption is looked at.
const NAP: Duration = Duration::from_millis(20);
/// Time that the server has to stop.
const STOP: Duration = Duration::from_secs(30);
const MOST_DEPTH: usize = 1024;
const MOST_CONNECTIONS: usize = 64;
/// Longest request that the protocol's servers must take.
const MOST_BLOCK: u64 = 32 << 20;

/// Measures the NBD server over `device`, called `on` in the report. Writes go to random positions of the device. `show` is
/// told what is measured next.
///
/// # Errors
/// Invalid options; a device that is too small, or in virtual time; the server or a request fails.
pub fn run(
    on: &str,
    device: &Device,
    options: &Options,
    interrupted: &AtomicBool,
    show: &mut dyn FnMut(&str),
) -> Result<Report, NbdBenchError> {
    check(on, device, options)?;
    let folder = Folder::new()?;
    let mut points = points(options);
    let mut is_over = false;
    'rounds: for round in 0..options.repeat {
        for pair in points.chunks_mut(Way::ALL.len()) {
            let count = pair.len();
            for at in 0..count {
                // The way that is measured first alternates.
                let point = &mut pair[(at + round as usize) % count];
                show(&format!("round {} of {}: {}", round + 1, options.repeat, describe(point)));
                if !measure(device, point, options, &folder.0, interrupted)? {
                    is_over = true;
                    break 'rounds;
                }
            }
        }
    }
    points.retain(|point| !point.rounds.is_empty());
    if points.is_empty() {
        return Err(NbdBenchError::Interrupted);
    }
    Ok(Report { on: on.to_owned(), options: options.clone(), interrupted: is_over, points })
}

fn points(options: &Options) -> Vec<Point> {
    let mut points = Vec::new();
    for &transfer in &options.transfers {
        for &block in &options.blocks {
            for &depth in &options.depths {
                let point = |way| {
                    let (payload_bytes, copied_bytes, rounds) = (0, 0, Vec::new());
                    Point { transfer, block, depth, way, payload_bytes, copied_bytes, rounds }
                };
                points.extend(Way::ALL.map(point));
            }
        }
    }
    points
}

fn describe(point: &Point) -> String {
    format!("{} of {} bytes, depth {}, {}", point.transfer.name(), point.block, point.depth, point.way.name())
}

fn check(on: &str, device: &Device, options: &Options) -> Result<(), NbdBenchError> {
    let wrong = |text: String| Err(NbdBenchError::Option(text));
    if options.transfers.is_empty() || options.blocks.is_empty() || options.depths.is_empty() {
        return wrong("give at least one transfer, one block and one depth".to_owned());
    }
    if let Some(depth) = options.depths.iter().find(|&&depth| depth == 0 || depth > MOST_DEPTH) {
        return wrong(format!("--depth {depth}: must be 1 to {MOST_DEPTH}"));
    }
    if options.connections == 0 || options.connections > MOST_CONNECTIONS {
        return wrong(format!("--connections {}: must be 1 to {MOST_CONNECTIONS}", options.connections));
    }
    if options.repeat == 0 || options.runtime.is_zero() {
        return wrong("--repeat and --runtime must be greater than 0".to_owned());
    }
    if device.clock().simulated().is_some() {
        return Err(NbdBenchError::Unfit(format!(
            "{on} is simulated: its time is virtual and shows nothing of the server; give ram(1G), null(1T) or a file"
        )));
    }
    let (size, unit) = (device.size(), u64::from(device.geometry().limits.logical_block));
    let most = size.min(MOST_BLOCK);
    let bad = |block: &&u64| **block == 0 || !block.is_multiple_of(unit) || **block > most;
    if let Some(block) = options.blocks.iter().find(bad) {
        return Err(NbdBenchError::Unfit(format!(
            "--block {block}: must be a multiple of {unit} up to {most}, because of {on}"
        )));
    }
    if options.transfers.contains(&Transfer::Write) && device.geometry().features.read_only {
        return Err(NbdBenchError::Unfit(format!("{on} is read-only; give --transfer read")));
    }
    Ok(())
}

/// A folder of its own for the socket; removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder, NbdBenchError> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("platter-bench-{}-{number}", std::process::id()));
        let made = std::fs::create_dir(&path);
        made.map_err(|error| NbdBenchError::System { what: "a folder for the socket", error })?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // It is in the folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The processor time of the process.
fn process_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Measures a point once. `false`: interrupted.
fn measure(
    device: &Device,
    point: &mut Point,
    options: &Options,
    folder: &Path,
    interrupted: &AtomicBool,
) -> Result<bool, NbdBenchError> {
    let mut server = Server::default();
    server.devices().add(Served::new("disk", device.clone())?)?;
    let mut serve = export::Options::default();
    serve.depth = point.depth;
    serve.client_memory_bytes = serve.client_memory_bytes.max(2 * point.depth * point.block as usize);
    serve.staged = point.way == Way::Copying;
    let socket = folder.join("nbd");
    server.start("nbd", &format!("unix:{}", socket.display()), &serve)?;
    // One connection more, for what the device itself asks.
    let nbd = NbdOptions::default()
        .with_write(point.transfer == Transfer::Write)
        .with_depth(point.depth as u32)
        .with_connections(options.connections as u32 + 1);
    let disk = NbdDisk::open(Uri::unix(socket, "disk"), nbd)?;
    let remote = Device::from_disk(disk, DiskSettings::default(), None)?;
    let measured = load(&server, &remote, point, options, interrupted);
    drop(remote);
    let stopped = server.stop(STOP).map_err(|problems| NbdBenchError::Stuck(problems.join("; ")));
    let Some(load) = measured? else { return Ok(false) };
    stopped?;
    let count = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
    let (mut requests, mut payload) = (0, 0);
    for client in &load.clients {
        let counts = &client.counts;
        requests += count(&counts.reads) + count(&counts.writes);
        payload += count(&counts.read_bytes) + count(&counts.written_bytes);
        point.copied_bytes += count(&counts.copied_bytes);
    }
    point.payload_bytes += payload;
    let per = |time: Duration| time.as_nanos() as f64 / requests.max(1) as f64;
    point.rounds.push(Round {
        requests_per_s: requests as f64 / load.wall.as_secs_f64(),
        server_cpu_ns: per(load.process.saturating_sub(load.clients_time)),
        client_cpu_ns: per(load.clients_time),
    });
    Ok(true)
}

/// What a load has cost.
struct Load {
    wall: Duration,
    process: Duration,
    clients_time: Duration,
    clients: Vec<std::sync::Arc<platter_serve::clients::Client>>,
}

/// Runs the clients. `None`: interrupted.
fn load(
    server: &Server,
    remote: &Device,
    point: &Point,
    options: &Options,
    interrupted: &AtomicBool,
) -> Result<Option<Load>, NbdBenchError> {
    let (stop, start) = (AtomicBool::new(false), Barrier::new(options.connections + 1));
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for number in 0..options.connections {
            let (transfer, block, depth) = (point.transfer, point.block, point.depth);
            let client = Client { device: remote, transfer, block, depth, seed: (number as u64) << 40 };
            let (start, stop) = (&start, &stop);
            let run = move || {
                let result = client.run(start, stop);
                // One failed client ends the measurement.
                stop.fetch_or(result.is_err(), Ordering::Relaxed);
                result
            };
            match std::thread::Builder::new().spawn_scoped(scope, run) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    stop.store(true, Ordering::Relaxed);
                    // Lets the threads that wait go.
                    for _ in threads.len()..=options.connections {
                        scope.spawn(|| start.wait());
                    }
                    return Err(NbdBenchError::System { what: "another thread", error });
                }
            }
        }
        start.wait();
        let (begin, before) = (Instant::now(), process_time());
        let mut left = options.runtime;
        while !left.is_zero() && !stop.load(Ordering::Relaxed) && !interrupted.load(Ordering::Relaxed) {
            std::thread::sleep(left.min(NAP));
            left = options.runtime.saturating_sub(begin.elapsed());
        }
        let is_over = interrupted.load(Ordering::Relaxed);
        // While they are connected: their counts are read when the server has stopped.
        let clients = server.clients().list();
        stop.store(true, Ordering::Relaxed);
        let mut clients_time = Duration::ZERO;
        for thread in threads {
            clients_time += thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        let (wall, process) = (begin.elapsed(), process_time().saturating_sub(before));
        Ok((!is_over).then_some(Load { wall, process, clients_time, clients }))
    })
}
