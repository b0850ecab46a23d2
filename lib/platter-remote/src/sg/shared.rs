//! What all channels of a disk share.

use super::SgOptions;
use super::node::Node;
use crate::trouble::Trouble;
use crate::unflushed::Unflushed;
use platter_scsi::host::found::Found;
use std::sync::atomic::AtomicU64;

/// What all channels of a disk share.
pub(super) struct Shared {
    pub(super) node: Node,
    pub(super) options: SgOptions,
    pub(super) found: Found,
    pub(super) unflushed: Unflushed,
    pub(super) counts: Counts,
    pub(super) trouble: Trouble,
}

#[derive(Default)]
pub(super) struct Counts {
    pub(super) direct: AtomicU64,
    pub(super) repeated: AtomicU64,
    pub(super) busy: AtomicU64,
}
