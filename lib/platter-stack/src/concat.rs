//! `concat`: disks laid end to end.

use crate::LayerError;
use crate::extents::{self, Mapping};
use crate::members;
use crate::raid0::MAX_MEMBERS;
use platter_block::backend::Backend;
use std::sync::Arc;

pub(crate) const TYPE: crate::LayerType = crate::LayerType {
    name: "concat",
    summary: "disks laid end to end",
    params: &[],
    members: 1..=MAX_MEMBERS,
    build: |_, members| new(members),
};

/// A device made of all of the first member, then all of the next, and so on. Its logical block is the
/// largest of any member's.
///
/// # Errors
/// Members on the same disk, and members smaller than one logical block.
pub fn new(members: Vec<Arc<dyn Backend>>) -> Result<Arc<dyn Backend>, LayerError> {
    members::check("concat", &members)?;
    let Some(stacked) = members::stack(&members) else {
        return Err(LayerError::Members("concat needs at least one device".to_string()));
    };
    let block = u64::from(stacked.limits.logical_block);
    let (mut rows, mut end) = (Vec::with_capacity(members.len()), 0u64);
    for (number, member) in members.iter().enumerate() {
        let size = member.geometry().size / block * block;
        let sum = (size > 0).then(|| end.checked_add(size)).flatten().filter(|&sum| sum < 1 << 63);
        let Some(sum) = sum else {
            return Err(LayerError::Members(format!(
                "concat: member {number} ({}) has {} bytes; it takes a block of {block} at least, and all \
                 together less than 2^63",
                member.name(),
                member.geometry().size
            )));
        };
        rows.push(Mapping { start: end, len: size, device: number, offset: 0 });
        end = sum;
    }
    extents::build("concat", rows, members)
}
