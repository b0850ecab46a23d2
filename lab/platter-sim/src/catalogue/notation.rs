//! A compact notation for the parameters of disks.

use crate::disk::params::{SeekCurve, Skew, ZoneParams};

/// A zone: first and last cylinder, sectors of a track, then in sectors the angle of the first one, what is reserved,
/// the skews of tracks and of cylinders; spares. And the places that are skipped.
pub(super) struct Zone(pub(super) [u32; 8], pub(super) &'static [u32]);

pub(super) fn zones(zones: &[Zone]) -> Vec<ZoneParams> {
    let zone =
        |Zone([first, last, track, offset, reserved, tracks, cylinders, spares], slips): &Zone| ZoneParams {
            first_cylinder: *first,
            last_cylinder: *last,
            sectors_per_track: *track,
            first_offset: Skew::Sectors(*offset),
            reserved: *reserved,
            track_skew: Skew::Sectors(*tracks),
            cylinder_skew: Skew::Sectors(*cylinders),
            spares: *spares,
            slips: slips.iter().map(|&slip| u64::from(slip)).collect(),
            remaps: Vec::new(),
        };
    zones.iter().map(zone).collect()
}

/// A measured curve: distances and microseconds.
pub(super) fn measured(points: &[(u32, u32)]) -> SeekCurve {
    SeekCurve::Table(points.iter().map(|&(distance, micros)| (distance, u64::from(micros) * 1000)).collect())
}
