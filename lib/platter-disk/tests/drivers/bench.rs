//! A test bench for drivers: a queue over each, and a model of the disk to compare with.

use crate::nodes::{InMemory, given, on_nodes, zero};
use platter_block::backend::LaneUse;
use platter_block::bio::{Bio, Flags, Op};
use platter_block::buf::{IoBuf, IoBufMut};
use platter_block::counters::Counters;
use platter_block::disk::DiskChannel;
use platter_block::driver::{Driver, Geometry};
use platter_block::fault::Fault;
use platter_block::lane::Lane;
use platter_block::queue::{QueueLane, SchedLane, SchedQueue, Settings};
use platter_block::segment::{RegionId, Segment};
use platter_block::time::{Span, Time};
use platter_disk::drivers::memory::Memory;
use platter_disk::drivers::table::{BuiltInDriver, Medium, TABLE};
use platter_disk::drivers::{Choice, FileDisk, FileOptions};
use platter_disk::sys::{Direct, OpenOptions};
use std::path::Path;
use std::sync::Arc;

pub(crate) use crate::nodes::SIZE;
pub(crate) const BLOCK: usize = 4096;

/// A disk of one of the drivers, from which channels can be opened.
pub(crate) enum Disk {
    Ram(Memory),
    File(FileDisk, Option<tempfile::NamedTempFile>),
    /// A block device: what it can do, and what a discarded range reads, is its own.
    Node(FileDisk),
}

impl Disk {
    pub(crate) fn geometry(&self) -> Geometry {
        match self {
            Disk::Ram(memory) => memory.geometry(),
            Disk::File(file, _) | Disk::Node(file) => *file.geometry(),
        }
    }

    pub(crate) fn channel(&self, depth: u32, lane_use: LaneUse) -> DiskChannel {
        match self {
            Disk::Ram(memory) => DiskChannel::new(memory.channel(depth)),
            Disk::File(file, _) | Disk::Node(file) => file.channel(lane_use).unwrap(),
        }
    }

    pub(crate) fn lane(&self, depth: u32, lane_use: LaneUse) -> Bench {
        Bench::new(self.geometry(), depth, self.channel(depth, lane_use))
    }
}

pub(crate) fn file_options(row: &BuiltInDriver, depth: u32) -> FileOptions {
    let driver: Choice = row.name.parse().unwrap();
    FileOptions::default().with_driver(driver).with_depth(depth)
}

pub(crate) fn open(path: &Path, options: FileOptions, direct: Direct) -> FileDisk {
    let disk = OpenOptions::read_write().with_direct(direct).open(path).unwrap();
    FileDisk::new(disk, options).unwrap()
}

/// Whether a driver is available here; a container may forbid it. Prints so if not.
pub(crate) fn is_here(row: &BuiltInDriver) -> bool {
    let memory = InMemory::new(SIZE);
    let disk = OpenOptions::read_write().open(memory.path()).unwrap();
    match FileDisk::new(disk, file_options(row, 1)) {
        Ok(_) => true,
        Err(why) => {
            println!("skipped: {why}");
            assert_ne!(row.name, "threads", "threads can always be had");
            false
        }
    }
}

/// A file of `SIZE` zero bytes, in the target directory: the temporary directory may be in memory.
pub(crate) fn file(size: u64) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    file.as_file().set_len(size).unwrap();
    file
}

fn on_file(options: FileOptions, direct: Direct) -> Disk {
    let file = file(SIZE);
    let disk = open(file.path(), options, direct);
    assert_eq!(Choice::Only(disk.chosen().kind), options.driver);
    Disk::File(disk, Some(file))
}

