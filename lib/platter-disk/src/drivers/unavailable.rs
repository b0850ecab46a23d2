//! Why the kernel does not offer something, and for how long that may be remembered.

use std::sync::OnceLock;

/// The errno of requests that could not be handed to the kernel because a call for all of them failed with `errno`. `EPERM`
/// is then a refusal of the call: as the answer to a write it would mean that the device is read-only.
pub(super) fn errno_of_call(errno: i32) -> i32 {
    if errno == libc::EPERM { libc::EACCES } else { errno }
}

/// Why something of the kernel cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unavailable {
    /// For users.
    pub(super) why: String,
    /// The system's errno, if it gave one.
    pub(super) errno: Option<i32>,
}

impl Unavailable {
    /// Whether it will be the same as long as the process runs: the kernel does not have it, or forbids it.
    fn is_lasting(&self) -> bool {
        use libc::{EACCES, EINVAL, ENOSYS, EOPNOTSUPP, EPERM};
        self.errno.is_none_or(|errno| [EACCES, EINVAL, ENOSYS, EOPNOTSUPP, EPERM].contains(&errno))
    }

    /// The errno, if the system lacks something that may be free later, such as a descriptor.
    pub(super) fn shortage(&self) -> Option<i32> {
        self.errno.filter(|_| !self.is_lasting())
    }
}

/// What was found earlier, or what `probe` finds now, which is kept if it will stay so.
pub(super) fn remembered<T: Clone>(
    found: &OnceLock<Result<T, Unavailable>>,
    probe: impl FnOnce() -> Result<T, Unavailable>,
) -> Result<T, Unavailable> {
    if let Some(found) = found.get() {
        return found.clone();
    }
    let now = probe();
    if now.as_ref().err().is_none_or(Unavailable::is_lasting) {
        // Another thread may have been first; it has found the same.
        let _ = found.set(now.clone());
    }
    now
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no(errno: Option<i32>) -> Unavailable {
        Unavailable { why: "no".into(), errno }
    }

    #[test]
    fn a_shortage_is_not_remembered_and_an_answer_is() {
        let found = OnceLock::new();
        for errno in [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::EAGAIN] {
            let short = no(Some(errno));
            assert_eq!(short.shortage(), Some(errno));
            assert_eq!(remembered::<u32>(&found, || Err(short.clone())), Err(short.clone()));
        }
        assert_eq!(remembered(&found, || Ok(7)), Ok(7));
        assert_eq!(remembered(&found, || Err(no(Some(libc::EMFILE)))), Ok(7));
    }

    #[test]
    fn a_refusal_that_stays_is_remembered() {
        for errno in [None, Some(libc::ENOSYS), Some(libc::EPERM), Some(libc::EINVAL)] {
            let found = OnceLock::new();
            assert_eq!(no(errno).shortage(), None);
            assert_eq!(remembered(&found, || Err(no(errno))), Err(no(errno)));
            assert_eq!(remembered(&found, || Ok(7)), Err(no(errno)));
        }
    }
}
