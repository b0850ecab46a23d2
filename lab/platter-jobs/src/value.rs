//! Values of options, as data.

mod json;
pub(crate) mod read;

pub(crate) use json::three;

use crate::engine::Engine;
use serde::Serialize;

/// Reads, writes and trims: values that may differ between them.
pub type Three<T> = [T; 3];

/// The names of the three, in their order.
pub const DIRECTIONS: Three<&str> = ["read", "write", "trim"];

/// A part of a disk or file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Bytes.
    Bytes(u64),
    /// Percent of the size.
    Percent(u32),
    /// Zones of a zoned disk.
    Zones(u64),
}

/// fio's `rw`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// fio's word, such as `randread`; of the two names of the sequential mix, `rw`.
    pub word: &'static str,
    /// What follows the word: for random access, how many I/Os go on from each position; for sequential access, the bytes of
    /// the gap after each I/O, negative to go backwards.
    pub modifier: Option<i64>,
}

impl Access {
    /// Whether offsets are random.
    pub fn is_random(self) -> bool {
        self.word.starts_with("rand")
    }

    /// Which of reads, writes and trims there are.
    pub fn directions(self) -> Three<bool> {
        match self.word.trim_start_matches("rand") {
            "read" => [true, false, false],
            "write" => [false, true, false],
            "trim" => [false, false, true],
            "trimwrite" => [false, true, true],
            _ => [true, true, false],
        }
    }
}

/// fio's `random_distribution`, of one direction.
#[derive(Debug, Clone, PartialEq)]
pub enum Distribution {
    /// Every place equally often.
    Uniform,
    /// Zipf with this theta; the centre as a part of the range, or scattered.
    Zipf(f64, Option<f64>),
    /// Pareto with this power; the centre as a part of the range, or scattered.
    Pareto(f64, Option<f64>),
    /// Normal with this deviation in percent; the centre as a part of the range, or scattered.
    Normal(f64, Option<f64>),
    /// Percent of the accesses, and percent of the range that they fall on, zone after zone.
    Zoned(Vec<(u32, u32)>),
    /// Percent of the accesses, and the bytes that they fall on; `None` for the rest of the range.
    ZonedBytes(Vec<(u32, Option<u64>)>),
}

/// fio's `steadystate`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Steady {
    /// `iops`, `bw` or `lat`, or one of them with `_slope`.
    pub word: &'static str,
    /// The limit.
    pub limit: f64,
    /// Whether it is in percent of the mean.
    pub percent: bool,
}

