//! The queue in the drive and which of its commands the arm goes to next.

use super::cache::{Cache, Hit};
use super::mech::{Arm, Mechanics};
use super::zones::Run;
use platter_block::bio::Op;

/// Which waiting command is served next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// No queue: one command at a time.
    #[default]
    None,
    /// In order of arrival.
    Fcfs,
    /// The next higher sector; from the highest back to the lowest (C-LOOK).
    CLook,
    /// The nearest sector number (SSTF).
    Sstf,
    /// The shortest positioning time: seek, rotation and settling (SPTF). Commands with their data in the
    /// buffer come first.
    Sptf,
}

/// A command that waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) tag: u32,
    pub(crate) op: Op,
    pub(crate) fua: bool,
    /// The command before it was a write.
    pub(crate) after_write: bool,
    pub(crate) sectors: u32,
    pub(crate) sector: u64,
    /// Time of arrival plus the overhead of each request.
    pub(crate) arrived: u64,
    /// When its own overhead allows the arm to move.
    pub(crate) ready: u64,
    /// Position of its first sector, if the policy uses it.
    pub(crate) run: Option<Run>,
    /// See [`Command::order`](crate::model::Command::order). Never falls from one waiting command to the next.
    pub(crate) order: u64,
}

impl Waiting {
    pub(crate) fn end(&self) -> u64 {
        self.sector + u64::from(self.sectors)
    }

    pub(crate) fn is_write(&self) -> bool {
        self.op != Op::Read
    }
}

/// The state that a choice depends on.
#[derive(Clone, Copy)]
pub(crate) struct Outlook<'a> {
    pub(crate) mechanics: &'a Mechanics,
    pub(crate) cache: &'a Cache,
    pub(crate) arm: Arm,
    /// When the arm can leave.
    pub(crate) now: u64,
    /// Sector after the last that was accessed.
    pub(crate) last: u64,
    pub(crate) minimum_seek: u64,
}

impl Policy {
    /// Whether the policy uses positions.
    pub(crate) fn looks_at_places(self) -> bool {
        self == Policy::Sptf
    }

    /// Index of the next command; `None` if none waits. Equal candidates are taken in order of arrival.
    pub(crate) fn choose(self, waiting: &[Waiting], outlook: Outlook<'_>) -> Option<usize> {
        if waiting.len() <= 1 || matches!(self, Policy::None | Policy::Fcfs) {
            return (!waiting.is_empty()).then_some(0);
        }
        let keys = waiting.iter().enumerate();
        let best = match self {
            Policy::CLook => keys.min_by_key(|(_, one)| (one.sector < outlook.last, one.sector)),
            Policy::Sstf => keys.min_by_key(|(_, one)| one.sector.abs_diff(outlook.last)),
            _ => keys.min_by_key(|(_, one)| positioning(one, &outlook)),
        };
        best.map(|(index, _)| index)
    }
}

/// Time from now until the medium is at the command's first sector.
#[inline]
fn positioning(one: &Waiting, outlook: &Outlook<'_>) -> u64 {
    let Some(run) = &one.run else { return 0 };
    let write = one.is_write();
    if !write && matches!(outlook.cache.find_read(one.sector, one.sectors), Hit::Whole(_)) {
        return 0;
    }
    let start = outlook.now.max(one.ready);
    let time = outlook.mechanics.positioning(outlook.arm, start, run, write);
    let time = if write { time.max(outlook.minimum_seek) } else { time };
    start - outlook.now + time
}
