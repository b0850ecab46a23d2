//! The fault parameters of simulated disks.

use crate::spec::{Args, Argument, ArgumentKind, SpecError, format_size};
use platter_block::time::{Span, Time};
use platter_sim::fault::{BadSectors, Death, FaultPlan, When};
use std::time::Duration;

/// A chance in a million.
const fn chance(name: &'static str, help: &'static str) -> Argument {
    Argument { name, kind: ArgumentKind::Int { min: 0, max: 1_000_000 }, default: "0", help }
}

const OFFSET: ArgumentKind = ArgumentKind::Size { min: 0, max: 1 << 62 };
const LENGTH: ArgumentKind = ArgumentKind::Size { min: 1, max: 1 << 62 };
const TIME: ArgumentKind = ArgumentKind::Time { min: Duration::ZERO, max: Duration::from_secs(86_400 * 365) };

/// Parameters of faults.
pub(super) const PARAMS: &[Argument] = &[
    Argument {
        name: "fault_seed",
        kind: ArgumentKind::Int { min: 0, max: u64::MAX },
        default: "0",
        help: "which faults happen; disks of one run with different seeds have different ones",
    },
    chance("spikes", "commands in a million that take longer"),
    Argument { name: "spike", kind: TIME, default: "100ms", help: "how much longer" },
    chance("stuck", "commands in a million that are held"),
    Argument { name: "stuck_for", kind: TIME, default: "3600s", help: "for how long" },
    Argument {
        name: "aborts",
        kind: ArgumentKind::Int { min: 0, max: 1_000_000 },
        default: "500000",
        help: "requests to abort a command, in a million, that succeed",
    },
    chance("transient_errors", "commands in a million that fail with EINTR, EAGAIN, ENOMEM or ECANCELED"),
    chance("read_errors", "reads in a million that fail"),
    chance("write_errors", "writes in a million that fail"),
    chance("flush_errors", "flushes in a million that fail"),
    Argument { name: "bad_at", kind: OFFSET, default: "", help: "where a bad range begins, on the disk" },
    Argument { name: "bad_size", kind: LENGTH, default: "512", help: "its length" },
    chance("lost_writes", "writes in a million that are acknowledged and not stored"),
    chance("misdirected", "writes in a million that are stored elsewhere"),
    chance("rot", "reads in a million before which a bit of their data changes"),
    Argument { name: "dies_at", kind: TIME, default: "", help: "when the disk disappears" },
    Argument {
        name: "back_after",
        kind: TIME,
        default: "",
        help: "how long it is away; not given: for ever",
    },
];

/// The faults of a disk of `size` bytes according to the arguments; `None`: none.
pub(super) fn read(args: &mut Args<'_>, size: u64) -> Result<Option<FaultPlan>, SpecError> {
    let mut plan = FaultPlan {
        spike_chance: ppm(args, "spikes")?,
        stuck_chance: ppm(args, "stuck")?,
        abort_chance: ppm(args, "aborts")?,
        read_error_chance: ppm(args, "read_errors")?,
        transient_chance: ppm(args, "transient_errors")?,
        write_error_chance: ppm(args, "write_errors")?,
        flush_error_chance: ppm(args, "flush_errors")?,
        lost_chance: ppm(args, "lost_writes")?,
        misdirected_chance: ppm(args, "misdirected")?,
        rot_chance: ppm(args, "rot")?,
        ..FaultPlan::default()
    };
    if plan.spike_chance > 0 {
        plan.spike = span(args.time("spike")?);
    }
    if plan.stuck_chance > 0 {
        plan.stuck = span(args.time("stuck_for")?);
    }
    if let Some(at) = args.optional("bad_at", Args::size)? {
        if at >= size {
            let typed = args.typed("bad_at").map_or_else(|| at.to_string(), str::to_owned);
            let end = format_size(size);
            return Err(
                args.reject("bad_at", format!("the disk ends at {end}, before the bad range at {typed}"))
            );
        }
        let end = at.saturating_add(args.size("bad_size")?);
        plan.bad.push(BadSectors { sectors: at / 512..end.div_ceil(512), reads: true, writes: true });
    }
    if let Some(at) = args.optional("dies_at", Args::time)? {
        let lasts = args.optional("back_after", Args::time)?.map(span);
        plan.death = Some(Death { when: When::At(Time(span(at).0)), lasts });
    }
    if plan == FaultPlan::default() {
        return Ok(None);
    }
    plan.seed = args.int("fault_seed")?;
    Ok(Some(plan))
}

fn ppm(args: &mut Args<'_>, name: &str) -> Result<u32, SpecError> {
    Ok(u32::try_from(args.int(name)?).unwrap_or(u32::MAX))
}

fn span(time: Duration) -> Span {
    Span(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}
