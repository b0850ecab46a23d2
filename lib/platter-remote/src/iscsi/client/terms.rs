//! What a session is made of.

use std::fmt;
use std::time::Duration;

/// Checksums over the headers of units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Digest {
    /// As the target likes, without them if it does not mind.
    #[default]
    Either,
    /// Without.
    None,
    /// CRC32C.
    Crc32c,
}

impl Digest {
    /// `enum iscsi_header_digest`.
    pub(super) const fn number(self) -> i32 {
        match self {
            Digest::None => 0,
            Digest::Either => 1,
            Digest::Crc32c => 3,
        }
    }
}

/// What a session is made of.
#[derive(Clone)]
pub(super) struct Terms {
    pub(super) initiator: String,
    /// The target; `None`: a session for discovery.
    pub(super) target: Option<String>,
    pub(super) lun: u16,
    /// Name and secret by which the initiator shows who it is.
    pub(super) user: Option<(String, String)>,
    /// Name and secret by which the target does.
    pub(super) target_user: Option<(String, String)>,
    pub(super) digest: Digest,
    /// What tells the session from others of the initiator: a number of 24 bits of the disk, and that of the connection. A
    /// login with the same ends the session that had it before.
    pub(super) port: (u32, u16),
    pub(super) peer_timeout: Duration,
}

impl fmt::Debug for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the secrets.
        f.debug_struct("Terms").field("target", &self.target).field("lun", &self.lun).finish_non_exhaustive()
    }
}
