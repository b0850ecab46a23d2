//! A load element: a process that issues requests to a device, through one channel.

use super::kernel::{self, Window};
use super::meter::Meter;
use super::place::Places;
use super::{Cell, ChunkedError, Harness, Personality};
use crate::stats::Seeded;
use platter_block::bio::Bio;
use platter_block::bio::Op;
use platter_block::fault::{Error as DeviceError, Fault, Kind, Stage};
use platter_block::time::Time;
use platter_disk::channel::Channel;
use platter_disk::device::Device;
use platter_disk::pool::{PAGE, Pool};
use std::sync::Arc;

/// How the requests of a process become bios.
enum Course {
    /// Each is one.
    Whole,
    /// As Linux 2.4 reads.
    Kernel { window: Window, asked: bool },
}

/// A process with its channel, which belongs to the thread that opened it.
pub(super) struct Process {
    device: Arc<str>,
    pub(super) channel: Channel,
    places: Places,
    course: Course,
    meter: Meter,
    request: u64,
    idle: Vec<Bio>,
    tokens: u64,
    over: bool,
}

impl Process {
    /// Process number `index` of a cell.
    pub(super) fn open(
        device: &Device,
        cell: &Cell,
        harness: &Harness,
        index: u64,
    ) -> Result<Process, ChunkedError> {
        let (course, bios, bytes) = match cell.personality {
            Personality::Kernel24 => {
                let (unit, ahead) = cell.kernel_units();
                // A write is known to its end, so there is no readahead.
                let window = Window::new(unit, ahead, cell.overrun && !cell.write, device.size());
                (Course::Kernel { window, asked: false }, kernel::buffers(ahead), unit)
            }
            _ => (Course::Whole, cell.depth(), cell.request),
        };
        let channel = device.channel(bios)?;
        let now = channel.clock().now();
        Ok(Process {
            device: device.name(),
            idle: make_bios(device, cell.write, bios, bytes, harness.seed)?,
            channel,
            places: Places::new(cell.pattern, cell.request, device.size(), harness.seed, index),
            course,
            meter: Meter::new(harness.enough, harness.samples, cell.depth(), now),
            request: cell.request,
            tokens: 0,
            over: false,
        })
    }

    /// Whether it has its samples.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// Its samples in MiB/s.
    pub(super) fn rates(&self) -> impl Iterator<Item = f64> + '_ {
        self.meter.rates(self.request)
    }

    /// Issues all requests that can be issued.
    pub(super) fn start(&mut self, now: Time) -> Result<(), ChunkedError> {
        loop {
            let (pos, len) = match &mut self.course {
                _ if self.idle.is_empty() => return Ok(()),
                Course::Whole => (self.places.next(), self.request),
                Course::Kernel { window, asked } => {
                    if !std::mem::replace(asked, true) {
                        window.ask(self.places.next(), self.request);
                    }
                    // Readahead is requested at each step, including the last.
                    let Some(pos) = window.next() else {
                        if !window.step() {
                            return Ok(());
                        }
                        if window.is_complete() {
                            self.over |= self.meter.completed(now);
                            window.ask(self.places.next(), self.request);
                        }
                        continue;
                    };
                    window.started(pos, self.tokens);
                    (pos, window.unit())
                }
            };
            let Some(mut bio) = self.idle.pop() else { return Ok(()) };
            bio.rewind(pos, len);
            bio.set_token(self.tokens);
            self.tokens += 1;
            if self.channel.submit(bio).is_err() {
                // The channel has room for all bios that there are.
                let fault = Fault::new(Kind::Gone, Stage::Handle);
                return Err(self.error(fault, Op::Read, pos, len));
            }
        }
    }

    /// Takes completions and issues more requests.
    pub(super) fn completed(&mut self, now: Time, done: &mut Vec<Bio>) -> Result<(), ChunkedError> {
        for bio in done.drain(..) {
            if let Err(fault) = bio.status() {
                return Err(self.error(fault, bio.op(), bio.pos(), bio.len()));
            }
            match &mut self.course {
                Course::Whole => self.over |= self.meter.completed(now),
                Course::Kernel { window, .. } => window.arrived(bio.token()),
            }
            self.idle.push(bio);
        }
        self.start(now)
    }

    fn error(&self, fault: Fault, op: Op, offset: u64, len: u64) -> ChunkedError {
        let device = Arc::clone(&self.device);
        DeviceError { fault, op, device, offset, len, detail: String::new() }.into()
    }
}

/// Bios with their own buffers; those to write are filled if the device stores contents.
fn make_bios(
    device: &Device,
    write: bool,
    count: usize,
    bytes: u64,
    seed: u64,
) -> Result<Vec<Bio>, ChunkedError> {
    let align = PAGE.max(device.geometry().limits.memory_align as usize);
    let wrong = |message: String| ChunkedError::Option(format!("buffers for {}: {message}", device.name()));
    let pool = Pool::new(count, bytes as usize, align).map_err(|error| wrong(error.to_string()))?;
    let mut noise = Seeded::stream(seed, 1 << 63);
    let mut bios = Vec::with_capacity(count);
    while let Some(mut buffer) = pool.take() {
        if write && device.clock().simulated().is_none() {
            for part in buffer.chunks_mut(8) {
                part.copy_from_slice(&noise.next_u64().to_le_bytes()[..part.len()]);
            }
        }
        let bio = if write { Bio::write(0, buffer) } else { Bio::read(0, buffer) };
        bios.push(bio.map_err(|_| wrong(format!("{bytes} bytes make no bio")))?);
    }
    Ok(bios)
}
