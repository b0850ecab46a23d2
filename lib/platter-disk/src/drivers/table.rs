//! The table of drivers, used by help, documentation and conformance tests.

use platter_block::params::{Param, Unit};

/// What a driver needs to open a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// A size: the disk is made when it is opened.
    Size,
    /// A regular file or block device.
    Path,
}

/// A driver.
#[derive(Clone, Copy, Debug)]
pub struct BuiltInDriver {
    /// Name in device specs and in `driver=`.
    pub name: &'static str,
    /// Summary of one line.
    pub summary: &'static str,
    /// What it drives.
    pub medium: Medium,
    /// First kernel with everything that it needs; empty if it needs no feature of the kernel.
    pub since: &'static str,
    /// How a flush and a durable write are carried out.
    pub durability: &'static str,
    /// Parameters.
    pub params: &'static [Param],
}

const fn param(name: &'static str, unit: Unit, default: i64, max: i64, help: &'static str) -> Param {
    let min = if matches!(unit, Unit::Switch) { 0 } else { 1 };
    Param::number(name, unit, default, (min, max), help)
}

const DEPTH: Param = param(
    "depth",
    Unit::Requests,
    128,
    super::choose::MAX_DEPTH as i64,
    "most requests with the driver at once",
);

/// Every driver.
pub static TABLE: &[BuiltInDriver] = &[
    BuiltInDriver {
        name: "null",
        summary: "completes everything and touches no memory: measures the layer itself",
        medium: Medium::Size,
        since: "",
        durability: "nothing",
        params: &[DEPTH],
    },
    BuiltInDriver {
        name: "ram",
        summary: "a disk in memory, zero-filled, gone when it is closed",
        medium: Medium::Size,
        since: "",
        durability: "nothing",
        params: &[DEPTH],
    },
    BuiltInDriver {
        name: "uring",
        summary: "io_uring: a ring per thread, registered files and buffers, one call per batch",
        medium: Medium::Path,
        since: "5.11",
        durability: "FSYNC with DATASYNC; RWF_DSYNC",
        params: &[
            DEPTH,
            param("sqpoll", Unit::Switch, 0, 1, "a kernel thread submits, at the price of a core"),
            param("iopoll", Unit::Switch, 0, 1, "poll the device for completions (needs poll queues)"),
        ],
    },
    BuiltInDriver {
        name: "aio",
        summary: "Linux native AIO: asynchronous for direct I/O, for kernels and containers without io_uring",
        medium: Medium::Path,
        since: "4.18",
        durability: "IOCB_CMD_FDSYNC; RWF_DSYNC",
        params: &[DEPTH],
    },
    BuiltInDriver {
        name: "threads",
        summary: "blocking preadv2 and pwritev2 in a pool of threads: works everywhere",
        medium: Medium::Path,
        since: "4.7",
        durability: "fdatasync; RWF_DSYNC",
        params: &[DEPTH, param("threads", Unit::Count, 16, 1024, "most threads of the disk")],
    },
];

/// The row of a driver.
pub fn find(name: &str) -> Option<&'static BuiltInDriver> {
    TABLE.iter().find(|row| row.name == name)
}

#[cfg(test)]
mod tests {
    use super::super::FileDriver;
    use super::*;

    #[test]
    fn rows_are_unique_and_complete() {
        for (i, row) in TABLE.iter().enumerate() {
            assert!(TABLE[..i].iter().all(|other| other.name != row.name), "{}", row.name);
            assert!(!row.summary.contains('\n') && !row.summary.ends_with('.'), "{}", row.name);
            for p in row.params {
                assert!((p.min..=p.max).contains(&p.default), "{} {}", row.name, p.name);
            }
        }
    }

    #[test]
    fn every_driver_of_files_has_a_row_in_the_order_of_auto() {
        let names: Vec<_> =
            TABLE.iter().filter(|row| row.medium == Medium::Path).map(|row| row.name).collect();
        assert_eq!(names, FileDriver::ALL.map(FileDriver::name));
        assert!(find("ram").is_some() && find("floppy").is_none());
    }

    #[test]
    fn defaults_are_those_of_the_options() {
        let options = super::super::FileOptions::default();
        let default = |row: &str, name: &str| {
            find(row).and_then(|r| r.params.iter().find(|p| p.name == name)).map(|p| p.default)
        };
        assert_eq!(default("uring", "depth"), Some(options.depth.into()));
        assert_eq!(default("threads", "threads"), Some(options.threads.into()));
        assert_eq!(default("uring", "sqpoll"), Some(options.sqpoll.into()));
        assert_eq!(default("uring", "iopoll"), Some(options.iopoll.into()));
    }
}
