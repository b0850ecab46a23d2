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
    (
        "aio-sync-passes",
        Reach::Targeted {
            test: "crates/platter-aio/tests/defects.rs",
            why: "no stack of the soak has the interface",
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
    (
        "cache-command-keeps-pages",
        Reach::Targeted {
            test: "crates/platter-cache/tests/life_defects.rs",
            why: "no plan of the soak has commands of programs; the lives of the cache have",
        },
    ),
    (
        "cache-command-passes-dirty",
        Reach::Targeted {
            test: "crates/platter-cache/tests/life_defects.rs",
            why: "no plan of the soak has commands of programs; the lives of the cache have",
        },
    ),
    (
        "cache-command-unknown-sent",
        Reach::Targeted {
            test: "crates/platter-cache/tests/life_defects.rs",
            why: "no plan of the soak has commands of programs; the lives of the cache have",
        },
    ),
    ("cache-flush-ignores-doubt", Reach::Within(3000)),
    (
        "cache-flush-misses-epochs",
        Reach::Targeted {
            test: "crates/platter-cache/tests/life_defects.rs",
            why: "a run never has more than 256 dirty pages in a cache",
        },
    ),
    ("cache-frames-stay-lost", Reach::Within(60)),
    ("cache-handle-kept", Reach::Within(5000)),
    ("cache-misses-ended-writes", Reach::Within(200)),
    (
        "cache-readahead-counts-all-io",
        Reach::Targeted {
            test: "crates/platter-cache/tests/cache/pressure.rs",
            why: "a cache that reads nothing ahead is slower, and nothing else",
        },
    ),
    (
        "cache-readers-lose-pages",
        Reach::Targeted {
            test: "crates/platter-cache/tests/cache/pressure.rs",
            why: "a page that is read again is slower, and nothing else",
        },
    ),
    (
        "cache-resize-forgets-data",
        Reach::Targeted {
            test: "crates/platter-cache/tests/life_defects.rs",
            why: "the soak changes no size of a cache; the lives of the cache do",
        },
    ),
    (
        "cache-resize-forgets-dirty",
        Reach::Targeted {
            test: "crates/platter-cache/tests/life_defects.rs",
            why: "the soak changes no size of a cache; the lives of the cache do",
        },
    ),
    ("cache-shards-flush-first", Reach::Within(3000)),
    (
        "cache-shards-pass-barrier",
        Reach::Targeted {
            test: "crates/platter-cache/tests/life_defects.rs",
            why: "the soak needs 24,000 runs: power must fail between the write-backs of two shards",
        },
    ),
    (
        "cache-write-back-counts-all-io",
        Reach::Targeted {
            test: "crates/platter-cache/tests/cache/pressure.rs",
            why: "a run never has 1,024 I/Os under way",
        },
    ),
    (
        "cache-write-back-starves-reads",
        Reach::Targeted {
            test: "crates/platter-cache/tests/life_defects.rs",
            why: "no result is wrong: reads wait longer, which the soak does not judge",
        },
    ),
    (
        "cache-writer-takes-all",
        Reach::Targeted {
            test: "crates/platter-cache/tests/life_defects.rs",
            why: "no result is wrong: writers wait longer, which the soak does not judge",
        },
    ),
    (
        "client-weights-ignored",
        Reach::Targeted { test: "crates/platter-serve/tests/defects.rs", why: "the soak has no server" },
    ),
    (
        "close-drops-queued",
        Reach::Targeted {
            test: "crates/platter-disk/tests/promises/dropping.rs",
            why: "a simulated device that is closed drops what has not started",
        },
    ),
    (
        "copies-show-others",
        Reach::Targeted {
            test: "crates/platter-disk/tests/device/memory.rs",
            why: "a simulated disk fills all of the memory of a read",
        },
    ),
    ("deadline-from-start", Reach::Within(20)),
    ("destructors-under-locks", Reach::Within(50)),
    (
        "disconnect-early",
        Reach::Targeted {
            test: "crates/platter-serve/tests/exports_defects.rs",
            why: "the soak has no server",
        },
    ),
    ("doubt-ignored", Reach::Within(300)),
    (
        "doubt-waits-for-owner",
        Reach::Targeted {
            test: "crates/platter-disk/tests/misfortune/doubt.rs",
            why: "a write has to time out on a channel that is then left unpolled: one of some 100,000 runs",
        },
    ),
    (
        "drain-leaves-requests",
        Reach::Targeted { test: "crates/platter-serve/tests/attended.rs", why: "the soak has no server" },
    ),
    (
        "export-flush-early",
        Reach::Targeted {
            test: "crates/platter-serve/tests/exports_defects.rs",
            why: "the soak has no server",
        },
    ),
    ("filter-barrier-lost", Reach::Within(300)),
    (
        "filter-passes-unseen",
        Reach::Targeted {
            test: "crates/platter-stack/tests/layers/events.rs",
            why: "a disk has to grow again while a bio waits in a layer: one of about 150,000 runs",
        },
    ),
    ("fua-stripped", Reach::Within(8000)),
    (
        "guest-errors-hidden",
        Reach::Targeted {
            test: "crates/platter-serve/tests/vhost_defects.rs",
            why: "the soak has no server",
        },
    ),
    (
        "guest-writes-volatile",
        Reach::Targeted {
            test: "crates/platter-serve/tests/exports_defects.rs",
            why: "the soak has no server",
        },
    ),
    (
        "in-flight-forgotten",
        Reach::Targeted {
            test: "crates/platter-serve/tests/vhost_defects.rs",
            why: "the soak has no server",
        },
    ),
    (
        "iscsi-loss-forgotten",
        Reach::Targeted {
            test: "crates/platter-serve/tests/initiator_defects.rs",
            why: "the soak has no network",
        },
    ),
    (
        "iscsi-old-session-lives",
        Reach::Targeted {
            test: "crates/platter-serve/tests/initiator_defects.rs",
            why: "the soak has no network",
        },
    ),
    ("layer-barrier-never-fails", Reach::Within(60)),
    (
        "layer-copy-short",
        Reach::Targeted {
            test: "crates/platter-kit/tests/layers.rs",
            why: "a run writes one side of a snapshot, so that what is copied is blank",
        },
    ),
    (
        "layer-param-ignored",
        Reach::Targeted {
            test: "crates/platter-kit/tests/layers.rs",
            why: "a run sets no parameters of open layers",
        },
    ),
    (
        "layer-rate-ignored",
        Reach::Targeted { test: "crates/platter-kit/tests/layers.rs", why: "a run merges no snapshots" },
    ),
    (
        "layer-record-once",
        Reach::Targeted {
            test: "crates/platter-kit/tests/layers.rs",
            why: "a record fits into one sector, which a power cut leaves whole",
        },
    ),
    (
        "layer-status-in-sectors",
        Reach::Targeted {
            test: "crates/platter-kit/tests/layers.rs",
            why: "a run does not look at the status of layers",
        },
    ),
    (
        "mail-is-silent",
        Reach::Targeted {
            test: "crates/platter-disk/tests/misfortune/mail.rs",
            why: "it takes a layer that delays what came back beyond the deadline of a bio: one of about 370,000 runs",
        },
    ),
    (
        "merged-count-wraps",
        Reach::Targeted {
            test: "crates/platter-block/tests/queue/merge.rs",
            why: "a run is far shorter than 65,536 I/Os next to each other",
        },
    ),
    (
        "multipath-doubt-ignored",
        Reach::Targeted {
            test: "crates/platter-stack/tests/multipath/doubt.rs",
            why: "it takes some 5,000 runs",
        },
    ),
    (
        "multipath-first-try-forgotten",
        Reach::Targeted {
            test: "crates/platter-kit/src/soak/tests.rs",
            why: "it takes a deadline that passes on the second path",
        },
    ),
    (
        "multipath-flush-forgotten",
        Reach::Targeted {
            test: "crates/platter-stack/tests/multipath/failover.rs",
            why: "it was not found in 5,700 runs with several paths",
        },
    ),
    (
        "multipath-flush-stays-failed",
        Reach::Targeted {
            test: "crates/platter-stack/tests/multipath/failover.rs",
            why: "it takes some 7,400 runs",
        },
    ),
    (
        "nbd-doubt-forgotten",
        Reach::Targeted { test: "crates/platter-remote/tests/defects.rs", why: "the soak has no network" },
    ),
    (
        "nbd-fua-ignored",
        Reach::Targeted {
            test: "crates/platter-serve/tests/exports_defects.rs",
            why: "the soak has no server",
        },
    ),
    (
        "nbd-loss-forgotten",
        Reach::Targeted { test: "crates/platter-remote/tests/defects.rs", why: "the soak has no network" },
    ),
    (
        "nbd-reads-copied",
        Reach::Targeted {
            test: "crates/platter-serve/tests/nbd_copies/main.rs",
            why: "the soak has no server",
        },
    ),
    (
        "nbd-tls-optional",
        Reach::Targeted {
            test: "crates/platter-serve/tests/nbds_defects.rs",
            why: "the soak has no network",
        },
    ),
    (
        "odd-end-alone",
        Reach::Targeted { test: "crates/platter-disk/tests/tail.rs", why: "simulated disks are no files" },
    ),
    ("ordered-switch-holds", Reach::Within(60)),
    ("ordered-tag-forgotten", Reach::Within(1000)),
    ("ordered-tag-passed", Reach::Within(1000)),
    (
        "prebuilt-of-old-size",
        Reach::Targeted {
            test: "crates/platter-kit/tests/prebuilt.rs",
            why: "the device has to shrink between two steps of another thread, and a run is one thread",
        },
    ),
    ("regrown-as-new", Reach::Within(60)),
    (
        "restart-forgotten",
        Reach::Targeted { test: "crates/platter-serve/tests/restart.rs", why: "the soak has no server" },
    ),
    (
        "scsi-order-ignored",
        Reach::Targeted {
            test: "crates/platter-scsi/tests/disk/order.rs",
            why: "it takes an ordered command that fails and others behind it",
        },
    ),
    (
        "scsi-ordered-refused-alone",
        Reach::Targeted {
            test: "crates/platter-kit/src/soak/tests.rs",
            why: "it takes a barrier that is refused and another lane that sends at once",
        },
    ),
    ("scsi-silence-is-good", Reach::Within(3000)),
    (
        "shared-lane-on-ring",
        Reach::Targeted {
            test: "crates/platter-disk/tests/promises/leaving.rs",
            why: "a run is one thread, and its disks are no rings",
        },
    ),
    (
        "shrunk-file-extended",
        Reach::Targeted {
            test: "crates/platter-disk/tests/device/files.rs",
            why: "simulated disks are no files",
        },
    ),
    ("snapshot-flush-joins", Reach::Within(60)),
    (
        "snapshot-merge-unflushed",
        Reach::Targeted { test: "crates/platter-kit/tests/snapshot.rs", why: "a run merges no snapshots" },
    ),
    (
        "snapshot-origin-unkept",
        Reach::Targeted {
            test: "crates/platter-kit/tests/snapshot.rs",
            why: "a run looks at the origin or at the snapshot, not at both",
        },
    ),
    ("snapshot-table-first", Reach::Within(500)),
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
    (
        "sync-writes-volatile",
        Reach::Targeted { test: "crates/platter-serve/tests/fuse_durable.rs", why: "the soak has no server" },
    ),
    ("transient-fails", Reach::Within(20)),
    (
        "ublk-fua-volatile",
        Reach::Targeted {
            test: "crates/platter-serve/src/ublk/worker/tests.rs",
            why: "the soak has no server",
        },
    ),
    (
        "wakes-forgotten",
        Reach::Targeted {
            test: "crates/platter-disk/tests/device/wakeups.rs",
            why: "no lane sleeps in virtual time",
        },
    ),
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
