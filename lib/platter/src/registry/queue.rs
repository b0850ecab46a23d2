//! The settings of a disk's queue, as arguments that every disk takes.

use super::{default_elevator, elevators};
use crate::spec::{Args, Argument, ArgumentKind, SpecError, Words};
use platter_block::elevator::Elevator;
use platter_block::queue::{Ordered, PlugSettings, PoolRules, Settings};
use platter_block::time::Span;
use platter_disk::disk_backend::{DiskSettings, LockScope, OnReturn};
use std::time::Duration;

/// Most requests with a driver at once, and most requests of a queue.
const MAX_DEPTH: u64 = 16384;

const HOUR: Duration = Duration::from_secs(3600);

/// Parameters of a queue.
pub(super) const PARAMS: &[Argument] = &[
    Argument {
        name: "elevator",
        kind: ArgumentKind::Nested(Words(elevators::elevator_names)),
        default: "none",
        help: "I/O scheduler, with its parameters in parentheses; not given: the default of the process, none unless set",
    },
    Argument {
        name: "depth",
        kind: ArgumentKind::Int { min: 1, max: MAX_DEPTH },
        default: "128",
        help: "most requests with the driver at once",
    },
    Argument {
        name: "nr_requests",
        kind: ArgumentKind::Int { min: 1, max: MAX_DEPTH },
        default: "128",
        help: "requests of the queue: for each direction with an elevator, in all without",
    },
    Argument { name: "merges", kind: ArgumentKind::Bool, default: "on", help: "merge bios into requests" },
    Argument {
        name: "plug",
        kind: ArgumentKind::Bool,
        default: "on",
        help: "let an idle device wait a little for company; only with an elevator",
    },
    Argument {
        name: "unplug_thresh",
        kind: ArgumentKind::Int { min: 1, max: MAX_DEPTH },
        default: "4",
        help: "requests that end the device's plug",
    },
    Argument {
        name: "unplug_delay",
        kind: ArgumentKind::Time { min: Duration::from_micros(1), max: Duration::from_secs(10) },
        default: "3ms",
        help: "time after which the device's plug ends",
    },
    Argument {
        name: "caller_plug",
        kind: ArgumentKind::Bool,
        default: "on",
        help: "collect the bios of each submitter and hand them over as a batch",
    },
    Argument {
        name: "timeout",
        kind: ArgumentKind::Time { min: Duration::from_millis(1), max: HOUR },
        default: "",
        help: "longest that the driver may have a read or a write before it is asked to abort it; also the deadline of those of callers; not given: no limit",
    },
    Argument {
        name: "slow_timeout",
        kind: ArgumentKind::Time { min: Duration::from_millis(1), max: HOUR },
        default: "",
        help: "the same for flushes, discards, write-zeroes and commands",
    },
    Argument {
        name: "abort_grace",
        kind: ArgumentKind::Time { min: Duration::from_millis(1), max: HOUR },
        default: "",
        help: "longest after that until the request is back; then the disk is failed as a whole until it has returned everything; not given: as long as before that",
    },
    Argument {
        name: "on_return",
        kind: ArgumentKind::Choice(&ON_RETURN),
        default: "refresh",
        help: "what a disk does that was failed so and has answered: it is measured and used again, or stays failed until it is refreshed",
    },
    Argument {
        name: "barrier_timeout",
        kind: ArgumentKind::Time { min: Duration::from_millis(1), max: HOUR },
        default: "30s",
        help: "longest that a barrier, I/O to the range of a late change or behind a failed barrier waits for channels that are not polled; then it fails",
    },
    Argument {
        name: "ordered",
        kind: ArgumentKind::Choice(&ORDERS),
        default: "drain",
        help: "hard barriers: drain the queue, or send them as ordered tags, for simulated disks with a queue of their own",
    },
    Argument {
        name: "lock",
        kind: ArgumentKind::Text,
        default: "queue",
        help: "which queues share a lock: queue (none), all (every device), or those with this adapter name",
    },
    Argument {
        name: "lanes",
        kind: ArgumentKind::Int { min: 1, max: MAX_DEPTH },
        default: "",
        help: "most synchronous calls at once, each with a channel to the disk; not given: as nr_requests",
    },
    Argument {
        name: "prebuild",
        kind: ArgumentKind::Bool,
        default: "on",
        help: "prepare requests before taking the lock of the queue that lanes share; only with an elevator",
    },
    Argument {
        name: "bounce",
        kind: ArgumentKind::Bool,
        default: "on",
        help: "copy misaligned memory instead of failing",
    },
];

/// How hard barriers may keep their order: the values of `ordered`.
pub const ORDERS: [&str; 2] = ["drain", "tag"];

/// What disks do that were failed because they did not answer, and have answered: the values of `on_return`.
const ON_RETURN: [&str; 2] = ["refresh", "stay"];

/// Reads the settings and makes the elevator.
pub(super) fn read(args: &mut Args<'_>) -> Result<(DiskSettings, Option<Box<dyn Elevator>>), SpecError> {
    let (elevator, elevator_from) = default_elevator::read(args)?;
    let plug = args.flag("plug")?;
    // Without a plug that can be in force its two limits stay unread, which is an error if they are given.
    let plug = match plug && elevator.is_some() {
        true => {
            let threshold = small(args.int("unplug_thresh")?);
            Some(PlugSettings { threshold, delay: span(args.time("unplug_delay")?) })
        }
        false => None,
    };
    let timeout = args.optional("timeout", Args::time)?.map(span);
    let slow_timeout = args.optional("slow_timeout", Args::time)?.map(span);
    // Without a limit of time the disk is not failed, and what belongs to that stays unread as well.
    let is_limited = timeout.is_some() || slow_timeout.is_some();
    let abort_grace = if is_limited { args.optional("abort_grace", Args::time)?.map(span) } else { None };
    let stays = is_limited && args.one_of("on_return")? == "stay";
    let queue = Settings {
        depth: small(args.int("depth")?),
        nr_requests: small(args.int("nr_requests")?),
        pool: PoolRules::default(),
        merges: args.flag("merges")?,
        plug,
        timeout,
        slow_timeout,
        abort_grace,
        barrier_timeout: span(args.time("barrier_timeout")?),
        ordered: if args.one_of("ordered")? == "tag" { Ordered::Tag } else { Ordered::Drain },
    };
    let lock = match args.text("lock")?.as_str() {
        "queue" => LockScope::Queue,
        "all" => LockScope::All,
        "" => return Err(args.reject("lock", "the name of an adapter is empty")),
        adapter => LockScope::Adapter(adapter.to_owned()),
    };
    let settings = DiskSettings::default()
        .with_queue(queue)
        .with_caller_plug(args.flag("caller_plug")?)
        .with_lock(lock)
        .with_bounce(args.flag("bounce")?)
        .with_prebuild(args.flag("prebuild")?)
        .with_lanes(args.optional("lanes", Args::int)?.map(small))
        .with_elevator_from(elevator_from)
        .with_on_return(if stays { OnReturn::Stay } else { OnReturn::Refresh });
    Ok((settings, elevator))
}

/// A number whose parameter's range fits.
pub(super) fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn span(time: Duration) -> Span {
    Span(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}
