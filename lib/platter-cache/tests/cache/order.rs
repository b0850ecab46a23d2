//! Soft barriers: after a power cut no data from after a barrier is there unless all data from before it is.

use crate::barriers::{SECTORS, check_barriers};
use crate::logged;
use crate::rig::{self, small};
use crate::searches::check_epochs;
use platter_block::bio::{Bio, Flags, Op};
use platter_block::time::Span;
use platter_cache::Settings;
use platter_disk::disk_backend::DiskSettings;
use platter_disk::sync_io::IoOptions;
use platter_sim::World;
use platter_sim::ideal::Ideal;
use platter_sim::power::Survivors;
use std::sync::atomic::Ordering;

#[test]
fn nothing_from_behind_a_soft_barrier_is_there_without_what_is_before_it() {
    check_barriers(1);
}

#[test]
fn nor_if_it_is_in_other_shards() {
    check_barriers(3);
}

/// Pages behind a soft barrier, which a flush has passed over, can be written before it has gone through all.
#[test]
fn a_flush_writes_pages_whose_epoch_comes_between_two_turns() {
    check_epochs();
}

/// What goes past the cache must not overtake what is dirty from before a barrier.
#[test]
fn zeroes_written_behind_a_soft_barrier_reach_the_disk_after_what_is_before_it() {
    for (discards, shards) in [(false, 1), (true, 1), (false, 3), (true, 3)] {
        let world = World::new(1);
        let ideal =
            Ideal { size: SECTORS * 512, latency: Span::from_micros(10), depth: 8, write_cache: false };
        let (disk, supply) = rig::disk(&world, ideal, None);
        let sizes = Settings { shards, extent: 4096, ..small(20 * u64::from(shards)) };
        let settings = Settings { background: 90, dirty: 95, ..sizes };
        let device = rig::cached(rig::backend(&disk, DiskSettings::default()), &settings);
        device.write_at(&[9; 4096], 16384).unwrap();
        device.flush().unwrap();
        device.write_at(&[1; 4096], 0).unwrap();
        device.write_at_with(&[2; 4096], 8192, IoOptions::flags(Flags::SOFT_BARRIER)).unwrap();
        let passed = if discards { device.discard(16384, 4096) } else { device.write_zeroes(16384, 4096) };
        passed.unwrap();
        supply.cut(world.clock().now(), Survivors::None);
        drop(device);
        supply.restore();
        let below = rig::cached(rig::backend(&disk, DiskSettings::default()), &small(20));
        let first = |pos: u64| {
            let mut byte = [0; 512];
            below.read_at(&mut byte, pos).unwrap();
            byte[0]
        };
        assert_eq!((first(16384), first(0), first(8192)), (0, 1, 2), "discards: {discards}, {shards} shards");
    }
}

/// A page from before a barrier is written again while its write-back fails: the new data does not take the place of the old
/// data before the other pages from before the barrier.
#[test]
fn what_is_copied_while_a_write_fails_stays_behind_the_barrier() {
    let (log, below) = logged::disk(false);
    let device = rig::cached(below, &Settings { background: 90, dirty: 95, ..small(64) });
    let (page, other) = (0, 65536);
    device.write_at(&[1; 4096], page).unwrap();
    device.write_at(&[1; 4096], other).unwrap();
    device.write_at_with(&[1; 4096], 131_072, IoOptions::flags(Flags::SOFT_BARRIER)).unwrap();
    log.writes_fail.store(true, Ordering::SeqCst);
    // The flush starts the write-back in the turn that chooses the frame of the write.
    let mut channel = device.channel(2).unwrap();
    assert!(channel.submit(Bio::flush()).is_ok());
    assert!(channel.submit(Bio::write(page, vec![2; 4096]).unwrap()).is_ok());
    let mut done = Vec::new();
    while channel.outstanding() > 0 {
        channel.wait(&mut done, None);
    }
    assert!(done.iter().any(|bio| bio.status().is_err()), "the flush fails");
    log.writes_fail.store(false, Ordering::SeqCst);
    log.take();
    assert!((0..10).any(|_| device.flush().is_ok()));
    let written: Vec<u64> =
        log.take().into_iter().filter(|&(op, _)| op == Op::Write).map(|(_, pos)| pos).collect();
    let last = written.iter().rposition(|&pos| pos == page).unwrap();
    assert!(written[..last].contains(&page) && written[..last].contains(&other), "{written:?}");
}
