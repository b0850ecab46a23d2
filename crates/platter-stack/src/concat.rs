//! `concat`: disks laid end to end.

use crate::members;

use crate::raid0::MAX_MEMBERS;
use crate::reports::Reports;
use crate::spread::{Extent, Map, Spread, name_of};
use crate::{LayerError, Row};
use platter_block::backend::{Backend, Fact};
use platter_block::limits::{LimitSource, Limits};
use std::sync::Arc;

pub(crate) const ROW: Row = Row {
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
    let (mut ends, mut end) = (Vec::with_capacity(members.len()), 0u64);
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
        end = sum;
        ends.push(end);
    }
    let block = stacked.limits.logical_block;
    let limits = members.iter().map(|member| member.geometry().limits.with_logical_block(block));
    let map = Pieces { ends, limits: limits.collect() };
    let atomic_write = (0..members.len()).map(|at| map.atomic_write(at)).min().unwrap_or(0);
    Ok(Arc::new(Spread {
        name: name_of("concat", "", &members),
        geometry: stacked.with_size(end).with_limits(stacked.limits.with_atomic_write(atomic_write)),
        map: Arc::new(map),
        reports: Reports::on(&members),
        members,
        gate: Arc::default(),
    }))
}

struct Pieces {
    /// By member: the offset of its end on the device.
    ends: Vec<u64>,
    limits: Vec<Limits>,
}

impl Pieces {
    fn begin(&self, member: usize) -> u64 {
        if member == 0 { 0 } else { self.ends[member - 1] }
    }
}

impl Pieces {
    /// The largest atomic write on a member. It must be aligned both on the device and on the member.
    fn atomic_write(&self, member: usize) -> u32 {
        members::atomic_behind(self.limits[member].atomic_write, self.begin(member))
    }
}

impl LimitSource for Pieces {
    fn limits_at(&self, pos: u64) -> (Limits, u64) {
        let member = self.find(pos).member;
        let last = member + 1 == self.ends.len();
        // A member's chunk borders are chunk borders of the device only if the member begins at one.
        let limits = self.limits[member];
        let aligned = limits.chunk != 0 && self.begin(member).is_multiple_of(limits.chunk);
        let chunk = if aligned { limits.chunk } else { 0 };
        (
            limits.with_chunk(chunk).with_atomic_write(self.atomic_write(member)),
            if last { u64::MAX } else { self.ends[member] },
        )
    }
}

impl Map for Pieces {
    #[inline]
    fn find(&self, pos: u64) -> Extent {
        let member = self.ends.partition_point(|&end| end <= pos).min(self.ends.len() - 1);
        Extent { member, pos: pos - self.begin(member), len: self.ends[member].saturating_sub(pos) }
    }

    #[inline]
    fn whence(&self, member: usize, pos: u64) -> u64 {
        self.begin(member) + pos
    }

    fn ranges(&self, mut pos: u64, len: u64, each: &mut dyn FnMut(Extent)) {
        let end = pos + len;
        while pos < end {
            let place = self.find(pos);
            let len = place.len.min(end - pos);
            each(Extent { len, ..place });
            pos += len;
        }
    }

    fn facts(&self) -> Vec<Fact> {
        Vec::new()
    }
}