/// A zero-filled disk of every driver that stores data, with a name for messages; files are used directly and
/// through the page cache.
pub(crate) fn disks(depth: u32) -> Vec<(String, Disk)> {
    let mut all = Vec::new();
    for row in TABLE {
        match row.medium {
            Medium::Size if row.name == "ram" => {
                all.push((row.name.to_owned(), Disk::Ram(Memory::new(SIZE).unwrap())));
            }
            Medium::Size => {}
            Medium::Path if !is_here(row) => {}
            Medium::Path => {
                for direct in [Direct::Prefer, Direct::Off] {
                    let options = file_options(row, depth);
                    all.push((format!("{} {direct:?}", row.name), on_file(options, direct)));
                }
                if row.name == "uring" {
                    let options = file_options(row, depth).with_sqpoll(true);
                    all.push(("uring sqpoll".to_owned(), on_file(options, Direct::Prefer)));
                }
            }
        }
    }
    assert!(all.len() >= 3);
    all
}

mod memory {
    use super::*;

    #[repr(align(4096))]
    struct Page([u8; BLOCK]);

    /// Aligned memory, as segments that end at the cuts.
    pub(crate) struct Pages {
        pages: Box<[Page]>,
        cuts: Vec<usize>,
    }

    impl Pages {
        pub(crate) fn new(count: usize, byte: u8) -> Pages {
            Pages { pages: (0..count).map(|_| Page([byte; BLOCK])).collect(), cuts: Vec::new() }
        }

        pub(crate) fn cut(mut self, cuts: &[usize]) -> Pages {
            self.cuts = cuts.to_vec();
            self
        }

        pub(crate) fn len(&self) -> usize {
            self.pages.len() * BLOCK
        }

        pub(crate) fn bytes(&mut self) -> &mut [u8] {
            let len = self.len();
            // SAFETY: the pages are `len` initialized bytes, one after the other, and borrowed as long as the result.
            unsafe { std::slice::from_raw_parts_mut(self.pages.as_mut_ptr().cast(), len) }
        }

        pub(crate) fn byte(&self, at: usize) -> u8 {
            self.pages[at / BLOCK].0[at % BLOCK]
        }

        pub(crate) fn set(&mut self, at: usize, byte: u8) {
            self.pages[at / BLOCK].0[at % BLOCK] = byte;
        }
    }

    // SAFETY: the pages are on the heap, owned, and do not move with the handle. Each cut starts a region
    // with a number of its own, so that adjacent segments are not joined.
    unsafe impl IoBuf for Pages {
        fn byte_len(&self) -> usize {
            self.len()
        }

        unsafe fn add_segments(&mut self, bio: &mut Bio) -> Result<(), Fault> {
            let (len, base) = (self.len(), self.pages.as_mut_ptr().cast::<u8>());
            let mut at = 0;
            for (i, cut) in self.cuts.iter().copied().chain([len]).enumerate() {
                let region = if i % 2 == 0 { RegionId::NONE } else { RegionId(u32::MAX) };
                // SAFETY: a part of the pages.
                unsafe { bio.push_segment(Segment::new(base.wrapping_add(at), (cut - at) as u32, region)) }?;
                at = cut;
            }
            Ok(())
        }
    }

    // SAFETY: owned, and any byte is a valid value.
    unsafe impl IoBufMut for Pages {}
}
pub(crate) use memory::Pages;

/// A queue over a driver, and the time that it is given.
pub(crate) struct Bench {
    pub(crate) lane: SchedLane<Box<dyn Driver>>,
    now: Time,
    pub(crate) done: Vec<Bio>,
}

impl Bench {
    pub(crate) fn new(geometry: Geometry, depth: u32, channel: DiskChannel) -> Bench {
        let settings = Settings { depth, ..Settings::default() };
        let queue = SchedQueue::new(geometry, settings, None, Arc::new(Counters::default()));
        // SAFETY: a lane keeps the memory of a request until its driver has reported it.
        let driver = unsafe { channel.into_driver() };
        Bench { lane: QueueLane::new(queue, driver), now: Time(0), done: Vec::new() }
    }

    pub(crate) fn submit(&mut self, bio: Bio) {
        self.now += Span::from_micros(1);
        self.lane.submit(self.now, bio);
    }

    /// Runs once without waiting.
    pub(crate) fn run(&mut self) {
        self.now += Span::from_micros(1);
        self.lane.run(self.now);
        self.lane.take_done(&mut self.done);
    }

