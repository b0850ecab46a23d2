//! The table of all kinds of exports.

use crate::export::ExportType;
use crate::fuse;
#[cfg(feature = "iscsi")]
use crate::iscsi;
use crate::nbd;
#[cfg(feature = "ublk")]
use crate::ublk;
#[cfg(feature = "vhost")]
use crate::vhost;

/// All kinds of exports.
pub const TABLE: &[ExportType] = &[
    nbd::TYPE,
    fuse::TYPE,
    #[cfg(feature = "ublk")]
    ublk::TYPE,
    #[cfg(feature = "vhost")]
    vhost::TYPE,
    #[cfg(feature = "iscsi")]
    iscsi::TYPE,
];

/// The kind of this name.
pub fn find(name: &str) -> Option<&'static ExportType> {
    TABLE.iter().find(|row| row.name == name)
}
