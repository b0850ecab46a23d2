//! The known behaviour of policies, properties of all of them, and bounds for the cost of ours.

mod compared;
mod properties;
mod vectors;

use platter_cache::readahead::{self, Row};

/// Every policy, those of past kernels included.
fn policies() -> Vec<&'static Row> {
    platter_repro::policies::register_readahead();
    readahead::all()
}

fn by_name(name: &str) -> Option<&'static Row> {
    policies().into_iter().find(|row| row.name == name)
}
