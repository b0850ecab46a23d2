//! Mirrors for tests of all layers.

use platter_block::backend::Backend;
use platter_stack::array_metadata::Uuid;
use platter_stack::raid1::{NewMirror, create};
use std::sync::Arc;

/// What a member has in front of its data.
pub(crate) const FRONT: u64 = 1 << 20;

/// Makes these devices, whose contents are the same, members of a new mirror.
pub(crate) fn make(devices: &[Arc<dyn Backend>]) {
    let new = NewMirror {
        array: Uuid([1; 16]),
        name: String::new(),
        members: (1..).map(|member| Uuid([member; 16])).take(devices.len()).collect(),
        chunk: Some(4096),
        bitmap: true,
        is_clean: true,
        force: false,
    };
    create(devices, &new).expect("a new mirror");
}
