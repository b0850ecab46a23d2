//! What a server that was killed has lost, and how clients learn of it: the first flush of each fails once.

use platter_block::defect::{self, Defect};
use std::sync::atomic::{AtomicBool, Ordering};

/// How the server that served a device before this one has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Past {
    /// It is not known, or there was none.
    #[default]
    Unknown,
    /// It has flushed the device.
    Clean,
    /// It has not, and with it answered writes may be lost that no flush had covered.
    Lost,
}

/// Whether the next flush of a client fails because an earlier server has lost what the client believes to be written.
#[derive(Debug, Default)]
pub struct FirstFlush(AtomicBool);

impl FirstFlush {
    /// One that fails if `owed` is set.
    pub(crate) fn new(owed: bool) -> FirstFlush {
        FirstFlush(AtomicBool::new(owed && !defect::is_on(Defect::RestartForgotten)))
    }

    /// Called for each flush of the client: whether it must fail, without an effect. `true` at most once.
    #[inline]
    pub fn fails(&self) -> bool {
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use crate::restart::Past;
    use crate::served::Served;
    use platter_disk::device::Device;
    use platter_disk::open::DiskOptions;

    /// A disk in memory, which loses everything with its process, and a file.
    fn served(past: Past) -> [Served; 2] {
        let file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let file = Device::open(file.path(), DiskOptions::read_write()).unwrap();
        [Device::ram(1 << 20).unwrap(), file].map(|device| Served::new("d", device).unwrap().after(past))
    }

    #[test]
    fn survivors_pay_unless_nothing_can_be_lost_and_newcomers_only_if_something_was() {
        let owed = |past, survives: bool| {
            served(past).map(|it| if survives { it.survivor().fails() } else { it.newcomer().fails() })
        };
        assert_eq!(owed(Past::Unknown, false), [false, false]);
        assert_eq!(owed(Past::Unknown, true), [true, false]);
        assert_eq!([owed(Past::Clean, false), owed(Past::Clean, true)], [[false; 2]; 2]);
        // The device that was killed need not be the one that is served now.
        assert_eq!([owed(Past::Lost, false), owed(Past::Lost, true)], [[true; 2]; 2]);
    }

    #[test]
    fn one_flush_fails() {
        let [ram, _] = served(Past::Lost);
        let first = ram.newcomer();
        assert!(first.fails());
        assert!(!first.fails());
    }
}
