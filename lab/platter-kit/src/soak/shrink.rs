//! Shrinks a plan that leads to a finding.

use super::plan::{DiskPlan, Plan};
use super::{Bug, Finding, HANG, carry_out};
use platter_sim::fault::FaultPlan;
use std::sync::Arc;

/// Plans that are tried.
const BUDGET: u32 = 600;

struct Search {
    bug: Option<&'static Bug>,
    left: u32,
    best: Plan,
    finding: Finding,
}

/// The smallest plan that can be found whose finding is of the same kind, with that finding.
pub(super) fn shrink(plan: Plan, finding: Finding, bug: Option<&'static Bug>) -> (Plan, Finding) {
    if finding.class == HANG {
        return (plan, finding);
    }
    let mut search = Search { bug, left: BUDGET, best: plan, finding };
    // Each pass may enable earlier ones again.
    for _ in 0..3 {
        let before = search.size();
        search.steps();
        search.ios();
        search.faults();
        search.layers();
        if search.size() == before {
            break;
        }
    }
    (search.best, search.finding)
}

impl Search {
    fn size(&self) -> (usize, usize) {
        (self.best.to_string().len(), self.best.steps.len())
    }

    /// Keeps a plan if it leads to the same kind of finding.
    fn attempt(&mut self, plan: Plan) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        let plan = Arc::new(plan);
        match carry_out(&plan, self.bug, false).found {
            Some(found) if found.class == self.finding.class => {
                self.finding = found;
                self.best = Plan::clone(&plan);
                true
            }
            _ => false,
        }
    }

    /// Leaves out steps: first many in a row, then single ones.
    fn steps(&mut self) {
        let mut size = self.best.steps.len().next_power_of_two() / 2;
        while size > 0 {
            let mut end = self.best.steps.len();
            // From the end: steps after the finding are removed first.
            while end > 0 {
                let begin = end.saturating_sub(size);
                let mut plan = self.best.clone();
                plan.steps.drain(begin..end);
                self.attempt(plan);
                end = begin.min(self.best.steps.len());
            }
            size /= 2;
        }
    }

    /// Leaves out single I/Os of batches.
    fn ios(&mut self) {
        for at in (0..self.best.steps.len()).rev() {
            for io in (0..self.best.steps[at].ios()).rev() {
                let mut plan = self.best.clone();
                plan.steps[at].remove(io);
                self.attempt(plan);
            }
        }
    }

    fn faults(&mut self) {
        for at in 0..self.best.disks.len() {
            let seed = self.best.disks[at].faults.seed;
            let simpler: [fn(&mut DiskPlan); 7] = [
                |disk| disk.faults = FaultPlan { seed: disk.faults.seed, ..FaultPlan::default() },
                |disk| disk.faults.spike_chance = 0,
                |disk| disk.faults.stuck_chance = 0,
                |disk| disk.faults.transient_chance = 0,
                |disk| (disk.faults.read_error_chance, disk.faults.write_error_chance) = (0, 0),
                |disk| disk.faults.flush_error_chance = 0,
                |disk| disk.elevator = None,
            ];
            for simplify in simpler {
                let mut plan = self.best.clone();
                simplify(&mut plan.disks[at]);
                plan.disks[at].faults.seed = seed;
                self.attempt(plan);
            }
        }
    }

    /// Leaves out layers, from the top.
    fn layers(&mut self) {
        let mut at = 0;
        while at < 16 {
            let smaller = self.best.stack.without(&mut 0, at);
            let plan = Plan { stack: smaller, ..self.best.clone() };
            if plan.stack == self.best.stack || !self.attempt(plan) {
                at += 1;
            }
        }
        while self.best.channels > 1 {
            let plan = Plan { channels: self.best.channels - 1, ..self.best.clone() };
            if !self.attempt(plan) {
                break;
            }
        }
    }
}
