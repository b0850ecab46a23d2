//! Disks behind SCSI targets, reached by one path or two.

use super::super::feature::{Feature, Features};
use super::disk::DiskPlan;
use platter_block::backend::Backend;
use platter_block::elevator::Elevator;
use platter_block::fault::Error;
use platter_block::queue::Ordered;
use platter_block::time::{Span, Time};
use platter_disk::disk_backend::{DiskBackend, DiskSettings};
use platter_scsi::disk::{FaultPlan, Options, ScsiDisk, ScsiTarget};
use platter_sim::rng::Rng;
use platter_stack::multipath::{self, Policy, Settings};
use std::sync::Arc;

/// How a disk is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Transport {
    /// The faults of each port.
    ports: Vec<FaultPlan>,
    /// Two ports are one device by this policy.
    policy: Policy,
}

/// What a disk behind a target is made of.
pub(in super::super) struct Reached {
    pub(in super::super) backend: Arc<dyn Backend>,
    pub(in super::super) ports: Vec<ScsiDisk>,
}

/// Long enough for every command of the soak, so that no port goes offline for ever.
const COMMAND_TIMEOUT: Span = Span::from_secs(60);

/// More than the faults of a run use up.
const RETRIES: u32 = 1000;

impl Transport {
    /// A random one. No fault of it shows, except that a path goes away of which there is another.
    pub(super) fn new(rng: &mut Rng, on: Features) -> Transport {
        let paths = 1 + rng.below(2);
        let policy = rng.pick(&[Policy::RoundRobin, Policy::QueueLength, Policy::ServiceTime]);
        let keeps_order = on.has(Feature::Tags);
        let ports = (0..paths).map(|path| faults(rng, keeps_order, path == 1)).collect();
        Transport { ports, policy }
    }

    /// Whether a disk that is reached so can keep the order of commands.
    fn keeps_order(&self) -> bool {
        !self.ports.iter().any(FaultPlan::loses_order)
    }

    /// Opens the way to a disk. The queue of the plan, and its elevator, are in front of the target.
    ///
    /// # Errors
    /// Those of the disks.
    pub(in super::super) fn reach(
        &self,
        disk: Arc<dyn Backend>,
        settings: &DiskSettings,
        mut elevator: impl FnMut() -> Option<Box<dyn Elevator>>,
    ) -> Result<Reached, Error> {
        let target = ScsiTarget::new(disk);
        let (mut ports, mut paths) = (Vec::new(), Vec::<Arc<dyn Backend>>::new());
        let mut settings = settings.clone();
        if !self.keeps_order() {
            settings.queue.ordered = Ordered::Drain;
        }
        for faults in &self.ports {
            let options = Options::default()
                .with_faults(faults.clone())
                .with_command_timeout(COMMAND_TIMEOUT)
                .with_busy_timeout(Span::from_secs(3600))
                .with_retries(RETRIES);
            let port = target.port(options)?;
            paths.push(Arc::new(DiskBackend::new(port.clone(), settings.clone(), elevator())?));
            ports.push(port);
        }
        if paths.len() == 1 {
            let backend = paths.remove(0);
            return Ok(Reached { backend, ports });
        }
        let settings =
            Settings { policy: self.policy, no_path_timeout: Span(0), check_interval: Span::from_millis(20) };
        let name = paths[0].name();
        let backend = multipath::new(paths, settings).map_err(|error| Error {
            fault: platter_block::fault::Fault::new(
                platter_block::fault::Kind::Unsupported,
                platter_block::fault::Stage::Layer,
            ),
            op: platter_block::bio::Op::Read,
            device: name,
            offset: 0,
            len: 0,
            detail: error.to_string(),
        })?;
        Ok(Reached { backend, ports })
    }
}

fn faults(rng: &mut Rng, keeps_order: bool, may_go: bool) -> FaultPlan {
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
    if may_go && rng.below(2) == 0 {
        let lasts = (rng.below(3) > 0).then(|| Span::from_millis(1 + rng.below(200)));
        plan.away = Some((Time(rng.below(200_000_000)), lasts));
    }
    plan
}

impl DiskPlan {
    /// Puts the disk behind a target, if the generator chooses so.
    pub(super) fn put_away(&mut self, rng: &mut Rng, on: Features) {
        if rng.below(3) > 0 {
            self.transport = Some(Transport::new(rng, on));
        }
    }
}
