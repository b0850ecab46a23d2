//! The rounds: every mode in turn, in an order that rotates.

use super::options::{Disk, Mode, Options};
use super::round::measure;
use super::{ParallelReadError, Report, Runs};
use std::sync::atomic::AtomicBool;

/// Progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The round, from 1, and how many there are.
    pub round: (u32, u32),
    /// The mode being measured.
    pub mode: Mode,
}

/// Reads all devices at once in every mode and round. When `cancel` becomes true the run ends soon; the report has
/// the rounds that were complete then.
///
/// # Errors
/// Options that make no sense, a device that cannot be opened or read, an interruption before anything was measured.
pub fn run(
    disks: &[Disk<'_>],
    options: &Options,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, ParallelReadError> {
    options.check()?;
    if disks.is_empty() {
        return Err(ParallelReadError::Option("no device to read: name at least one".to_owned()));
    }
    let mut results: Vec<Runs> = options.modes.iter().map(|mode| Runs::new(*mode, options)).collect();
    let (modes, mut interrupted) = (results.len(), false);
    'rounds: for round in 0..options.repeat {
        for turn in 0..modes {
            let runs = &mut results[(turn + round as usize) % modes];
            progress(Progress { round: (round + 1, options.repeat), mode: runs.mode });
            match measure(disks, runs.mode, options, cancel)? {
                Some((round, device)) => {
                    runs.rounds.push(round);
                    runs.device.merge(&device);
                }
                None => {
                    interrupted = true;
                    break 'rounds;
                }
            }
        }
    }
    results.retain(|runs| !runs.rounds.is_empty());
    if results.is_empty() {
        return Err(ParallelReadError::Interrupted);
    }
    let on = disks.iter().map(|disk| disk.name.clone()).collect();
    Ok(Report { on, size: options.size, repeat: options.repeat, interrupted, results })
}
