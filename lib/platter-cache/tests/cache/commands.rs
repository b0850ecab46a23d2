//! Commands of the disk's own set pass a cache without breaking what it promises.

use crate::disk::{
    Disk, INQUIRED, Lane, NOWHERE, Options, SECOND, SIZE, command, flush, numbered, read, write,
};
use crate::rig::{cached, small, until};
use platter_block::bio::{Bio, Flags, Op};
use platter_block::command::{Outcome, Reach};
use platter_block::fault::Kind;
use platter_block::time::Span;
use platter_cache::Settings;
use platter_disk::device::Device;
use platter_disk::sync_io::{CommandData, IoOptions};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

const PAGE: u64 = 4096;

/// A lane of a test. If the test fails, the disk fails all that it has and gets, so that dropping the cache does not wait for
/// it.
struct Guarded(Lane, Arc<Disk>);

impl Deref for Guarded {
    type Target = Lane;

    fn deref(&self) -> &Lane {
        &self.0
    }
}

impl DerefMut for Guarded {
    fn deref_mut(&mut self) -> &mut Lane {
        &mut self.0
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.1.kill();
        }
    }
}

fn open() -> (Arc<Disk>, Device, Guarded) {
    open_sized(64)
}

/// With a cache of `pages` pages.
fn open_sized(pages: u64) -> (Arc<Disk>, Device, Guarded) {
    let (disk, below) = Disk::open(Options::default());
    let settings = Settings { readahead: platter_cache::readahead::by_name("none").unwrap(), ..small(pages) };
    let device = cached(Arc::clone(below.backend()), &settings);
    let lane = Guarded(Lane::open(&device), Arc::clone(&disk));
    (disk, device, lane)
}

fn sent(reach: Reach, len: usize, byte: u8, token: u64) -> Bio {
    numbered(command(reach, false, len, byte), token, Flags::NONE)
}

fn reads(pos: u64) -> Reach {
    Reach::Reads { pos, len: PAGE }
}

fn changes(pos: u64) -> Reach {
    Reach::Changes { pos, len: PAGE }
}

/// Completes what the disk has until a bio has come back.
fn settle(disk: &Disk, lane: &mut Lane, token: u64) {
    for _ in 0..100 {
        if lane.is_done(token) {
            return;
        }
        disk.finish_all();
        lane.poll();
    }
    panic!("{token} does not come back");
}

fn run(disk: &Disk, lane: &mut Lane, bio: Bio) {
    let token = bio.token();
    lane.send(bio);
    settle(disk, lane, token);
}

#[test]
fn a_command_that_reads_sees_what_was_written_before_it() {
    let (disk, _device, mut lane) = open();
    lane.send(write(PAGE, 7, 1, Flags::NONE));
    assert!(lane.is_done(1) && disk.held().is_empty(), "it stays in memory");
    lane.send(sent(reads(PAGE), 4096, 0, 2));
    assert_eq!(disk.take_starts(), [(Op::Write, PAGE)], "the page goes first");
    settle(&disk, &mut lane, 2);
    assert_eq!((lane.kind(2), lane.brought(2)), (None, 7));
    disk.take_starts();
    lane.send(read(PAGE, 3));
    assert_eq!((lane.brought(3), disk.take_starts().len()), (7, 0), "the page stays cached");
}

/// When a command has ended there is nothing to go on with: a cache that woke at once, again and again, would take a whole
/// processor.
#[test]
fn the_cache_does_not_wake_for_a_command_that_has_ended() {
    for reach in [reads(PAGE), changes(PAGE)] {
        let (disk, _device, mut lane) = open();
        lane.send(sent(reach, 4096, 0, 1));
        settle(&disk, &mut lane, 1);
        // The device is still reading elsewhere.
        lane.send(read(8 * PAGE, 2));
        lane.poll();
        let soon = disk.now() + Span::from_millis(500);
        assert!(lane.channel.next_wakeup().is_none_or(|at| at > soon), "{reach:?}");
        settle(&disk, &mut lane, 2);
    }
}

#[test]
fn a_command_that_changes_is_seen_by_what_comes_after_it() {
    let (disk, _device, mut lane) = open();
    run(&disk, &mut lane, read(PAGE, 1));
    lane.send(write(PAGE, 7, 2, Flags::NONE));
    lane.send(sent(changes(PAGE), 4096, 9, 3));
    assert_eq!(disk.held(), [PAGE], "the dirty page is written before it");
    settle(&disk, &mut lane, 3);
    assert_eq!((lane.kind(3), disk.byte(PAGE)), (None, 9));
    run(&disk, &mut lane, read(PAGE, 4));
    assert_eq!(lane.brought(4), 9, "the cached page is dropped");
    run(&disk, &mut lane, flush(5));
    assert_eq!((lane.kind(5), disk.byte(PAGE)), (None, 9), "nothing old is written over it");
}

