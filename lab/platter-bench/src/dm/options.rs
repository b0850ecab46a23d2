//! How large the benchmark is.

use super::{Call, DmError};
use crate::ladder::{Rung, TABLE};
use crate::report::units;
use std::time::Duration;

/// Bytes of a read.
pub const READ_BYTES: usize = 64 << 10;
/// Disks of the paper's machine.
pub const PAPER_DISKS: usize = 32;
/// Reads of each of the paper's workers.
pub const PAPER_READS: u64 = 4096;
/// Most disks.
pub const MAX_DISKS: usize = 1024;
/// Most rounds.
pub const MAX_REPEAT: usize = 1000;
/// Most reads of a worker in a run of a cell.
pub const MAX_READS: u64 = 1 << 32;
/// Longest budget.
const MAX_BUDGET: Duration = Duration::from_secs(24 * 3600);
/// Bytes of each disk in memory: few enough to stay in the processor's caches, so that the copy, which
/// represents the transfer, costs little and always the same, and does not hide the cost of the rungs.
pub(super) const RAM_BYTES: u64 = 1 << 20;

/// How large the benchmark is.
#[derive(Clone, Debug)]
pub struct Options {
    /// Disks, and so workers, 1 to [`MAX_DISKS`].
    pub disks: usize,
    /// Bytes of each disk that is made, a multiple of [`READ_BYTES`].
    pub size: u64,
    /// Rounds through all rungs, 1 to [`MAX_REPEAT`]; fewer where the budget is used up, but two.
    pub repeat: usize,
    /// Rungs to climb, from the lowest up; at least one.
    pub rungs: Vec<&'static Rung>,
    /// Calls to read with; at least one.
    pub calls: Vec<Call>,
    /// Reads of each worker in each run of a cell, 1 to [`MAX_READS`], without a warm-up; `None`: as many as
    /// fit the budget.
    pub reads: Option<u64>,
    /// Time for everything, making the disks included, where `reads` is not given.
    pub budget: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            disks: 4,
            size: PAPER_READS * READ_BYTES as u64,
            repeat: 7,
            rungs: TABLE.iter().collect(),
            calls: Call::ALL.to_vec(),
            reads: None,
            budget: Duration::from_secs(50),
        }
    }
}

impl Options {
    /// The paper's run: 32 disks, 4096 reads of each, three rounds.
    pub fn full() -> Options {
        Options { disks: PAPER_DISKS, repeat: 3, reads: Some(PAPER_READS), ..Options::default() }
    }

    /// Checks the options.
    ///
    /// # Errors
    /// [`DmError::Option`] with the option's name, its value and the allowed values.
    pub fn check(&self) -> Result<(), DmError> {
        let refuse = |text: String| Err(DmError::Option(text));
        if !(1..=MAX_DISKS).contains(&self.disks) {
            return refuse(format!("--disks {}: give 1 to {MAX_DISKS}", self.disks));
        }
        if !(1..=MAX_REPEAT).contains(&self.repeat) {
            return refuse(format!("--repeat {}: give 1 to {MAX_REPEAT}", self.repeat));
        }
        if let Some(reads) = self.reads.filter(|reads| !(1..=MAX_READS).contains(reads)) {
            return refuse(format!("--reads {reads}: give 1 to {MAX_READS}"));
        }
        if self.rungs.is_empty() || self.calls.is_empty() {
            return refuse("no rung or no call to measure: name at least one".to_owned());
        }
        if self.budget > MAX_BUDGET {
            return refuse(format!("--runtime {}s: give 24 hours at most", self.budget.as_secs()));
        }
        let unit = READ_BYTES as u64;
        if self.size == 0 || !self.size.is_multiple_of(unit) {
            let (size, unit) = (units::bytes_short(self.size), units::bytes_short(unit));
            return refuse(format!("--size {size}: give a multiple of {unit}, the size of a read"));
        }
        if (self.disks as u64).checked_mul(self.size).is_none_or(|all| all > i64::MAX as u64) {
            let size = units::bytes_short(self.size);
            return refuse(format!(
                "--size {size}: {} such disks are more than a machine can have",
                self.disks
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_options_are_refused_by_name() {
        assert!(Options::default().check().is_ok() && Options::full().check().is_ok());
        let o = Options::default;
        for (options, name) in [
            (Options { disks: 0, ..o() }, "--disks 0: give 1 to 1024"),
            (Options { disks: 1025, ..o() }, "--disks 1025"),
            (Options { repeat: 0, ..o() }, "--repeat 0"),
            (Options { size: 0, ..o() }, "--size 0"),
            (Options { reads: Some(0), ..o() }, "--reads 0: give 1 to"),
            (Options { rungs: vec![], ..o() }, "at least one"),
            (Options { budget: Duration::MAX, ..o() }, "--runtime 18446744073709551615s: give 24 hours"),
            (Options { size: 100_000, ..o() }, "--size 100000: give a multiple of 64K"),
            (Options { size: 1 << 62, ..o() }, "--size 4194304T: 4 such disks"),
        ] {
            let error = options.check().unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
    }
}
