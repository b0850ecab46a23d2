//! Devices built on other devices. Each layer is a [`Backend`] over one or more others and has one file and
//! one row of [`TABLE`].
//!
//! # Layers
//!
//! A layer is a `Backend` over other devices; its lanes use lanes of those devices. Its row in `platter_stack::TABLE`
//! names its parameters and the number of devices below; the contract of devices is tested for every row
//! (`tests/device/main.rs`).
//!
//! - **One lane is in front of layers**: `GatedLane` has the plug, the gate, cancelling and sleeping. A layer is a `LayerLane` behind
//!   it, which gets bios that may start: of a filter, over several members, or over state behind a lock (`HostLane`)
//!   (docs/decisions/2026-11-29-one-lane-for-layers.md).
//! - **A bio is passed on where possible**: it is remapped to its position below with `Bio::remap` and mapped back when
//!   it completes. That costs no allocation and no other bio. All of `partition` works like this, and transfers within
//!   one chunk of a `raid0`.
//! - **A transfer over several members is done in parts.** A `Map` maps bytes to members (`Map::find`, and back
//!   `Map::whence`); the rest is common to `raid0`, `concat`, extents and a cache of shards (`DistributedLane`).
//!   `Parts::gather` walks the bio from front to back and adds each piece to the part of its member, as long as the
//!   pieces are contiguous there. Consecutive chunks of one disk are, so 16 MiB over three disks are three parts,
//!   whatever the chunk size; their segments point into the memory of the whole. A further part is made where a member
//!   takes fewer segments.
//! - **Memory.** Each part has a reference to its bio (`Whole`). The bio returns to its submitter when all parts have come
//!   back.
//! - **The lane that made a part** is recorded in the bio (`Bio::maker`), so that a lane can tell its own parts from
//!   bios of a layer above that it only passed on; the part's token identifies its bio.
//! - **Order.** The gate of a layer (`BarrierGate`, `Door`) numbers barriers. The epoch of a bio is the number of
//!   barriers before it when its plug is flushed. A bio starts when that many barriers are over, and a barrier starts
//!   when no lane has a bio of an earlier epoch. If it is hard, or the members are on one disk, all members are then
//!   flushed and its data is written durably. The gate opens when it is over. A lane that withdraws a published epoch
//!   wakes all lanes, because a barrier may have seen it. All interleavings of a few lanes are checked
//!   (`platter-stack/tests/interleavings/`, with the crate's `sync` exchanged). A preflush also flushes all members,
//!   because earlier writes may be on any of them.
//! - **A barrier that waits too long** fails. When no barrier has ended for `barrier_timeout`, the longest of the disks below, because a lane has
//!   bios that are not complete or is not run, `Door::expire`, on whichever lane it runs, fails the barrier with
//!   `Kind::Unsettled`, and `BarrierGate::blame` names the lane that caused it; a lane that was not run itself at
//!   that time first waits another second (`Wait::is_longer`). A barrier that is late, or that the device could not carry
//!   out because of a timeout, fails too. The bios held behind it fail with `Kind::Cancelled`.
//! - **Cancelling.** Layers know no deadlines: the handle takes late bios back (`Cancel::late`). `Lane::cancel` ends at once
//!   a bio of which no device has a part. For others it asks below, with the tokens of the parts, and makes no more parts;
//!   the bio ends when its parts are back. An atomic write is passed on if it lies on one member, and refused otherwise.
//! - **Errors.** The fault of a bio is that of its first failed part, in order of position. `Bio::done` counts the bytes
//!   before the first failed part. The handle finds the disk with `Backend::locate` and names it in the `Error`. The position of a failed flush
//!   identifies the member.
//! - **Filters** are layers over one device: `limit`, `delay`, `error`, `verify`, `partition`. Each is a `Filter`,
//!   which has only the code that makes it different, in a `Filtered`, which is the device. A filter may make a bio
//!   wait before it starts (`Filter::admits`), fail it or set the earliest time at which it may complete
//!   (`Filter::start`), and see its result (`Filter::end`). `FilterLane` does the rest: positions, completions that
//!   are delayed. A filter that only changes what the device says about itself (`Filter::PASSES_IO`) has lanes without a
//!   gate (`PassLane`). One that lets no bio wait before it starts (`Filter::keeps_places`) leaves barriers to the
//!   device below, and `Dues` keeps the order of the completions that it delays
//!   (docs/decisions/2026-11-23-what-keeps-ordered-tags.md). Filters get the time only from `now` and report with
//!   `Lane::next_wakeup` when they must be run, so they are exact in virtual time.
//! - **Other lanes** pass calls on by default: a `Lane` over one lane names it (`Lane::below`, `Lane::below_mut`) and
//!   implements only what it changes.
//! - **Layers with state** are `async` functions, one run for each bio, which a `Frame` polls under its lock
//!   (docs/layer-kit.md). The cache is a state machine on the same parts: its lanes are `HostLane`s, as those of a
//!   frame, `Shared` is a `Host`, its engine has the `Turns`; `Board` publishes its work, and `RangeLocks`, `IoTable`
//!   and `Lanes` are those of the kit.
//! - **Sleeping.** A layer makes no system call (except that `cache` maps, populates and gives back its memory and
//!   watches memory pressure, without its lock). It sleeps in its first member's lane, to which it passes the
//!   descriptors of the others (`Lane::sleep`), and is woken through that lane's `Bell` when the gate opens.
//! - **Bounds.** A lane has at most some thousand parts in flight; a bio that needs more waits in the lane until there
//!   are fewer, but one bio is always admitted. Parts and their lists are reused.
//! - **Replacement** in a cache is decided by `platter-cache/src/replace.rs`, which orders frames and does no I/O.
//!
//! **Invariant:** no two members of an array share a part of a disk (`Backend::disk_ranges`), and all use the same clock.

