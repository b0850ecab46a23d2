//! "Improving Linux Block I/O for Enterprise Workloads": Wong and others, OLS 2002: what the text says in numbers of units, waits and
//! bytes. It is counted on the rungs of the ladder, which are the real engine with the improvement switched off.

use super::claim::{Claim, Rule};
use super::kind::Kind;
use super::{Experiment, Hooks, Options, Progress, Report, ReproError};
use platter_bench::ladder::{self, Handle, Ladder};
use platter_bench::report::{Column, Table};
use platter_block::fault::Error;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use std::io::IoSliceMut;
use std::sync::atomic::Ordering;

/// The row of the table of experiments.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "ols2002",
    summary: "Improving Linux Block I/O in words: units, waits and bytes of a call, counted on the ladder",
    elevators: super::no_elevators,
    run,
};

const PAPER: &str = "Wong and others, Improving Linux Block I/O for Enterprise Workloads, OLS 2002";
/// Bytes of the call of section 6.
const CALL: usize = 256 << 10;
/// Buffers of a vectored call of 64 KiB, as in section 3.
const BUFFERS: usize = 16;
const PAGE: usize = 4096;

/// What a rung does with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counted {
    rung: &'static str,
    /// Bytes of an open device that describe its I/O.
    descriptor: usize,
    /// Units of a read of 256 KiB, and the requests that they become.
    units: u64,
    requests: u64,
    /// Times that a vectored read of 16 buffers waits.
    waits: u64,
}

fn failed(error: Error) -> ReproError {
    ReproError::Processes(error.into())
}

/// Memory whose pages are pages, as raw I/O had it.
fn aligned(memory: &mut [u8]) -> &mut [u8] {
    let begin = memory.as_ptr().align_offset(PAGE);
    &mut memory[begin..begin + CALL]
}

fn count(rung: &'static str) -> Result<Counted, ReproError> {
    let row = ladder::find(rung).ok_or_else(|| ReproError::Stack(format!("there is no rung `{rung}`")))?;
    let open = || {
        Ladder::open(row.switches, DiskSettings::default(), |settings, elevator| {
            Device::ram_with(1 << 20, settings, elevator)
        })
    };
    let mut memory = vec![0; CALL + PAGE];
    let memory = aligned(&mut memory);
    let ladder = open().map_err(failed)?;
    let mut handle: Handle = ladder.handle().map_err(failed)?;
    let descriptor = handle.descriptor_bytes(1);
    let before = ladder.counters();
    handle.read_at(memory, 0).map_err(failed)?;
    let after = ladder.counters();
    let vectored = open().map_err(failed)?;
    let mut handle = vectored.handle().map_err(failed)?;
    let mut buffers: Vec<IoSliceMut<'_>> =
        memory.chunks_mut(PAGE).take(BUFFERS).map(IoSliceMut::new).collect();
    handle.read_vectored_at(&mut buffers, 0).map_err(failed)?;
    Ok(Counted {
        rung,
        descriptor,
        units: after.bios - before.bios,
        requests: after.requests - before.requests,
        waits: vectored.waits(),
    })
}

const RUNGS: [&str; 3] = ["SBI", "SBIR", "SBIRV"];

fn run(options: &Options, hooks: Hooks<'_>) -> Result<Report, ReproError> {
    let mut counted = Vec::new();
    for (done, rung) in RUNGS.into_iter().enumerate() {
        if hooks.cancel.load(Ordering::Relaxed) {
            return Err(ReproError::Interrupted);
        }
        counted.push(count(rung)?);
        (hooks.progress)(Progress { done: done + 1, total: RUNGS.len() });
    }
    Ok(Report {
        name: EXPERIMENT.name,
        summary: EXPERIMENT.summary,
        method: vec![
            "A device in memory is read on three rungs of the ladder: SBI has units of a sector, SBIR of a page, SBIRV one call for all \
             buffers and the lighter kiobuf. Counts are exact and the same on every machine; the tables of the \
             paper are in dm2002."
                .to_owned(),
        ],
        tables: vec![("Counted on the ladder".to_owned(), table(&counted))],
        charts: Vec::new(),
        claims: claims(&counted),
        scale: options.scale,
    })
}

fn table(counted: &[Counted]) -> Table {
    let mut table = Table::new([
        Column::text("rung"),
        Column::number("descriptor", "bytes"),
        Column::number("units", "of 256 KiB"),
        Column::number("requests", "of 256 KiB"),
        Column::number("waits", "of 16 buffers"),
    ]);
    for row in counted {
        let numbers = [row.descriptor as u64, row.units, row.requests, row.waits];
        table.row(
            std::iter::once(row.rung.to_owned())
                .chain(numbers.map(|number| number.to_string()))
                .collect::<Vec<_>>(),
        );
    }
    table
}

/// A claim: its name, place, statement and unit, figure, rung, and what is counted.
type Row = (&'static str, &'static str, (&'static str, &'static str), f64, &'static str, fn(&Counted) -> f64);

const ROWS: [Row; 6] = [
    ("kiobuf-bytes", "section 8", ("a kiobuf of an open raw device", "bytes"), 8792.0, "SBIR", |row| {
        row.descriptor as f64
    }),
    ("light-kiobuf-bytes", "section 8", ("the lighter kiobuf", "bytes"), 608.0, "SBIRV", |row| {
        row.descriptor as f64
    }),
    ("units-of-256k", "section 6", ("buffer heads of a raw read of 256K", ""), 512.0, "SBI", |row| {
        row.units as f64
    }),
    (
        "units-of-256k-rawvary",
        "section 6: reduced 8-fold",
        ("buffer heads of the same with page-sized units", ""),
        64.0,
        "SBIR",
        |row| row.units as f64,
    ),
    (
        "waits-of-readv",
        "section 7: a separate blocking read for each iochunk; section 3: 16 iovecs",
        ("blocking reads of a readv of 16 buffers", ""),
        16.0,
        "SBIR",
        |row| row.waits as f64,
    ),
    (
        "waits-of-readv-as-one",
        "section 7: several iochunks in a single kiobuf of 65 pages",
        ("the same with the patch", ""),
        1.0,
        "SBIRV",
        |row| row.waits as f64,
    ),
];

fn claims(counted: &[Counted]) -> Vec<Claim> {
    let claim = |&(id, place, text, published, rung, figure): &Row| Claim {
        published: Some(published),
        ours: counted.iter().find(|row| row.rung == rung).map(figure),
        ..Claim::new(id, Kind::Mechanism, (PAPER, place), text, Rule::Between(published, published))
    };
    ROWS.iter().map(claim).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn every_count_is_that_of_the_paper() {
        let never = AtomicBool::new(false);
        let options = Options { scale: 1, ..Options::default() };
        let report = run(&options, Hooks { cancel: &never, progress: &mut |_| () }).unwrap();
        assert_eq!(report.claims.len(), ROWS.len());
        for claim in &report.claims {
            assert_eq!(claim.ours, claim.published, "{claim:?}");
        }
    }
}