/// The value of an option. As JSON: sizes in bytes, times in nanoseconds, percentages as text such as `"50%"`, and an object with
/// `read`, `write` and `trim` where these may differ.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Value {
    /// On or off.
    Switch(bool),
    /// A count.
    Integer(i64),
    /// A count for each direction.
    Integers(#[serde(serialize_with = "three")] Three<i64>),
    /// Bytes.
    Size(u64),
    /// Bytes, percent or zones.
    Amount(Amount),
    /// Bytes from and to.
    SizeRange([u64; 2]),
    /// Bytes of an I/O, least and most, for each direction.
    Blocks(#[serde(serialize_with = "three")] Three<[u64; 2]>),
    /// Bytes of an I/O and percent of the I/Os that have them, for each direction.
    Split(#[serde(serialize_with = "three")] Three<Vec<(u64, u32)>>),
    /// Nanoseconds.
    Time(u64),
    /// Nanoseconds, least and most.
    TimeRange([u64; 2]),
    /// One of the words of the table.
    Word(&'static str),
    /// Any text.
    Text(String),
    /// Numbers with fractions.
    Floats(Vec<f64>),
    /// Names of files.
    Files(Vec<String>),
    /// `rw`.
    Access(Access),
    /// `random_distribution`.
    Distribution(#[serde(serialize_with = "three")] Three<Distribution>),
    /// `ioengine`.
    Engine(&'static Engine),
    /// `steadystate`.
    Steady(Steady),
}

/// The kind of value that an option takes.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Kind {
    /// 0 or 1.
    Switch,
    /// 0 or 1; 1 if there is no value.
    Flag,
    /// A whole number from and to.
    Integer(i64, i64),
    /// The same for reads, writes, trims.
    Integers(i64, i64),
    /// Bytes, from and to.
    Size(u64, u64),
    /// Bytes, a percentage up to this one, or zones.
    Amount(u32),
    /// Bytes, or a range of bytes.
    SizeRange,
    /// Bytes of an I/O, for reads, writes, trims.
    Blocks,
    /// Ranges of bytes of an I/O, for reads, writes, trims.
    BlockRanges,
    /// Sizes with their shares.
    Split,
    /// A time, in the unit of a bare number.
    Time(crate::number::Unit),
    /// A time or a range of times, in seconds.
    TimeRange,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Text.
    Text,
    /// Text, or nothing.
    Label,
    /// Up to that many numbers, from and to.
    Floats(usize, f64, f64),
    /// Names of files, with colons between them.
    Files,
    /// A direction and an order.
    Access,
    /// A distribution.
    Distribution,
    /// An engine.
    Engine,
    /// A criterion and a limit.
    Steady,
}

/// Largest number of bytes.
pub(crate) const MOST_BYTES: u64 = i64::MAX as u64;

impl Kind {
    /// The kind and the range in a few words.
    pub fn describe(self) -> String {
        let upto = |least: u64, most: u64| match most {
            MOST_BYTES => format!("from {least}"),
            most => format!("from {least} to {most}"),
        };
        match self {
            Self::Switch => "0 or 1".into(),
            Self::Flag => "nothing, 0 or 1".into(),
            Self::Integer(least, i64::MAX) => format!("a number from {least}"),
            Self::Integer(least, most) => format!("a number from {least} to {most}"),
            Self::Integers(least, i64::MAX) => {
                format!("up to three numbers from {least}: reads,writes,trims")
            }
            Self::Integers(least, most) => {
                format!("up to three numbers from {least} to {most}: reads,writes,trims")
            }
            Self::Size(least, most) => format!("a size {}", upto(least, most)),
            Self::Amount(percent) => {
                format!("a size, a percentage from 1 to {percent}, or a number of zones")
            }
            Self::SizeRange => "a size, or two with a dash".into(),
            Self::Blocks => "up to three sizes from 1: reads,writes,trims".into(),
            Self::BlockRanges => "up to three ranges of sizes: reads,writes,trims, such as 4k-64k".into(),
            Self::Split => "sizes with their percentages, such as 4k/60:64k/40".into(),
            Self::Time(unit) => format!("a time, {} without a unit", unit_name(unit)),
            Self::TimeRange => "a time, seconds without a unit, or two with a dash".into(),
            Self::Word(words) => format!("one of {}", words.join(", ")),
            Self::Text => "text".into(),
            Self::Label => "text, or nothing".into(),
            Self::Floats(1, least, most) => format!("a number from {least} to {most}, with a fraction"),
            Self::Floats(count, least, most) => {
                format!("up to {count} numbers from {least} to {most}, with colons")
            }
            Self::Files => "names with colons between them, and \\: for a colon".into(),
            Self::Access => format!("one of {}; with :NUMBER, a modifier", ACCESS.join(", ")),
            Self::Distribution => {
                "random, zipf:THETA, pareto:POWER, normal:PERCENT, zoned:SHARE/PART:…, zoned_abs:SHARE/SIZE:…"
                    .into()
            }
            Self::Engine => "an engine of fio".into(),
            Self::Steady => format!("CRITERION:LIMIT, the criterion one of {}", STEADY.join(", ")),
        }
    }
}

fn unit_name(unit: crate::number::Unit) -> &'static str {
    use crate::number::Unit;
    match unit {
        Unit::One => "ones",
        Unit::Seconds => "seconds",
        Unit::Millis => "milliseconds",
        Unit::Micros => "microseconds",
    }
}

/// The words of `rw`.
const ACCESS: &[&str] = &[
    "read",
    "write",
    "randread",
    "randwrite",
    "rw",
    "readwrite",
    "randrw",
    "trim",
    "randtrim",
    "trimwrite",
    "randtrimwrite",
];

/// The words of `steadystate`.
const STEADY: &[&str] = &["iops", "iops_slope", "bw", "bw_slope", "lat", "lat_slope"];
