//! A power cut that can be repeated, and the failure that it leads to.

use platter_block::text::excerpt;
use platter_sim::power::{Lost, LostError};
use std::fmt;
use std::str::FromStr;

/// A power cut: when it happens, and which sectors are lost. All other data in a cache or in flight survives.
///
/// Its text is `io=17 lost=0/12:8+1`, the second part as of [`Lost`], with a second cut during recovery
/// `io=17 lost=0/12:8+1 then io=2 lost=0/20:0+8`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Plan {
    /// The I/O at which power is cut, counted over all disks from 0. It is in flight at that time. If the
    /// engine makes fewer I/Os, power is cut after its end.
    pub io: u64,
    /// The lost sectors.
    pub lost: Lost,
    /// A second cut, while the engine is opened and checked after the first one.
    pub recovery: Option<RecoveryCut>,
}

/// A power cut while the contents that another one left are opened and checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryCut {
    /// The I/O at which power is cut, counted from 0 since power was restored.
    pub io: u64,
    /// The sectors that this cut takes.
    pub lost: Lost,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "io={} lost={}", self.io, self.lost)?;
        match &self.recovery {
            Some(again) => write!(f, "{THEN}io={} lost={}", again.io, again.lost),
            None => Ok(()),
        }
    }
}

/// Between the two cuts of a plan.
const THEN: &str = " then ";

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
                write!(f, "invalid plan `{}`: expected for example io=17 lost=0/12:8+1", excerpt(text, 60))
            }
            PlanError::Lost(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PlanError {}

impl FromStr for Plan {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Plan, PlanError> {
        let (first, second) = match text.split_once(THEN) {
            Some((first, second)) => (first, Some(second)),
            None => (text, None),
        };
        let (io, lost) = one_cut(first)?;
        let again = |text| one_cut(text).map(|(io, lost)| RecoveryCut { io, lost });
        Ok(Plan { io, lost, recovery: second.map(again).transpose()? })
    }
}

/// `io=17 lost=0/12:8+1`.
fn one_cut(text: &str) -> Result<(u64, Lost), PlanError> {
    let shape = || PlanError::Shape(text.to_owned());
    let (io, lost) = text.trim().split_once(' ').unwrap_or((text.trim(), "lost="));
    let io = io.strip_prefix("io=").and_then(|io| io.parse().ok()).ok_or_else(shape)?;
    let lost = lost.trim().strip_prefix("lost=").ok_or_else(shape)?;
    Ok((io, lost.parse().map_err(PlanError::Lost)?))
}

/// A power cut, and the error that followed it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Found {
    /// The cut.
    pub plan: Plan,
    /// The error that the check returned.
    pub wrong: String,
}

/// A failed check: the engine broke a promise.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The seed of the kit.
    pub seed: u64,
    /// The smallest cut found that causes a failure of this kind.
    pub plan: Plan,
    /// The error that the check returned after it.
    pub wrong: String,
    /// The failure as it was found, before it was made smaller. It is of the same kind: the texts of the errors differ in numbers
    /// and quotations only.
    pub first: Box<Found>,
    /// Number of cuts before the first failure.
    pub cuts: u64,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { seed, plan, wrong, first, cuts } = self;
        writeln!(f, "{wrong}")?;
        let sectors = plan.lost.iter().count();
        write!(f, "found with power cut {cuts}: at I/O {}, {sectors} sectors lost", plan.io)?;
        if let Some(again) = &plan.recovery {
            let sectors = again.lost.iter().count();
            write!(f, "; again at I/O {} of the recovery, {sectors} sectors lost", again.io)?;
        }
        write!(f, "\nto see it again: Kit::new({seed}) and replay the plan \"{plan}\"")?;
        if first.plan == *plan {
            return Ok(());
        }
        write!(f, "\nas it was found: {}; the plan \"{}\"", first.wrong, first.plan)
    }
}

impl std::error::Error for Failure {}