#![deny(unsafe_code)]

pub mod array_metadata;
pub mod barrier_gate;
pub mod concat;
pub mod delay;
pub mod distributed;
pub mod error_injection;
pub mod extents;
pub mod filter;
pub mod gated_lane;
#[allow(unsafe_code)]
pub mod kit;
pub mod limit;
pub mod md;
mod members;
pub mod multipath;
mod order;
pub mod partition;
pub mod raid0;
pub mod raid1;
mod random;
mod reader;
pub mod reports;
pub mod snapshot;
pub mod sync;
#[allow(unsafe_code)]
pub mod verify;

use platter_block::backend::Backend;
use platter_block::fault::Error;
use platter_block::params::{self, Param, ParamError};
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Builds a layer from the values of its parameters and the devices below.
pub type Build = fn(&[i64], Vec<Arc<dyn Backend>>) -> Result<Arc<dyn Backend>, LayerError>;

/// A kind of layer.
pub struct LayerType {
    /// Name in device specs.
    pub name: &'static str,
    /// One-line summary.
    pub summary: &'static str,
    /// Parameters.
    pub params: &'static [Param],
    /// Number of devices below.
    pub members: RangeInclusive<usize>,
    /// Builds the layer from the values of all parameters in the order of `params`, followed by those of the
    /// readahead policy if the layer has one, and from the devices below.
    pub build: Build,
}

/// All layers.
pub static TABLE: &[LayerType] = &[
    raid0::TYPE,
    concat::TYPE,
    partition::TYPE,
    limit::TYPE,
    delay::TYPE,
    error_injection::TYPE,
    verify::TYPE,
    snapshot::TYPE,
    snapshot::ORIGIN_TYPE,
    snapshot::MERGE_TYPE,
    multipath::TYPE,
    raid1::TYPE,
];

/// Looks a layer up by name.
pub fn by_name(name: &str) -> Option<&'static LayerType> {
    TABLE.iter().find(|row| row.name == name)
}

/// Why a layer cannot be built.
#[derive(Clone, Debug)]
pub enum LayerError {
    /// A parameter is unknown, out of range or contradicts another one, regardless of the devices below.
    Param(ParamError),
    /// A parameter is valid by itself but does not fit the devices below.
    Unfit(ParamError),
    /// A parameter is valid, but this machine does not provide what it needs: memory, or reports of the kernel.
    Machine(ParamError),
    /// The wrong number of devices.
    Members(String),
    /// A device below failed.
    Device(Error),
}

impl fmt::Display for LayerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LayerError::Param(error) | LayerError::Unfit(error) | LayerError::Machine(error) => error.fmt(f),
            LayerError::Members(message) => f.write_str(message),
            LayerError::Device(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for LayerError {}

impl LayerType {
    /// Builds a layer from named values; parameters that are not named have their defaults.
    ///
    /// # Errors
    /// See [`LayerError`].
    pub fn make(
        &self,
        named: &[(&str, i64)],
        members: Vec<Arc<dyn Backend>>,
    ) -> Result<Arc<dyn Backend>, LayerError> {
        self.make_with(named, &[], members)
    }

    /// [`LayerType::make`] with the values of the parameters of the readahead policy that `readahead` names, in the
    /// policy's order. Missing values at the end have their defaults.
    ///
    /// # Errors
    /// See [`LayerError`].
    pub fn make_with(
        &self,
        named: &[(&str, i64)],
        policy: &[i64],
        members: Vec<Arc<dyn Backend>>,
    ) -> Result<Arc<dyn Backend>, LayerError> {
        let mut values: Vec<i64> = self.params.iter().map(|param| param.default).collect();
        for &(name, value) in named {
            let index = params::check(self.name, self.params, name, value).map_err(LayerError::Param)?;
            values[index] = value;
        }
        if !self.members.contains(&members.len()) {
            let (least, most, got) = (self.members.start(), self.members.end(), members.len());
            let message = format!("{} takes {least} to {most} devices, not {got}", self.name);
            return Err(LayerError::Members(message));
        }
        // The values of the policy follow those of the row.
        values.extend_from_slice(policy);
        (self.build)(&values, members)
    }
}
