//! Shared parts of the drivers' tests: a file for I/O, and a queue over a driver.

use super::file_target::Target;
use super::threads::Workers;
use crate::pool::{PAGE, Pool};
use crate::sys::OpenOptions;
use platter_block::bio::{Bio, Op};
use platter_block::counters::Counters;
use platter_block::driver::{Driver, Features, Geometry};
use platter_block::lane::Lane;
use platter_block::limits::Limits;
use platter_block::queue::{QueueLane, SchedLane, SchedQueue, Settings};
use platter_block::time::{Span, Time};
use std::sync::Arc;

/// Size of the file.
pub(super) const SIZE: u64 = 1 << 20;

/// A file and its handles for I/O.
pub(super) struct Rig {
    pub(super) target: Arc<Target>,
    pub(super) workers: Arc<Workers>,
    file: tempfile::NamedTempFile,
}

impl Rig {
    /// A fully allocated file, in the directory of the package, because the temporary directory may be in
    /// memory.
    pub(super) fn new() -> Rig {
        Rig::of(SIZE)
    }

    /// The same with another size.
    pub(super) fn of(size: u64) -> Rig {
        let file = tempfile::NamedTempFile::new_in(".").unwrap();
        std::fs::write(file.path(), vec![0; size as usize]).unwrap();
        Rig::over(file)
    }

    /// A file that is one hole.
    pub(super) fn sparse() -> Rig {
        let file = tempfile::NamedTempFile::new_in(".").unwrap();
        file.as_file().set_len(SIZE).unwrap();
        Rig::over(file)
    }

    fn over(file: tempfile::NamedTempFile) -> Rig {
        let disk = OpenOptions::read_write().open(file.path()).unwrap();
        Rig { target: Arc::new(Target::new(disk).unwrap()), workers: Arc::new(Workers::new(4)), file }
    }

    /// A queue over a driver, with its time.
    pub(super) fn bench<D: Driver>(&self, driver: D, depth: u32) -> Bench<D> {
        let size = self.file.as_file().metadata().unwrap().len();
        let geometry =
            Geometry::new(size, Limits::unlimited(512).with_memory_align(512).with_length_align(512))
                .with_features(Features::default().with_write_cache(true).with_fua(true));
        let settings = Settings { depth, ..Settings::default() };
        let queue = SchedQueue::new(geometry, settings, None, Arc::new(Counters::default()));
        Bench { lane: QueueLane::new(queue, driver), now: Time(1_000_000), done: Vec::new() }
    }

    /// The file's contents.
    pub(super) fn contents(&self) -> Vec<u8> {
        std::fs::read(self.file.path()).unwrap()
    }
}

/// A queue over a driver of a known type.
pub(super) struct Bench<D: Driver> {
    pub(super) lane: SchedLane<D>,
    pub(super) now: Time,
    pub(super) done: Vec<Bio>,
}

impl<D: Driver> Bench<D> {
    pub(super) fn driver(&mut self) -> &mut D {
        self.lane.driver_mut()
    }

    pub(super) fn submit(&mut self, bio: Bio) {
        self.lane.submit(self.now, bio);
    }

    /// Runs once without waiting; returns how many bios are done by then.
    pub(super) fn run(&mut self) -> usize {
        self.lane.run(self.now);
        self.lane.take_done(&mut self.done);
        self.done.len()
    }

    pub(super) fn pass(&mut self, span: Span) {
        self.now += span;
    }

    /// Runs until all bios are done, and waits as a lane does: for as long as the driver says, if nothing else
    /// happens.
    pub(super) fn finish(&mut self) -> Vec<Bio> {
        loop {
            self.run();
            if self.lane.is_idle() {
                assert_eq!(self.lane.broken_completions(), 0);
                return std::mem::take(&mut self.done);
            }
            self.lane.wait(self.now, None);
            // The reason for the wait has passed.
            let wake = self.lane.next_wakeup();
            self.now = wake.unwrap_or(self.now).max(self.now) + Span::from_micros(1);
        }
    }
}

/// A transfer of `len` bytes of aligned memory, all of them `byte`.
pub(super) fn transfer(op: Op, pos: u64, len: usize, byte: u8) -> Bio {
    let mut buffer = Pool::new(1, len, PAGE).unwrap().take().unwrap();
    buffer.fill(byte);
    if op == Op::Read { Bio::read(pos, buffer).unwrap() } else { Bio::write(pos, buffer).unwrap() }
}

/// The errno that a bio failed with; 0 if it did not fail.
pub(super) fn errno(bio: &Bio) -> i32 {
    bio.status().map_or_else(|fault| fault.errno(), |()| 0)
}

/// Whether a descriptor is readable now.
#[allow(unsafe_code)]
pub(super) fn is_readable(fd: i32) -> bool {
    let mut polled = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, which lives until the call returns; a descriptor is a number here.
    unsafe { libc::poll(&raw mut polled, 1, 0) == 1 }
}
