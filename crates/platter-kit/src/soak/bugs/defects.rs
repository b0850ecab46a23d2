//! The number of runs in which the soak finds each old defect, and the defects that it cannot find.

/// Whether the soak finds a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Within this number of runs from seed 1.
    Within(u64),
    /// The soak does not find it; a separate test does.
    Targeted {
        /// Where that test is.
        test: &'static str,
        /// Why the soak does not.
        why: &'static str,
    },
    /// It was not tried.
    Unknown,
}

/// By name, in alphabetical order.
const REACH: &[(&str, Reach)] = &[
    (
        "absorbed-as-whole",
        Reach::Targeted {
            test: "crates/platter-block/tests/queue/deadline.rs",
            why: "it takes a run of requests that join around one that timed out: one of about 75,000 runs",
        },
    ),
    ("barrier-never-fails", Reach::Within(1000)),
    (
        "barrier-waits-for-quarantine",
        Reach::Targeted {
            test: "crates/platter-block/tests/queue/doubt.rs",
            why: "what is stuck ends before the soak looks whether barriers do",
        },
    ),
    ("deadline-from-start", Reach::Within(20)),
    ("doubt-ignored", Reach::Within(300)),
    ("fua-stripped", Reach::Within(8000)),
    (
        "merged-count-wraps",
        Reach::Targeted {
            test: "crates/platter-block/tests/queue/merge.rs",
            why: "a run is far shorter than 65,536 I/Os next to each other",
        },
    ),
    ("ordered-switch-holds", Reach::Within(60)),
    (
        "prebuilt-of-old-size",
        Reach::Targeted {
            test: "crates/platter-kit/tests/prebuilt.rs",
            why: "the device has to shrink between two steps of another thread, and a run is one thread",
        },
    ),
    (
        "soft-barrier-passed",
        Reach::Targeted {
            test: "crates/platter-disk/tests/device/order.rs",
            why: "the order of commands is only compared where one queue has all of them",
        },
    ),
    (
        "stuck-depth-ignored",
        Reach::Targeted {
            test: "crates/platter-block/tests/queue/stuck.rs",
            why: "what is stuck ends before the soak looks whether other I/O does",
        },
    ),
    ("transient-fails", Reach::Within(20)),
    (
        "woken-forget-bios",
        Reach::Targeted { test: "crates/platter-kit/tests/woken.rs", why: "a run is one thread" },
    ),
];

pub(super) fn reach(name: &str) -> Reach {
    REACH.iter().find(|(known, _)| *known == name).map_or(Reach::Unknown, |(_, reach)| *reach)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::soak::bugs;

    #[test]
    fn of_each_defect_it_is_known_whether_the_soak_finds_it() {
        for bug in bugs::put_back() {
            assert_ne!(bug.reach, Reach::Unknown, "{}: give it a row in {}", bug.name, file!());
        }
        for (name, reach) in REACH {
            assert!(bugs::by_name(name).is_some(), "{name}: there is no such defect any more");
            if let Reach::Targeted { test, .. } = reach {
                let path = format!("{}/../../{test}", env!("CARGO_MANIFEST_DIR"));
                assert!(std::fs::exists(path).unwrap(), "{name}: {test} is not there");
            }
        }
        let names: Vec<&str> = REACH.iter().map(|(name, _)| *name).collect();
        assert!(names.is_sorted(), "{names:?}");
    }
}
