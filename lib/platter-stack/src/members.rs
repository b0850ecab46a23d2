//! Checks the devices that a layer is built on and combines their properties.

use crate::LayerError;
use platter_block::backend::Backend;
use platter_block::driver::{Features, Geometry};
use std::sync::Arc;

/// Checks that no two members share a part of a disk, and that all use the same clock.
pub(crate) fn check(layer: &str, members: &[Arc<dyn Backend>]) -> Result<(), LayerError> {
    if members.is_empty() {
        return Err(LayerError::Members(format!("{layer} needs at least one device")));
    }
    let mut ranges = Vec::new();
    for (number, member) in members.iter().enumerate() {
        ranges.extend(member.disk_ranges().into_iter().map(|range| (number, range)));
    }
    ranges.sort_by_key(|(_, range)| (range.disk, range.begin));
    // Ranges sorted by their beginnings overlap if and only if two neighbours do.
    for pair in ranges.windows(2) {
        let [(one, before), (other, range)] = pair else { continue };
        if one != other && range.overlaps(before) {
            let message = format!(
                "{layer}: members {one} ({}) and {other} ({}) are on the same disk, from byte {} to {} of it; \
                 each member must be a disk or a part of its own",
                members[*one].name(),
                members[*other].name(),
                range.begin,
                range.end.min(before.end),
            );
            return Err(LayerError::Members(message));
        }
    }
    check_clocks(layer, members)
}

/// Checks that all members use the same clock.
pub(crate) fn check_clocks(layer: &str, members: &[Arc<dyn Backend>]) -> Result<(), LayerError> {
    let clock = |member: &Arc<dyn Backend>| member.clock().map(|clock| Arc::as_ptr(&clock).addr());
    let first = members.first().and_then(clock);
    if let Some(other) = members.iter().position(|member| clock(member) != first) {
        let message = format!(
            "{layer}: members 0 ({}) and {other} ({}) do not use the same clock; use members of \
             one simulation only, or none",
            members[0].name(),
            members[other].name(),
        );
        return Err(LayerError::Members(message));
    }
    Ok(())
}

/// Geometry of a device that needs all of its members, with size 0: the strictest of all limits.
pub(crate) fn stack(members: &[Arc<dyn Backend>]) -> Option<Geometry> {
    let one = |member: &Arc<dyn Backend>| member.geometry().with_size(0);
    members.iter().map(one).reduce(|a, b| {
        let features = Features::default()
            .with_write_cache(a.features.write_cache || b.features.write_cache)
            // Without a volatile cache every write is durable.
            .with_fua(durable(a.features) && durable(b.features))
            .with_read_only(a.features.read_only || b.features.read_only)
            .with_rotational(a.features.rotational || b.features.rotational);
        Geometry::new(0, a.limits.stack(&b.limits)).with_features(features)
    })
}

fn durable(features: Features) -> bool {
    features.fua || !features.write_cache
}

/// The largest atomic write of a device that begins at byte `offset` of another one. Lengths are powers of
/// two, and positions are multiples of the length on both devices.
pub(crate) fn atomic_behind(most: u32, offset: u64) -> u32 {
    if offset == 0 { most } else { most.min(1 << offset.trailing_zeros().min(31)) }
}
