//! The steps of a process.

use super::cache::CacheSettings;
use platter_block::bio::{Context, IoPrio, Op};
use platter_block::time::Span;

/// Slots of a process: numbers under which it waits for I/Os.
pub(super) const SLOTS: usize = 8;

/// One step of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Starts an I/O and continues.
    Start {
        /// Read, write or flush.
        op: Op,
        /// First byte on the device.
        offset: u64,
        /// Bytes; 0 for a flush.
        len: u64,
        /// Slot to wait for it by, 0 to 7.
        slot: u8,
    },
    /// Waits until no I/O of the slot is in flight.
    Await(u8),
    /// Computes, or sleeps.
    Think(Span),
    /// Writes into the page cache; waits while too much is dirty.
    Dirty {
        /// First byte on the device.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// Waits until everything that the process has dirtied is written, then flushes the device.
    Sync,
}

/// The steps of a process, made one after the other.
pub type Steps = Box<dyn Iterator<Item = Step> + Send>;

/// A process: its identity and its steps.
pub struct Process {
    /// Name in reports.
    pub name: String,
    /// Its identity to the elevator.
    pub context: Context,
    /// Priority of all its I/Os.
    pub ioprio: IoPrio,
    /// When it starts, counted from the start of the run.
    pub after: Span,
    /// The run does not wait for its end.
    pub background: bool,
    /// Its share of the page cache.
    pub cache: CacheSettings,
    /// Its steps.
    pub steps: Steps,
}

impl Process {
    /// A process with its own number that starts at once, without a priority.
    pub fn new(name: impl Into<String>, number: u32, steps: Steps) -> Process {
        Process {
            name: name.into(),
            context: Context::new(number),
            ioprio: IoPrio::NONE,
            after: Span::ZERO,
            background: false,
            cache: CacheSettings::default(),
            steps,
        }
    }

    /// The same with a priority.
    pub fn ioprio(self, ioprio: IoPrio) -> Process {
        Process { ioprio, ..self }
    }

    /// The same, started later.
    pub fn after(self, after: Span) -> Process {
        Process { after, ..self }
    }

    /// The same, but the run does not wait for its end.
    pub fn in_background(self) -> Process {
        Process { background: true, ..self }
    }
}
