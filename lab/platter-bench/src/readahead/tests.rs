//! The known behaviour of policies, properties of all of them, and bounds for the cost of ours.

mod compared;
mod properties;
mod vectors;

use platter_cache::readahead::{self, ReadaheadType};

/// Every policy, those of past kernels included.
fn policies() -> Vec<&'static ReadaheadType> {
    platter_repro::policies::register_readahead();
    readahead::all()
}

fn by_name(name: &str) -> Option<&'static ReadaheadType> {
    policies().into_iter().find(|row| row.name == name)
}
