//! Whether to overwrite existing contents.

use std::path::Path;

use super::Signature;
use crate::sys::{Kind, SysError};

/// Number of signatures that an error names before it only counts the rest.
const NAMED: usize = 4;

/// Which kinds of disks are checked for signatures before writing, and whether to write in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignaturePolicy {
    /// Refuse block devices with contents. On by default.
    pub block_devices: bool,
    /// Refuse regular files with contents. Off by default, because an image of a file system is often what
    /// the user wants to work on.
    pub files: bool,
    /// Write to a disk whose contents are its users', as those of a server are: file systems, partition tables and whatever
    /// else they have put on it. Only a member of an array is refused, since what is written to it goes past the array.
    pub of_users: bool,
    /// Overwrite whatever is there.
    pub force: bool,
}

impl Default for SignaturePolicy {
    fn default() -> Self {
        SignaturePolicy { block_devices: true, files: false, of_users: false, force: false }
    }
}

impl SignaturePolicy {
    /// Whether a disk of this kind must be checked before it is written to.
    pub fn applies_to(&self, kind: Kind) -> bool {
        !self.force
            && match kind {
                Kind::Block => self.block_devices,
                Kind::Regular => self.files,
            }
    }
}

/// Refuses to write to a disk with contents, if the policy says so.
///
/// # Errors
/// The policy applies and `found` is not empty: names the contents, their offsets, and the option that allows
/// writing.
pub fn refuse_if_signature(
    path: &Path,
    kind: Kind,
    found: &[Signature],
    policy: SignaturePolicy,
) -> Result<(), SysError> {
    let counts = |it: &&Signature| !policy.of_users || it.is_array_member();
    let found: Vec<&Signature> = found.iter().filter(counts).collect();
    if found.is_empty() || !policy.applies_to(kind) {
        return Ok(());
    }
    let named: Vec<String> = found.iter().take(NAMED).map(ToString::to_string).collect();
    let rest = found.len().saturating_sub(NAMED);
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    let message = format!("it holds {}{more}, which writing would destroy", named.join(", "));
    let help = "to overwrite it, pass --force, or force=on in the device spec";
    Err(SysError::new("write to", path, message, help))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOUND: [Signature; 5] = [
        Signature { offset: 510, name: "protective MBR" },
        Signature { offset: 512, name: "GPT partition table" },
        Signature { offset: 1080, name: "ext4" },
        Signature { offset: 4086, name: "swap" },
        Signature { offset: 9000, name: "more" },
    ];

    fn check(kind: Kind, found: &[Signature], policy: SignaturePolicy) -> Result<(), SysError> {
        refuse_if_signature(Path::new("/dev/sdx"), kind, found, policy)
    }

    #[test]
    fn the_error_names_what_where_and_the_flag() {
        let e = check(Kind::Block, &FOUND[2..3], SignaturePolicy::default()).unwrap_err();
        assert_eq!(
            e.to_string(),
            "cannot write to /dev/sdx: it holds ext4 at byte 1080, which writing would destroy; \
             to overwrite it, pass --force, or force=on in the device spec"
        );
        let e = check(Kind::Block, &FOUND, SignaturePolicy::default()).unwrap_err();
        assert!(e.message.contains("swap at byte 4086 and 1 more,"), "{e}");
    }

    #[test]
    fn contents_of_users_are_written_to_and_members_of_arrays_are_not() {
        let users = SignaturePolicy { files: true, of_users: true, ..SignaturePolicy::default() };
        for kind in [Kind::Block, Kind::Regular] {
            assert!(check(kind, &FOUND, users).is_ok());
            for name in ["platter array", "md array member (1.2)", "md array member (0.90)"] {
                let found = [FOUND[0], Signature { offset: 4096, name }];
                let e = check(kind, &found, users).unwrap_err();
                assert!(e.message.contains(&format!("it holds {name} at byte 4096,")), "{e}");
                assert!(check(kind, &found, SignaturePolicy { force: true, ..users }).is_ok());
            }
        }
    }

    #[test]
    fn the_policy_decides_for_devices_and_files() {
        let default = SignaturePolicy::default();
        assert!(check(Kind::Block, &[], default).is_ok());
        assert!(check(Kind::Regular, &FOUND, default).is_ok());
        assert!(check(Kind::Regular, &FOUND, SignaturePolicy { files: true, ..default }).is_err());
        assert!(check(Kind::Block, &FOUND, SignaturePolicy { force: true, ..default }).is_ok());
        assert!(check(Kind::Block, &FOUND, SignaturePolicy { block_devices: false, ..default }).is_ok());
    }
}
