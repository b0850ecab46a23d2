//! Replays a trace, and reports.

use platter_disk::device::Device;

use super::error::ReplayError;
use super::options::ReplayOptions;
use super::reader::Reader;
use super::report::{ReplayReport, build};
use super::{real, simulated};
use crate::io::{Hooks, shared_clock};

/// Replays what the reader has on devices, which are those that it was made for.
///
/// # Errors
/// The trace cannot be read, or has something that a device does not allow; the replay has ended there. An I/O that fails is
/// counted in the report instead.
pub fn run(
    reader: &mut Reader<'_, '_>,
    options: &ReplayOptions,
    devices: &[Device],
    hooks: Hooks<'_>,
) -> Result<ReplayReport, ReplayError> {
    let finish = match shared_clock(devices)? {
        Some(_) => simulated::run(reader, options, devices, hooks)?,
        None => real::run(reader, options, devices, hooks)?,
    };
    Ok(build(finish, reader, options, devices))
}
