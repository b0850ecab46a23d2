//! The table of all kinds of exports.

use crate::export::Row;
use crate::fuse;
use crate::nbd;
#[cfg(feature = "vhost")]
use crate::vhost;

/// All kinds of exports.
pub const TABLE: &[Row] = &[
    nbd::ROW,
    fuse::ROW,
    #[cfg(feature = "vhost")]
    vhost::ROW,
];

/// The kind of this name.
pub fn find(name: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.name == name)
}
