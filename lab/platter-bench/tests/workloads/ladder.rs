//! Every rung reads the right data, and its counters show its mechanism.

use platter_bench::ladder::{self, Descriptor, Ladder, Lock, TABLE, Unit, Vector};
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_disk::open::DiskOptions;
use platter_disk::sys::{Direct, OpenOptions, Pattern};
use std::io::IoSliceMut;
use std::path::Path;

const READ: usize = 64 << 10;
const PART: usize = 4 << 10;
const SIZE: u64 = 1 << 20;

/// 64 KiB that begin at a page.
struct Aligned(Vec<u8>, usize);

impl Aligned {
    fn new() -> Aligned {
        let memory = vec![0xee; READ + PART];
        let skip = memory.as_ptr().align_offset(PART);
        Aligned(memory, skip)
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.0[self.1..self.1 + READ]
    }
}

fn contents(pos: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Pattern::new(7, 0).fill(pos, &mut bytes);
    bytes
}

fn ram(row: &ladder::Rung) -> Ladder {
    let make = |settings, elevator| Device::ram_with(SIZE, settings, elevator);
    let ladder = Ladder::open(row.switches, DiskSettings::default(), make).unwrap();
    ladder.device().write_at(&contents(0, SIZE as usize), 0).unwrap();
    ladder
}

fn file(row: &ladder::Rung, path: &Path) -> Ladder {
    let make = |settings, elevator| {
        let open = OpenOptions::default().with_direct(Direct::Prefer);
        Device::open(
            path,
            DiskOptions::default().with_open(open).with_settings(settings).with_elevator(elevator),
        )
    };
    Ladder::open(row.switches, DiskSettings::default(), make).unwrap()
}

fn temp_disk() -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::fs::write(file.path(), contents(0, SIZE as usize)).unwrap();
    file.as_file().sync_all().unwrap();
    file
}

/// The cost of one call of 64 KiB on a rung.
#[derive(Debug, PartialEq, Eq)]
struct Cost {
    bios: u64,
    dispatches: u64,
    waits: u64,
    bounced: u64,
}

fn cost_of(ladder: &Ladder, pos: u64, vectored: bool) -> Cost {
    let mut handle = ladder.handle().unwrap();
    let mut memory = Aligned::new();
    let (before, waits) = (ladder.counters(), ladder.waits());
    if vectored {
        // Scattered: no two parts are adjacent on the disk.
        let mut parts: Vec<IoSliceMut<'_>> =
            memory.bytes().chunks_mut(PART).rev().map(IoSliceMut::new).collect();
        assert_eq!(parts.len(), 16);
        handle.read_vectored_at(&mut parts, pos).unwrap();
        let got: Vec<u8> = parts.iter().flat_map(|part| part.to_vec()).collect();
        assert!(got == contents(pos, READ), "wrong data");
    } else {
        handle.read_at(memory.bytes(), pos).unwrap();
        assert!(memory.bytes() == contents(pos, READ), "wrong data");
    }
    let spent = ladder.counters().since(&before);
    assert_eq!((spent.bios_completed, spent.bios_failed, spent.bytes_read), (spent.bios, 0, READ as u64));
    let (bios, dispatches, bounced) = (spent.bios, spent.dispatches, spent.bytes_bounced);
    Cost { bios, dispatches, waits: ladder.waits() - waits, bounced }
}

/// The expected cost of a rung on a disk with sectors of `sector` bytes.
fn expected(row: &ladder::Rung, sector: u64, vectored: bool) -> Cost {
    let s = row.switches;
    let bios = match s.unit {
        Unit::Sector => READ as u64 / sector,
        Unit::Page => 16,
        Unit::Call => 1,
    };
    let calls = if vectored && s.vector == Vector::PerSegment { 16 } else { 1 };
    Cost { bios, dispatches: calls, waits: calls, bounced: if s.bounce { READ as u64 } else { 0 } }
}

#[test]
fn counters_are_exact_on_ram() {
    let mut read_bios = vec![];
    for row in TABLE {
        let ladder = ram(row);
        for vectored in [false, true] {
            let cost = cost_of(&ladder, 128 << 10, vectored);
            assert_eq!(cost, expected(row, 512, vectored), "{} vectored {vectored}", row.name);
            if !vectored {
                read_bios.push(cost.bios);
            }
        }
    }
    assert_eq!(read_bios, [128, 128, 128, 16, 16, 16, 1]);
}

#[test]
fn counters_are_exact_on_a_file() {
    let disk = temp_disk();
    for row in TABLE {
        let ladder = file(row, disk.path());
        let sector = u64::from(ladder.device().geometry().limits.logical_block.max(512));
        for vectored in [false, true] {
            let cost = cost_of(&ladder, 192 << 10, vectored);
            assert_eq!(cost, expected(row, sector, vectored), "{} vectored {vectored}", row.name);
        }
    }
}

