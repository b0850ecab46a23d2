//! What a layer that drains at its own gate says of the barriers of disks that keep the order themselves.

use platter_block::backend::Fact;

/// How barriers keep their order in a layer over disks that get them as ordered tags.
const DRAINS: &str = "drain in this layer, then one on each device below";

/// The fact of a layer that lets a barrier through only when what was before it has ended, if a disk below it would have
/// kept the order without that.
pub(crate) fn drains(below: &[Fact]) -> Option<Fact> {
    let tags = |(name, mode): &Fact| *name == "barriers" && mode.starts_with("tag");
    below.iter().any(tags).then(|| ("barriers", DRAINS.to_string()))
}
