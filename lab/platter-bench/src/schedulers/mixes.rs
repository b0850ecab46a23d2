//! The mixes: processes that compete for a device.

use crate::processes::{
    File, Process, ProcessError, ReadPlan, Transactions, WritePlan, random_io, read_file, transactions,
    write_file,
};
use platter_block::bio::{Class, IoPrio, Op};
use platter_block::time::Span;

/// Where a mix may put its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// Bytes of the device.
    pub size: u64,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// Smallest device: every part of it then holds a few I/Os.
const SMALLEST: u64 = 4 << 20;

impl Site {
    /// A file of at most `len` bytes that begins at `part` of `parts` of the device and stays within that part.
    fn file(&self, part: u64, parts: u64, len: u64) -> File {
        let share = self.size / parts / UNIT * UNIT;
        File { offset: share * part, len: len.min(share) }
    }

    fn check(&self) -> Result<(), ProcessError> {
        if self.size >= SMALLEST {
            return Ok(());
        }
        Err(ProcessError::TooSmall { needed: SMALLEST, size: self.size })
    }
}

/// Offsets are multiples of this.
const UNIT: u64 = 64 << 10;
const MIB: u64 = 1 << 20;

/// A row of the table of mixes.
pub struct Mix {
    /// Name in options and reports.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Whether it writes to the device.
    pub writes: bool,
    make: fn(&Site) -> Vec<Process>,
}

impl Mix {
    /// The processes of the mix.
    ///
    /// # Errors
    /// The device is too small.
    pub fn processes(&self, site: &Site) -> Result<Vec<Process>, ProcessError> {
        site.check()?;
        Ok((self.make)(site))
    }
}

/// Every mix.
pub static MIXES: &[Mix] = &[
    Mix {
        name: "reader-writer",
        summary: "a file of 64 MiB read with readahead, while another is written through the page cache for ever",
        writes: true,
        make: reader_and_writer,
    },
    Mix {
        name: "readers",
        summary: "four files of 32 MiB, each read by a process with readahead",
        writes: false,
        make: readers,
    },
    Mix {
        name: "random-readers",
        summary: "eight processes, each with 256 direct reads of 64 KiB at random places",
        writes: false,
        make: random_readers,
    },
    Mix {
        name: "priorities",
        summary: "eight direct readers of 64 KiB in sequence for ever, one at each level of best effort",
        writes: false,
        make: priorities,
    },
    Mix {
        name: "seeky-sequential",
        summary: "a file of 64 MiB read with readahead, against direct reads of 4 KiB at random places for ever",
        writes: false,
        make: seeky_and_sequential,
    },
    Mix {
        name: "database",
        summary: "four clients with 100 transactions each, against a scan of the tables in reads of 64 KiB for ever",
        writes: true,
        make: database,
    },
];

/// Looks a mix up by name.
pub fn by_name(name: &str) -> Option<&'static Mix> {
    MIXES.iter().find(|mix| mix.name == name)
}

/// Bytes that readahead reads at once: the 128 KiB of 2.6.
const WINDOW: u64 = 128 << 10;

fn reader_and_writer(site: &Site) -> Vec<Process> {
    let (read, written) = (site.file(0, 4, 64 * MIB), site.file(2, 4, 1024 * MIB));
    vec![
        Process::new("reader", 1, read_file(read, ReadPlan::buffered(WINDOW))),
        Process::new("writer", 2, write_file(written, WritePlan::buffered().endless())).in_background(),
    ]
}

fn readers(site: &Site) -> Vec<Process> {
    let reader = |number: u64| {
        let steps = read_file(site.file(number, 4, 32 * MIB), ReadPlan::buffered(WINDOW));
        Process::new(format!("reader {}", number + 1), number as u32 + 1, steps)
    };
    (0..4).map(reader).collect()
}

fn random_readers(site: &Site) -> Vec<Process> {
    let all = site.file(0, 1, u64::MAX);
    let reader = |number: u64| {
        let steps = random_io(all, Op::Read, 64 << 10, Span::ZERO, site.seed.wrapping_add(number), Some(256));
        Process::new(format!("reader {}", number + 1), number as u32 + 1, steps)
    };
    (0..8).map(reader).collect()
}

fn priorities(site: &Site) -> Vec<Process> {
    let reader = |level: u64| {
        let plan = ReadPlan::direct(64 << 10).endless();
        let steps = read_file(site.file(level, 8, 256 * MIB), plan);
        let reader = Process::new(format!("be/{level}"), level as u32 + 1, steps);
        reader.ioprio(IoPrio::new(Class::BestEffort, level as u8))
    };
    (0..8).map(reader).collect()
}

fn seeky_and_sequential(site: &Site) -> Vec<Process> {
    let (file, all) = (site.file(0, 4, 64 * MIB), site.file(0, 1, u64::MAX));
    let seeky = random_io(all, Op::Read, 4096, Span::ZERO, site.seed, None);
    vec![
        Process::new("sequential", 1, read_file(file, ReadPlan::buffered(WINDOW))),
        Process::new("seeky", 2, seeky).in_background(),
    ]
}

fn database(site: &Site) -> Vec<Process> {
    let data = site.file(1, 4, u64::MAX);
    let client = |number: u64| {
        let plan = Transactions {
            data,
            log: site.file(4 + number, 64, 16 * MIB),
            reads: 4,
            writes: 2,
            think: Span::from_millis(1),
            count: Some(100),
        };
        let steps = transactions(plan, site.seed.wrapping_add(number));
        Process::new(format!("client {}", number + 1), number as u32 + 1, steps)
    };
    let scan = read_file(data, ReadPlan::direct(64 << 10).endless());
    (0..4).map(client).chain([Process::new("scan", 5, scan).in_background()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processes::Step;

    /// On any accepted device, processes stay inside, and write only if the row allows it.
    #[test]
    fn mixes_stay_on_the_device() {
        for size in [SMALLEST, 100 * MIB + 512, 1 << 40] {
            let site = Site { size, seed: 1 };
            for (mix, process) in
                MIXES.iter().flat_map(|m| m.processes(&site).unwrap().into_iter().map(move |p| (m, p)))
            {
                let mut writes = 0;
                for step in process.steps.take(5000) {
                    let (offset, len, write) = match step {
                        Step::Start { op, offset, len, .. } => (offset, len, op == Op::Write),
                        Step::Dirty { offset, len } => (offset, len, true),
                        _ => continue,
                    };
                    assert!(offset + len <= size, "{} {}", mix.name, process.name);
                    writes += u32::from(write);
                }
                assert!(writes == 0 || mix.writes, "{} {}", mix.name, process.name);
            }
        }
        assert!(MIXES[0].processes(&Site { size: 4096, seed: 1 }).is_err());
    }
}
