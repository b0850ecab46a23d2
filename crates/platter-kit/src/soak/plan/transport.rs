//! Disks behind SCSI targets.

use super::super::feature::{Feature, Features};
use platter_block::backend::Backend;
use platter_block::elevator::Elevator;
use platter_block::fault::Error;
use platter_block::queue::Ordered;
use platter_block::time::Span;
use platter_disk::disk_backend::{DiskBackend, DiskSettings};
use platter_scsi::disk::{FaultPlan, Options, ScsiDisk, ScsiTarget};
use platter_sim::rng::Rng;
use std::sync::Arc;

/// How a disk is reached: through a port with these faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Transport {
    faults: FaultPlan,
}

/// What a disk behind a target is made of.
pub(in super::super) struct Reached {
    pub(in super::super) backend: Arc<dyn Backend>,
    pub(in super::super) port: ScsiDisk,
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
        Transport { faults: faults(rng, keeps_order) }
    }

    /// Opens the way to a disk. The queue of the plan, and its elevator, are in front of the target.
    ///
    /// # Errors
    /// Those of the disk.
    pub(in super::super) fn reach(
        &self,
        disk: Arc<dyn Backend>,
        settings: &DiskSettings,
        elevator: Option<Box<dyn Elevator>>,
    ) -> Result<Reached, Error> {
        let mut settings = settings.clone();
        if self.faults.loses_order() {
            settings.queue.ordered = Ordered::Drain;
        }
        let options = Options::default()
            .with_faults(self.faults.clone())
            .with_command_timeout(COMMAND_TIMEOUT)
            .with_busy_timeout(Span::from_secs(3600))
            .with_retries(RETRIES);
        let port = ScsiTarget::new(disk).port(options)?;
        let backend = Arc::new(DiskBackend::new(port.clone(), settings, elevator)?);
        Ok(Reached { backend, port })
    }
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