#[test]
fn reads_and_writes_of_its_range_wait_for_it() {
    let (disk, _device, mut lane) = open();
    lane.send(sent(changes(PAGE), 4096, 9, 1));
    lane.send(read(PAGE, 2));
    lane.send(write(PAGE, 5, 3, Flags::NONE));
    lane.send(read(8 * PAGE, 4));
    assert_eq!(disk.held(), [PAGE, 8 * PAGE], "only what is elsewhere goes on");
    assert!(!lane.is_done(2) && !lane.is_done(3));
    for token in 1..=4 {
        settle(&disk, &mut lane, token);
    }
    assert!([5, 9].contains(&lane.brought(2)));
    run(&disk, &mut lane, flush(5));
    assert_eq!(disk.byte(PAGE), 5);
}

#[test]
fn a_command_waits_for_the_read_that_fills_its_page() {
    let (disk, _device, mut lane) = open();
    lane.send(read(PAGE, 1));
    lane.send(sent(changes(PAGE), 4096, 9, 2));
    assert_eq!(disk.held(), [PAGE], "the read only");
    disk.finish(PAGE);
    lane.poll();
    assert_eq!(disk.take_starts(), [(Op::Read, PAGE), (Op::Write, PAGE)], "then the command");
    settle(&disk, &mut lane, 1);
    settle(&disk, &mut lane, 2);
    run(&disk, &mut lane, read(PAGE, 3));
    assert_eq!(lane.brought(3), 9);
}

#[test]
fn one_of_unknown_effect_is_refused_while_pages_are_dirty() {
    let (disk, device, mut lane) = open();
    run(&disk, &mut lane, read(PAGE, 1));
    lane.send(write(9 * PAGE, 7, 2, Flags::NONE));
    lane.send(sent(Reach::Everything, 0, 0, 3));
    assert_eq!(lane.kind(3), Some(Kind::Unsupported));
    let bio = command(Reach::Everything, false, 0, 0);
    let error = device.command(bio.command().unwrap(), CommandData::None, IoOptions::default()).unwrap_err();
    assert_eq!(error.fault.errno(), 16, "EBUSY: what is never supported has another");
    let message = error.to_string();
    assert!(message.contains("flush first") && message.contains("SCSI command 00h"), "{message}");
    run(&disk, &mut lane, flush(4));
    run(&disk, &mut lane, sent(Reach::Everything, 0, 0, 5));
    assert_eq!(lane.kind(5), None);
    disk.take_starts();
    run(&disk, &mut lane, read(9 * PAGE, 6));
    assert_eq!((lane.brought(6), disk.take_starts()), (0, vec![(Op::Read, 9 * PAGE)]), "no page is left");
}

#[test]
fn one_that_concerns_no_blocks_passes() {
    let (disk, _device, mut lane) = open();
    lane.send(write(PAGE, 7, 1, Flags::NONE));
    lane.send(sent(Reach::Nothing, 96, 0, 2));
    lane.send(sent(Reach::Nothing, 64, 0, 3));
    assert_eq!(disk.held(), [NOWHERE, NOWHERE], "both at once, and the page stays dirty");
    disk.finish_with(NOWHERE, Some(36));
    lane.poll();
    let bio = lane.done.iter().find(|bio| bio.token() == 2).expect("it is back");
    assert_eq!((bio.status(), bio.done(), bio.len()), (Ok(()), 36, 0));
    assert_eq!(bio.command().unwrap().outcome(), Some(Outcome { residual: 60, ..Outcome::GOOD }));
    assert_eq!(lane.brought(2), INQUIRED);
    settle(&disk, &mut lane, 3);
    run(&disk, &mut lane, flush(4));
}

#[test]
fn one_that_fails_or_times_out_drops_the_pages_too() {
    let (disk, _device, mut lane) = open();
    run(&disk, &mut lane, read(PAGE, 1));
    lane.send(sent(changes(PAGE), 4096, 9, 2));
    disk.finish_with(PAGE, Some(-5));
    settle(&disk, &mut lane, 2);
    assert_eq!(lane.kind(2), Some(Kind::Io));
    run(&disk, &mut lane, read(PAGE, 3));
    assert_eq!(disk.take_starts().last(), Some(&(Op::Read, PAGE)));

    let mut late = sent(changes(PAGE), 4096, 11, 4);
    late.set_deadline(Some(disk.now() + SECOND));
    lane.send(late);
    disk.pass(SECOND);
    lane.poll();
    assert_eq!(lane.kind(4), Some(Kind::TimedOut));
    lane.send(read(PAGE, 5));
    assert_eq!((lane.is_done(5), disk.held()), (false, vec![PAGE]), "nothing is read while the disk has it");
    settle(&disk, &mut lane, 5);
    assert_eq!(lane.brought(5), 11);
}

