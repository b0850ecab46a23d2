//! Disks whose reads and writes are SCSI commands to a target over another device: `scsi(DEVICE)`.

use super::row::{DeviceType, Shape};
use super::{OpenError, Opening, open_part, queue};
use crate::spec::{Args, Argument, ArgumentKind, SpecError, format_size};
use platter_block::time::{Span, Time};
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskBackend;
use platter_scsi::disk::{AccessState, FaultPlan, Options, ScsiTarget, TargetPort};
use std::sync::Arc;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
const YEAR: Duration = Duration::from_secs(86_400 * 365);

/// A chance in a million.
const fn chance(name: &'static str, help: &'static str) -> Argument {
    Argument { name, kind: ArgumentKind::Int { min: 0, max: 1_000_000 }, default: "0", help }
}

const fn time(name: &'static str, most: Duration, default: &'static str, help: &'static str) -> Argument {
    Argument { name, kind: ArgumentKind::Time { min: Duration::ZERO, max: most }, default, help }
}

/// States of access, in the order of [`AccessState::ALL`]; a disk at an unavailable port could not be opened.
const ACCESS: &[&str] = &["optimized", "non-optimized", "standby"];

/// Parameters of the port.
const PORT: &[Argument] = &[
    Argument {
        name: "initiator",
        kind: ArgumentKind::Text,
        default: "platter",
        help: "name of the initiator port, which reservations belong to",
    },
    Argument {
        name: "target_port",
        kind: ArgumentKind::Int { min: 1, max: 65_535 },
        default: "",
        help: "number of the target's port that is used, and of its group; the target tells both, and its access (ALUA)",
    },
    Argument {
        name: "access",
        kind: ArgumentKind::Choice(ACCESS),
        default: "optimized",
        help: "how that port reaches the unit: as fast as can be, more slowly, or not",
    },
    Argument {
        name: "command_timeout",
        kind: ArgumentKind::Time { min: Duration::from_millis(1), max: HOUR },
        default: "30s",
        help: "time after which a command is aborted; after as long again the unit is reset, then the disk is offline",
    },
    Argument {
        name: "retries",
        kind: ArgumentKind::Int { min: 0, max: 1000 },
        default: "5",
        help: "how often a command is sent again that was aborted or met a unit attention",
    },
    time("busy_timeout", HOUR, "30s", "how long a command is sent again while the unit is busy or not ready"),
];

/// Parameters of faults.
const FAULTS: &[Argument] = &[
    Argument {
        name: "fault_seed",
        kind: ArgumentKind::Int { min: 0, max: u64::MAX },
        default: "0",
        help: "which commands meet faults",
    },
    chance("busy", "commands in a million that the unit answers with BUSY"),
    chance("queue_full", "commands in a million that it answers with TASK SET FULL"),
    chance("conflicts", "commands in a million that it answers with RESERVATION CONFLICT"),
    chance("attentions", "commands in a million that it answers with a unit attention, as after a reset"),
    chance("not_ready", "commands in a million from which on the unit is not ready for a while"),
    time("not_ready_for", YEAR, "500ms", "for how long"),
    chance(
        "medium_errors",
        "commands in a million with blocks that fail with a medium error at the first one",
    ),
    chance("damaged", "commands in a million that the transport damages"),
    chance("lost", "commands in a million that do not arrive; there are no ordered tags then"),
    chance(
        "unanswered",
        "commands in a million whose response does not arrive; there are no ordered tags then",
    ),
    chance("bus_resets", "commands in a million at which a reset of the bus ends all that is in flight"),
    Argument {
        name: "bad_at",
        kind: ArgumentKind::Size { min: 0, max: 1 << 62 },
        default: "",
        help: "where a range of bad blocks begins",
    },
    Argument {
        name: "bad_size",
        kind: ArgumentKind::Size { min: 1, max: 1 << 62 },
        default: "512",
        help: "its length",
    },
    time("away_at", YEAR, "", "when the port is disconnected from the unit"),
    time("back_after", YEAR, "", "for how long; not given: for ever"),
    time("standby_at", YEAR, "", "when target_port goes to standby, where it cannot reach the unit"),
    time("active_after", YEAR, "", "for how long; not given: for ever"),
];

