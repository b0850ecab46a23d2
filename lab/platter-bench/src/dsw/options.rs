//! How large the benchmark is.

use super::DswError;
use crate::ladder::{Rung, TABLE};
use std::time::Duration;

/// Most agents.
pub const MAX_AGENTS: usize = 1024;
/// Most disks.
pub const MAX_DISKS: usize = 1024;
/// Most rounds.
pub const MAX_REPEAT: usize = 1000;
/// Largest factor of the recorded processor time.
pub const MAX_COMPUTE: f64 = 1000.0;
/// Most calls of an agent in a run of a rung.
const MAX_CALLS: u64 = 1 << 32;
/// Longest budget.
const MAX_BUDGET: Duration = Duration::from_secs(24 * 3600);

/// How large the benchmark is.
#[derive(Clone, Debug)]
pub struct Options {
    /// Agents, each a thread that replays queries, 1 to [`MAX_AGENTS`].
    pub agents: usize,
    /// Disks that are made, 1 to [`MAX_DISKS`].
    pub disks: usize,
    /// Rounds through all rungs, 1 to [`MAX_REPEAT`]; fewer where the budget is used up, but two.
    pub repeat: usize,
    /// Rungs to climb, from the lowest up; at least one.
    pub rungs: Vec<&'static Rung>,
    /// Calls of each agent in each run of a rung, without a warm-up; `None`: as many as fit the budget.
    pub calls: Option<u64>,
    /// The recorded processor time is multiplied by this, 0 to [`MAX_COMPUTE`]; 0 leaves only the I/O.
    pub compute: f64,
    /// Time for everything, including the creation of files.
    pub budget: Duration,
}

impl Default for Options {
    /// Two agents for each processor, four disks, 40 seconds.
    fn default() -> Options {
        Options {
            agents: 2 * std::thread::available_parallelism().map_or(1, usize::from).min(MAX_AGENTS / 2),
            disks: 4,
            repeat: 7,
            rungs: TABLE.iter().collect(),
            calls: None,
            compute: 1.0,
            budget: Duration::from_secs(40),
        }
    }
}

impl Options {
    /// Checks the options.
    ///
    /// # Errors
    /// [`DswError::Option`] with the option's name, its value and the allowed values.
    pub fn check(&self) -> Result<(), DswError> {
        let refuse = |text: String| Err(DswError::Option(text));
        if !(1..=MAX_AGENTS).contains(&self.agents) {
            return refuse(format!("--agents {}: give 1 to {MAX_AGENTS}", self.agents));
        }
        if !(1..=MAX_DISKS).contains(&self.disks) {
            return refuse(format!("--disks {}: give 1 to {MAX_DISKS}", self.disks));
        }
        if !(1..=MAX_REPEAT).contains(&self.repeat) {
            return refuse(format!("--repeat {}: give 1 to {MAX_REPEAT}", self.repeat));
        }
        if let Some(calls) = self.calls.filter(|calls| !(1..=MAX_CALLS).contains(calls)) {
            return refuse(format!("--calls {calls}: give 1 to {MAX_CALLS}"));
        }
        if !(0.0..=MAX_COMPUTE).contains(&self.compute) {
            return refuse(format!("--compute {}: give 0 to {MAX_COMPUTE}", self.compute));
        }
        if self.rungs.is_empty() {
            return refuse("no rung to measure: name at least one".to_owned());
        }
        if self.budget > MAX_BUDGET {
            return refuse(format!("--runtime {}s: give 24 hours at most", self.budget.as_secs()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_options_are_refused_by_name() {
        let o = Options::default;
        assert!(o().check().is_ok());
        for (options, name) in [
            (Options { agents: 0, ..o() }, "--agents 0: give 1 to 1024"),
            (Options { disks: 1025, ..o() }, "--disks 1025"),
            (Options { repeat: 0, ..o() }, "--repeat 0"),
            (Options { calls: Some(0), ..o() }, "--calls 0"),
            (Options { compute: -1.0, ..o() }, "--compute -1"),
            (Options { compute: f64::NAN, ..o() }, "--compute NaN"),
            (Options { rungs: vec![], ..o() }, "at least one"),
            (Options { budget: Duration::MAX, ..o() }, "give 24 hours"),
        ] {
            let error = options.check().unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
    }
}
