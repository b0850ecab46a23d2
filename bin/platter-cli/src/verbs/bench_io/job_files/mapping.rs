//! A job of a plan as options of the engine of `bench io`. What the engine cannot do is refused at its line.

use core::time::Duration;
use platter_bench::workload::{DEFAULT_SEED, JobError, JobOptions, RateProcess};
use platter_jobs::option::Meaning;
use platter_jobs::value::{Amount, Value};
use platter_jobs::{JobFileError, Order, Planned, Sizes};

/// A time without an end: a job that goes over its region again ends by its number of I/Os.
const ENDLESS: Duration = Duration::from_secs(100 * 365 * 86_400);

/// The options of a job, but for those that depend on its device.
pub(super) fn options(planned: &Planned) -> Result<JobOptions, JobFileError> {
    refuse_what_is_only_planned(planned)?;
    refuse_other_sizes(planned)?;
    let job = &planned.job;
    let access = planned.access();
    let rw = access.word.parse().map_err(|_| {
        job.refuse("rw", format!("{} is not possible here", access.word), "give a job for each direction")
    })?;
    if access.modifier.is_some() {
        let instead = "leave it out, or give bs= the size of the whole run";
        return Err(job.refuse("rw", "a modifier is not possible here", instead));
    }
    let ios = planned.ios();
    let usual = JobOptions::default();
    let time = |name: &str| match job.value(name) {
        Some(Value::Time(ns)) => Duration::from_nanos(ns),
        _ => Duration::ZERO,
    };
    let options = JobOptions {
        rw,
        rwmixread: if rw.is_mixed() { ios.shares_pct[0] } else { usual.rwmixread },
        bs: block(planned)?,
        iodepth: small(planned, "iodepth")?.unwrap_or(1),
        numjobs: planned.numjobs,
        runtime: ios.runtime_ns.map(Duration::from_nanos),
        time_based: ios.time_based,
        ramp_time: time("ramp_time"),
        number_ios: ios.number_ios,
        rate_iops: rate(planned)?,
        rate_process: match job.value("rate_process") {
            Some(Value::Word("poisson")) => RateProcess::Poisson,
            _ => RateProcess::Linear,
        },
        verify: !matches!(job.value("verify"), Some(Value::Word("0" | "none")) | None),
        verify_interval: match job.given("verify_interval") {
            Some(Value::Size(bytes)) => u32::try_from(*bytes).ok(),
            _ => None,
        },
        seed: Some(seed(planned)),
        norandommap: matches!(ios.order, Order::Random { once: false, .. }),
        prioclass: small(planned, "prioclass")?,
        prio: small(planned, "prio")?,
        gtod_reduce: planned.is_on("gtod_reduce"),
        direct: direct(planned).unwrap_or(true),
        thinktime: time("thinktime"),
        thinktime_blocks: match time("thinktime").is_zero() {
            // Without pauses it does nothing, which the engine would refuse.
            true => 1,
            false => small(planned, "thinktime_blocks")?.unwrap_or(1),
        },
        ..usual
    };
    Ok(options)
}

/// The options with the region of job `clone` on a device of this size.
pub(super) fn on_device(
    planned: &Planned,
    options: &JobOptions,
    clone: u32,
    size: u64,
) -> Result<JobOptions, JobFileError> {
    let ios = planned.ios();
    let bytes = |option: &str, amount: Amount| match amount {
        Amount::Bytes(bytes) => Ok(bytes),
        Amount::Percent(percent) => {
            let part = u128::from(size) * u128::from(percent) / 100;
            // Of a part of the device, whole blocks.
            Ok(part as u64 / options.bs * options.bs)
        }
        Amount::Zones(_) => {
            Err(planned.job.refuse(option, "zones are not followed here", "give it in bytes"))
        }
    };
    let step = bytes("offset_increment", ios.offset_increment)?;
    let start = step.checked_mul(u64::from(clone)).zip(Some(bytes("offset", ios.offset)?));
    let offset = start.and_then(|(more, offset)| offset.checked_add(more)).ok_or_else(|| {
        planned.job.refuse("offset_increment", "the last job would begin beyond 2^64", "give a smaller one")
    })?;
    let region = ios.region.map(|amount| bytes("size", amount)).transpose()?;
    let mut options = JobOptions { offset, size: region, ..options.clone() };
    repeat(planned, &mut options, size, bytes)?;
    Ok(options)
}

