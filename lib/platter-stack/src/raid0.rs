//! `raid0`: a striped device, whose chunks are on several disks in turn.
//!
//! Consecutive chunks of a member are contiguous on it, so that a large transfer becomes one part per member,
//! whatever the chunk size.

use crate::barrier_gate::BarrierGate;
use crate::distributed::{Distributed, name_of};
use crate::members;
use crate::reports::Reports;
use crate::{LayerError, LayerType};
use platter_block::backend::Backend;
use platter_block::driver::Geometry;
use platter_block::params::{Param, ParamError, Unit};
use std::sync::Arc;
use stripes::Stripes;

mod stripes;

pub(crate) const TYPE: LayerType = LayerType {
    name: "raid0",
    summary: "stripes chunks over several disks",
    params: &[
        Param::number("chunk", Unit::Bytes, 64 << 10, (512, 1 << 30), "chunk size, a power of two"),
        Param::word(
            "sizes",
            &["zones", "truncate", "zones-original"],
            0,
            "of disks of unequal size: use all of each (zones, as md since Linux 3.14; zones-original, as before \
             it), or as much as the smallest has",
        ),
    ],
    members: 1..=MAX_MEMBERS,
    build: |values, members| new(members, values[0] as u64, Sizes::of(values[1])),
};

/// Most members of an array.
pub const MAX_MEMBERS: usize = 65_536;

/// How members of unequal size are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sizes {
    /// All of each member is used: where the smallest members end, the array continues over the others.
    #[default]
    Zones,
    /// Each member is used up to the size of the smallest.
    Truncate,
    /// As [`Zones`](Sizes::Zones), but the member of a chunk follows from the chunk's number on the array.
    /// This is md's "original" layout, used by Linux before 3.14.
    ZonesOriginal,
}

impl Sizes {
    fn of(value: i64) -> Sizes {
        match value {
            0 => Sizes::Zones,
            1 => Sizes::Truncate,
            _ => Sizes::ZonesOriginal,
        }
    }

    /// The part of the array's name that shows this setting.
    fn told(self) -> &'static str {
        match self {
            Sizes::Zones => "",
            Sizes::Truncate => ", sizes=truncate",
            Sizes::ZonesOriginal => ", sizes=zones-original",
        }
    }
}

/// An array that has `chunk` bytes on one member, then `chunk` bytes on the next, and so on.
///
/// Members of unequal size are laid out in zones, as in the "alternate" layout of Linux' md: a zone extends
/// over all members that are large enough for it, and begins with the first of them.
///
/// # Errors
/// A chunk that is not a power of two or is smaller than the logical block of a member, members on the same
/// disk, members smaller than one chunk, and a total of 2^63 bytes or more.
pub fn new(members: Vec<Arc<dyn Backend>>, chunk: u64, sizes: Sizes) -> Result<Arc<dyn Backend>, LayerError> {
    members::check("raid0", &members)?;
    let Some(stacked) = members::stack(&members) else {
        return Err(LayerError::Members("raid0 needs at least one device".to_string()));
    };
    let block = u64::from(stacked.limits.logical_block);
    if !chunk.is_power_of_two() || chunk < block || chunk > 1 << 30 {
        // A chunk of at least a sector can be wrong only for these members.
        let possible = chunk.is_power_of_two() && (512..=1 << 30).contains(&chunk);
        let error = if possible { LayerError::Unfit } else { LayerError::Param };
        return Err(error(ParamError(format!(
            "raid0: chunk={chunk} is not a power of two from {block} (the largest logical block of its members) \
             to {}",
            1 << 30
        ))));
    }
    let shift = chunk.trailing_zeros();
    let mut shares = Vec::with_capacity(members.len());
    for (number, member) in members.iter().enumerate() {
        let geometry = member.geometry();
        if geometry.size < chunk {
            return Err(LayerError::Members(format!(
                "raid0: member {number} ({}) has {} bytes, less than a chunk of {chunk}; leave it out, or make \
                 chunks smaller",
                member.name(),
                geometry.size
            )));
        }
        // The logical block of the array is the largest of any member's, on the whole array.
        let limits = geometry.limits.with_logical_block(stacked.limits.logical_block);
        shares.push((geometry.size >> shift, limits));
    }
    if sizes == Sizes::Truncate {
        let least = shares.iter().map(|&(chunks, _)| chunks).min().unwrap_or(0);
        shares.iter_mut().for_each(|share| share.0 = least);
    }
    let bytes = shares.iter().map(|&(chunks, _)| u128::from(chunks) << shift).sum::<u128>();
    if bytes >= 1 << 63 {
        return Err(LayerError::Members(format!(
            "raid0: its members have {bytes} bytes together; an array has less than 2^63"
        )));
    }
    let map = Stripes::new(shift, &shares, sizes == Sizes::ZonesOriginal);
    let limits = map.limits().unwrap_or(stacked.limits);
    let params = format!("chunk={chunk}{}", sizes.told());
    Ok(Arc::new(Distributed {
        name: name_of("raid0", &params, &members),
        geometry: Geometry::new(map.size(), limits).with_features(stacked.features),
        map: Arc::new(map),
        reports: Reports::on(&members),
        gate: BarrierGate::over(&members),
        members,
    }))
}
