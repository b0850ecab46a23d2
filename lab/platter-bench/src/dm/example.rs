//! A report for the tests of how reports are shown.

use super::{Call, Cell, Medium, Options, Report};
use crate::device_stats::DeviceStats;
use crate::ladder::crew::Measured;
use crate::ladder::{Runs, TABLE};
use platter_block::counters::Snapshot;

/// Two rungs, two rounds, and interrupted.
pub(super) fn example() -> Report {
    let run = |wall_ns, cpu_ns, bounced| Measured {
        reads: 100,
        wall_ns,
        cpu_ns,
        idle_pct: Some(50.0),
        counters: Snapshot { bios: 12_800, bytes_bounced: bounced, ..Snapshot::default() },
        device: DeviceStats::default(),
        waits: 100,
        threads: 2,
        descriptor_bytes: 8792,
    };
    let cell = |index: usize, bounced| Cell {
        rung: &TABLE[index],
        call: Call::Read,
        runs: Runs(vec![run(1_000_000_000, 5_000_000, bounced), run(2_000_000_000, 7_000_000, bounced)]),
    };
    Report {
        options: Options::default(),
        machine: vec![("kernel", "Linux <6>".to_owned())],
        media: vec![Medium {
            on: "ram".to_owned(),
            about: "2 disks of 1 MiB in memory".to_owned(),
            facts: vec![("driver", "ram".to_owned())],
            cells: vec![cell(0, 6_553_600), cell(1, 0)],
        }],
        interrupted: true,
    }
}
