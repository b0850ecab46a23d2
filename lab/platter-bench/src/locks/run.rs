//! Carries the measurement out.

use super::report::Round;
use super::{Caller, LocksError, Options, Point, Report};
use crate::io::Usage;
use platter_disk::device::Device;
use platter_disk::lock_meter::{self, LockMeter};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Most threads of a point.
const MOST_THREADS: usize = 1024;

/// Longest sleep before the flag of an interruption is looked at.
const NAP: Duration = Duration::from_millis(20);

/// Measures the locks of the devices, each with its name in the report. `show` is told what is measured next.
///
/// # Errors
/// Invalid options; devices without room for a block, or in virtual time, which takes no processor time; failed reads.
pub fn run(
    devices: &[(String, Device)],
    options: &Options,
    interrupted: &AtomicBool,
    show: &mut dyn FnMut(&str),
) -> Result<Report, LocksError> {
    check(devices, options)?;
    let mut points: Vec<Point> = Vec::new();
    for &caller in &options.callers {
        for &threads in &options.threads {
            points.extend(devices.iter().map(|(on, _)| Point::new(on, caller, threads)));
        }
    }
    let mut is_over = false;
    for round in 0..options.repeat {
        for (at, point) in points.iter_mut().enumerate() {
            show(&format!("round {} of {}: {}", round + 1, options.repeat, point.describe()));
            let (_, device) = &devices[at % devices.len()];
            if !measure(device, point, options, interrupted)? {
                is_over = true;
                break;
            }
        }
        if is_over {
            break;
        }
    }
    points.retain(|point| !point.rounds.is_empty());
    if points.is_empty() {
        return Err(LocksError::Interrupted);
    }
    Ok(Report {
        options: options.clone(),
        clock_ns: lock_meter::clock_cost().0,
        interrupted: is_over,
        points,
    })
}

fn check(devices: &[(String, Device)], options: &Options) -> Result<(), LocksError> {
    let wrong = |text: String| Err(LocksError::Option(text));
    if devices.is_empty() || options.callers.is_empty() || options.threads.is_empty() {
        return wrong("give at least one device, one caller and one number of threads".to_owned());
    }
    if let Some(threads) = options.threads.iter().find(|&&threads| threads == 0 || threads > MOST_THREADS) {
        return wrong(format!("--threads {threads}: must be 1 to {MOST_THREADS}"));
    }
    if options.repeat == 0 || options.runtime.is_zero() {
        return wrong("--repeat and --runtime must be greater than 0".to_owned());
    }
    for (on, device) in devices {
        let (size, unit) = (device.size(), u64::from(device.geometry().limits.logical_block));
        if options.block == 0 || !options.block.is_multiple_of(unit) || options.block > size {
            return Err(LocksError::Unfit(format!(
                "--block {}: {on} has blocks of {unit} and {size} bytes, so a multiple of {unit} up to {size}",
                options.block
            )));
        }
        if device.clock().simulated().is_some() {
            return Err(LocksError::Unfit(format!(
                "{on} is simulated: its time is virtual and shows no use of locks; give null(1T), ram(1G) or a file"
            )));
        }
    }
    Ok(())
}

/// Measures a point once without the meter and once with it. `false`: interrupted.
fn measure(
    device: &Device,
    point: &mut Point,
    options: &Options,
    interrupted: &AtomicBool,
) -> Result<bool, LocksError> {
    let work = Work { device, caller: point.caller, threads: point.threads, options, interrupted };
    let before = Usage::now();
    let Some((ios, wall)) = work.run(&mut || ())? else { return Ok(false) };
    let usage = Usage::now().since(&before);
    point.rounds.push(Round {
        ios_per_s: ios as f64 / wall.as_secs_f64(),
        cpu_ns_per_io: per(usage.cpu_ns(), ios),
        switches_per_io: per(usage.voluntary_switches + usage.involuntary_switches, ios),
    });
    let mut meter = None;
    let counters = device.counters();
    let metered = work.run(&mut || meter = LockMeter::start())?;
    let readings = meter.ok_or(LocksError::Metered)?.finish();
    let Some((ios, wall)) = metered else { return Ok(false) };
    point.add_metered(ios, wall, readings, &device.counters().since(&counters));
    Ok(true)
}

fn per(count: u64, ios: u64) -> f64 {
    count as f64 / ios.max(1) as f64
}

struct Work<'a> {
    device: &'a Device,
    caller: Caller,
    threads: usize,
    options: &'a Options,
    interrupted: &'a AtomicBool,
}

impl Work<'_> {
    /// Reads with all threads. `ready` is called when they exist. Returns the reads and the time; `None`: interrupted.
    fn run(&self, ready: &mut dyn FnMut()) -> Result<Option<(u64, Duration)>, LocksError> {
        let (stop, start) = (AtomicBool::new(false), Barrier::new(self.threads + 1));
        let read = |number: usize| {
            start.wait();
            let result = self.caller.read(self.device, (number as u64) << 40, self.options.block, &stop);
            // One failed thread ends the measurement.
            stop.fetch_or(result.is_err(), Ordering::Relaxed);
            result
        };
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for number in 0..self.threads {
                let thread = std::thread::Builder::new().spawn_scoped(scope, move || read(number));
                match thread {
                    Ok(thread) => threads.push(thread),
                    Err(error) => {
                        stop.store(true, Ordering::Relaxed);
                        // Lets the threads that wait go.
                        for _ in threads.len()..=self.threads {
                            scope.spawn(|| start.wait());
                        }
                        return Err(LocksError::Thread(error));
                    }
                }
            }
            ready();
            start.wait();
            let begin = Instant::now();
            let mut left = self.options.runtime;
            while !left.is_zero()
                && !stop.load(Ordering::Relaxed)
                && !self.interrupted.load(Ordering::Relaxed)
            {
                std::thread::sleep(left.min(NAP));
                left = self.options.runtime.saturating_sub(begin.elapsed());
            }
            let is_over = self.interrupted.load(Ordering::Relaxed);
            stop.store(true, Ordering::Relaxed);
            let mut ios = 0;
            for thread in threads {
                ios += thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            }
            Ok((!is_over).then(|| (ios, begin.elapsed())))
        })
    }
}