/// Has another lane take the completion of a bio of the disk, and then `takes_back` the bio on its own lane. Returns what has come
/// back there.
fn taken_back_late(mut bio: Bio, takes_back: fn(&Disk, &mut Lane, u64)) -> (Arc<Disk>, Bio) {
    let token = bio.token();
    let (disk, device, mut lane) = open_sized(512);
    let mut other = Guarded(Lane::open(&device), Arc::clone(&disk));
    // A discard of all these pages takes more than one turn.
    (0..SIZE / PAGE).for_each(|page| run(&disk, &mut lane, read(page * PAGE, page)));
    bio.set_deadline(Some(disk.now() + SECOND));
    lane.send(bio);
    assert_eq!((disk.held().len(), lane.is_done(token)), (1, false));
    disk.finish_all();
    other.channel.poll(&mut Vec::new());
    takes_back(&disk, &mut lane, token);
    settle(&disk, &mut lane, token);
    let at = lane.done.iter().position(|bio| bio.token() == token).expect("it is back");
    (disk, lane.done.swap_remove(at))
}

/// A failure would say that nothing was carried out, or that this is not known.
#[test]
fn what_the_disk_has_ended_keeps_its_result_if_it_is_taken_back_then() {
    let ways: [fn(&Disk, &mut Lane, u64); 2] =
        [|_, lane, token| lane.channel.cancel(token), |disk, _, _| disk.pass(SECOND)];
    for takes_back in ways {
        let (_disk, mut bio) = taken_back_late(sent(reads(PAGE), 4096, 5, 1000), takes_back);
        assert_eq!((bio.status(), bio.done()), (Ok(()), 4096));
        assert_eq!(bio.take_buffer::<Vec<u8>>().expect("with its memory")[0], 0, "what is on the disk");
        let (disk, bio) = taken_back_late(sent(changes(PAGE), 4096, 9, 1000), takes_back);
        assert_eq!((bio.status(), disk.byte(PAGE)), (Ok(()), 9));
        let (_disk, bio) = taken_back_late(sent(Reach::Everything, 0, 0, 1000), takes_back);
        assert_eq!(bio.status(), Ok(()));
        let discard = numbered(Bio::new(Op::Discard, PAGE, 4 * PAGE), 1000, Flags::NONE);
        let (_disk, bio) = taken_back_late(discard, takes_back);
        assert_eq!(bio.status(), Ok(()));
    }
}

#[test]
fn flags_of_order_and_durability_are_refused() {
    let (disk, _device, mut lane) = open();
    for (token, flags) in (1..).zip([Flags::FUA, Flags::PREFLUSH, Flags::HARD_BARRIER, Flags::SOFT_BARRIER]) {
        run(&disk, &mut lane, numbered(command(Reach::Nothing, false, 0, 0), token, flags));
        assert_eq!(lane.kind(token), Some(Kind::Unsupported), "{flags:?}");
    }
}

/// Random operations one after the other beside a model that has one byte for each page.
#[test]
fn random_operations_agree_with_a_model() {
    for seed in 0..40 {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (disk, _device, mut lane) = open();
        let mut model = [0u8; 8];
        for token in 1..200 {
            let number = random.next_u64();
            let (page, byte) = ((number >> 8) % 8, (number >> 16) as u8);
            let (at, pos) = (page as usize, page * PAGE);
            let bio = match number % 6 {
                0 => read(pos, token),
                1 => sent(reads(pos), 4096, 0, token),
                2 | 3 => write(pos, byte, token, Flags::NONE),
                4 => sent(changes(pos), 4096, byte, token),
                _ => flush(token),
            };
            run(&disk, &mut lane, bio);
            assert_eq!(lane.kind(token), None, "seed {seed}");
            match number % 6 {
                0 | 1 => assert_eq!(lane.brought(token), model[at], "seed {seed}, bio {token}, page {page}"),
                2..=4 => model[at] = byte,
                _ => (0..8).for_each(|at| assert_eq!(disk.byte(at as u64 * PAGE), model[at], "seed {seed}")),
            }
        }
        // A cache with dirty pages would wait for the disk when it is dropped.
        run(&disk, &mut lane, flush(200));
    }
}

/// A command needs a page written that waits for a page which a discard is dropping. It ends, whatever the order in which
/// operations of the disk end.
#[test]
fn a_command_waits_for_the_pages_of_a_discard() {
    let test = std::thread::spawn(|| {
        let (disk, device, mut lane) = open();
        let mut gone = Guarded(Lane::open(&device), Arc::clone(&disk));
        run(&disk, &mut gone, write(8 * PAGE, 1, 1, Flags::NONE));
        for (token, page) in [(2, 32), (3, 0)] {
            gone.send(numbered(Bio::new(Op::Discard, page * PAGE, 16 * PAGE), token, Flags::NONE));
        }
        gone.poll();
        assert_eq!(disk.held(), [32 * PAGE, 0]);
        drop(gone);
        run(&disk, &mut lane, write(50 * PAGE, 2, 4, Flags::SOFT_BARRIER));
        run(&disk, &mut lane, write(60 * PAGE, 3, 5, Flags::NONE));
        lane.send(sent(reads(60 * PAGE), 4096, 0, 6));
        for page in [32, 0] {
            lane.poll();
            assert!(!lane.is_done(6));
            disk.finish(page * PAGE);
        }
        settle(&disk, &mut lane, 6);
        assert_eq!(lane.brought(6), 3);
    });
    assert!(until(|| test.is_finished()), "it hangs");
    test.join().unwrap();
}
