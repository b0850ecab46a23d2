//! Why an array cannot be made or opened.

use platter_block::fault;
use platter_stack::LayerError;
use platter_stack::array_metadata::Problem;
use std::fmt;

/// Why an array cannot be made or opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RaidError {
    /// The request is invalid regardless of the devices: a chunk of 3 KiB, a name of 100 bytes.
    Argument(String),
    /// The devices do not allow the request.
    Refused(String),
    /// These devices are no array, or not all of it.
    Members(Vec<Problem>),
    /// The layer over the members cannot be made.
    Layer(LayerError),
    /// A device failed.
    Device(fault::Error),
}

impl fmt::Display for RaidError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RaidError::Argument(why) | RaidError::Refused(why) => f.write_str(why),
            RaidError::Members(problems) => {
                let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
                f.write_str(&all.join("; "))
            }
            RaidError::Layer(error) => error.fmt(f),
            RaidError::Device(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RaidError {}

impl From<fault::Error> for RaidError {
    fn from(error: fault::Error) -> RaidError {
        RaidError::Device(error)
    }
}

impl From<LayerError> for RaidError {
    fn from(error: LayerError) -> RaidError {
        match error {
            LayerError::Device(error) => RaidError::Device(error),
            wrong => RaidError::Layer(wrong),
        }
    }
}
