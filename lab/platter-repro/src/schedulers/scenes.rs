//! The scenes: the processes of each test.

use super::published::PRIORITIES;
use crate::disk::{DiskPlan, IDE, SCSI};
use platter_bench::processes::{
    File, Placement, Process, ProcessError, ReadPlan, Steps, WritePlan, compare_trees, copy_tree, random_io,
    read_file, read_tree, write_file,
};
use platter_block::bio::{Class, IoPrio, Op};
use platter_block::time::Span;

/// A test as it was published.
pub(super) struct Scene {
    pub(super) id: &'static str,
    /// For tables.
    pub(super) title: &'static str,
    pub(super) disk: DiskPlan,
    /// The elevators, each with the kernel that had it.
    pub(super) elevators: &'static [Tested],
    kind: Kind,
}

/// The processes. Numbers are clients, or bytes of readahead.
#[derive(Clone, Copy)]
enum Kind {
    ParallelReads(u64),
    StartDuringWrite,
    StartDuringRead,
    CopyTrees,
    SixTrees,
    ReadDuringWrite,
    TreeAlone,
    TreeDuringWrite,
    TreeDuringRead,
    FsyncDuringRead,
    SeqRead(u64),
    RandRead(u64),
    SeqWrite(u64),
    RandWrite(u64),
    ReaderAndWriter,
    Readers { priorities: bool },
    ReadsUnderWrites,
    TwoTrees,
}

const MIB: u64 = 1 << 20;
const WINDOW: u64 = 128 << 10;
/// Files of a kernel's source, and in each of its directories.
const KERNEL: u64 = 12_000;
const PER_DIRECTORY: u64 = 20;

/// A kernel and one of its elevators.
pub(super) type Tested = (&'static str, &'static str);

/// 2.4.21-pre4 has the elevator of 2.4.20.
const MORTONS: &[Tested] =
    &[("2.4.20", "linus"), ("2.5.61", "deadline"), ("2.5.61", "cfq-v1"), ("2.5.61", "anticipatory")];
const AXBOES: &[Tested] = &[("2.6.10-ts", "deadline"), ("2.6.10-ts", "anticipatory"), ("2.6.10-ts", "cfq")];

const fn on_ide(id: &'static str, title: &'static str, elevators: &'static [Tested], kind: Kind) -> Scene {
    Scene { id, title, disk: IDE, elevators, kind }
}

const UNPLUGGED: DiskPlan = DiskPlan { plug: false, ..SCSI };

/// Every scene.
pub(super) static SCENES: &[Scene] = &[
    on_ide("parallel-reads", "ten files of 100 MB read in parallel", MORTONS, Kind::ParallelReads(WINDOW)),
    on_ide("parallel-reads-8k", "the same, readahead of 8 KB", MORTONS, Kind::ParallelReads(8 << 10)),
    on_ide(
        "start-during-write",
        "a program started during a streaming write",
        MORTONS,
        Kind::StartDuringWrite,
    ),
    on_ide("start-during-read", "the same during a streaming read", MORTONS, Kind::StartDuringRead),
    on_ide("copy-trees", "three kernel trees copied, and a sync", MORTONS, Kind::CopyTrees),
    on_ide("six-trees", "six kernel trees read in parallel", MORTONS, Kind::SixTrees),
    on_ide("read-during-write", "100 MB read during a streaming write", MORTONS, Kind::ReadDuringWrite),
    on_ide("tree-alone", "a kernel tree read alone", &[("2.5.61", "deadline")], Kind::TreeAlone),
    on_ide(
        "tree-during-write",
        "a kernel tree read during a streaming write",
        MORTONS,
        Kind::TreeDuringWrite,
    ),
    on_ide("tree-during-read", "the same during a streaming read", MORTONS, Kind::TreeDuringRead),
    on_ide(
        "fsync-during-read",
        "100 MB written and synced during a streaming read",
        MORTONS,
        Kind::FsyncDuringRead,
    ),
    on_ide("seq-read-1", "sequential reads of 4 KiB", AXBOES, Kind::SeqRead(1)),
    on_ide("seq-read-2", "", AXBOES, Kind::SeqRead(2)),
    on_ide("seq-read-4", "", AXBOES, Kind::SeqRead(4)),
    on_ide("seq-read-8", "", AXBOES, Kind::SeqRead(8)),
    on_ide("rand-read-1", "random reads of 64 KiB", AXBOES, Kind::RandRead(1)),
    on_ide("rand-read-2", "", AXBOES, Kind::RandRead(2)),
    on_ide("rand-read-4", "", AXBOES, Kind::RandRead(4)),
    on_ide("rand-read-8", "", AXBOES, Kind::RandRead(8)),
    on_ide("seq-write-1", "sequential writes of 4 KiB", AXBOES, Kind::SeqWrite(1)),
    on_ide("seq-write-2", "", AXBOES, Kind::SeqWrite(2)),
    on_ide("seq-write-4", "", AXBOES, Kind::SeqWrite(4)),
    on_ide("seq-write-8", "", AXBOES, Kind::SeqWrite(8)),
    on_ide("rand-write-1", "random writes of 4 KiB", AXBOES, Kind::RandWrite(1)),
    on_ide("rand-write-2", "", AXBOES, Kind::RandWrite(2)),
    on_ide("rand-write-4", "", AXBOES, Kind::RandWrite(4)),
    on_ide("rand-write-8", "", AXBOES, Kind::RandWrite(8)),
    on_ide("reader-and-writer", "a reader and a writer of 64 KiB", AXBOES, Kind::ReaderAndWriter),
    on_ide(
        "priorities",
        "seven readers with priorities",
        &[("2.6.10-ts", "cfq")],
        Kind::Readers { priorities: true },
    ),
    on_ide(
        "no-priorities",
        "seven readers without",
        &[("2.6.10-ts", "cfq")],
        Kind::Readers { priorities: false },
    ),
    on_ide(
        "reads-under-writes",
        "random reads of 4 KiB under a streaming write",
        MORTONS,
        Kind::ReadsUnderWrites,
    ),
    Scene {
        id: "diff-plugged",
        title: "two trees compared, the device plugged",
        disk: SCSI,
        elevators: &[("2.6.5", "deadline"), ("2.6.5", "anticipatory")],
        kind: Kind::TwoTrees,
    },
    Scene {
        id: "diff-unplugged",
        title: "two trees compared, plugging off",
        disk: UNPLUGGED,
        elevators: &[("2.6.5", "deadline"), ("2.6.5", "anticipatory")],
        kind: Kind::TwoTrees,
    },
];