#[test]
fn below_the_bio_each_bio_takes_the_lock_and_the_bio_takes_none() {
    for row in TABLE {
        let ladder = ram(row);
        let before = ladder.counters();
        let cost = cost_of(&ladder, 0, false);
        let locks = ladder.counters().since(&before).lock_acquisitions;
        match row.switches.lock {
            Lock::None => assert_eq!(locks, 0, "{}", row.name),
            _ => assert!(locks > cost.bios, "{}: {locks} locks for {} bios", row.name, cost.bios),
        }
    }
}

#[test]
fn requests_are_prepared_outside_the_lock_from_one_rung_on() {
    let above = TABLE.iter().position(|row| row.name == "SBIRVP").unwrap();
    for (place, row) in TABLE.iter().enumerate() {
        let mut given = None;
        let make = |settings: DiskSettings, elevator| {
            given = Some(settings.prebuild);
            Device::ram_with(1 << 20, settings, elevator)
        };
        Ladder::open(row.switches, DiskSettings::default(), make).unwrap();
        assert_eq!(given, Some(place >= above), "{}", row.name);
    }
}

#[test]
fn reads_larger_than_a_descriptor_and_odd_pieces_are_whole() {
    for row in TABLE {
        let ladder = ram(row);
        let mut handle = ladder.handle().unwrap();
        // More sectors than buffer heads, more pages than the map has.
        let mut big = vec![0u8; 700 << 10];
        let skip = big.as_ptr().align_offset(512);
        let len = big.len() / 2 / 512 * 512;
        handle.read_at(&mut big[skip..skip + len], 512).unwrap();
        assert!(big[skip..skip + len] == contents(512, len), "{}", row.name);

        let mut memory = Aligned::new();
        let (head, rest) = memory.bytes().split_at_mut(1536);
        let (hole, tail) = rest.split_at_mut(1024);
        let mut parts = [IoSliceMut::new(tail), IoSliceMut::new(&mut []), IoSliceMut::new(head)];
        let pos = 3 * 512;
        handle.read_vectored_at(&mut parts, pos).unwrap();
        assert!(hole.iter().all(|byte| *byte == 0xee), "{}: wrote between the buffers", row.name);
        let all = contents(pos, READ - 1024);
        assert!(tail == &all[..tail.len()] && head == &all[READ - 1024 - 1536..], "{}", row.name);
    }
}

#[test]
fn what_a_raw_device_refuses_is_named() {
    for row in &TABLE[..6] {
        let ladder = ram(row);
        let mut handle = ladder.handle().unwrap();
        let mut memory = Aligned::new();
        let error = handle.read_at(&mut memory.bytes()[..512], 100).unwrap_err().to_string();
        assert!(error.contains("multiples of 512"), "{error}");
        let error = handle.read_at(&mut memory.bytes()[1..513], 0).unwrap_err().to_string();
        assert!(error.contains("multiples of 512"), "{error}");
        let error = handle.read_at(memory.bytes(), 3 << 40).unwrap_err().to_string();
        assert!(error.contains("2 TiB"), "{error}");
        let error = handle.read_at(memory.bytes(), SIZE - 512).unwrap_err().to_string();
        assert!(error.contains("past the end") || error.contains("1048576"), "{error}");
        // It still works afterwards.
        assert_eq!(cost_of(&ladder, 0, true).bios, expected(row, 512, true).bios);
    }
}

#[test]
fn descriptors_have_the_papers_sizes() {
    let bytes = |descriptor| {
        let switches = ladder::Switches { descriptor, ..TABLE[4].switches };
        let make = |settings, elevator| Device::ram_with(SIZE, settings, elevator);
        let ladder = Ladder::open(switches, DiskSettings::default(), make).unwrap();
        ladder.device().write_at(&contents(0, SIZE as usize), 0).unwrap();
        assert_eq!(cost_of(&ladder, 4096, true), expected(&TABLE[4], 512, true));
        ladder.handle().unwrap().descriptor_bytes(16)
    };
    assert_eq!(bytes(Descriptor::Kiobuf), 8792);
    assert_eq!(bytes(Descriptor::LightKiobuf), 608);
    let bio = ram(&TABLE[6]).handle().unwrap();
    assert!(bio.descriptor_bytes(1) < 256 && bio.descriptor_bytes(16) < 608);
}

#[test]
fn threads_share_the_low_pool_and_the_lock() {
    // More at once than the pool has pages: 40 calls of 128 pages; no call may wait for ever.
    std::thread::scope(|scope| {
        for thread in 0..40u64 {
            scope.spawn(move || {
                let ladder = ram(&TABLE[0]);
                for i in 0..4 {
                    cost_of(&ladder, ((thread + i) % 15) << 16, i % 2 == 0);
                }
            });
        }
    });
}
