//! A channel of a simulated disk: the driver that a queue talks to.

#![allow(unsafe_code)]

use crate::disk_state::{Asked, DiskState, SimDisk, Taken};
use crate::medium::SECTOR;
use crate::model::Command;
use platter_block::bio::Op;
use platter_block::driver::{Completion, Driver, Outstanding, Started};
use platter_block::segment::Segment;
use platter_block::time::{Span, Time};
use std::sync::Arc;

/// A read that gets its data when it ends: its tag and its memory.
type Late = (u32, Vec<Segment>);

/// One channel to a simulated disk.
///
/// A request's memory is accessed while the request is queued: the data of a write is copied then, and a
/// read gets the contents of that moment. That is allowed, because no write that the read must see can
/// complete later. A read behind an ordered tag that has not ended gets its data when its completion is collected.
pub(crate) struct SimChannel {
    disk: SimDisk,
    port: u32,
    scratch: Vec<u8>,
    /// Reads that get their data when they end, with their memory.
    late: Vec<Late>,
}

impl SimChannel {
    pub(crate) fn new(disk: SimDisk, port: u32) -> SimChannel {
        SimChannel { disk, port, scratch: Vec::new(), late: Vec::new() }
    }
}

/// Copies the data of late reads that have ended to their memory.
#[cold]
fn deliver_late(late: &mut Vec<Late>, port: u32, state: &mut DiskState, done: &[Completion]) {
    for completion in done {
        let Some(at) = late.iter().position(|(tag, _)| *tag == completion.tag) else { continue };
        let (tag, segments) = late.swap_remove(at);
        let Some(data) = state.take_late(port, tag).filter(|_| completion.result >= 0) else {
            continue;
        };
        let mut from = 0;
        for segment in segments {
            let end = from + segment.len() as usize;
            if let Some(part) = data.get(from..end) {
                // SAFETY: a driver may touch a request's memory until it has reported the completion; this runs
                // inside `reap`, before the caller sees the completion. `part` is as long as the segment.
                unsafe { segment.copy_from(part) };
            }
            from = end;
        }
    }
}

/// Collects the data of a write.
fn gather(request: &Started<'_>, data: &mut Vec<u8>) {
    data.resize(request.len as usize, 0);
    let mut at = 0;
    request.for_each_segment(|segment| {
        let end = at + segment.len() as usize;
        if let Some(part) = data.get_mut(at..end) {
            // SAFETY: a driver may touch a request's memory from `queue` until it reports the completion, and
            // this runs inside `queue`; `part` is as long as the segment.
            unsafe { segment.copy_to(part) };
        }
        at = end;
    });
}

/// Copies the data of a read to its memory.
fn scatter(request: &Started<'_>, data: &[u8]) {
    let mut at = 0;
    request.for_each_segment(|segment| {
        let end = at + segment.len() as usize;
        if let Some(part) = data.get(at..end) {
            // SAFETY: as in `gather`.
            unsafe { segment.copy_from(part) };
        }
        at = end;
    });
}

impl Drop for SimChannel {
    fn drop(&mut self) {
        self.disk.lock().remove_port(self.port);
    }
}

impl Driver for SimChannel {
    fn queue(&mut self, now: Time, request: &Started<'_>) -> bool {
        let command = Command {
            tag: 0,
            op: request.op,
            sector: request.pos / SECTOR as u64,
            sectors: (request.len / SECTOR as u64) as u32,
            fua: request.fua,
            ioprio: request.ioprio,
            order: 0,
        };
        let asked = Asked {
            port: self.port,
            tag: request.tag,
            command,
            atomic: request.atomic,
            ordered: request.is_ordered(),
        };
        let mut state = self.disk.lock();
        let taken = state.accept(now, asked, |data| gather(request, data));
        self.disk.publish(&state);
        if taken == Taken::Yes
            && request.op == Op::Read
            && let Some(medium) = state.medium()
        {
            self.scratch.resize(request.len as usize, 0);
            medium.read(command.sector, &mut self.scratch);
            let arrived = state.spoil(command.sector, &mut self.scratch);
            scatter(request, &self.scratch[..arrived]);
        }
        if taken == Taken::Later {
            let mut segments = Vec::new();
            request.for_each_segment(|segment| segments.push(segment));
            self.late.push((request.tag, segments));
        }
        taken != Taken::No
    }

    fn submit(&mut self, _now: Time) {}

    fn reap(&mut self, now: Time, done: &mut Vec<Completion>) {
        let before = done.len();
        let mut state = self.disk.lock();
        state.collect(now, self.port, done);
        self.disk.publish(&state);
        if !self.late.is_empty() {
            deliver_late(&mut self.late, self.port, &mut state, &done[before..]);
        }
    }

    fn next_event(&self) -> Option<Time> {
        self.disk.next_event(self.port)
    }

    fn cancel(&mut self, now: Time, tag: u32) -> bool {
        self.disk.cancel(now, self.port, tag)
    }

    fn outstanding(&self) -> Option<Arc<dyn Outstanding>> {
        self.disk.outstanding(self.port)
    }

    fn wait(&mut self, now: Time, timeout: Option<Span>) {
        let limit = timeout.map(|span| now + span);
        if self.next_event().is_some_and(|at| at <= now) {
            return;
        }
        if !self.disk.world().pass(limit) {
            // Another thread has to act first.
            std::thread::yield_now();
        }
    }
}