/// Longest time of a test that ends by itself, in seconds: more than Morton waited before he gave up.
const PATIENCE: u64 = 2400;
/// Time of Axboe's tests, in seconds.
const AXBOE_S: u64 = 30;

impl Scene {
    /// The processes, and the time after which the test ends.
    pub(super) fn make(
        &self,
        (scale, seed): (u64, u64),
        size: u64,
    ) -> Result<(Vec<Process>, Span), ProcessError> {
        let stage = Stage { scale, seed, place: Placement::new(size) };
        // Seconds to spare for each of eight clients.
        let scaled = Span((AXBOE_S * 1_000_000_000 / scale).max(5_000_000_000));
        let until_through = Span(PATIENCE * 1_000_000_000 / scale);
        match self.kind {
            Kind::SeqRead(_) | Kind::RandRead(_) | Kind::SeqWrite(_) | Kind::RandWrite(_) => {
                Ok((stage.clients(self.kind)?, scaled))
            }
            // Turns by priority take long to even out.
            Kind::ReaderAndWriter | Kind::Readers { .. } | Kind::ReadsUnderWrites => {
                Ok((stage.clients(self.kind)?, Span::from_secs(AXBOE_S)))
            }
            kind => Ok((stage.morton(kind)?, until_through)),
        }
    }
}

/// A disk that is being filled, with the scale of the sizes.
struct Stage {
    scale: u64,
    seed: u64,
    place: Placement,
}

/// When the test begins behind a streaming process: its writer has then filled the page cache.
const LEAD: Span = Span::from_secs(4);

fn cat(file: File) -> Steps {
    read_file(file, ReadPlan::buffered(WINDOW))
}

impl Stage {
    /// The seed of one of several processes or trees, counted from 1.
    fn nth_seed(&self, number: u64) -> u64 {
        self.seed.wrapping_sub(1).wrapping_mul(1000).wrapping_add(number)
    }

    fn file(&mut self, mib: u64) -> Result<File, ProcessError> {
        self.place.file(mib * MIB / self.scale)
    }

    fn kernel(&mut self, seed: u64) -> Result<platter_bench::processes::Tree, ProcessError> {
        self.place.tree(KERNEL / self.scale, PER_DIRECTORY, seed)
    }

    /// A file of 512 MB written or read for ever; never scaled, so that it does not fit into the page cache.
    fn streaming(&mut self, write: bool) -> Result<Process, ProcessError> {
        let file = self.place.file(512 * MIB)?;
        let steps = match write {
            true => write_file(file, WritePlan::buffered().endless()),
            false => read_file(file, ReadPlan::buffered(WINDOW).endless()),
        };
        Ok(Process::new("stream", 100, steps).in_background())
    }

    /// The small reads of a starting program, each of which depends on the previous one.
    fn program(&mut self) -> Result<Steps, ProcessError> {
        let files = self.place.scattered(60, 512 * MIB, self.seed)?;
        Ok(read_tree(files, ReadPlan { think: Span::from_millis(1), ..ReadPlan::buffered(WINDOW) }))
    }

