//! Whether a bio fits into one request, and where one that does not is cut.

use crate::bio::{Bio, Flags, Op};
use crate::driver::{Features, Geometry};
use crate::fault::{Fault, Kind, Stage};
use crate::limits::Limits;

/// Bytes at the front of a bio without data that one request can take, at most `most`. Discards are cut at a
/// multiple of the discard granularity if the range contains one.
fn front_of_range(limits: &Limits, bio: &Bio, most: u64) -> u64 {
    if most == bio.len() {
        return most;
    }
    let unit = u64::from(limits.discard_granularity);
    let end = bio.pos() + most;
    if bio.op() == Op::Discard && unit != 0 && end - end % unit > bio.pos() {
        return most - end % unit;
    }
    most - most % u64::from(limits.logical_block)
}

/// Bytes at the front of `bio` that one request can take: all of it, or a number at which it can be cut; 0 if
/// not even one block fits into the allowed number of segments.
///
/// Example: a write of 200 KiB at 4 KiB, on a device with `chunk` 128 KiB. 124 KiB reach the boundary, so they are cut off; the rest, 76 KiB at 128 KiB,
/// fits. A discard of 1 MiB at 300 KiB with at most 512 KiB a request and a granularity of 256 KiB is cut at 768 KiB, not at 812.
pub(super) fn front_bytes(limits: &Limits, bio: &Bio) -> u64 {
    let most = limits.max_bytes_at(bio.op(), bio.pos()).min(bio.len());
    if !bio.op().has_data() {
        return front_of_range(limits, bio, most);
    }
    let (mut bytes, mut room) = (0u64, limits.max_segments);
    for segment in bio.segments() {
        let left = u32::try_from(most - bytes).unwrap_or(u32::MAX);
        limits.for_each_piece(segment.slice(0, left), |piece| {
            // If a segment has more pieces than there is room for, its first pieces are taken.
            bytes += if room > 0 { u64::from(piece.len()) } else { 0 };
            room = room.saturating_sub(1);
        });
        if room == 0 || bytes == most {
            break;
        }
    }
    if bytes == bio.len() { bytes } else { bytes - bytes % limits.cut_unit() }
}

/// Whether a bio certainly fits into one request, by cheap tests only.
#[inline]
pub(super) fn fits(limits: &Limits, bio: &Bio) -> bool {
    bio.op() == Op::Command
        || bio.op() != Op::WriteZeroes
            && bio.len() <= u64::from(limits.max_segment_size)
            && limits.segment_boundary == 0
            && bio.segment_count() <= limits.max_segments
            && bio.len() <= limits.max_bytes_at(bio.op(), bio.pos())
}

/// Checks a bio for faults, except those of its memory. `largest` is the largest size that the device has had: a range
/// past the end that was once inside is [`Kind::Gone`].
#[inline]
pub(super) fn check(geometry: &Geometry, largest: u64, bio: &Bio) -> Result<(), Fault> {
    let op = bio.op();
    if op == Op::Flush {
        return Ok(());
    }
    if op == Op::Command {
        return check_command(geometry, bio);
    }
    let limits = &geometry.limits;
    limits
        .check_range(bio.pos(), bio.len(), geometry.size)
        .map_err(|fault| past_the_end(largest, bio, fault))?;
    let fault = |kind| Err(Fault::new(kind, Stage::Queue));
    if op.changes() && geometry.features.read_only {
        return fault(Kind::ReadOnly);
    }
    if bio.flags().contains(Flags::ATOMIC) {
        check_atomic(limits, bio)?;
    }
    if op == Op::Discard && limits.discard_granularity == 0 {
        return fault(Kind::Unsupported);
    }
    Ok(())
}

/// Checks whether the disk takes a command, and takes it as one request.
#[cold]
fn check_command(geometry: &Geometry, bio: &Bio) -> Result<(), Fault> {
    let fault = |kind| Err(Fault::new(kind, Stage::Queue));
    let Some(command) = bio.command() else { return fault(Kind::Contract) };
    // A sequence of flushes and data would need to know what the command does to the disk's cache.
    let ordered = bio.flags().intersects(Flags::ORDERED | Flags::ATOMIC);
    if ordered || !geometry.features.commands.contains(command.set()) {
        return fault(Kind::Unsupported);
    }
    if geometry.features.read_only && bio.changes() {
        return fault(Kind::ReadOnly);
    }
    if front_bytes(&geometry.limits, bio) < bio.len() { fault(Kind::BadSegments) } else { Ok(()) }
}

fn past_the_end(largest: u64, bio: &Bio, fault: Fault) -> Fault {
    let was_inside = bio.pos().checked_add(bio.len()).is_some_and(|end| end <= largest);
    match fault.kind {
        Kind::OutOfRange if was_inside => Fault::new(Kind::Gone, Stage::Queue),
        _ => fault,
    }
}

/// Checks whether the device can carry out an atomic write as one request.
fn check_atomic(limits: &Limits, bio: &Bio) -> Result<(), Fault> {
    let len = bio.len();
    let fault = |kind| Err(Fault::new(kind, Stage::Queue));
    if bio.op() != Op::Write || len > u64::from(limits.atomic_write) {
        return fault(Kind::Unsupported);
    }
    if !len.is_power_of_two() || !bio.pos().is_multiple_of(len) {
        return fault(Kind::Misaligned);
    }
    if front_bytes(limits, bio) < len { fault(Kind::BadSegments) } else { Ok(()) }
}

/// Bios with any of these flags are not merged. Without a volatile cache, FUA and PREFLUSH have no effect and
/// are left out.
pub(super) fn unmergeable(features: &Features) -> Flags {
    let always = Flags::NOMERGE | Flags::ALONE | Flags::ATOMIC | Flags::BARRIERS;
    if features.write_cache { always | Flags::DURABLE } else { always }
}
