//! Shares of a disk: a small party beside one with seven times as many I/Os.

use super::Results;
use crate::ReproError;
use crate::disk::{IDE, open};
use platter_bench::processes::{Placement, Process, RunLimits, random_io, run as run_processes};
use platter_bench::report::units::fixed;
use platter_bench::report::{Column, Table};
use platter_block::bio::Op;
use platter_block::time::Span;
use std::sync::atomic::AtomicBool;

/// I/Os of the large party for each of the small one.
const TIMES: u32 = 7;
/// Time at full size, in seconds, and the least.
const SECONDS: u64 = 120;
const LEAST: u64 = 10;

/// What the parties are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Party {
    /// Two processes.
    Process,
    /// Two users, whose I/Os are of a process each; the elevator groups by process, or by user.
    User { by_user: bool },
}

/// A load and an elevator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scene {
    pub(super) elevator: (&'static str, &'static str),
    pub(super) write: bool,
    pub(super) party: Party,
    /// I/Os of the small party at a time.
    pub(super) small: u32,
}

/// Enough that the small party always has a request in the queue.
pub(super) const BACKLOG: u32 = 8;

/// The share of the small party in all bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shares {
    pub(super) small: f64,
    pub(super) mib_per_s: f64,
}

const ELEVATORS: [(&str, &str); 3] = [("2.6.10", "deadline"), ("2.6.5", "cfq-v1"), ("2.6.10", "cfq-v2")];

pub(super) fn scenes() -> Vec<Scene> {
    let mut all = Vec::new();
    for elevator in ELEVATORS {
        for small in [1, BACKLOG] {
            all.extend([false, true].map(|write| Scene { elevator, write, party: Party::Process, small }));
        }
    }
    let elevator = ELEVATORS[2];
    let by_user = |by_user| Scene { elevator, write: false, party: Party::User { by_user }, small: BACKLOG };
    all.extend([false, true].map(by_user));
    all
}

pub(super) fn run(
    scene: Scene,
    (scale, seed): (u64, u64),
    cancel: &AtomicBool,
) -> Result<Shares, ReproError> {
    let device = open(IDE, scene.elevator, seed)?;
    if let Party::User { by_user: true } = scene.party {
        // pgid, tgid, uid, gid.
        let set = device.set_elevator_param("key_type", 2);
        set.map_err(|error| ReproError::Stack(error.to_string()))?;
    }
    let mut place = Placement::new(device.size());
    let op = if scene.write { Op::Write } else { Op::Read };
    let mut processes = Vec::new();
    for task in 0..(TIMES + 1) * scene.small {
        let file = place.file(256 << 20)?;
        let steps =
            random_io(file, op, 4096, Span::ZERO, seed.wrapping_mul(100).wrapping_add(task.into()), None);
        let user = u32::from(task >= scene.small);
        let number = match scene.party {
            Party::Process => 1 + user,
            Party::User { .. } => 1 + task,
        };
        let mut process = Process::new(format!("task {task}"), number, steps);
        // A process group for each process, as a shell makes them.
        process.context = process.context.in_group(number).of_user(1 + user);
        processes.push(process);
    }
    let time = Some(Span::from_secs((SECONDS / scale).max(LEAST)));
    let outcome = run_processes(&device, processes, &RunLimits { time, cancel, sync_writes: false })?;
    if outcome.cancelled {
        return Err(ReproError::Interrupted);
    }
    let bytes: u64 = outcome.records.iter().map(|record| record.bytes).sum();
    let small: u64 = outcome.records.iter().take(scene.small as usize).map(|record| record.bytes).sum();
    Ok(Shares {
        small: small as f64 / bytes.max(1) as f64,
        mib_per_s: platter_bench::report::units::mib_per_s(bytes, outcome.took.0),
    })
}

pub(super) fn table(results: &Results) -> Table {
    let mut table = Table::new([
        Column::text("elevator"),
        Column::text("parties"),
        Column::text("I/O"),
        Column::number("waiting", "I/Os"),
        Column::number("share of the small party", "%"),
        Column::number("rate", "MiB/s"),
    ]);
    for scene in scenes() {
        let Some(shares) = results.shares(scene).first().copied() else { continue };
        let parties = match scene.party {
            Party::Process => "processes",
            Party::User { by_user: false } => "users, grouped by process",
            Party::User { by_user: true } => "users, grouped by user",
        };
        table.row([
            format!("{} {}", scene.elevator.0, scene.elevator.1),
            parties.to_owned(),
            if scene.write { "writes" } else { "reads" }.to_owned(),
            format!("{} and {}", scene.small, TIMES * scene.small),
            fixed(shares.small * 100.0, 1),
            fixed(shares.mib_per_s, 2),
        ]);
    }
    table
}
