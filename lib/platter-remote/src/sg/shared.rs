//! What all channels of a disk share.

use super::SgOptions;
use super::node::Node;
use crate::unflushed::Unflushed;
use platter_scsi::host::found::Found;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};

/// What all channels of a disk share.
pub(super) struct Shared {
    pub(super) node: Node,
    pub(super) options: SgOptions,
    pub(super) found: Found,
    pub(super) unflushed: Unflushed,
    pub(super) counts: Counts,
    pub(super) trouble: Mutex<String>,
}

#[derive(Default)]
pub(super) struct Counts {
    pub(super) direct: AtomicU64,
    pub(super) repeated: AtomicU64,
    pub(super) busy: AtomicU64,
}

impl Shared {
    /// Keeps what is to be told of a failure.
    pub(super) fn report(&self, why: &str) {
        why.clone_into(&mut self.trouble.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(super) fn trouble(&self) -> String {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
