//! What the channels of a port share.

use super::hub::Hub;
use super::options::Options;
use crate::target::Nexus;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// An initiator port at a target.
pub(super) struct Port {
    pub(super) hub: Arc<Hub>,
    pub(super) nexus: Nexus,
    pub(super) options: Options,
    /// Commands that neither an abort nor a reset has ended: the port is offline while there are any.
    pub(super) hung: AtomicU32,
    pub(super) counts: Counts,
}

impl Drop for Port {
    fn drop(&mut self) {
        self.hub.disconnect(self.nexus);
    }
}

/// How often something has happened at a port.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) commands: AtomicU64,
    pub(super) retries: AtomicU64,
    pub(super) refusals: AtomicU64,
    pub(super) aborts: AtomicU64,
    pub(super) resets: AtomicU64,
    pub(super) failures: AtomicU64,
}

/// Adds one.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