/// The row.
pub(super) fn row() -> DeviceType {
    DeviceType {
        name: "scsi",
        summary: "a disk whose reads and writes are SCSI commands to a target over another device",
        shape: Shape::Disk,
        example: "scsi(a.img, bus_resets=100)".to_owned(),
        unnamed: &[],
        tables: &[PORT, FAULTS, queue::PARAMS],
        devices: 1..=1,
        open: Box::new(open),
    }
}

fn open(args: &mut Args<'_>, opening: &Opening) -> Result<Device, OpenError> {
    let (settings, elevator) = queue::read(args)?;
    let options = Options::default()
        .with_depth(settings.queue.depth)
        .with_initiator(args.text("initiator")?)
        .with_command_timeout(span(args.time("command_timeout")?))
        .with_retries(queue::small(args.int("retries")?))
        .with_busy_timeout(span(args.time("busy_timeout")?));
    let options = at_port(args, options)?;
    let mut faults = chances(args)?;
    let bad = args.optional("bad_at", Args::size)?;
    if let Some(at) = bad {
        faults.bad = Some(at..at.saturating_add(args.size("bad_size")?));
    }
    faults.away = lasting(args, "away_at", "back_after")?;
    faults.standby = lasting(args, "standby_at", "active_after")?;
    if faults.standby.is_some() && options.target_port.is_none() {
        return Err(args
            .reject("standby_at", "standby is of a port of the target: give target_port too")
            .into());
    }
    let members = args.devices();
    args.check_all_read()?;
    let [below] = &members[..] else {
        return Err(args.spec().reject("scsi takes one device").into());
    };
    let below = open_part(below, opening)?;
    let size = below.geometry().size;
    if let Some(at) = bad.filter(|at| *at >= size) {
        let typed = args.typed("bad_at").map_or_else(|| at.to_string(), str::to_owned);
        let end = format_size(size);
        return Err(args
            .unfit("bad_at", format!("the device ends at {end}, before the bad range at {typed}"))
            .into());
    }
    let target = ScsiTarget::new(Arc::clone(below.backend()));
    let disk = target.port(options.with_faults(faults))?;
    Ok(Device::new(Arc::new(DiskBackend::new(disk, settings, elevator)?)))
}

/// A fault that begins at a time and may end.
fn lasting(args: &mut Args<'_>, at: &str, after: &str) -> Result<Option<(Time, Option<Span>)>, SpecError> {
    let Some(at) = args.optional(at, Args::time)? else { return Ok(None) };
    let lasts = args.optional(after, Args::time)?.map(span);
    Ok(Some((Time(span(at).0), lasts)))
}

/// The port of the target, where one is given.
fn at_port(args: &mut Args<'_>, options: Options) -> Result<Options, SpecError> {
    let Some(number) = args.optional("target_port", Args::int)? else {
        if args.typed("access").is_some() {
            return Err(args.reject("access", "the access is of a port of the target: give target_port too"));
        }
        return Ok(options);
    };
    let number = queue::small(number) as u16;
    let access = args.one_of("access")?;
    let access = AccessState::ALL.into_iter().zip(ACCESS).find(|(_, name)| **name == access);
    let port = TargetPort { identifier: number, group: number };
    Ok(options.with_target_port(Some(port)).with_access(access.map(|(state, _)| state).unwrap_or_default()))
}

/// The faults that happen by chance.
fn chances(args: &mut Args<'_>) -> Result<FaultPlan, SpecError> {
    let mut plan = FaultPlan::default();
    let all: [(&str, &mut u32); 10] = [
        ("busy", &mut plan.busy),
        ("queue_full", &mut plan.full),
        ("conflicts", &mut plan.conflict),
        ("attentions", &mut plan.attention),
        ("not_ready", &mut plan.not_ready),
        ("medium_errors", &mut plan.medium),
        ("damaged", &mut plan.aborted),
        ("lost", &mut plan.lost),
        ("unanswered", &mut plan.unanswered),
        ("bus_resets", &mut plan.reset),
    ];
    for (name, place) in all {
        *place = queue::small(args.int(name)?);
    }
    if plan.not_ready > 0 {
        plan.not_ready_for = span(args.time("not_ready_for")?);
    }
    if plan != FaultPlan::default() {
        plan.seed = args.int("fault_seed")?;
    }
    Ok(plan)
}

fn span(time: Duration) -> Span {
    Span(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}
