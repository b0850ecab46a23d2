//! The queues' trace events, with blktrace's meanings, as text or in blktrace's binary format.
//!
//! Each event has the time at which it happens, by the clock of its device: the host's, or the virtual one.
//! (An [`Event`] carries the time of its batch, which the queue read once: all events of an I/O that
//! completes within the call that submitted it would have the same time.) The time is read with the output
//! locked, so the events of all queues are in order of time.
//!
//! - [`Format::Text`] has the columns of `blkparse`.
//! - [`Format::Blktrace`] is the format that `blktrace` and `blkparse -d` write: `btt -i FILE`, `blkparse -i
//!   - < FILE` and `iowatcher` (if the name ends in `.dump`) read it.
//!
//! Devices are numbered from 0,0 in the order of the run, and a message names each. The processor column is
//! the number of the queue, and the process is that of the bio ([`Context`](platter_block::bio::Context)): for events of a
//! queue, and bios without one, this process.

mod binary;
mod text;

use crate::clock;
use crate::device::Device;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use platter_block::backend::Backend;
use platter_block::time::Time;
use platter_block::trace::{Event, Sink};

/// The name of the process in every event.
const PROCESS: &str = "platter";
/// Bytes of a sector.
const SECTOR: u64 = 512;

/// How events are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// A line for each, in the columns of `blkparse`.
    #[default]
    Text,
    /// The records of `blktrace`, those of all devices and queues in one file.
    Blktrace,
}

/// Where and when an event happened.
#[derive(Clone, Copy, Debug, Default)]
struct Stamp {
    device: u32,
    queue: u32,
    /// Number of the event among those of its queue, from 1 on.
    sequence: u32,
    /// Since the trace began, in ns.
    ns: u64,
    /// The process of the bio; 0: none.
    process: u32,
}

impl Stamp {
    /// The number in the column of the process.
    fn process(self) -> u32 {
        if self.process == 0 { std::process::id() } else { self.process }
    }
}

/// Where the events go; shared by all queues.
struct Output {
    /// `None` after the end: queues that have not run since then still have their sinks.
    to: Option<Box<dyn Write + Send>>,
    format: Format,
    /// The processes whose names were written.
    named: BTreeSet<u32>,
    error: Option<io::Error>,
}

impl Output {
    fn write(&mut self, bytes: &[u8]) {
        if self.error.is_none()
            && let Some(to) = &mut self.to
            && let Err(error) = to.write_all(bytes)
        {
            self.error = Some(error);
        }
    }

    fn begin(&mut self) {
        if self.format == Format::Blktrace {
            self.write(&binary::begin());
        }
    }

    fn name(&mut self, device: u32, name: &str) {
        let bytes = match self.format {
            Format::Text => text::name(device, name).into_bytes(),
            Format::Blktrace => binary::name(device, name),
        };
        self.write(&bytes);
    }

    fn event(&mut self, at: Stamp, event: &Event) {
        match self.format {
            Format::Text => self.write(text::event(at, event).as_bytes()),
            Format::Blktrace => {
                if at.process != 0 && self.named.insert(at.process) {
                    self.write(&binary::process(at));
                }
                self.write(&binary::event(at, event));
            }
        }
    }
}

type Shared = Arc<Mutex<Output>>;

/// Traces the queues of devices from [`start`](Tracer::start) to [`finish`](Tracer::finish).
pub struct Tracer {
    output: Shared,
    disks: Vec<Arc<dyn Backend>>,
}

impl Tracer {
    /// Sends the events of all queues below `devices` to `to`: of the shared queues at once, of each lane from its next
    /// batch on.
    pub fn start(devices: &[Device], format: Format, to: Box<dyn Write + Send>) -> Self {
        let output =
            Arc::new(Mutex::new(Output { to: Some(to), format, named: BTreeSet::new(), error: None }));
        let mut disks = Vec::new();
        let mut stack: Vec<Arc<dyn Backend>> =
            devices.iter().rev().map(|d| Arc::clone(d.backend())).collect();
        while let Some(backend) = stack.pop() {
            let below = backend.below();
            if below.is_empty() {
                disks.push(backend);
            }
            stack.extend(below.into_iter().rev());
        }
        let origin = devices.first().map_or_else(clock::now, |device| device.clock().now());
        lock(&output).begin();
        for (device, backend) in disks.iter().enumerate() {
            let device = device as u32;
            lock(&output).name(device, &backend.name());
            let queues = AtomicU32::new(0);
            let (output, simulated) = (Arc::clone(&output), backend.clock().is_some());
            backend.trace(Some(Arc::new(move || {
                let queue = queues.fetch_add(1, Relaxed);
                let output = Arc::clone(&output);
                Box::new(QueueSink { output, simulated, origin, device, queue, sequence: 0 }) as Box<dyn Sink>
            })));
        }
        Self { output, disks }
    }

    /// The first write that failed, if one has: no event is written after it.
    pub fn error(&self) -> Option<String> {
        lock(&self.output).error.as_ref().map(ToString::to_string)
    }

    /// Stops tracing and writes the remaining events. No event is written after that.
    ///
    /// # Errors
    /// The first write that failed; later events are missing.
    pub fn finish(self) -> io::Result<()> {
        for backend in &self.disks {
            backend.trace(None);
        }
        let mut output = lock(&self.output);
        let to = output.to.take();
        match (output.error.take(), to) {
            (Some(error), _) => Err(error),
            (None, Some(mut to)) => to.flush(),
            (None, None) => Ok(()),
        }
    }
}

fn lock(output: &Shared) -> std::sync::MutexGuard<'_, Output> {
    output.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The events of one queue.
struct QueueSink {
    output: Shared,
    /// Whether the time is virtual.
    simulated: bool,
    origin: Time,
    device: u32,
    queue: u32,
    sequence: u32,
}

impl Sink for QueueSink {
    fn event(&mut self, event: &Event) {
        self.sequence = self.sequence.wrapping_add(1);
        let mut output = lock(&self.output);
        // In virtual time nothing passes within a batch: its time is that of the event.
        let now = if self.simulated { event.time } else { clock::now() };
        let ns = now.since(self.origin).0;
        let QueueSink { device, queue, sequence, .. } = *self;
        output.event(Stamp { device, queue, sequence, ns, process: event.context }, event);
    }
}
