//! What holds off other programs from a disk that is used by commands.

use super::{OpenError, Opening};
use platter_disk::device::Device;
use platter_disk::open::DiskOptions;
use platter_disk::sys::{OpenOptions, SignaturePolicy};
use std::path::PathBuf;

/// For a writer: opens the block devices by which others use the same disk, as for writing to them, so that the rules for
/// writers hold. They are not used.
pub(super) fn hold(blocks: &[PathBuf], opening: &Opening) -> Result<Vec<Device>, OpenError> {
    let access = opening.access;
    let blocks = if access.write { blocks } else { &[] };
    let guard = |path: &PathBuf| {
        let signatures = SignaturePolicy {
            block_devices: true,
            files: true,
            of_users: access.served,
            force: access.force,
        };
        let open = OpenOptions::default().with_write(true).with_allow_in_use(access.allow_in_use);
        let options = DiskOptions::default().with_open(open.with_signatures(signatures));
        Device::open(path, options).map_err(OpenError::from)
    };
    blocks.iter().map(guard).collect()
}
