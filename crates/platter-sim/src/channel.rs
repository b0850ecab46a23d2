//! A channel of a simulated disk: the driver that a queue talks to.

#![allow(unsafe_code)]

use crate::disk_state::{Asked, SimDisk, Taken};
use crate::medium::SECTOR;
use crate::model::Command;
use platter_block::bio::Op;
use platter_block::driver::{Completion, Driver, Outstanding, Started};
use platter_block::time::{Span, Time};
use std::sync::Arc;

/// One channel to a simulated disk.
///
/// A request's memory is accessed only while the request is queued: the data of a write is copied then, and a
/// read gets the contents of that moment. That is allowed, because no write that the read must see can
/// complete later.
pub struct SimChannel {
    disk: SimDisk,
    port: u32,
    scratch: Vec<u8>,
}

impl SimChannel {
    pub(crate) fn new(disk: SimDisk, port: u32) -> SimChannel {
        SimChannel { disk, port, scratch: Vec::new() }
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
        };
        let asked = Asked { port: self.port, tag: request.tag, command, atomic: request.atomic };
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
        taken != Taken::No
    }

    fn submit(&mut self, _now: Time) {}

    fn reap(&mut self, now: Time, done: &mut Vec<Completion>) {
        let mut state = self.disk.lock();
        state.collect(now, self.port, done);
        self.disk.publish(&state);
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
