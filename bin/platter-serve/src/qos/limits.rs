//! The limits that an operator sets.

use platter_block::time::Span;

/// Largest weight.
pub const MAX_WEIGHT: u32 = 1000;

/// Burst unless told otherwise: threads wake up late by less than this.
pub const DEFAULT_BURST: Span = Span::from_millis(10);

/// Most that a rate of I/Os may be, per second.
const MAX_IOPS: u64 = 1_000_000_000;
/// Most that a bandwidth may be, in bytes per second.
const MAX_BANDWIDTH: u64 = 1 << 50;
const MAX_BURST: Span = Span::from_secs(3600);
const MAX_DEPTH: u32 = 65_536;

/// A value that is out of its range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitRange {
    /// The name of the limit.
    pub name: &'static str,
    /// The value.
    pub value: u64,
    /// The least and the most that is allowed, in the limit's unit.
    pub range: (u64, u64),
    /// The unit.
    pub unit: &'static str,
}

impl std::fmt::Display for LimitRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let LimitRange { name, value, range: (least, most), unit } = self;
        write!(f, "{name} is {value} {unit}; expected {least} to {most} {unit}")
    }
}

impl std::error::Error for LimitRange {}

fn check(name: &'static str, value: u64, range: (u64, u64), unit: &'static str) -> Result<(), LimitRange> {
    match (range.0..=range.1).contains(&value) {
        true => Ok(()),
        false => Err(LimitRange { name, value, range, unit }),
    }
}

/// What all clients of a device together may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceLimits {
    /// Requests started per second; 0: no limit.
    pub iops: u64,
    /// Bytes per second; 0: no limit.
    pub bandwidth: u64,
    /// Idle time that may be caught up on.
    pub burst: Span,
    /// Requests in the device at a time; 0: no limit.
    pub depth: u32,
}

/// What one client may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// Requests started per second; 0: no limit.
    pub iops: u64,
    /// Bytes per second; 0: no limit.
    pub bandwidth: u64,
    /// Idle time that may be caught up on.
    pub burst: Span,
    /// Its part of the device's budget, in proportion to the weights of the other clients that wait.
    pub weight: u32,
}

impl Default for DeviceLimits {
    fn default() -> DeviceLimits {
        DeviceLimits { iops: 0, bandwidth: 0, burst: DEFAULT_BURST, depth: 0 }
    }
}

impl Default for ClientLimits {
    fn default() -> ClientLimits {
        ClientLimits { iops: 0, bandwidth: 0, burst: DEFAULT_BURST, weight: 1 }
    }
}

impl DeviceLimits {
    /// Whether anything is limited.
    pub fn limits(&self) -> bool {
        self.iops > 0 || self.bandwidth > 0 || self.depth > 0
    }

    /// Checks the ranges.
    ///
    /// # Errors
    /// The first value out of its range.
    pub fn check(&self) -> Result<(), LimitRange> {
        check("iops", self.iops, (0, MAX_IOPS), "I/Os per second")?;
        check("bandwidth", self.bandwidth, (0, MAX_BANDWIDTH), "bytes per second")?;
        check("burst", self.burst.as_nanos(), (0, MAX_BURST.as_nanos()), "ns")?;
        check("depth", u64::from(self.depth), (0, u64::from(MAX_DEPTH)), "requests")
    }
}

impl ClientLimits {
    /// Whether anything is limited.
    pub fn limits(&self) -> bool {
        self.iops > 0 || self.bandwidth > 0
    }

    /// Checks the ranges.
    ///
    /// # Errors
    /// The first value out of its range.
    pub fn check(&self) -> Result<(), LimitRange> {
        check("iops", self.iops, (0, MAX_IOPS), "I/Os per second")?;
        check("bandwidth", self.bandwidth, (0, MAX_BANDWIDTH), "bytes per second")?;
        check("burst", self.burst.as_nanos(), (0, MAX_BURST.as_nanos()), "ns")?;
        check("weight", u64::from(self.weight), (1, u64::from(MAX_WEIGHT)), "parts")
    }
}
