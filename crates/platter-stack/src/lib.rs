//! Devices built on other devices. Each layer is a [`Backend`] over one or more others and has one file and
//! one row of [`TABLE`].

#![deny(unsafe_code)]

pub mod array_metadata;
pub mod barrier_gate;
pub mod concat;
pub mod delay;
pub mod distributed;
pub mod error_injection;
pub mod extents;
pub mod filter;
#[allow(unsafe_code)]
pub mod kit;
pub mod limit;
pub mod md;
mod members;
pub mod multipath;
mod order;
pub mod partition;
pub mod raid0;
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