    /// Runs until all bios are done, and waits when there is nothing else to do.
    pub(crate) fn finish(&mut self) -> Vec<Bio> {
        loop {
            self.run();
            if self.lane.is_idle() {
                assert_eq!(self.lane.broken_completions(), 0);
                return std::mem::take(&mut self.done);
            }
            if self.lane.in_flight() > 0 {
                self.lane.wait(self.now, Some(Span::from_secs(10)));
            }
        }
    }

    /// Advances the time.
    pub(crate) fn pass(&mut self, span: Span) {
        self.now += span;
    }

    /// Runs one bio to completion.
    pub(crate) fn one(&mut self, bio: Bio) -> Bio {
        self.submit(bio);
        let mut done = self.finish();
        assert_eq!(done.len(), 1);
        done.remove(0)
    }
}

/// A transfer of pages, cut into segments at the given offsets.
pub(crate) fn transfer(op: Op, pos: u64, pages: Pages, cuts: &[usize]) -> Bio {
    let pages = pages.cut(cuts);
    if op == Op::Read { Bio::read(pos, pages).unwrap() } else { Bio::write(pos, pages).unwrap() }
}

/// The pages that came back with a bio.
pub(crate) fn pages(bio: &mut Bio) -> Pages {
    bio.take_buffer().unwrap()
}

pub(crate) fn flags(mut bio: Bio, flags: Flags) -> Bio {
    bio.add_flags(flags);
    bio
}

const USES: [LaneUse; 3] = [LaneUse::Exclusive, LaneUse::Shared, LaneUse::Synchronous];

/// Runs a test on a fresh disk of every driver, in all uses of a lane, and over block devices.
pub(crate) fn on_all(depth: u32, test: impl Fn(&str, &Disk, LaneUse)) {
    on_uses(depth, &USES, test);
}

/// The same without block devices.
pub(crate) fn on_files(depth: u32, test: impl Fn(&str, &Disk, LaneUse)) {
    files(depth, &USES, &test);
}

fn files(depth: u32, uses: &[LaneUse], test: &impl Fn(&str, &Disk, LaneUse)) {
    if !given().is_empty() {
        return println!("skipped: only the devices that are named");
    }
    for lane_use in uses {
        for (name, disk) in disks(depth) {
            test(&format!("{name} {lane_use:?}"), &disk, *lane_use);
        }
    }
}

/// Runs a test in some uses of a lane.
pub(crate) fn on_uses(depth: u32, uses: &[LaneUse], test: impl Fn(&str, &Disk, LaneUse)) {
    files(depth, uses, &test);
    let rows: Vec<&BuiltInDriver> =
        TABLE.iter().filter(|row| row.medium == Medium::Path && is_here(row)).collect();
    let ways: Vec<_> = rows.iter().flat_map(|row| [(row, Direct::Require), (row, Direct::Off)]).collect();
    let mut turn = 0;
    on_nodes(|node, path| {
        turn += 1;
        for (number, (row, direct)) in ways.iter().copied().enumerate() {
            // One each, in turn: the devices are many, or slow.
            let lane_use = uses[(turn + number / 2) % uses.len()];
            let disk = open(path, file_options(row, depth), direct);
            // Only now: one in use has been refused.
            zero(path);
            let name = format!("{} {direct:?} {lane_use:?} on {node}", row.name);
            test(&name, &Disk::Node(disk), lane_use);
        }
    });
}

/// Checks that a bio succeeded, and that a read returned the bytes of the model.
pub(crate) fn check(name: &str, mut bio: Bio, model: &[u8]) {
    assert_eq!(bio.status(), Ok(()), "{name} {bio:?}");
    if bio.op() != Op::Read {
        return;
    }
    let end = bio.pos() as usize;
    let read = pages(&mut bio);
    let start = end - read.len();
    let wrong = (0..read.len()).find(|at| read.byte(*at) != model[start + at]);
    assert_eq!(wrong, None, "{name} {bio:?}");
}
