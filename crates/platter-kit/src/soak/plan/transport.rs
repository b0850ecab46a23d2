//! Disks behind SCSI targets.

use super::super::feature::{Feature, Features};
use platter_block::backend::Backend;
use platter_block::elevator::Elevator;
use platter_block::queue::Ordered;
use platter_block::time::{Span, Time};
use platter_disk::disk_backend::{DiskBackend, DiskSettings};
use platter_scsi::disk::{FaultPlan, Options, ScsiDisk, ScsiTarget};
use platter_sim::rng::Rng;
use std::sync::Arc;

/// How a disk is reached: through a port with these faults, or through several with faults of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Transport {
    faults: FaultPlan,
    /// The ports besides the first.
    others: Vec<FaultPlan>,
    /// The parameters of `multipath`, where there are several ports.
    values: Vec<(&'static str, i64)>,
}

/// What a disk behind a target is made of.
pub(in super::super) struct Reached {
    pub(in super::super) backend: Arc<dyn Backend>,
    pub(in super::super) ports: Vec<ScsiDisk>,
}

/// Long enough for every command of the soak, so that no port goes offline for ever.
const COMMAND_TIMEOUT: Span = Span::from_secs(25);

/// More than the faults of a run use up.
const RETRIES: u32 = 1000;

impl Transport {
    /// A random one, none of whose faults shows.
    pub(super) fn new(rng: &mut Rng, on: Features) -> Transport {
        // A lost command takes longer than a deadline, and what is given up is with the port until then.
        let keeps_order = [Feature::Tags, Feature::Timeouts, Feature::Deadlines].iter().any(|f| on.has(*f));
        Transport { faults: faults(rng, keeps_order), others: Vec::new(), values: Vec::new() }
    }

    /// Adds ports, and lets all of them come and go. All may be away at once, for less time than I/O is held.
    pub(super) fn add_paths(&mut self, rng: &mut Rng, on: Features) {
        let loses = self.faults.loses_order();
        let others = 1 + rng.below(2);
        self.others = (0..others).map(|_| faults(rng, !loses)).collect();
        for plan in std::iter::once(&mut self.faults).chain(&mut self.others) {
            let (latest, longest) = (rng.pick(&[50, 2_000, 60_000]), rng.pick(&[20, 1_000, 30_000]));
            let from = Time(0) + Span::from_millis(1 + rng.below(latest));
            let lasts = Span::from_millis(1 + rng.below(longest));
            plan.away = (rng.below(3) > 0).then_some((from, Some(lasts)));
        }
        // A check every few milliseconds while a command is stuck for an hour takes seconds to simulate.
        let shortest = if on.has(Feature::Stuck) { 1000 } else { 20 };
        let interval = rng.pick(&[shortest, 1000, 5000]);
        let policy = rng.below(3) as i64;
        self.values = vec![("policy", policy), ("check_interval", interval), ("no_path_timeout", 86_400_000)];
    }

    /// Opens the way to a disk. The queue of the plan, and its elevator, are in front of the target.
    ///
    /// # Errors
    /// Those of the disk.
    pub(in super::super) fn reach(
        &self,
        disk: Arc<dyn Backend>,
        settings: &DiskSettings,
        elevator: &dyn Fn() -> Option<Box<dyn Elevator>>,
    ) -> Result<Reached, String> {
        let mut settings = settings.clone();
        if self.faults.loses_order() {
            settings.queue.ordered = Ordered::Drain;
        }
        let opened = disk.now();
        let target = ScsiTarget::new(disk);
        let plans = || std::iter::once(&self.faults).chain(&self.others);
        let port = |plan: &FaultPlan| target.port(options(plan, opened)).map_err(|error| error.to_string());
        let ports = plans().map(port).collect::<Result<Vec<ScsiDisk>, String>>()?;
        let path = |port: &ScsiDisk| -> Result<Arc<dyn Backend>, String> {
            let backend = DiskBackend::new(port.clone(), settings.clone(), elevator());
            Ok(Arc::new(backend.map_err(|error| error.to_string())?))
        };
        let mut paths = ports.iter().map(path).collect::<Result<Vec<_>, String>>()?;
        let backend = match paths.len() {
            1 => paths.remove(0),
            _ => {
                let layer = platter_stack::by_name("multipath").ok_or("there is no layer `multipath`")?;
                layer.make(&self.values, paths).map_err(|error| error.to_string())?
            }
        };
        Ok(Reached { backend, ports })
    }
}

/// Times at which a port is away count from the opening: the proof that paths lead to one disk needs all of them.
fn options(faults: &FaultPlan, opened: Time) -> Options {
    let away = faults.away.map(|(from, lasts)| (opened + from.since(Time(0)), lasts));
    Options::default()
        .with_faults(FaultPlan { away, ..faults.clone() })
        .with_command_timeout(COMMAND_TIMEOUT)
        .with_busy_timeout(Span::from_secs(3600))
        .with_retries(RETRIES)
}

fn faults(rng: &mut Rng, keeps_order: bool) -> FaultPlan {
    let mut chance = |chances: &[u32]| rng.pick(chances);
    let mut plan = FaultPlan {
        busy: chance(&[0, 0, 30_000]),
        full: chance(&[0, 0, 30_000]),
        attention: chance(&[0, 10_000, 50_000]),
        not_ready: chance(&[0, 0, 5_000]),
        aborted: chance(&[0, 0, 20_000]),
        reset: chance(&[0, 10_000, 50_000]),
        lost: if keeps_order { 0 } else { chance(&[0, 0, 5_000]) },
        unanswered: if keeps_order { 0 } else { chance(&[0, 0, 5_000]) },
        ..FaultPlan::default()
    };
    plan.seed = rng.bits();
    plan.not_ready_for = Span::from_millis(1 + rng.below(100));
    plan
}
