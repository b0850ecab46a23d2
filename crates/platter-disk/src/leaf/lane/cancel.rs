//! Cancels bios of a lane that are not in its own queue.

use super::super::control::CLOSED_GATE;
use super::LeafLane;
use crate::sync::lock;
use platter_block::bio::Bio;
use platter_block::fault::{Fault, Kind, Stage};
use platter_block::time::Time;
use std::sync::Arc;

const CANCELLED: Fault = Fault::new(Kind::Cancelled, Stage::Queue);

impl LeafLane {
    /// Cancels bios that have not entered a queue yet.
    pub(super) fn cancel_plugged(&mut self, token: u64) {
        for bio in std::mem::take(&mut self.plug) {
            if bio.token() == token {
                self.refuse(bio, CANCELLED);
            } else {
                self.plug.push_back(bio);
            }
        }
    }

    /// Cancels bios in the shared queue or on their way to it.
    #[cold]
    pub(super) fn cancel_away(&mut self, now: Time, token: u64) {
        let (route, shared) = (self.route, Arc::clone(&self.shared));
        let which = |bio: &Bio| bio.token() == token && bio.route() & !CLOSED_GATE == route;
        let mut cancelled = Vec::new();
        shared.with_control(|control| {
            let mut inbox = lock(&shared.inbox);
            for bio in std::mem::take(&mut *inbox) {
                if which(&bio) { cancelled.push(bio) } else { inbox.push(bio) }
            }
            drop(inbox);
            if let Some(lane) = control.lane_mut() {
                lane.cancel_where(now, &which);
            }
        });
        self.away -= cancelled.len();
        for bio in cancelled {
            if bio.route() & CLOSED_GATE != 0 {
                shared.gate.open();
            }
            self.refuse(bio, CANCELLED);
        }
        self.help(now);
    }
}
