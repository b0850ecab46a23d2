//! The readahead policies of past kernels. They work in the page cache and in the readahead simulator like any other,
//! once a program has [registered](register_readahead) them.
//!
//! They need steps that no policy in use today needs: most look at every page of a call, and some allow only one call
//! of a handle at a time.

mod alone;
mod linux24;
mod linux26;

pub use linux24::Linux24;
pub use linux26::{Ahead, Jump, Linux26, Rules, Runs};

use platter_cache::readahead::{self, ReadaheadType};

/// The policies, from the oldest kernel on.
pub static READAHEAD: &[ReadaheadType] = &[
    linux24::TYPE,
    linux26::L0,
    linux26::L1,
    linux26::L2,
    linux26::L5,
    linux26::PRIVATE,
    linux26::SIZE,
    linux26::LOCK,
    linux26::L7,
];

/// Registers the policies, so that they can be named wherever a readahead policy can. Repeated calls change nothing.
pub fn register_readahead() {
    readahead::register_table(READAHEAD);
}

/// Looks a policy up by name, those of today and the one that is not registered included.
pub(crate) fn by_name(name: &str) -> Option<&'static ReadaheadType> {
    register_readahead();
    if name == alone::TYPE.name { Some(&alone::TYPE) } else { readahead::by_name(name) }
}
