//! Elevators that are not those of the published kernels: other kernels, other parameters.

use super::{Experiment, Kind, Report, ReproError};
use platter_block::elevator::Elevator;
use platter_elevators::presets::{self, Preset};

/// What is changed about the elevators of experiments; by default nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Elevators {
    kernel: Option<&'static str>,
    changes: Vec<Change>,
}

/// Parameters of an elevator.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Change {
    elevator: &'static str,
    params: Vec<(&'static str, i64)>,
}

/// The kernels that have presets.
pub(super) fn kernels() -> Vec<&'static str> {
    let mut kernels: Vec<&str> = presets::PRESETS.iter().map(|preset| preset.kernel).collect();
    kernels.dedup();
    kernels
}

/// The message of [`ReproError::NoSuchElevator`].
pub(super) fn unused(elevator: Option<&'static str>, known: &[&'static str]) -> String {
    match (elevator, known) {
        (_, []) => "the experiment has no elevators that can be changed".to_owned(),
        (Some(elevator), known) => {
            format!(
                "no run has the elevator `{elevator}`; those that can be changed are: {}",
                known.join(", ")
            )
        }
        (None, known) => {
            format!("the kernel has a preset of none of the elevators that are run: {}", known.join(", "))
        }
    }
}

impl Elevators {
    /// Each elevator gets its parameters of this kernel, whatever kernel a figure names. An elevator that the kernel did not have stays as it is.
    ///
    /// # Errors
    /// The table of presets does not have the kernel.
    pub fn of_kernel(mut self, kernel: &str) -> Result<Elevators, ReproError> {
        let preset = presets::of_kernel(kernel).next();
        self.kernel = Some(preset.ok_or_else(|| ReproError::NoKernel { name: kernel.to_owned() })?.kernel);
        Ok(self)
    }

