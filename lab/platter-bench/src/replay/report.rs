//! The report of a replay.

use core::time::Duration;

use platter_block::fault::Error as DeviceError;
use platter_block::time::Span;
use platter_disk::device::Device;

use super::account::{Account, Count, Fates};
use super::depths::Depths;
use super::error::ReplayError;
use super::options::{Mode, ReplayOptions};
use super::reader::Reader;
use super::step::{KINDS, MARKS};
use crate::about::{Part, about};
use crate::report::units;
use crate::stats::{LatencyHistogram, LatencySummary};

/// How a replay has ended.
pub(super) struct Finish {
    account: Account,
    wall: Span,
    /// The real time of a simulation.
    real: Option<Duration>,
    partial: bool,
}

/// The end of a replay, unless something was wrong.
pub(super) fn finish(
    failure: Option<ReplayError>,
    account: Account,
    wall: Span,
    real: Option<Duration>,
    partial: bool,
) -> Result<Finish, ReplayError> {
    match failure {
        Some(failure) => Err(failure),
        None => Ok(Finish { account, wall, real, partial }),
    }
}

/// What became of the I/Os of a kind, and how long they took.
#[derive(Debug, Clone, PartialEq)]
pub struct Replayed {
    /// The kind's key.
    pub name: &'static str,
    /// The words for it.
    pub words: &'static str,
    /// What became of them.
    pub fates: Fates,
    /// I/Os that failed.
    pub errors: u64,
    /// How long they took, from their start.
    pub latency: Option<LatencySummary>,
    /// How long they took in the trace.
    pub trace_latency: Option<LatencySummary>,
}

/// How much later than meant I/Os started.
#[derive(Debug, Clone, PartialEq)]
pub struct Lateness {
    /// I/Os that had a time to start at.
    pub ios: u64,
    /// How much later they started.
    pub delay: LatencySummary,
    /// Those that started later than the threshold.
    pub late_ios: u64,
}

/// A device of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayDevice {
    /// Its name.
    pub name: String,
    /// The device of the trace; `None` if none was seen for it.
    pub of: Option<String>,
    /// I/Os that were started on it.
    pub started: Count,
    /// Facts about it and the devices below.
    pub parts: Vec<Part>,
}

/// The results of a replay.
#[derive(Debug, Clone)]
pub struct ReplayReport {
    /// What was asked for.
    pub options: ReplayOptions,
    /// The devices.
    pub devices: Vec<ReplayDevice>,
    /// Whether it was cancelled before its end.
    pub partial: bool,
    /// How long it took, by the clock of the devices.
    pub wall: Duration,
    /// Set on simulated devices: the real time that it took.
    pub real: Option<Duration>,
    /// How long the replayed part of the trace is: to the arrival of its last I/O.
    pub trace: Duration,
    /// I/Os that completed without error.
    pub ios: u64,
    /// Their bytes.
    pub bytes: u64,
    /// I/Os that failed.
    pub errors: u64,
    /// The first of them.
    pub first_error: Option<DeviceError>,
    /// How late I/Os started; `None` in a closed loop, and if nothing started.
    pub lateness: Option<Lateness>,
    /// I/Os that had to wait because as many as allowed were in flight, or for memory.
    pub held: u64,
    /// Times that an I/O was not read in time.
    pub waits: u64,
    /// I/Os that are in another place than in the trace.
    pub moved: u64,
    /// I/Os of devices of the trace that were not replayed; they are in no other number.
    pub elsewhere: u64,
    /// Each kind.
    pub kinds: Vec<Replayed>,
    /// Writes with a flush before them, and with forced unit access: they are among the kinds too.
    pub marks: Vec<(&'static str, &'static str, Fates)>,
    /// All kinds together.
    pub latency: Option<LatencySummary>,
    /// The same in the trace.
    pub trace_latency: Option<LatencySummary>,
    /// How many were in flight.
    pub depths: Depths,
    /// The same in the trace, as far as it says when I/Os ended.
    pub trace_depths: Depths,
}

pub(super) fn build(
    finish: Finish,
    reader: &Reader<'_, '_>,
    options: &ReplayOptions,
    devices: &[Device],
) -> ReplayReport {
    let Finish { account, wall, real, partial } = finish;
    let kind = |(at, (name, words)): (usize, &(&'static str, &'static str))| Replayed {
        name,
        words,
        fates: account.kinds[at],
        errors: account.errors[at],
        latency: LatencySummary::of(&account.latencies[at].replay),
        trace_latency: LatencySummary::of(&account.latencies[at].trace),
    };
    let (mut all, mut all_of_trace) = (LatencyHistogram::new(), LatencyHistogram::new());
    for latencies in &account.latencies {
        all.merge(&latencies.replay);
        all_of_trace.merge(&latencies.trace);
    }
    let lateness = LatencySummary::of(&account.delays);
    let lateness = lateness.filter(|_| options.mode != Mode::Closed);
    let marks = MARKS.iter().zip(account.marks).map(|((name, words), fates)| (*name, *words, fates));
    ReplayReport {
        options: options.clone(),
        devices: report_devices(reader, devices, &account),
        partial,
        wall: wall.into(),
        real,
        trace: Duration::from_nanos(account.trace_ns),
        ios: account.completed.ios,
        bytes: account.completed.bytes,
        errors: account.failed(),
        lateness: lateness.map(|delay| Lateness {
            ios: account.delays.count(),
            delay,
            late_ios: account.late,
        }),
        held: account.held,
        waits: account.waits,
        moved: account.moved,
        elsewhere: reader.elsewhere(),
        kinds: KINDS.iter().enumerate().map(kind).collect(),
        marks: marks.collect(),
        latency: LatencySummary::of(&all),
        trace_latency: LatencySummary::of(&all_of_trace),
        depths: account.depths.depths(),
        trace_depths: account.trace_depths.depths(),
        first_error: account.first_error,
    }
}

fn report_devices(reader: &Reader<'_, '_>, devices: &[Device], account: &Account) -> Vec<ReplayDevice> {
    let taken = reader.routes().taken();
    let of = |at: usize| taken.iter().find(|(_, target)| *target == at).map(|(name, _)| name.clone());
    let report = |(at, device): (usize, &Device)| ReplayDevice {
        name: device.name().to_string(),
        of: of(at),
        started: account.devices[at],
        parts: about(device),
    };
    devices.iter().enumerate().map(report).collect()
}

impl ReplayReport {
    /// I/Os that completed per second.
    pub(super) fn iops(&self) -> f64 {
        let seconds = self.wall.as_secs_f64();
        if seconds > 0.0 { self.ios as f64 / seconds } else { 0.0 }
    }

    /// MiB per second.
    pub(super) fn mib_per_s(&self) -> f64 {
        match u64::try_from(self.wall.as_nanos()).unwrap_or(u64::MAX) {
            0 => 0.0,
            ns => units::mib_per_s(self.bytes, ns),
        }
    }

    /// The share of I/Os that started late, in percent.
    pub fn late_pct(&self) -> Option<f64> {
        self.lateness.as_ref().map(|lateness| 100.0 * lateness.late_ios as f64 / lateness.ios.max(1) as f64)
    }
}
