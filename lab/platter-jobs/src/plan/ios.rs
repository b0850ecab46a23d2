//! The rules by which a job's I/Os follow each other.

use super::Planned;
use crate::value::{Access, Amount, Distribution, Three, Value, three};
use serde::Serialize;

/// The sizes of I/Os of one direction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Sizes {
    /// All of this size.
    #[serde(rename = "bytes")]
    One(u64),
    /// Bytes, and percent of the I/Os.
    #[serde(rename = "split")]
    Split(Vec<(u64, u32)>),
    /// Any multiple of the step from the least to the most, equally often.
    #[serde(untagged)]
    Range {
        /// Bytes of the smallest.
        #[serde(rename = "least_bytes")]
        least: u64,
        /// Bytes of the largest.
        #[serde(rename = "most_bytes")]
        most: u64,
        /// What all are multiples of.
        #[serde(rename = "step_bytes")]
        step: u64,
    },
}

impl Sizes {
    /// The smallest and the largest.
    pub fn ends(&self) -> [u64; 2] {
        match self {
            Self::One(size) => [*size; 2],
            Self::Range { least, most, .. } => [*least, *most],
            Self::Split(parts) => {
                let sizes = parts.iter().map(|part| part.0);
                [sizes.clone().min().unwrap_or(0), sizes.max().unwrap_or(0)]
            }
        }
    }
}

/// The order of offsets.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Order {
    /// Each I/O begins where the last one of its direction ended, and this many bytes further.
    Sequential {
        /// Bytes of the gap; negative to go backwards.
        #[serde(rename = "gap_bytes")]
        gap: i64,
    },
    /// By chance.
    Random {
        /// I/Os that follow each other from each position.
        #[serde(rename = "run_ios")]
        run: u64,
        /// Whether each place is used once before any is used again.
        #[serde(rename = "each_once")]
        once: bool,
        /// Percent of the I/Os that are random; the others are sequential.
        #[serde(rename = "random_pct", serialize_with = "three")]
        percent: Three<i64>,
        /// How often each place is used.
        #[serde(serialize_with = "three")]
        distribution: Three<Distribution>,
    },
}

/// The rules of a job's I/Os.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ios {
    /// Percent of the I/Os that are reads, writes, trims. Of `trimwrite`, each trim is followed by a write of its place.
    #[serde(serialize_with = "three")]
    pub shares_pct: Three<u32>,
    /// Sizes by direction.
    #[serde(serialize_with = "three")]
    pub sizes: Three<Sizes>,
    /// What random offsets are multiples of.
    #[serde(rename = "align_bytes", serialize_with = "three")]
    pub align: Three<u64>,
    /// The order.
    pub order: Order,
    /// Start of the region of the first job.
    pub offset: Amount,
    /// What it grows by from each job of `numjobs` to the next.
    pub offset_increment: Amount,
    /// The region's size; `None` for all that there is.
    pub region: Option<Amount>,
    /// How much is transferred unless time or a number of I/Os ends the job.
    pub transfer: Option<Amount>,
    /// How often that is done.
    pub loops: u64,
    /// Most I/Os.
    pub number_ios: Option<u64>,
    /// Time after which the job ends, in nanoseconds.
    pub runtime_ns: Option<u64>,
    /// Whether it starts again until then.
    pub time_based: bool,
}

impl Planned {
    /// The rules of the I/Os.
    pub fn ios(&self) -> Ios {
        let access = self.access();
        let amount = |name: &str| match self.job.value(name) {
            Some(Value::Amount(amount)) if amount != Amount::Bytes(0) => Some(amount),
            _ => None,
        };
        let sizes = self.sizes();
        let align = match self.job.value("ba") {
            Some(Value::Integers(all)) => all.map(|n| n.unsigned_abs()),
            _ => [0; 3],
        };
        let align = core::array::from_fn(|d| if align[d] == 0 { sizes[d].ends()[0] } else { align[d] });
        let file = match self.job.value("filesize") {
            Some(Value::SizeRange([low, high])) if low == high => Some(Amount::Bytes(low)),
            _ => None,
        };
        let size = amount("size").or(file);
        Ios {
            shares_pct: self.shares(access),
            sizes,
            align,
            order: self.order(access),
            offset: amount("offset").unwrap_or(Amount::Bytes(0)),
            offset_increment: amount("offset_increment").unwrap_or(Amount::Bytes(0)),
            region: size,
            transfer: amount("io_size").or(size),
            loops: self.number("loops").unsigned_abs(),
            number_ios: u64::try_from(self.number("number_ios")).ok().filter(|&n| n > 0),
            runtime_ns: match self.job.value("runtime") {
                Some(Value::Time(ns)) if ns > 0 => Some(ns),
                _ => None,
            },
            time_based: self.is_on("time_based"),
        }
    }

    /// Direction and order.
    pub fn access(&self) -> Access {
        match self.job.value("rw") {
            Some(Value::Access(access)) => access,
            _ => Access { word: "read", modifier: None },
        }
    }

    fn shares(&self, access: Access) -> Three<u32> {
        match access.directions() {
            [true, true, false] => {
                let reads = self.number("rwmixread").clamp(0, 100) as u32;
                [reads, 100 - reads, 0]
            }
            [false, true, true] => [0, 50, 50],
            one => one.map(|on| if on { 100 } else { 0 }),
        }
    }

    /// Shares of sizes come before ranges, and ranges before the one size.
    fn sizes(&self) -> Three<Sizes> {
        if let Some(Value::Split(all)) = self.job.value("bssplit") {
            return all.map(Sizes::Split);
        }
        let unaligned = self.is_on("bs_unaligned");
        let blocks = match (self.job.value("bsrange"), self.job.value("bs")) {
            (Some(Value::Blocks(all)), _) | (_, Some(Value::Blocks(all))) => all,
            _ => [[4096; 2]; 3],
        };
        blocks.map(|[least, most]| match least == most {
            true => Sizes::One(least),
            false => Sizes::Range { least, most, step: if unaligned { 1 } else { least } },
        })
    }

    fn order(&self, access: Access) -> Order {
        if !access.is_random() {
            return Order::Sequential { gap: access.modifier.unwrap_or(0) };
        }
        let distribution = match self.job.value("random_distribution") {
            Some(Value::Distribution(all)) => all,
            _ => [const { Distribution::Uniform }; 3],
        };
        let percent = match self.job.value("percentage_random") {
            Some(Value::Integers(all)) => all,
            _ => [100; 3],
        };
        let uniform = distribution.iter().all(|one| *one == Distribution::Uniform);
        Order::Random {
            run: access.modifier.map_or(1, i64::unsigned_abs),
            once: uniform && !self.is_on("norandommap"),
            percent,
            distribution,
        }
    }
}
