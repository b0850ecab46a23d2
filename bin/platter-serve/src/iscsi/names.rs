//! Names of targets: a prefix, then the name of the device.

use crate::error::ServeError;
use crate::served::{Devices, Served};
use platter_remote::iscsi::text;
use std::sync::Arc;

/// Longest iSCSI name in bytes (RFC 7143, section 4.2.7).
const MAX_BYTES: usize = 223;

/// The only portal group, of which each address of the export is a portal.
pub(super) const PORTAL_GROUP: &str = "1";

/// The name of the target of the device that has none.
const UNNAMED: &str = "disk";

/// Whether text may be a part of an iSCSI name, which is compared byte by byte.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b':'))
}

/// Checks a prefix.
///
/// # Errors
/// It is not the beginning of a name of the type iqn, eui or naa, or has characters that names cannot have.
pub(super) fn check_prefix(prefix: &str) -> Result<(), ServeError> {
    let begins = ["iqn.", "eui.", "naa."].iter().any(|kind| prefix.starts_with(kind));
    if begins && is_plain(prefix) && prefix.len() < MAX_BYTES {
        return Ok(());
    }
    Err(ServeError::usage(format!(
        "{prefix:?} cannot begin the name of an iSCSI target: it is iqn.YYYY-MM.DOMAIN:TEXT with small letters, digits, \
         '-', '.' and ':', such as \"iqn.2026-11.localhost.platter:\""
    )))
}

/// The name of a device's target.
///
/// # Errors
/// The device's name has characters that iSCSI names cannot have, or is too long.
pub(super) fn target_name(prefix: &str, device: &str) -> Result<String, ServeError> {
    let device = if device.is_empty() { UNNAMED } else { device };
    if !is_plain(device) || prefix.len() + device.len() > MAX_BYTES {
        let room = MAX_BYTES - prefix.len().min(MAX_BYTES);
        return Err(ServeError::usage(format!(
            "the device {device:?} cannot be an iSCSI target: give it a name of 1 to {room} small letters, digits, '-', \
             '.' and ':'"
        )));
    }
    Ok(format!("{prefix}{device}"))
}

/// The device of a target's name.
pub(super) fn find(devices: &Devices, prefix: &str, target: &str) -> Option<Arc<Served>> {
    let is = |served: &Arc<Served>| target_name(prefix, served.name()).is_ok_and(|name| name == target);
    devices.list().into_iter().find(is)
}

/// The answer to SendTargets: each target with the address at which the initiator reached it.
pub(super) fn send_targets(
    devices: &Devices,
    prefix: &str,
    address: Option<&str>,
    wanted: impl Fn(&str) -> bool,
) -> Vec<u8> {
    let mut answer = Vec::new();
    for served in devices.list() {
        let Ok(name) = target_name(prefix, served.name()) else { continue };
        if wanted(&name) {
            text::push(&mut answer, "TargetName", &name);
            if let Some(address) = address {
                text::push(&mut answer, "TargetAddress", &format!("{address},{PORTAL_GROUP}"));
            }
        }
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_disk::device::Device;

    const PREFIX: &str = "iqn.2026-11.localhost.platter:";

    #[test]
    fn devices_are_found_by_the_names_of_their_targets() {
        let devices = Devices::default();
        for name in ["disk-1", "Disk"] {
            devices.add(Served::new(name, Device::ram(1 << 20).unwrap()).unwrap()).unwrap();
        }
        assert!(find(&devices, PREFIX, &target_name(PREFIX, "disk-1").unwrap()).is_some());
        assert!(find(&devices, PREFIX, "iqn.2026-11.localhost.platter:Disk").is_none());
        assert!(find(&devices, PREFIX, "disk-1").is_none());
        assert!(target_name(PREFIX, "Disk").unwrap_err().to_string().contains("small letters"));
        assert!(target_name(PREFIX, &"a".repeat(300)).is_err());
        let all = send_targets(&devices, PREFIX, Some("127.0.0.1:3260"), |_| true);
        assert_eq!(all, b"TargetName=iqn.2026-11.localhost.platter:disk-1\0TargetAddress=127.0.0.1:3260,1\0");
    }

    #[test]
    fn prefixes_are_checked() {
        assert!(check_prefix(PREFIX).is_ok());
        for wrong in ["", "platter:", "iqn.2026-11.Localhost:", "iqn.2026-11.local host:"] {
            assert!(check_prefix(wrong).is_err(), "{wrong}");
        }
    }
}
