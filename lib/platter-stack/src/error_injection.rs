//! `error`: a device that fails I/Os as configured.

use crate::filter::{BioView, CommandRule, Filter, Filtered, only};
use crate::random::Random;
use crate::{LayerError, LayerType};
use platter_block::backend::Backend;
use platter_block::bio::Op;
use platter_block::fault::Fault;
use platter_block::params::{Param, ParamError, Unit};
use platter_block::time::Time;
use std::sync::{Arc, Mutex, PoisonError};

/// Values of `op=`.
const OPS: &[&str] = &["any", "read", "write", "flush", "discard", "write-zeroes", "command"];

/// The unit of `chance`: failures per million I/Os.
const MILLION: i64 = 1_000_000;

pub(crate) const TYPE: LayerType = LayerType {
    name: "error",
    summary: "a device that injects errors",
    params: &[
        Param::word("op", OPS, 0, "what fails"),
        Param::number(
            "offset",
            Unit::Bytes,
            0,
            (0, i64::MAX),
            "fail only I/Os that touch the range from here",
        ),
        Param::number("length", Unit::Bytes, 0, (0, i64::MAX), "bytes of that range; 0: to the end"),
        Param::number("chance", Unit::Count, MILLION, (0, MILLION), "failures per million matching I/Os"),
        Param::number("nth", Unit::Count, 0, (0, i64::MAX), "fail only every nth of those; 0: all"),
        Param::number("times", Unit::Count, 0, (0, i64::MAX), "most failures; 0: no limit"),
        Param::number("errno", Unit::Count, 5, (1, 4095), "the error, as Linux numbers them; 5: EIO"),
        Param::number("seed", Unit::Count, 1, (0, i64::MAX), "seed of the chance"),
    ],
    members: 1..=1,
    build: |values, below| {
        let number = |at: usize| values[at].unsigned_abs();
        let end = match number(2) {
            0 => u64::MAX,
            length => number(1).saturating_add(length),
        };
        let plan = Plan {
            op: [
                None,
                Some(Op::Read),
                Some(Op::Write),
                Some(Op::Flush),
                Some(Op::Discard),
                Some(Op::WriteZeroes),
                Some(Op::Command),
            ]
            .get(values[0] as usize)
            .copied()
            .flatten(),
            range: (number(1), end),
            chance: number(3) as u32,
            nth: number(4),
            times: number(5),
            errno: values[6] as i32,
        };
        new(only("error", below)?, plan, number(7))
    },
};

/// Which I/Os fail, and with which error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The operation that fails; `None`: any.
    pub op: Option<Op>,
    /// Only I/Os that touch the bytes from the first to below the second. A flush touches all bytes.
    pub range: (u64, u64),
    /// How many of a million matching I/Os fail, at random.
    pub chance: u32,
    /// Only every nth of those; 0: all.
    pub nth: u64,
    /// Most failures; 0: no limit.
    pub times: u64,
    /// The error, a positive Linux errno.
    pub errno: i32,
}

/// A device on which the I/Os that the plan selects fail without reaching the device below. All lanes share
/// the counters of the plan.
///
/// # Errors
/// A range that begins past the end of the device.
pub fn new(below: Arc<dyn Backend>, plan: Plan, seed: u64) -> Result<Arc<dyn Backend>, LayerError> {
    let size = below.geometry().size;
    if plan.range.0 >= size {
        return Err(LayerError::Unfit(ParamError(format!(
            "error over {}: offset={} is out of range: 0 to {}",
            below.name(),
            plan.range.0,
            size.saturating_sub(1)
        ))));
    }
    let params =
        format!("op={}, errno={}", plan.op.map_or("any".to_string(), |op| op.to_string()), plan.errno);
    let fate = Arc::new(Mutex::new(Fate { random: Random(seed), met: 0, failed: 0 }));
    Ok(Arc::new(Filtered::new("error", &params, below, Failing { plan, fate })))
}

/// The state of the plan: random numbers drawn and I/Os counted.
struct Fate {
    random: Random,
    met: u64,
    failed: u64,
}

#[derive(Clone)]
struct Failing {
    plan: Plan,
    fate: Arc<Mutex<Fate>>,
}

impl Filter for Failing {
    fn commands(&self) -> CommandRule {
        CommandRule::All
    }

    fn keeps_places(&self) -> bool {
        true
    }

    fn start(&mut self, now: Time, _slot: usize, bio: &mut BioView<'_>) -> Result<Time, Fault> {
        let plan = &self.plan;
        let (pos, end) = bio.reach();
        let touches = bio.op() == Op::Flush || (pos < plan.range.1 && plan.range.0 < end);
        if plan.op.is_some_and(|op| op != bio.op()) || !touches {
            return Ok(now);
        }
        let mut fate = self.fate.lock().unwrap_or_else(PoisonError::into_inner);
        fate.met += 1;
        let due = plan.nth == 0 || fate.met.is_multiple_of(plan.nth);
        let more = plan.times == 0 || fate.failed < plan.times;
        // Drawn for every I/O, so that a seed gives the same sequence whatever the other parameters are.
        let drawn = fate.random.below(MILLION.unsigned_abs()) < u64::from(plan.chance);
        if !(due && more && drawn) {
            return Ok(now);
        }
        fate.failed += 1;
        // The error looks like one of the disk: layers above cannot tell the difference.
        Err(Fault::of_op(bio.op(), plan.errno))
    }
}