    /// The processes of tests that end by themselves.
    fn morton(mut self, kind: Kind) -> Result<Vec<Process>, ProcessError> {
        let during =
            |process: Steps, stream: Process| vec![Process::new("test", 1, process).after(LEAD), stream];
        match kind {
            Kind::ParallelReads(window) => self.ten_readers(window),
            Kind::SixTrees => self.six_trees(),
            Kind::StartDuringWrite | Kind::StartDuringRead => {
                let stream = self.streaming(matches!(kind, Kind::StartDuringWrite))?;
                Ok(during(self.program()?, stream))
            }
            Kind::ReadDuringWrite => {
                let (file, stream) = (self.file(100)?, self.streaming(true)?);
                Ok(during(cat(file), stream))
            }
            Kind::TreeDuringWrite | Kind::TreeDuringRead => {
                let tree = self.kernel(self.seed)?;
                let stream = self.streaming(matches!(kind, Kind::TreeDuringWrite))?;
                Ok(during(read_tree(tree, ReadPlan::buffered(WINDOW)), stream))
            }
            Kind::FsyncDuringRead => {
                let (file, stream) = (self.file(100)?, self.streaming(false)?);
                Ok(during(write_file(file, WritePlan::buffered().synced()), stream))
            }
            Kind::CopyTrees => self.copy_trees(),
            Kind::TwoTrees => {
                let (first, second) = (self.kernel(self.seed)?, self.kernel(self.seed)?);
                let steps = compare_trees(first, second, ReadPlan::buffered(WINDOW));
                Ok(vec![Process::new("diff", 1, steps)])
            }
            _ => {
                let tree = self.kernel(self.seed)?;
                Ok(vec![Process::new("find", 1, read_tree(tree, ReadPlan::buffered(WINDOW)))])
            }
        }
    }

    fn ten_readers(&mut self, window: u64) -> Result<Vec<Process>, ProcessError> {
        let reader = |number: u32| {
            let steps = read_file(self.file(100)?, ReadPlan::buffered(window));
            Ok(Process::new(format!("cat {number}"), number, steps))
        };
        (1..=10).map(reader).collect()
    }

    fn six_trees(&mut self) -> Result<Vec<Process>, ProcessError> {
        let reader = |number: u32| {
            let steps = read_tree(self.kernel(self.nth_seed(number.into()))?, ReadPlan::buffered(WINDOW));
            Ok(Process::new(format!("find {number}"), number, steps))
        };
        (1..=6).map(reader).collect()
    }

    /// Three trees, one after the other, and a sync after each.
    fn copy_trees(&mut self) -> Result<Vec<Process>, ProcessError> {
        let mut steps: Steps = Box::new(std::iter::empty());
        for seed in 1..=3 {
            let (from, to) = (self.kernel(self.nth_seed(seed))?, self.kernel(self.nth_seed(seed))?);
            steps = Box::new(steps.chain(copy_tree(from, to, ReadPlan::buffered(WINDOW))));
        }
        Ok(vec![Process::new("cp", 1, steps)])
    }

    /// The processes of tests that end after a fixed time.
    fn clients(mut self, kind: Kind) -> Result<Vec<Process>, ProcessError> {
        let (number, steps): (u64, fn(File, u64) -> Steps) = match kind {
            Kind::SeqRead(n) => (n, |file, _| read_file(file, ReadPlan::direct(4096).endless())),
            Kind::RandRead(n) => {
                (n, |file, seed| random_io(file, Op::Read, 64 << 10, Span::ZERO, seed, None))
            }
            Kind::SeqWrite(n) => (n, |file, _| write_file(file, WritePlan::direct(4096).endless())),
            Kind::RandWrite(n) => (n, |file, seed| random_io(file, Op::Write, 4096, Span::ZERO, seed, None)),
            Kind::Readers { priorities } => return self.readers(priorities),
            Kind::ReadsUnderWrites => return self.reads_under_writes(),
            _ => return self.reader_and_writer(),
        };
        let client = |number: u64| {
            let file = self.place.file(1024 * MIB)?;
            Ok(Process::new(format!("client {number}"), number as u32, steps(file, self.nth_seed(number))))
        };
        (1..=number).map(client).collect()
    }

    fn reader_and_writer(&mut self) -> Result<Vec<Process>, ProcessError> {
        let (read, written) = (self.place.file(1024 * MIB)?, self.place.file(1024 * MIB)?);
        Ok(vec![
            Process::new("reader", 1, read_file(read, ReadPlan::direct(64 << 10).endless())),
            Process::new("writer", 2, write_file(written, WritePlan::direct(64 << 10).endless())),
        ])
    }

    fn readers(&mut self, priorities: bool) -> Result<Vec<Process>, ProcessError> {
        let reader = |((level, _), number): (&(u8, f64), u32)| {
            let file = self.place.file(1024 * MIB)?;
            let process = Process::new(
                format!("be/{level}"),
                number,
                read_file(file, ReadPlan::direct(4096).endless()),
            );
            let ioprio = IoPrio::new(Class::BestEffort, *level);
            Ok(if priorities { process.ioprio(ioprio) } else { process })
        };
        PRIORITIES.iter().zip(1..).map(reader).collect()
    }

    fn reads_under_writes(&mut self) -> Result<Vec<Process>, ProcessError> {
        let (file, stream) = (self.place.file(4096 * MIB)?, self.streaming(true)?);
        let steps = random_io(file, Op::Read, 4096, Span::ZERO, self.seed, None);
        Ok(vec![Process::new("reader", 1, steps).after(LEAD), stream])
    }
}
