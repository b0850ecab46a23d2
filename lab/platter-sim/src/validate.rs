//! Compares a model with a real disk: replays a trace of measured service times and reports the differences.
//!
//! One request is outstanding at a time, and each is issued when the previous one is complete plus the
//! trace's gap. The buffer hits and service times in the trace are not passed to the model.
//!
//! ```no_run
//! use platter_sim::{import, validate};
//! use std::path::Path;
//!
//! let params = import::load(Path::new("disk.diskspecs"))?;
//! let disk = validate::disk(params)?;
//! let trace = validate::load_trace(Path::new("disk.trace"), disk.sectors())?;
//! let result = validate::replay(disk, &trace);
//! println!("demerit {:.3}, reads {:.3}", result.all.demerit, result.reads.demerit);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod figures;
#[cfg(test)]
mod tests;
mod trace;

pub use figures::{Compared, DiskSim, compare, correlation, disksim};
pub use trace::{TraceError, Traced, load_trace, parse_trace};

use crate::disk::{DiskParams, MechanicalDisk, Options, ParamsError};
use crate::model::{Command, Model};
use platter_block::bio::{IoPrio, Op};
use platter_block::time::Time;

/// The differences between a model and a real disk.
#[derive(Clone, Debug)]
pub struct Validation {
    /// All requests. Errors of reads and of writes can compensate each other here.
    pub all: Compared,
    /// The reads.
    pub reads: Compared,
    /// The writes.
    pub writes: Compared,
    /// Share of the reads whose time is within 0.25 ms of the real one, in percent, request by request.
    pub within_250us_read_pct: f64,
    /// Pearson's correlation of real and modelled times, request by request.
    pub correlation: f64,
    /// Service times of the real disk in nanoseconds, sorted.
    pub real: Vec<u64>,
    /// Service times of the model in nanoseconds, sorted.
    pub sim: Vec<u64>,
}

/// A disk as traces are replayed on it: one command at a time, no queue.
///
/// # Errors
/// See [`MechanicalDisk::new`].
pub fn disk(params: DiskParams) -> Result<MechanicalDisk, ParamsError> {
    MechanicalDisk::new(params, Options::default())
}

/// Replays a trace on an idle model. A request that the model refuses or never ends counts as if it took no
/// time.
pub fn replay(model: impl Model, trace: &[Traced]) -> Validation {
    let sim = service_times(model, trace);
    let real: Vec<u64> = trace.iter().map(|request| request.measured).collect();
    let of = |op: Option<Op>, times: &[u64]| -> Vec<u64> {
        let wanted = trace.iter().zip(times).filter(|(request, _)| op.is_none_or(|op| request.op == op));
        wanted.map(|(_, &time)| time).collect()
    };
    let part = |op: Op| compare(&mut of(Some(op), &real), &mut of(Some(op), &sim));
    let reads = trace.iter().zip(&sim).filter(|(request, _)| request.op == Op::Read);
    let near = reads.filter(|(request, time)| request.measured.abs_diff(**time) <= 250_000).count();
    let (reads, writes) = (part(Op::Read), part(Op::Write));
    let correlation = correlation(&real, &sim);
    let (mut real, mut sim) = (real, sim);
    let all = compare(&mut real, &mut sim);
    Validation {
        all,
        reads,
        writes,
        within_250us_read_pct: near as f64 * 100.0 / reads.requests.max(1) as f64,
        correlation,
        real,
        sim,
    }
}

/// The model's service time of each request in nanoseconds, in the order of the trace.
pub fn service_times(mut model: impl Model, trace: &[Traced]) -> Vec<u64> {
    let mut now = Time(0);
    let mut ended = Vec::new();
    let mut times = Vec::with_capacity(trace.len());
    for (number, request) in trace.iter().enumerate() {
        let command = Command {
            tag: number as u32,
            op: request.op,
            sector: request.sector,
            sectors: request.sectors,
            fua: false,
            ioprio: IoPrio::default(),
            order: 0,
        };
        model.advance(now, &mut ended);
        ended.clear();
        let mut end = now;
        if model.accept(now, &command) {
            while let Some(next) = model.next_event() {
                model.advance(next, &mut ended);
                if let Some(own) = ended.iter().find(|end| end.tag == command.tag) {
                    end = own.at;
                    break;
                }
            }
        }
        times.push(end.0 - now.0);
        now = Time(end.0.saturating_add(request.gap));
    }
    times
}
