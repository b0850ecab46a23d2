//! The sources of requests.

/// One way to use several disks together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Personality {
    /// Disks by themselves: a process for each.
    Jbod,
    /// A striped array as Linux 2.4 reads it.
    Kernel24,
    /// The array in user space, synchronous.
    CsraidSync,
    /// The array in user space, asynchronous.
    CsraidAsync,
    /// The array in user space, asynchronous over POSIX aio.
    CsraidPosix,
    /// The stripe set of Windows XP.
    Windows,
    /// The array in user space, asynchronous over Platter's POSIX aio.
    CsraidAio,
}

/// A row of the table of personalities.
#[derive(Debug)]
pub struct PersonalityType {
    /// The personality.
    pub personality: Personality,
    /// Name in options and reports.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
}

/// The stripe of Windows' stripe sets, as far as the paper could determine.
pub const WINDOWS_STRIPE: u64 = 1 << 20;

/// Every personality.
pub static PERSONALITIES: &[PersonalityType] = &[
    PersonalityType {
        personality: Personality::Jbod,
        name: "jbod",
        summary: "a process for each disk, one request each",
    },
    PersonalityType {
        personality: Personality::Kernel24,
        name: "kernel-2.4",
        summary: "an array as Linux 2.4 reads it: one stripe after the other, one more read ahead",
    },
    PersonalityType {
        personality: Personality::CsraidSync,
        name: "csraid-sync",
        summary: "an array in user space, one request at a time, all of its parts at once",
    },
    PersonalityType {
        personality: Personality::CsraidAsync,
        name: "csraid-async",
        summary: "the same with several requests at once",
    },
    PersonalityType {
        personality: Personality::CsraidPosix,
        name: "csraid-posix",
        summary: "the same over POSIX aio as in the paper: each disk gets one part at a time",
    },
    PersonalityType {
        personality: Personality::Windows,
        name: "windows",
        summary: "the stripe set of Windows XP: stripes of 1 MiB, one request, all of its parts at once",
    },
    PersonalityType {
        personality: Personality::CsraidAio,
        name: "csraid-aio",
        summary: "csraid-async over Platter's POSIX aio; files and block devices only, and only if named",
    },
];

impl Personality {
    /// Its row.
    pub fn row(self) -> &'static PersonalityType {
        // The table has them in the order of the type; a test checks this.
        &PERSONALITIES[self as usize]
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Looks one up by name.
    pub fn by_name(name: &str) -> Option<Personality> {
        PERSONALITIES.iter().find(|row| row.name == name).map(|row| row.personality)
    }

    /// Whether the stripe of its array can be chosen.
    pub fn has_stripe(self) -> bool {
        !matches!(self, Personality::Jbod | Personality::Windows)
    }

    /// Whether it works on simulated disks. Only such personalities are measured if none is named.
    pub fn is_simulated(self) -> bool {
        self != Personality::CsraidAio
    }

    /// Whether it keeps several requests going.
    pub fn is_deep(self) -> bool {
        matches!(self, Personality::CsraidAsync | Personality::CsraidPosix | Personality::CsraidAio)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_where_they_are_looked_for() {
        for (at, row) in PERSONALITIES.iter().enumerate() {
            assert_eq!((row.personality as usize, row.personality.name()), (at, row.name));
            assert_eq!(Personality::by_name(row.name), Some(row.personality));
        }
        assert_eq!(Personality::by_name("raid"), None);
    }
}
