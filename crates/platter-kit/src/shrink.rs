//! Shrinks a failure: fewer I/Os before the cut, fewer lost sectors.

use super::{Failure, Kit, Plan, Trial};
use platter_sim::power::{Lost, Survivors};

/// Cuts that are tried to find a smaller one.
const BUDGET: u64 = 2000;

/// A cut that is repeated with fewer I/Os and losses.
struct Search<'a, T> {
    trial: &'a T,
    left: u64,
}

impl<T: Fn(Option<u64>, &Survivors) -> Result<Trial, String>> Search<'_, T> {
    /// The error after this cut, and the sectors that it lost.
    fn fails(&mut self, io: u64, survivors: &Survivors) -> Option<(String, Lost)> {
        self.left = self.left.checked_sub(1)?;
        let trial = (self.trial)(Some(io), survivors).ok()?;
        Some((trial.wrong?, trial.lost))
    }
}

impl Kit {
    /// The smallest plan that can be found from one that fails.
    pub(super) fn shrink<T: Fn(Option<u64>, &Survivors) -> Result<Trial, String>>(
        &self,
        mut plan: Plan,
        mut wrong: String,
        cuts: u64,
        trial: &T,
    ) -> Failure {
        let mut search = Search { trial, left: BUDGET };
        if let Some((earlier, what)) = self.earlier(&plan, &mut search) {
            (plan, wrong) = (earlier, what);
        }
        let mut step = plan.lost.iter().count().next_power_of_two();
        while step > 0 {
            while let Some((lost, what)) = without_some(&plan, step, &mut search) {
                (plan.lost, wrong) = (lost, what);
            }
            step /= 2;
        }
        self.failure(plan, wrong, cuts)
    }

    /// A cut with fewer I/Os before it that fails, the first one.
    fn earlier<T: Fn(Option<u64>, &Survivors) -> Result<Trial, String>>(
        &self,
        plan: &Plan,
        search: &mut Search<'_, T>,
    ) -> Option<(Plan, String)> {
        for io in 0..plan.io {
            let whole = (search.trial)(Some(io), &Survivors::All).ok()?;
            for survivors in subsets(&whole.could).chain(self.ways(io)) {
                if let Some((wrong, lost)) = search.fails(io, &survivors) {
                    return Some((Plan { io, lost }, wrong));
                }
            }
        }
        None
    }
}

/// Writes of which all combinations are tried.
const FEW: usize = 5;

/// Every way to lose whole writes, where there are few of them.
fn subsets(could: &Lost) -> impl Iterator<Item = Survivors> + use<> {
    let sectors: Vec<(u32, u64, u64)> = could.iter().collect();
    let mut writes: Vec<(u32, u64)> = sectors.iter().map(|&(disk, write, _)| (disk, write)).collect();
    writes.dedup();
    let count = if writes.len() <= FEW { 1u32 << writes.len() } else { 0 };
    (0..count).map(move |set| {
        let is_lost = |&(disk, write, _): &(u32, u64, u64)| {
            writes.iter().position(|&known| known == (disk, write)).is_some_and(|i| set >> i & 1 == 1)
        };
        Survivors::Except(sectors.iter().copied().filter(is_lost).collect())
    })
}

/// The loss of `plan` without `step` sectors in a row, if that still fails.
fn without_some<T: Fn(Option<u64>, &Survivors) -> Result<Trial, String>>(
    plan: &Plan,
    step: usize,
    search: &mut Search<'_, T>,
) -> Option<(Lost, String)> {
    let all: Vec<_> = plan.lost.iter().collect();
    for first in (0..all.len()).step_by(step) {
        let rest = all.iter().enumerate().filter(|(i, _)| !(first..first + step).contains(i));
        let lost: Lost = rest.map(|(_, sector)| *sector).collect();
        if let Some((wrong, _)) = search.fails(plan.io, &Survivors::Except(lost.clone())) {
            return Some((lost, wrong));
        }
    }
    None
}
