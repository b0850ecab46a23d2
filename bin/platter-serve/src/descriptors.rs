//! The process's descriptors: raised to what the system allows, and kept for what must work when clients have used up theirs.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::os::fd::{AsRawFd, OwnedFd};

/// What a client of an NBD or iSCSI export needs, on a device with one disk.
pub const OF_A_CLIENT: u64 = 4;

/// Most descriptors that clients do not get: for the control socket, the metrics, files that are opened later, and clients that
/// are just being accepted.
const MOST_RESERVED: u64 = 128;

/// Without a limit.
const ANY: u64 = u64::MAX;

/// Raises the soft limit of descriptors (`RLIMIT_NOFILE`) to the hard one, for the whole process and its children. Returns the limit
/// that holds now.
pub fn raise() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // Where that is not allowed, the old limit holds.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
    getrlimit(Resource::Nofile).current.unwrap_or(ANY)
}

/// For how many clients a limit is enough.
pub fn clients(limit: u64) -> usize {
    usize::try_from((limit - reserve(limit)) / OF_A_CLIENT).unwrap_or(usize::MAX).max(1)
}

fn reserve(limit: u64) -> u64 {
    MOST_RESERVED.min(limit / 4)
}

/// Whether a connection that was just accepted has one of the last descriptors. They are given out from the lowest on.
pub(crate) fn is_of_reserve(connection: &OwnedFd) -> bool {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(ANY);
    u64::try_from(connection.as_raw_fd()).is_ok_and(|number| number >= limit - reserve(limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_leave_a_reserve() {
        assert_eq!([clients(1024), clients(64), clients(1)], [224, 12, 1]);
        assert!(clients(ANY) > 1 << 40);
        let limit = raise();
        assert_eq!(getrlimit(Resource::Nofile).current.unwrap_or(ANY), limit);
        assert!(!is_of_reserve(&std::fs::File::open("/dev/null").unwrap().into()) || limit < 256);
    }
}
