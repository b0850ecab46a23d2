//! Disks that can be simulated by name.
//!
//! Each has a table of its values ([`DiskModel::values`]), each with its source; values that no document gives are
//! marked as estimated. Parameters are stored in the form that the models take; the tables are generated from
//! them.

mod cheetah9lp;
mod describe;
mod facts;
mod hp_c2247a;
mod ibm18es;
mod notation;
mod outlines;
mod solid;
mod source;
#[cfg(test)]
mod tests;

pub use describe::{Value, describe, describe_mechanical};
pub use facts::interface;
pub use source::{Source, source_of};

use crate::cloud::{CloudDisk, CloudParams};
use crate::disk::params::WriteBack;
use crate::disk::{self, DiskParams, MechanicalDisk, ParamsError, Policy};
use crate::flash::{Ssd, SsdParams, Start};
use crate::ideal::Ideal;
use crate::model::Model;
use platter_block::time::Span;

/// Commands that a disk with a queue of its own holds: the usual number of tags.
pub const TAGS: u32 = 64;

/// A disk of the catalogue.
pub struct DiskModel {
    /// Name in device specs: `sim(NAME)`.
    pub name: &'static str,
    /// One-line summary.
    pub summary: &'static str,
    /// The kind of disk.
    pub kind: Kind,
    /// Queueing policy of the drive; [`Policy::None`] if it takes one command at a time.
    pub queue: Policy,
    /// Sources of the values.
    pub sources: &'static [Source],
}

/// The kinds of disks, with their parameters.
#[derive(Clone, Copy)]
pub enum Kind {
    /// Platters and an arm.
    Mechanical(fn() -> DiskParams),
    /// Flash.
    Flash(fn() -> SsdParams),
    /// Behind a network.
    Cloud(fn() -> CloudParams),
    /// The same time for every command.
    Ideal(Ideal),
}

/// Settings of a disk; `None` is the value of the catalogue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choices {
    /// Queueing policy of mechanical disks.
    pub queue: Option<Policy>,
    /// Whether writes complete in the buffer.
    pub write_cache: Option<bool>,
    /// The initial state of a flash disk: those of the catalogue are used ([`Start::Steady`]).
    pub start: Option<Start>,
    /// Flash beyond the size of a flash disk, in thousandths of it.
    pub over_provisioning: Option<u32>,
    /// Bytes of a flash disk's cache of fast blocks; 0 for none.
    pub slc_cache: Option<u64>,
    /// Idle time after which a flash disk works ahead.
    pub idle_after: Option<Span>,
    /// Seed of all random numbers.
    pub seed: u64,
    /// The disk is attached to a bus: its own interface costs no time.
    pub on_bus: bool,
}

/// All disks.
pub static TABLE: &[DiskModel] = &[
    DiskModel {
        name: "ideal",
        summary: "1 TiB, 100 us for everything, 32 commands side by side",
        kind: Kind::Ideal(Ideal {
            size: 1 << 40,
            latency: Span::from_micros(100),
            depth: 32,
            write_cache: false,
        }),
        queue: Policy::None,
        sources: &[Source { of: "disk", source: "chosen for tests" }],
    },
    hp_c2247a::MODEL,
    cheetah9lp::MODEL,
    ibm18es::MODEL,
    outlines::ATLAS10K,
    outlines::MAN3367MP,
    outlines::IBM9G10K,
    outlines::X15,
    outlines::IDE2004,
    solid::SATA_SSD,
    solid::NVME_SSD,
    solid::CLOUD,
];

/// Looks a disk up by name.
pub fn by_name(name: &str) -> Option<&'static DiskModel> {
    TABLE.iter().find(|row| row.name == name)
}

impl Choices {
    /// A flash disk with these settings.
    fn flash(&self, mut params: SsdParams) -> SsdParams {
        params.seed = self.seed;
        params.start = self.start.unwrap_or(params.start);
        params.buffer.write_back = self.write_cache.unwrap_or(params.buffer.write_back);
        params.over_provisioning = self.over_provisioning.unwrap_or(params.over_provisioning);
        params.slc.bytes = self.slc_cache.unwrap_or(params.slc.bytes);
        params.background = self.idle_after.or(params.background);
        params
    }
}

impl DiskModel {
    /// Builds the disk.
    ///
    /// # Errors
    /// None for rows of [`TABLE`]; a test checks this.
    pub fn make(&self, choices: Choices) -> Result<Box<dyn Model>, ParamsError> {
        Ok(match self.kind {
            Kind::Mechanical(params) => mechanical(params(), self.queue, choices)?,
            Kind::Flash(params) => {
                let params = choices.flash(params());
                let wrong = |error: crate::flash::SsdError| ParamsError {
                    what: error.what.to_owned(),
                    found: error.found,
                    expected: error.expected,
                };
                Box::new(Ssd::new(params).map_err(wrong)?)
            }
            Kind::Cloud(params) => {
                let wrong = |error: crate::cloud::CloudError| ParamsError {
                    what: error.what.to_owned(),
                    found: error.found.to_string(),
                    expected: error.expected.to_owned(),
                };
                Box::new(CloudDisk::new(CloudParams { seed: choices.seed, ..params() }).map_err(wrong)?)
            }
            Kind::Ideal(ideal) => {
                Ideal { write_cache: choices.write_cache.unwrap_or(ideal.write_cache), ..ideal }.into()
            }
        })
    }

    /// Its values, with their sources.
    pub fn values(&self) -> Vec<(Value, Option<&'static str>)> {
        let sourced = |value: Value| {
            let source = source_of(self.sources, value.group, &value.name);
            (value, source)
        };
        describe(self.kind).into_iter().map(sourced).collect()
    }
}

/// A mechanical disk with `choices`; `queue` is its queueing policy if none was chosen.
///
/// # Errors
/// See [`MechanicalDisk::new`].
pub fn mechanical(
    mut params: DiskParams,
    queue: Policy,
    choices: Choices,
) -> Result<Box<dyn Model>, ParamsError> {
    let queue = choices.queue.unwrap_or(queue);
    let depth = if queue == Policy::None { 1 } else { TAGS };
    if let Some(on) = choices.write_cache {
        params.cache.write_back = if on { WriteBack::On } else { WriteBack::Off };
    }
    if choices.on_bus {
        params.bus = Default::default();
    }
    Ok(Box::new(MechanicalDisk::new(params, disk::Options { queue, depth })?))
}
