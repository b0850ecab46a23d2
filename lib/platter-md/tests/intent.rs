//! The write-intent bitmap against a list of booleans.

use platter_md::Uuid;
use platter_md::bitmap::{Bitmap, HEADER_BYTES, choose_chunk};
use platter_md::create::{NewArray, NewDevice, plan};
use platter_md::intent::{Intent, Loaded, PAGE};
use platter_md::superblock::{Level, Name, Place, Superblock, Time};
use proptest::prelude::*;

const ARRAY: Uuid = Uuid([3; 16]);

fn superblock(events: u64) -> Superblock {
    let member = |at| NewDevice { size: 64 << 20, uuid: Uuid([at; 16]) };
    let new = NewArray {
        place: Place::Offset4K,
        level: Level::Raid1,
        layout: None,
        chunk: None,
        name: Name::default(),
        array: ARRAY,
        members: vec![member(1), member(2)],
        spares: Vec::new(),
        has_bitmap: true,
        is_clean: true,
        created: Time::default(),
        block: 512,
    };
    Superblock { events, ..plan(&new).unwrap().devices[0].superblock.clone() }
}

fn header(sectors: u64, chunk: u64) -> Bitmap {
    Bitmap::new(ARRAY, sectors, chunk)
}

#[derive(Clone, Debug)]
enum Step {
    Set(u64, u64),
    Clear(u64, u64),
}

fn steps(bytes: u64) -> impl Strategy<Value = Vec<Step>> {
    let range = (0..bytes, 0..bytes / 3).prop_map(|(start, len)| (start, start + len));
    let step = (range, any::<bool>())
        .prop_map(|((start, end), set)| if set { Step::Set(start, end) } else { Step::Clear(start, end) });
    prop::collection::vec(step, 0..30)
}

/// A list of booleans, and the bytes that the members have.
struct Model {
    bits: Vec<bool>,
    disk: Vec<u8>,
}

impl Model {
    fn step(&mut self, intent: &mut Intent, step: &Step) {
        let chunk = intent.header().chunk;
        let end = intent.header().sync_size * 512;
        let before = self.bits.clone();
        let changed = match *step {
            Step::Set(start, stop) => {
                for (at, bit) in (0..).zip(&mut self.bits) {
                    *bit |= start < stop && at * chunk < stop && start < (at + 1) * chunk;
                }
                intent.set(start..stop)
            }
            Step::Clear(start, stop) => {
                for (at, bit) in (0..).zip(&mut self.bits) {
                    *bit &= start > at * chunk || stop < ((at + 1) * chunk).min(end);
                }
                intent.clear(start..stop)
            }
        };
        let differs = |at: &usize| before[*at] != self.bits[*at];
        let expected =
            (0..before.len()).filter(differs).map(|at| ((HEADER_BYTES + at / 8) / PAGE) as u64).collect();
        assert_eq!(changed, expected, "{step:?}");
        for number in changed {
            let (at, bytes) = intent.page(number).unwrap();
            self.disk[at as usize..at as usize + bytes.len()].copy_from_slice(&bytes);
        }
    }
}

proptest! {
    #[test]
    fn bits_are_those_of_a_list(sectors in 1u64..600_000, shift in 9u32..12, block in 9u32..13, (steps, from) in (steps(600_000 * 512), any::<u64>())) {
        let chunk = 1u64 << shift;
        let mut intent = Intent::new(header(sectors, chunk), 1 << block, false).unwrap();
        let mut model = Model { bits: vec![false; intent.chunks() as usize], disk: intent.encode() };
        prop_assert_eq!(model.bits.len() as u64, (sectors * 512).div_ceil(chunk));
        prop_assert_eq!(model.disk.len() % (1usize << block), 0);
        for step in &steps {
            model.step(&mut intent, step);
        }
        // The pages that were said to have changed are all that have.
        prop_assert_eq!(&model.disk, &intent.encode());
        let set: Vec<u64> = (0..intent.chunks()).filter(|&at| intent.is_set(at)).collect();
        let expected: Vec<u64> = (0..).zip(&model.bits).filter(|(_, bit)| **bit).map(|(at, _)| at).collect();
        prop_assert_eq!(&set, &expected);
        prop_assert_eq!(intent.count(), set.len() as u64);
        // What a reader sees.
        let read = Bitmap::parse(&model.disk).unwrap();
        prop_assert_eq!(read.count(&model.disk[HEADER_BYTES..]), set.len() as u64);
        let newest = superblock(0);
        let (loaded, how) = Intent::load(&model.disk, &newest, sectors, 1 << block).unwrap();
        prop_assert_eq!(how, Loaded::Current);
        prop_assert_eq!(&loaded, &intent);
        // The ranges that are marked, from anywhere.
        let mut at = from % (sectors * 512);
        let first = at / chunk;
        let mut chunks = Vec::new();
        while let Some(range) = intent.next_set(at) {
            prop_assert!(range.start >= at && range.end > range.start && range.end <= sectors * 512);
            chunks.extend(range.start / chunk..range.end.div_ceil(chunk));
            at = range.end;
        }
        prop_assert_eq!(chunks, set.into_iter().filter(|&at| at >= first).collect::<Vec<u64>>());
    }
}

