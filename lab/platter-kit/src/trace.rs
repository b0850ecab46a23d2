//! The I/Os of an engine, as its disks took them.

use platter_block::bio::Op;
use platter_sim::SimDisk;
use platter_sim::model::Command;
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One command of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) disk: u32,
    pub(super) op: Op,
    pub(super) fua: bool,
    /// Of this command and all before it, with their data.
    pub(super) digest: u64,
}

impl Taken {
    /// Whether it makes something durable: a flush, or a write with FUA.
    pub(super) fn is_durable(&self) -> bool {
        self.op == Op::Flush || self.fua
    }
}

/// The commands of one part of a trial.
#[derive(Clone, Debug, Default)]
pub(super) struct Trace(Vec<Taken>);

impl FromIterator<Taken> for Trace {
    fn from_iter<I: IntoIterator<Item = Taken>>(items: I) -> Trace {
        Trace(items.into_iter().collect())
    }
}

impl Trace {
    pub(super) fn len(&self) -> u64 {
        self.0.len() as u64
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Taken> {
        self.0.iter()
    }

    /// The numbers of the commands from `first` on that are no reads.
    pub(super) fn changes(&self, first: u64) -> Vec<u64> {
        let numbered = (0..).zip(&self.0).skip(first as usize);
        numbered.filter(|(_, taken)| taken.op != Op::Read).map(|(io, _)| io).collect()
    }

    /// Whether `whole` begins with these commands.
    pub(super) fn is_start_of(&self, whole: &Trace) -> bool {
        match self.0.last() {
            Some(last) => whole.0.get(self.0.len() - 1) == Some(last),
            None => true,
        }
    }
}

/// Records what the disks of a trial take.
#[derive(Clone, Default)]
pub(super) struct Recorder(Arc<Mutex<Trace>>);

impl Recorder {
    pub(super) fn attach(&self, disks: &[SimDisk]) {
        for (number, disk) in (0..).zip(disks) {
            let recorder = self.clone();
            disk.observe(move |command, data| recorder.record(number, command, data));
        }
    }

    /// The commands since the last call.
    pub(super) fn take(&self) -> Trace {
        std::mem::take(&mut self.lock())
    }

    fn record(&self, disk: u32, command: &Command, data: &[u8]) {
        let mut trace = self.lock();
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(trace.0.last().map_or(0, |taken| taken.digest));
        hasher.write_u32(disk);
        hasher.write_u8(command.op as u8);
        hasher.write_u8(command.fua.into());
        hasher.write_u64(command.sector);
        hasher.write_u32(command.sectors);
        hasher.write(data);
        trace.0.push(Taken { disk, op: command.op, fua: command.fua, digest: hasher.finish() });
    }

    fn lock(&self) -> MutexGuard<'_, Trace> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
