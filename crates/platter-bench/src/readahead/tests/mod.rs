//! The known behaviour of policies, properties of all of them, and bounds for the cost of ours.

mod compared;
mod properties;
mod vectors;
