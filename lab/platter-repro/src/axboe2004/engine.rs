//! The real queue with a disk that takes the same time for each request, one at a time.

use crate::ReproError;
use platter_block::bio::{Bio, Context, Flags, Op};
use platter_block::counters::Counters;
use platter_block::driver::{Completion, Features, Geometry};
use platter_block::elevator::{Dir, Elevator};
use platter_block::fault::Fault;
use platter_block::limits::Limits;
use platter_block::queue::{SchedQueue, Settings};
use platter_block::time::{Span, Time};
use std::sync::Arc;

/// Bytes of a request.
pub(super) const BLOCK: u64 = 4096;
/// Size of the disk: 32 GiB.
pub(super) const SIZE: u64 = 32 << 30;

/// A request that the disk has served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Served {
    pub(super) op: Op,
    pub(super) pos: u64,
    /// The number of the bio that completed with it.
    pub(super) token: Option<u64>,
    /// Bios that completed with it.
    pub(super) completed: u64,
    /// When the disk began.
    pub(super) began: Time,
}

/// A queue and its disk.
pub(super) struct Engine {
    pub(super) queue: SchedQueue,
    pub(super) now: Time,
    service: Span,
    submitted: u64,
}

impl Engine {
    /// A queue for `requests` requests in each direction, without merging and plug; a request takes the time `service`.
    pub(super) fn new(elevator: Box<dyn Elevator>, requests: u32, service: Span) -> Engine {
        let settings = Settings { nr_requests: requests, merges: false, plug: None, ..Settings::default() };
        Engine { service, ..Engine::with(elevator, settings, Features::NONE) }
    }

    /// A queue with these settings for a disk that takes one request at a time and no time for it.
    pub(super) fn with(elevator: Box<dyn Elevator>, settings: Settings, features: Features) -> Engine {
        let geometry = Geometry::new(SIZE, Limits::unlimited(512)).with_features(features);
        let settings = Settings { depth: 1, ..settings };
        let queue = SchedQueue::new(geometry, settings, Some(elevator), Arc::new(Counters::default()));
        Engine { queue, now: Time(0), service: Span::ZERO, submitted: 0 }
    }

    /// Submits a bio for a process; returns its number.
    pub(super) fn submit(&mut self, dir: Dir, pos: u64, process: u32) -> Result<u64, ReproError> {
        self.submit_with(dir, pos, process, Flags::NONE)
    }

    /// [`Engine::submit`] with flags.
    pub(super) fn submit_with(
        &mut self,
        dir: Dir,
        pos: u64,
        process: u32,
        flags: Flags,
    ) -> Result<u64, ReproError> {
        let data = vec![0; BLOCK as usize];
        let bio = if dir == Dir::Read { Bio::read(pos, data) } else { Bio::write(pos, data) };
        let mut bio = bio.map_err(broken)?;
        bio.set_token(self.submitted);
        bio.set_context(Context::new(process));
        bio.add_flags(flags);
        self.queue.submit(self.now, bio);
        self.submitted += 1;
        Ok(self.submitted - 1)
    }

    /// Submits a flush.
    pub(super) fn flush(&mut self) {
        self.queue.submit(self.now, Bio::flush());
    }

    /// The next request that the disk serves, and waits for as long as the elevator wants; `None` if there is none.
    pub(super) fn serve(&mut self) -> Result<Option<Served>, ReproError> {
        loop {
            self.queue.tick(self.now);
            if let Some(tag) = self.queue.next(self.now) {
                return self.carry_out(tag).map(Some);
            }
            match self.queue.next_wakeup() {
                Some(at) => self.now = self.now.max(at),
                None => return Ok(None),
            }
        }
    }

    fn carry_out(&mut self, tag: u32) -> Result<Served, ReproError> {
        let (began, request) = (self.now, self.queue.started(tag));
        let (op, pos, result) = (request.op, request.pos, request.len as i64);
        self.now += self.service;
        self.queue.complete(self.now, Completion { tag, result }).map_err(broken)?;
        let mut done = Vec::new();
        self.queue.take_done(&mut done);
        for bio in &done {
            bio.status().map_err(broken)?;
        }
        let token = done.first().map(Bio::token);
        Ok(Served { op, pos, token, completed: done.len() as u64, began })
    }
}

fn broken(fault: Fault) -> ReproError {
    ReproError::Stack(fault.to_string())
}
