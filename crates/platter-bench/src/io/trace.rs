//! Trace events as text, in the columns of `blkparse`.
//!
//! Each line: device (major,minor), processor, sequence number, seconds and nanoseconds, process id, action,
//! RWBS, and what the action needs: `sector + count [process]`, for completions `sector + count [error]`, for
//! unplugs `[process] requests`, for splits `sector / new sector [process]`. Devices are numbered from 0,0 on in
//! the order of the run, with a message that names each; the processor is the number of the queue.

use std::io::{self, Write};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use platter_block::backend::Backend;
use platter_block::bio::{Flags, Op};
use platter_block::time::Time;
use platter_block::trace::{Action, Event, Sink};
use platter_disk::clock;
use platter_disk::device::Device;

/// The name that stands in brackets.
const PROCESS: &str = "platter";
/// Bytes of a sector.
const SECTOR: u64 = 512;

/// Where the lines go; shared by all queues.
struct Output {
    to: Box<dyn Write + Send>,
    error: Option<io::Error>,
}

impl Output {
    fn line(&mut self, text: core::fmt::Arguments<'_>) {
        if self.error.is_none()
            && let Err(error) = self.to.write_fmt(text)
        {
            self.error = Some(error);
        }
    }
}

type Shared = Arc<Mutex<Output>>;

/// Traces the queues of devices from [`start`](Tracer::start) to [`finish`](Tracer::finish).
pub struct Tracer {
    output: Shared,
    leaves: Vec<Arc<dyn Backend>>,
}

impl Tracer {
    /// Sends the events of all queues below `devices` to `to`: of lanes that are opened from now on. Lines of
    /// different queues come in the order in which they happened only if sorted by time, as with blktrace.
    pub fn start(devices: &[Device], to: Box<dyn Write + Send>) -> Self {
        let output = Arc::new(Mutex::new(Output { to, error: None }));
        let mut leaves = Vec::new();
        let mut stack: Vec<Arc<dyn Backend>> =
            devices.iter().rev().map(|d| Arc::clone(d.backend())).collect();
        while let Some(backend) = stack.pop() {
            let below = backend.below();
            if below.is_empty() {
                leaves.push(backend);
            }
            stack.extend(below.into_iter().rev());
        }
        let origin = devices.first().map_or_else(clock::now, |device| device.clock().now());
        for (minor, leaf) in leaves.iter().enumerate() {
            let minor = minor as u32;
            let name = leaf.name();
            lock(&output).line(format_args!("{} m   N {name}\n", head(minor, 0, 0, 0)));
            let queues = AtomicU32::new(0);
            let output = Arc::clone(&output);
            leaf.trace(Some(Arc::new(move || {
                let queue = queues.fetch_add(1, Relaxed);
                let output = Arc::clone(&output);
                Box::new(TextSink { output, minor, queue, sequence: 0, origin }) as Box<dyn Sink>
            })));
        }
        Self { output, leaves }
    }

    /// Stops tracing and writes out what is left.
    ///
    /// # Errors
    /// The first write that failed; the lines after it are missing.
    pub fn finish(self) -> io::Result<()> {
        for leaf in &self.leaves {
            leaf.trace(None);
        }
        let mut output = lock(&self.output);
        match output.error.take() {
            Some(error) => Err(error),
            None => output.to.flush(),
        }
    }
}

fn lock(output: &Shared) -> std::sync::MutexGuard<'_, Output> {
    output.lock().unwrap_or_else(PoisonError::into_inner)
}

struct TextSink {
    output: Shared,
    minor: u32,
    queue: u32,
    sequence: u32,
    origin: Time,
}

impl Sink for TextSink {
    fn event(&mut self, event: &Event) {
        self.sequence = self.sequence.wrapping_add(1);
        let head = head(self.minor, self.queue, self.sequence, event.time.since(self.origin).0);
        let (letter, rwbs) = (event.action.letter(), rwbs(event));
        let tail = tail(event);
        lock(&self.output).line(format_args!("{head} {letter:>2} {rwbs:>3} {tail}\n"));
    }
}

/// The columns up to the process id: `%D %2c %8s %5T.%9t %5p`.
fn head(minor: u32, queue: u32, sequence: u32, ns: u64) -> String {
    let (seconds, rest) = (ns / 1_000_000_000, ns % 1_000_000_000);
    format!("  0,{minor:<3} {queue:>2} {sequence:>8} {seconds:>5}.{rest:09} {:>5}", process::id())
}

fn tail(event: &Event) -> String {
    let (sector, count) = (event.pos / SECTOR, event.len / SECTOR);
    match event.action {
        Action::Plug => format!("[{PROCESS}]"),
        Action::Unplug | Action::UnplugTimer => format!("[{PROCESS}] {}", event.extra),
        Action::Complete => format!("{sector} + {count} [{}]", event.errno),
        Action::Split => format!("{sector} / {} [{PROCESS}]", event.extra),
        _ => format!("{sector} + {count} [{PROCESS}]"),
    }
}

/// What an I/O is, in blkparse's letters: a flush before it (F), its direction (R, W, D, or N for none), forced
/// unit access (F), readahead (A), sync (S).
fn rwbs(event: &Event) -> String {
    let mut text = String::with_capacity(5);
    let flush = event.op == Op::Flush || event.flags.intersects(Flags::PREFLUSH | Flags::HARD_BARRIER);
    if flush {
        text.push('F');
    }
    text.push(match event.op {
        Op::Discard => 'D',
        Op::Write | Op::WriteZeroes | Op::Flush => 'W',
        Op::Read if event.len == 0 => 'N',
        Op::Read => 'R',
    });
    let letters = [(Flags::FUA, 'F'), (Flags::READAHEAD, 'A'), (Flags::SYNC, 'S')];
    text.extend(letters.iter().filter(|(flag, _)| event.flags.contains(*flag)).map(|(_, letter)| *letter));
    text
}