/// Of a job that goes over its region more than once, or ends before its end: how many I/Os that is.
fn repeat(
    planned: &Planned,
    options: &mut JobOptions,
    size: u64,
    bytes: impl Fn(&str, Amount) -> Result<u64, JobFileError>,
) -> Result<(), JobFileError> {
    let ios = planned.ios();
    if options.time_based || (ios.loops == 1 && planned.job.given("io_size").is_none()) {
        return Ok(());
    }
    let all = options.size.unwrap_or(size.saturating_sub(options.offset));
    let once = ios.transfer.map_or(Ok(all), |amount| bytes("io_size", amount))?;
    let blocks = (once / options.bs).saturating_mul(ios.loops);
    options.number_ios = Some(options.number_ios.map_or(blocks, |most| most.min(blocks)));
    options.runtime = options.runtime.or(Some(ENDLESS));
    options.time_based = true;
    Ok(())
}

/// The error of the engine at the line of its option.
pub(super) fn refused(planned: &Planned, error: &JobError) -> JobFileError {
    planned.job.refuse(error.option, format!("{} is not possible here", error.value), error.allowed.clone())
}

/// Whether the job goes around the page cache; `None` where the file does not say, as with the command's own options.
pub(super) fn direct(planned: &Planned) -> Option<bool> {
    match planned.job.given("direct") {
        Some(Value::Switch(direct)) => Some(*direct),
        _ => None,
    }
}

/// Options that are in the plan alone, with another value than the default.
fn refuse_what_is_only_planned(planned: &Planned) -> Result<(), JobFileError> {
    for (row, value) in planned.job.settings() {
        if let Meaning::Planned(what, instead) = row.meaning
            && Some(value) != row.default_value().as_ref()
        {
            let problem = format!("{what}: bench io does not do this");
            return Err(planned.job.refuse(row.name, problem, instead));
        }
    }
    Ok(())
}

/// A size of the file that differs from that of the region.
fn refuse_other_sizes(planned: &Planned) -> Result<(), JobFileError> {
    let Some(Value::SizeRange([low, high])) = planned.job.given("filesize") else { return Ok(()) };
    match planned.job.given("size") {
        None if low == high => Ok(()),
        Some(Value::Amount(Amount::Bytes(size))) if low == high && size == low => Ok(()),
        _ => {
            let problem = "the file and its region have one size here";
            Err(planned.job.refuse("filesize", problem, "give size= alone"))
        }
    }
}

/// Bytes per I/O, which all directions of the job share.
fn block(planned: &Planned) -> Result<u64, JobFileError> {
    let ios = planned.ios();
    let mut sizes =
        ios.sizes.iter().zip(ios.shares_pct).filter(|(_, share)| *share > 0).map(|(size, _)| size);
    let first = sizes.next();
    match first {
        Some(Sizes::One(bytes)) if sizes.all(|other| Some(other) == first) => Ok(*bytes),
        _ => {
            let problem = "reads and writes have different sizes, which is not possible in a job here";
            Err(planned.job.refuse("bs", problem, "give a job for each direction"))
        }
    }
}

/// I/Os per second: those of the option, or bytes per second over the size of an I/O; the lower of both.
fn rate(planned: &Planned) -> Result<Option<u64>, JobFileError> {
    let ios = one_rate(planned, "rate_iops")?;
    let bytes = one_rate(planned, "rate")?;
    let Some(bytes) = bytes else { return Ok(ios) };
    let bs = block(planned)?;
    if bytes < bs {
        let problem = format!("{bytes} bytes per second are less than an I/O ({bs})");
        return Err(planned.job.refuse("rate", problem, "give a higher rate"));
    }
    Ok(Some(ios.map_or(bytes / bs, |ios| ios.min(bytes / bs))))
}

/// The rate of the job's direction.
fn one_rate(planned: &Planned, option: &str) -> Result<Option<u64>, JobFileError> {
    let Some(Value::Integers(rates)) = planned.job.given(option) else { return Ok(None) };
    let used = planned.access().directions();
    let mut rates = rates.iter().zip(used).filter(|(_, used)| *used);
    let one = rates.next().map(|(rate, _)| rate.unsigned_abs());
    if rates.next().is_some() {
        let problem = "in a mix it holds for each direction, which is not possible here";
        return Err(planned.job.refuse(option, problem, "give a job for each direction"));
    }
    Ok(one.filter(|&rate| rate > 0))
}

/// An option that is a number of 32 bits.
fn small(planned: &Planned, option: &str) -> Result<Option<u32>, JobFileError> {
    match planned.job.value(option) {
        Some(Value::Integer(number)) => u32::try_from(number).map(Some).map_err(|_| {
            planned.job.refuse(option, format!("{number} is too large"), "give less than 4294967296")
        }),
        _ => Ok(None),
    }
}

/// Jobs draw numbers of their own, but those that verify each other's blocks the same.
fn seed(planned: &Planned) -> u64 {
    let given = match planned.job.given("randseed") {
        Some(Value::Size(seed)) => *seed,
        _ => DEFAULT_SEED,
    };
    match planned.job.value("verify") {
        Some(Value::Word("0" | "none")) | None => given.wrapping_add(u64::from(planned.first) << 32),
        _ => given,
    }
}
