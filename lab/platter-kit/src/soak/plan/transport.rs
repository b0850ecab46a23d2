//! Disks behind SCSI targets.

use super::super::feature::{Feature, Features};
use platter_block::backend::Backend;
use platter_block::elevator::Elevator;
use platter_block::queue::Ordered;
use platter_block::time::{Span, Time};
use platter_disk::disk_backend::{DiskBackend, DiskSettings, OnReturn};
use platter_scsi::disk::AccessState::{self, NonOptimized, Optimized};
use platter_scsi::disk::{FaultPlan, Options, ScsiDisk, ScsiTarget, TargetPort};
use platter_sim::rng::Rng;
use platter_stack::multipath::{self, Policy};
use std::sync::Arc;

/// How a disk is reached: through ports with these faults, over which is `multipath` if there are several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Transport {
    ports: Vec<FaultPlan>,
    /// How the port of the target for each of them reaches the unit, if the target tells.
    access: Vec<AccessState>,
    /// The policy of `multipath`.
    policy: Policy,
}

/// What a disk behind a target is made of.
pub(in super::super) struct Reached {
    pub(in super::super) backend: Arc<dyn Backend>,
    pub(in super::super) ports: Vec<ScsiDisk>,
}

/// Long enough for every command of the soak, so that no port goes offline for ever.
const COMMAND_TIMEOUT: Span = Span::from_secs(25);

/// Longer than all outages of a run.
const PATIENCE: Span = Span::from_secs(24 * 3600);

/// The same for a disk that is failed until the program accepts it, which is no outage that ends: longer than those of ports, and
/// than commands are stuck. A call waits for all of it, and in a day there are 345,600 checks of two paths.
const PATIENCE_WITH_FAILED: Span = Span::from_secs(2 * 3600);

const CHECK_INTERVAL: Span = Span::from_millis(500);

/// More than the faults of a run use up.
const RETRIES: u32 = 1000;

impl Transport {
    /// A random one, none of whose faults shows.
    pub(super) fn new(rng: &mut Rng, on: Features) -> Transport {
        // A lost command takes longer than a deadline, and what is late is with the port until then.
        let keeps_order = [Feature::Tags, Feature::Timeouts, Feature::Deadlines].iter().any(|f| on.has(*f));
        Transport { ports: vec![faults(rng, keeps_order)], access: Vec::new(), policy: Policy::default() }
    }

    /// Adds another path, most often, each of which may fail for a while.
    pub(super) fn double(&mut self, rng: &mut Rng) {
        if rng.below(4) > 0 {
            let first = self.ports[0].clone();
            self.ports.push(FaultPlan { seed: rng.bits(), ..first });
            self.ports.iter_mut().for_each(|port| port.away = outage(rng));
            self.policy = rng.pick(&[Policy::RoundRobin, Policy::QueueLength, Policy::ServiceTime]);
            self.tell_access();
        }
    }

    /// Whether there are several paths.
    pub(in super::super) fn is_double(&self) -> bool {
        self.ports.len() > 1
    }

    /// Has the target tell its ports apart, in half of the cases. Numbers of its own leave other plans as they were.
    fn tell_access(&mut self) {
        let mut rng = Rng::new(self.ports[1].seed);
        if rng.below(2) > 0 {
            self.access =
                self.ports.iter().map(|_| rng.pick(&[Optimized, Optimized, NonOptimized])).collect();
            self.ports.iter_mut().for_each(|port| port.standby = outage(&mut rng));
        }
    }

    /// The device is open: outages are counted from now on. Paths are proven while all of them work.
    pub(in super::super) fn begin(&self, ports: &[ScsiDisk], now: Time) {
        for (port, faults) in ports.iter().zip(&self.ports) {
            let later = |(from, lasts): (Time, Option<Span>)| (now + Span(from.0), lasts);
            let (away, standby) = (faults.away.map(later), faults.standby.map(later));
            port.set_faults(FaultPlan { away, standby, ..faults.clone() });
        }
    }

    /// Opens the ways to a disk. A queue as that of the plan, with its elevator, is in front of each.
    ///
    /// # Errors
    /// Those of the disk.
    pub(in super::super) fn reach(
        &self,
        disk: Arc<dyn Backend>,
        settings: &DiskSettings,
        elevator: &dyn Fn() -> Option<Box<dyn Elevator>>,
    ) -> Result<Reached, String> {
        let target = ScsiTarget::new(disk);
        let (mut ports, mut paths) = (Vec::new(), Vec::<Arc<dyn Backend>>::new());
        for (number, faults) in self.ports.iter().enumerate() {
            let access = self.access.get(number).copied();
            let id = number as u16 + 1;
            let mut settings = settings.clone();
            if faults.loses_order() {
                settings.queue.ordered = Ordered::Drain;
            }
            let options = Options::default()
                .with_faults(FaultPlan { away: None, standby: None, ..faults.clone() })
                .with_target_port(access.map(|_| TargetPort { identifier: id, group: id }))
                .with_access(access.unwrap_or_default())
                .with_command_timeout(COMMAND_TIMEOUT)
                .with_busy_timeout(Span::from_secs(3600))
                .with_retries(RETRIES);
            let port = target.port(options).map_err(|error| error.to_string())?;
            let path = DiskBackend::new(port.clone(), settings, elevator());
            paths.push(Arc::new(path.map_err(|error| error.to_string())?));
            ports.push(port);
        }
        let backend = match <[_; 1]>::try_from(paths) {
            Ok([path]) => path,
            Err(paths) => {
                let settings = multipath::Settings {
                    policy: self.policy,
                    no_path_timeout: match settings.on_return {
                        OnReturn::Stay => PATIENCE_WITH_FAILED,
                        OnReturn::Refresh => PATIENCE,
                    },
                    check_interval: CHECK_INTERVAL,
                };
                multipath::new(paths, settings).map_err(|error| error.to_string())?
            }
        };
        Ok(Reached { backend, ports })
    }
}

/// A while in which a path does not work.
fn outage(rng: &mut Rng) -> Option<(Time, Option<Span>)> {
    let (from, lasts) = (Span::from_millis(rng.below(400)), Span::from_millis(1 + rng.below(30_000)));
    (rng.below(3) > 0).then_some((Time(from.0), Some(lasts)))
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
