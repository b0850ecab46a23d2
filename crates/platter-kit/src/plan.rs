//! A power cut that can be repeated, and the failure that it leads to.

use platter_block::text::excerpt;
use platter_sim::power::{Lost, LostError};
use std::fmt;
use std::str::FromStr;

/// A power cut: when it happens, and which sectors are lost. All other data in a cache or in flight survives.
///
/// Its text is `io=17 lost=0/12:8+1`, the second part as of [`Lost`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The I/O at which power is cut, counted over all disks from 0. It is in flight at that time. If the
    /// engine makes fewer I/Os, power is cut after its end.
    pub io: u64,
    /// The lost sectors.
    pub lost: Lost,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "io={} lost={}", self.io, self.lost)
    }
}

/// An invalid plan text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// It does not have the two parts.
    Shape(String),
    /// The lost sectors.
    Lost(LostError),
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::Shape(text) => {
                write!(f, "invalid plan `{}`: expected a form like io=17 lost=0/12:8+1", excerpt(text, 60))
            }
            PlanError::Lost(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PlanError {}

impl FromStr for Plan {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Plan, PlanError> {
        let shape = || PlanError::Shape(text.to_owned());
        let (io, lost) = text.trim().split_once(' ').unwrap_or((text.trim(), "lost="));
        let io = io.strip_prefix("io=").and_then(|io| io.parse().ok()).ok_or_else(shape)?;
        let lost = lost.trim().strip_prefix("lost=").ok_or_else(shape)?;
        Ok(Plan { io, lost: lost.parse().map_err(PlanError::Lost)? })
    }
}

/// A failed check: the engine broke a promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The seed of the kit.
    pub seed: u64,
    /// The smallest cut found that causes the failure.
    pub plan: Plan,
    /// The error that the check returned.
    pub wrong: String,
    /// Number of cuts before the first failure.
    pub cuts: u64,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { seed, plan, wrong, cuts } = self;
        writeln!(f, "{wrong}")?;
        let sectors = plan.lost.iter().count();
        writeln!(f, "found with power cut {cuts}: at I/O {}, {sectors} sectors lost", plan.io)?;
        write!(f, "to see it again: Kit::new({seed}) and replay the plan \"{plan}\"")
    }
}

impl std::error::Error for Failure {}
