//! One trial: an engine, a power cut, and a check.

use super::trace::{Recorder, Trace};
use super::{Kit, Outcome, Plan, RecoveryCut};
use platter_sim::medium::Medium;
use platter_sim::power::{CutReport, Lost, Supply, Survivors};
use platter_sim::{Options, SimDisk, World};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

/// When power is cut in a trial, and what survives.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    /// The I/O that is in flight; `None`, or one that the engine does not reach: after its end.
    pub(super) io: Option<u64>,
    pub(super) survivors: Survivors,
    /// A second cut at this I/O of the check.
    pub(super) recovery: Option<(u64, Survivors)>,
}

impl Cut {
    pub(super) fn of(plan: &Plan) -> Cut {
        let except = |lost: &Lost| Survivors::Except(lost.clone());
        let recovery = plan.recovery.as_ref().map(|again| (again.io, except(&again.lost)));
        Cut { io: Some(plan.io), survivors: except(&plan.lost), recovery }
    }

    pub(super) fn after_the_end() -> Cut {
        Cut { io: None, survivors: Survivors::All, recovery: None }
    }
}

/// Calls engine or check, and takes a panic for an error: an engine that panics after an error of its disk has
/// stopped, which is allowed, and a panic while it reads what a cut left is a finding.
fn guard(call: impl FnOnce() -> Outcome) -> Result<(), String> {
    let call = || call().map_err(|error| error.to_string());
    panic::catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
        Err(format!("panicked: {}", text.unwrap_or("with a payload that is no text")))
    })
}

/// What has become known in the course of a trial.
pub(super) enum Stage<'a> {
    /// Power was cut.
    Cut { trace: &'a Trace, lost: &'a Lost, could: &'a Lost },
    /// Power was cut a second time.
    Again { lost: &'a Lost },
}

/// The result of one trial.
#[derive(Default)]
pub(super) struct Trial {
    /// The error that the check found.
    pub(super) wrong: Option<String>,
    /// The I/Os of the engine.
    pub(super) trace: Trace,
    /// Those of opening and checking after the cut; without a second cut.
    pub(super) recovery: Trace,
    pub(super) lost: Lost,
    /// The sectors that could have been lost.
    pub(super) could: Lost,
    /// The sectors that the second cut took.
    pub(super) lost_again: Lost,
}

impl Trial {
    /// The plan that repeats this trial of `cut`.
    pub(super) fn plan(&self, cut: &Cut) -> Plan {
        let again = |&(io, _): &(u64, Survivors)| RecoveryCut { io, lost: self.lost_again.clone() };
        Plan {
            io: cut.io.unwrap_or(self.trace.len()),
            lost: self.lost.clone(),
            recovery: cut.recovery.as_ref().map(again),
        }
    }
}

/// The disks of one trial.
struct Rig {
    world: Arc<World>,
    supply: Supply,
    disks: Vec<SimDisk>,
    recorder: Recorder,
}

impl Rig {
    fn new<D>(kit: &Kit<D>) -> Rig {
        let (world, supply) = (World::new(kit.seed), Supply::new());
        let disk = |_| {
            let options = Options { medium: Some(Medium::new()), faults: None, supply: Some(supply.clone()) };
            SimDisk::with(&world, kit.disk.into(), options)
        };
        let disks: Vec<SimDisk> = (0..kit.disks).map(disk).collect();
        let recorder = Recorder::default();
        recorder.attach(&disks);
        Rig { world, supply, disks, recorder }
    }

    /// Cuts the power, unless it is off already, and restores it; returns what was lost, and what could have
    /// been.
    fn cut(&self, survivors: &Survivors) -> (Lost, Lost) {
        self.supply.cut(self.world.clock().now(), survivors.clone());
        self.disks.iter().for_each(SimDisk::settle);
        self.supply.restore();
        let reports = self.supply.take_reports();
        let all = |of: fn(&CutReport) -> &Lost| reports.iter().flat_map(|report| of(report).iter()).collect();
        (all(|report| &report.lost), all(|report| &report.could))
    }
}

impl<D> Kit<D> {
    /// Runs the engine until the cut, then the check. An engine that ends before the cut is cut then.
    pub(super) fn trial_here<S: Default>(
        &self,
        cut: &Cut,
        engine: &impl Fn(&D, &mut S) -> Outcome,
        check: &impl Fn(&D, &S) -> Outcome,
        tell: &mut dyn FnMut(Stage<'_>),
    ) -> Result<Trial, String> {
        let rig = Rig::new(self);
        let opened =
            (self.open)(&rig.disks).map_err(|error| format!("the device cannot be opened: {error}"))?;
        rig.recorder.take();
        self.flushes.apply(&rig.disks);
        if let Some(io) = cut.io {
            rig.supply.cut_after(io, cut.survivors.clone());
        }
        let mut state = S::default();
        let ended = guard(|| engine(&opened, &mut state));
        drop(opened);
        let trace = rig.recorder.take();
        if let (Err(error), 0) = (&ended, rig.supply.cuts()) {
            return Err(format!("the engine failed although nothing was wrong: {error}"));
        }
        rig.disks.iter().for_each(|disk| disk.set_faults(None));
        let (lost, could) = rig.cut(&cut.survivors);
        tell(Stage::Cut { trace: &trace, lost: &lost, could: &could });
        let open_and_check = || {
            let opened =
                (self.open)(&rig.disks).map_err(|error| format!("not opened after the cut: {error}"))?;
            guard(|| check(&opened, &state))
        };
        let mut lost_again = Lost::new();
        if let Some((io, survivors)) = &cut.recovery {
            let cuts = rig.supply.cuts();
            rig.supply.cut_after(*io, survivors.clone());
            let found = open_and_check();
            // Without power the check fails; an error before that is one of the first cut.
            if let (Err(wrong), true) = (found, rig.supply.cuts() == cuts) {
                return Ok(Trial {
                    wrong: Some(wrong),
                    trace,
                    recovery: Trace::default(),
                    lost,
                    could,
                    lost_again,
                });
            }
            (lost_again, _) = rig.cut(survivors);
            tell(Stage::Again { lost: &lost_again });
            rig.recorder.take();
        }
        let wrong = open_and_check().err();
        Ok(Trial { wrong, trace, recovery: rig.recorder.take(), lost, could, lost_again })
    }
}