    /// An elevator gets these values of parameters, after those of its kernel.
    #[must_use]
    pub fn with(mut self, elevator: &'static str, params: Vec<(&'static str, i64)>) -> Elevators {
        self.changes.push(Change { elevator, params });
        self
    }

    /// Whether nothing is changed.
    pub fn are_published(&self) -> bool {
        self.kernel.is_none() && self.changes.is_empty()
    }

    fn changes(&self, elevator: &str) -> bool {
        let preset = self.kernel.and_then(|kernel| presets::find(kernel, elevator));
        preset.is_some() || self.changes.iter().any(|change| change.elevator == elevator)
    }

    /// Whether each change changes an elevator of one of the experiments.
    pub(super) fn check(&self, experiments: &[&Experiment]) -> Result<(), ReproError> {
        let mut known: Vec<&str> = experiments.iter().flat_map(|experiment| experiment.elevators()).collect();
        known.sort_unstable();
        known.dedup();
        for change in &self.changes {
            if !known.contains(&change.elevator) {
                return Err(ReproError::NoSuchElevator { elevator: Some(change.elevator), known });
            }
        }
        if let Some(kernel) = self.kernel
            && !known.iter().any(|elevator| presets::find(kernel, elevator).is_some())
        {
            return Err(ReproError::NoSuchElevator { elevator: None, known });
        }
        Ok(())
    }

    /// The changes that concern an experiment.
    pub(super) fn for_experiment(&self, experiment: &Experiment) -> Elevators {
        let known = experiment.elevators();
        if !known.iter().any(|elevator| self.changes(elevator)) {
            return Elevators::default();
        }
        let changes = self.changes.iter().filter(|change| known.contains(&change.elevator)).cloned();
        Elevators { kernel: self.kernel, changes: changes.collect() }
    }

    /// An elevator of a published kernel, with the changes.
    pub(super) fn make(
        &self,
        kernel: &'static str,
        elevator: &'static str,
    ) -> Result<Box<dyn Elevator>, ReproError> {
        let other = self.kernel.and_then(|kernel| presets::find(kernel, elevator));
        let preset = other.or_else(|| presets::find(kernel, elevator)).and_then(Preset::make);
        let mut made = preset.ok_or(ReproError::NoPreset { kernel, elevator })?;
        for change in self.changes.iter().filter(|change| change.elevator == elevator) {
            for (name, value) in &change.params {
                let set = made.set(name, *value);
                set.map_err(|error| ReproError::Refused { elevator, reason: error.0.to_string() })?;
            }
        }
        Ok(made)
    }

    /// With changed elevators no figure is one of a published kernel.
    pub(super) fn mark(&self, experiment: &Experiment, report: &mut Report) {
        if self.for_experiment(experiment).are_published() {
            return;
        }
        let published = |kind| matches!(kind, Kind::Prediction | Kind::Input | Kind::Derived);
        for claim in report.claims.iter_mut().filter(|claim| published(claim.kind)) {
            claim.kind = Kind::Ours;
        }
        report.method.insert(0, format!("{} No figure counts as a prediction.", self.text()));
    }

    fn text(&self) -> String {
        let of_kernel = self.kernel.map(|kernel| format!("those of Linux {kernel}, where it has them"));
        let changes = self.changes.iter().map(|change| {
            let params: Vec<String> =
                change.params.iter().map(|(name, value)| format!("{name} = {value}")).collect();
            format!("{} with {}", change.elevator, params.join(", "))
        });
        let all: Vec<String> = of_kernel.into_iter().chain(changes).collect();
        format!("The elevators are not those of the published kernels: {}.", all.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Hooks, Options, by_name};
    use std::sync::atomic::AtomicBool;

    fn run(name: &str, elevators: Elevators) -> Result<Report, ReproError> {
        let options = Options { scale: 64, threads: 2, elevators, ..Options::default() };
        by_name(name).unwrap().run(&options, Hooks { cancel: &AtomicBool::new(false), progress: &mut |_| () })
    }

    fn of_kernel(kernel: &str) -> Elevators {
        Elevators::default().of_kernel(kernel).unwrap()
    }

    #[test]
    fn changes_follow_the_kernel() {
        let value = |elevators: &Elevators, kernel, elevator, param| {
            elevators.make(kernel, elevator).unwrap().get(param).unwrap()
        };
        let none = Elevators::default();
        assert_eq!(value(&none, "2.5.61", "anticipatory", "rule"), 0);
        let later = of_kernel("2.6.16").with("anticipatory", vec![("read_batch_expire", 7)]);
        assert_eq!(value(&later, "2.5.61", "anticipatory", "rule"), 2);
        assert_eq!(value(&later, "2.5.61", "anticipatory", "read_batch_expire"), 7);
        // 2.6.16 has no linus.
        assert_eq!(value(&later, "2.4.25", "linus", "max_sectors"), 255);
        assert!(none.are_published() && !later.are_published());
    }

    #[test]
    fn figures_of_changed_elevators_are_no_predictions() {
        let published = run("plug2004", Elevators::default()).unwrap();
        assert!(published.claims.iter().any(|claim| claim.kind == Kind::Prediction));
        let changed = Elevators::default().with("deadline", vec![("fifo_batch", 1)]);
        let changed = run("plug2004", changed).unwrap();
        assert!(changed.claims.iter().all(|claim| claim.kind == Kind::Ours));
        assert_eq!(
            changed.method[0],
            "The elevators are not those of the published kernels: deadline with fifo_batch = 1. No figure counts as a prediction."
        );
    }

    #[test]
    fn a_change_that_changes_nothing_is_refused() {
        let error = |name, elevators| run(name, elevators).err().unwrap().to_string();
        let changed = || Elevators::default().with("cfq", vec![("quantum", 1)]);
        let told = "no run has the elevator `cfq`; those that can be changed are: anticipatory, deadline";
        assert_eq!(error("plug2004", changed()), told);
        assert!(error("dm2002", changed()).contains("no elevators that can be changed"));
        assert!(error("plug2004", of_kernel("2.4.25")).contains("a preset of none"));
        let wrong = Elevators::default().with("deadline", vec![("fifo_batch", -1)]);
        assert!(error("plug2004", wrong).contains("fifo_batch"));
        let unknown = Elevators::default().of_kernel("2.6.99").unwrap_err().to_string();
        assert!(unknown.starts_with("unknown kernel `2.6.99`; expected one of: 2.4.18"), "{unknown}");
        // An experiment that a change does not concern runs as published.
        let plug2004 = by_name("plug2004").unwrap();
        assert!(changed().for_experiment(plug2004).are_published());
    }
}
