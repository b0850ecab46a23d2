//! Within how many runs the soak finds what was put back, and what it cannot find.

/// Whether the soak finds a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Within so many runs from seed 1.
    Within(u64),
    /// It does not; a test of its own does.
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
const REACH: &[(&str, Reach)] = &[(
    "merged-count-wraps",
    Reach::Targeted {
        test: "crates/platter-block/tests/queue/merge.rs",
        why: "a run is far shorter than 65,536 I/Os next to each other",
    },
)];

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
