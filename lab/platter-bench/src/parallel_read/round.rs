//! One round of one mode: a thread for each device, all begin at once.

use super::options::{Disk, Mode, Opened, Options};
use super::{ParallelReadError, Round};
use crate::device_stats::DeviceStats;
use crate::dm::machine::{Ticks, process_cpu_ns};
use crate::io::StartGate;
use crate::ladder;
use platter_disk::handle::Handle;
use platter_disk::pool::{PAGE, Pool, PoolBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, ScopedJoinHandle};
use std::time::Instant;

/// Opens the devices and reads them. `None`: it was interrupted.
pub(super) fn measure(
    disks: &[Disk<'_>],
    mode: Mode,
    options: &Options,
    cancel: &AtomicBool,
) -> Result<Option<(Round, DeviceStats)>, ParallelReadError> {
    let opened: Vec<Opened> = disks.iter().map(|disk| (disk.open)(mode)).collect::<Result<_, _>>()?;
    let mut jobs = Vec::with_capacity(opened.len());
    for disk in &opened {
        jobs.push(Job::new(disk, mode, options)?);
    }
    let gate = StartGate::default();
    let failed = AtomicBool::new(false);
    let (send, ready) = channel();
    std::thread::scope(|scope| {
        let mut threads: Vec<ScopedJoinHandle<'_, _>> = Vec::with_capacity(jobs.len());
        let mut refused = None;
        for (number, job) in jobs.into_iter().enumerate() {
            let (gate, failed, ready) = (&gate, &failed, send.clone());
            let work = move || {
                let ended = job.work(gate, &ready, &[cancel, failed]);
                failed.fetch_or(ended.is_err(), Ordering::Relaxed);
                ended
            };
            match Builder::new().name(format!("reader{number}")).spawn_scoped(scope, work) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    refused = Some(ParallelReadError::Thread(error));
                    break;
                }
            }
        }
        drop(send);
        let all_ready = refused.is_none() && (0..threads.len()).all(|_| ready.recv().is_ok());
        let (ticks, cpu, began) = (Ticks::now(), process_cpu_ns(), Instant::now());
        gate.open(all_ready);
        let (mut ends, mut bytes) = (Vec::new(), 0);
        for thread in threads {
            match thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
                Ok((end, read)) => {
                    ends.push(end);
                    bytes += read;
                }
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        if let Some(error) = refused {
            return Err(error);
        }
        let cpu_ns = process_cpu_ns() - cpu;
        let cpu_idle_pct = ticks.and_then(|before| Ticks::now()?.idle_pct_since(before));
        let (Some(first), Some(last)) = (ends.iter().min(), ends.iter().max()) else { return Ok(None) };
        if cancel.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let seconds = last.duration_since(began).as_secs_f64();
        let round = Round {
            seconds,
            bytes,
            mib_per_s: bytes as f64 / f64::from(1 << 20) / seconds.max(1e-9),
            cpu_idle_pct,
            process_cpu_s: cpu_ns as f64 / 1e9,
            finish_spread_s: last.duration_since(*first).as_secs_f64(),
        };
        Ok(Some((round, DeviceStats::of_all(opened.iter().map(Opened::device)))))
    })
}

/// The reader of a device.
enum Reader {
    Handle(Handle),
    Raw(ladder::Handle),
}

impl Reader {
    fn read(&mut self, buffer: &mut [u8], pos: u64) -> Result<(), platter_block::fault::Error> {
        match self {
            Reader::Handle(handle) => handle.read_at(buffer, pos),
            Reader::Raw(handle) => handle.read_at(buffer, pos),
        }
    }
}

/// The work of one thread.
struct Job {
    reader: Reader,
    buffer: PoolBuf,
    bytes: u64,
}

impl Job {
    fn new(disk: &Opened, mode: Mode, options: &Options) -> Result<Job, ParallelReadError> {
        let device = disk.device();
        if device.clock().simulated().is_some() {
            return Err(ParallelReadError::Option(format!(
                "{} is simulated: what this measures, the machine's processors and its threads, has no virtual time; \
                 use `bench io` or `bench chunked`",
                device.name()
            )));
        }
        let bytes = options.bytes_of(mode, device)?;
        let align = PAGE.max(device.geometry().limits.memory_align as usize);
        let pool = Pool::new(1, options.block_of(mode) as usize, align)?;
        let buffer = pool.take().expect("a new pool has its one buffer");
        let reader = match disk {
            Opened::Device(device) => Reader::Handle(device.handle()),
            Opened::Ladder(ladder) => Reader::Raw(ladder.handle()?),
        };
        Ok(Job { reader, buffer, bytes })
    }

    /// Reads from the beginning to the end; when that was, and how much.
    fn work(
        mut self,
        gate: &StartGate,
        ready: &Sender<()>,
        stop: &[&AtomicBool],
    ) -> Result<(Instant, u64), ParallelReadError> {
        // Memory that the kernel has not given yet would cost the first read.
        self.buffer.fill(0xff);
        // The receiver exists until every thread has sent.
        let _ = ready.send(());
        let mut pos = 0;
        if gate.wait() {
            while pos < self.bytes && !stop.iter().any(|stop| stop.load(Ordering::Relaxed)) {
                self.reader.read(&mut self.buffer, pos)?;
                pos += self.buffer.len() as u64;
            }
        }
        Ok((Instant::now(), pos))
    }
}
