//! The same on this machine: [`dm`] on disks in memory, each read by a worker of its own.

use crate::ReproError;
use platter_bench::dm::{self, Call, Cell, Disks, DmError, Options, READ_BYTES, Report};
use platter_bench::ladder::{Rung, TABLE, Unit, Vector};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// The shortest runs that idle time can be read from.
const BUDGET: Duration = Duration::from_secs(2);
const ROUNDS: usize = 3;

/// Bytes of a MiB, in millions.
const MB: f64 = 1.048_576;

/// What was measured.
pub(super) struct Here(Report);

/// Measures all rungs.
pub(super) fn measure(cancel: &AtomicBool) -> Result<Here, ReproError> {
    let disks = std::thread::available_parallelism().map_or(1, usize::from).min(dm::MAX_DISKS);
    let options = Options { disks, repeat: ROUNDS, budget: BUDGET, ..Options::default() };
    let failed = |error: DmError| match error {
        DmError::Interrupted => ReproError::Interrupted,
        error => ReproError::Stack(error.to_string()),
    };
    let media = [Disks::ram(&options).map_err(failed)?];
    let report = dm::run(&media, &options, Instant::now(), cancel, &mut |_| ()).map_err(failed)?;
    if report.interrupted { Err(ReproError::Interrupted) } else { Ok(Here(report)) }
}

impl Here {
    fn cell(&self, kernel: &str, call: Call) -> Option<&Cell> {
        let rung = if kernel == "2.5.17" { "bio" } else { kernel };
        let cells = self.0.media.first()?.cells.iter();
        cells.into_iter().find(|cell| cell.rung.name == rung && cell.call == call)
    }

    fn of(&self, kernel: &str, readv: bool) -> Option<&Cell> {
        self.cell(kernel, if readv { Call::Readv } else { Call::Read })
    }

    /// MB/s of all disks.
    pub(super) fn rate(&self, kernel: &str, readv: bool) -> Option<f64> {
        Some(self.of(kernel, readv)?.mib_per_s().median() * MB)
    }

    /// Idle time in percent.
    pub(super) fn idle(&self, kernel: &str, readv: bool) -> Option<f64> {
        Some(self.of(kernel, readv)?.cpu_idle_pct()?.median())
    }

    /// Bios for a number of bytes, read with calls of 64 KiB.
    pub(super) fn bios(&self, unit: Unit, bytes: u64) -> Option<f64> {
        let first = |rung: &&Rung| rung.switches.unit == unit && rung.switches.vector == Vector::PerSegment;
        let rung = TABLE.iter().find(first)?;
        Some(self.cell(rung.name, Call::Read)?.bios_per_call() * (bytes / READ_BYTES as u64) as f64)
    }
}