#[test]
fn a_bitmap_that_is_out_of_date_marks_all() {
    let mut intent = Intent::new(header(1000, 4096), 512, false).unwrap();
    intent.set(0..4096);
    intent.set_events(10, true);
    let newest = superblock(10);
    let (loaded, how) = Intent::load(&intent.encode(), &newest, 1000, 512).unwrap();
    assert_eq!((how, loaded.count()), (Loaded::Current, 1));
    // Newer than the superblocks: they were to be written next.
    assert_eq!(Intent::load(&intent.encode(), &superblock(9), 1000, 512).unwrap().1, Loaded::Current);
    let out_of_date = |bytes: &[u8], newest: &Superblock, sectors: u64, why: &str| {
        let (loaded, how) = Intent::load(bytes, newest, sectors, 512).unwrap();
        let Loaded::OutOfDate(said) = how else { panic!("{why}: {how:?}") };
        assert!(said.contains(why), "{said}");
        assert_eq!(loaded.count(), loaded.chunks(), "{why}");
        assert!(
            !loaded.header().is_stale() && !loaded.covers(newest.events - 1) && loaded.covers(newest.events),
            "{why}"
        );
    };
    out_of_date(&intent.encode(), &superblock(11), 1000, "10 events, and the array has 11");
    out_of_date(&intent.encode(), &newest, 1008, "covers 1000 sectors, and the array has 1008");
    out_of_date(&intent.encode()[..260], &newest, 1000, "4 bytes of bits; 16 are needed");
    assert_eq!(intent.set_stale(true).into_iter().collect::<Vec<_>>(), [0]);
    assert!(intent.set_stale(true).is_empty() && !intent.covers(10));
    out_of_date(&intent.encode(), &newest, 1000, "stale");
    let other = Superblock { array: Uuid([4; 16]), ..superblock(10) };
    assert!(Intent::load(&intent.encode(), &other, 1000, 512).unwrap_err().contains("that of the array"));
    assert!(Intent::load(&[0; 512], &newest, 1000, 512).is_err());
    for version in [5u32, 6] {
        let mut bytes = intent.encode();
        bytes[4..8].copy_from_slice(&version.to_le_bytes());
        let said = Intent::load(&bytes, &newest, 1000, 512).unwrap_err();
        assert!(said.contains(&format!("version {version}; 4 can")), "{said}");
    }
}

#[test]
fn events_cleared_stands_still_while_a_member_is_missing() {
    let mut intent = Intent::new(header(1000, 4096), 512, false).unwrap();
    intent.set_events(5, true);
    intent.set_events(6, false);
    intent.set_events(9, false);
    assert_eq!((intent.header().events, intent.header().events_cleared), (9, 5));
    assert!(intent.covers(5) && !intent.covers(4), "a member that left at 5 may come back");
    intent.set_events(10, true);
    assert!(!intent.covers(9));
    assert_eq!(intent.page(0).unwrap().1[24..32], 10u64.to_le_bytes());
    assert!(intent.set_write_error(true).contains(&0) && intent.header().has_write_error());
}

#[test]
fn the_last_page_ends_with_a_logical_block() {
    // 5000 bytes of bits behind 256 of the header.
    for (block, last) in [(512, 1536), (1024, 2048), (4096, 4096)] {
        let intent = Intent::new(header(40_000 * 8, 4096), block, true).unwrap();
        assert_eq!(intent.pages().into_iter().collect::<Vec<_>>(), [0, 1]);
        assert_eq!(intent.page(1).map(|(at, bytes)| (at, bytes.len())), Some((4096, last)));
        assert!(intent.page(2).is_none());
    }
}

#[test]
fn chunks_are_64_mib_or_what_fits() {
    let (gib, page) = (1u64 << 21, 4096);
    for (sectors, room, chunk) in [
        (gib, page, 64 << 20),
        (1920 * gib, page, 64 << 20),
        (1921 * gib, page, 128 << 20),
        (60_000 * gib, 128 << 10, 64 << 20),
        (100_000 * gib, 128 << 10, 128 << 20),
        (u64::MAX, page, 1u64 << 31),
    ] {
        assert_eq!(choose_chunk(sectors, room), chunk, "{sectors} sectors in {room} bytes");
    }
}

#[test]
fn impossible_bitmaps_are_refused() {
    for (bitmap, block, why) in [
        (header(1000, 256), 512, "256 bytes; powers of two from 512"),
        (header(1000, 3 << 10), 512, "3072 bytes"),
        (header(1000, 1 << 32), 512, "4294967296 bytes"),
        (header(1 << 50, 512), 512, "at most 67108864"),
        (header(1000, 4096), 1000, "1000 bytes; powers of two"),
        (header(1000, 4096), 8192, "8192 bytes; powers of two up to 4096"),
        (Bitmap { version: 6, ..header(1000, 4096) }, 512, "version 6; 4 can be written"),
    ] {
        let said = Intent::new(bitmap, block, false).unwrap_err();
        assert!(said.contains(why), "{said}");
    }
}
