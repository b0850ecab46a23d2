//! Trace events of a queue, for queues that have a sink.

use super::SchedQueue;
use crate::bio::Bio;
use crate::time::Time;
use crate::trace::{Action, Event};

impl SchedQueue {
    #[cold]
    pub(super) fn trace_bio(&mut self, now: Time, action: Action, bio: &Bio) {
        if let Some(sink) = &mut self.sink {
            sink.event(&Event::of_bio(now, action, bio));
        }
    }

    #[cold]
    pub(super) fn trace_queue(&mut self, now: Time, action: Action, extra: u64) {
        if let Some(sink) = &mut self.sink {
            sink.event(&Event::of_queue(now, action, extra));
        }
    }

    #[cold]
    pub(super) fn trace_request(&mut self, now: Time, action: Action, index: u32, errno: i32) {
        let request = self.table.at(index);
        let event = Event {
            time: now,
            action,
            op: request.op,
            flags: request.flags,
            pos: request.pos,
            len: request.len,
            context: request.info().context.process(),
            errno,
            extra: 0,
        };
        if let Some(sink) = &mut self.sink {
            sink.event(&event);
        }
    }
}
