//! What is durable when, and what a power cut leaves.

use crate::rig::{CHUNK, FRONT, Rig, SIZE, settings, text};
use platter_block::bio::{Bio, Op};
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_sim::power::Survivors;
use std::sync::{Arc, Mutex};

/// Commands of a disk: operation, sector, and whether it is durable by itself.
type Log = Arc<Mutex<Vec<(Op, u64, bool)>>>;

fn observe(rig: &Rig, nth: usize) -> Log {
    let log = Log::default();
    let copy = Arc::clone(&log);
    rig.disks[nth].observe(move |command, _| {
        copy.lock().unwrap().push((command.op, command.sector, command.fua));
    });
    log
}

/// The commands since the last time: `r` for a durable write of the record, `d` for one of data, `f` for a flush.
fn told(log: &Log) -> String {
    let all = std::mem::take(&mut *log.lock().unwrap());
    let letter = |(op, sector, is_durable): (Op, u64, bool)| match op {
        Op::Flush => 'f',
        Op::Write if sector < FRONT / 512 => {
            if is_durable {
                'r'
            } else {
                '?'
            }
        }
        Op::Write => 'd',
        _ => '-',
    };
    all.into_iter().map(letter).filter(|letter| *letter != '-').collect()
}

#[test]
fn bits_are_durable_before_data_and_cleared_behind_a_flush() {
    let rig = Rig::new(1, 2);
    rig.create(2, true);
    let device = Device::new(rig.open(settings()).unwrap().device);
    let log = observe(&rig, 1);
    device.write_at(&[1; 512], 0).unwrap();
    let first = told(&log);
    assert_eq!(first, "rd");
    device.write_at(&[2; 512], 512).unwrap();
    assert_eq!(told(&log), "d", "the bit is set");
    device.write_at(&[2; 512], CHUNK).unwrap();
    assert_eq!(told(&log), "rd");
    for _ in 0..20 {
        rig.pass(Span::from_millis(5));
        device.read_at(&mut [0; 512], 0).unwrap();
    }
    let cleared = told(&log);
    assert!(cleared.starts_with("fr"), "{cleared}");
    let layers = device.layers();
    assert_eq!((layers[0].number("mirror bits set"), text(&device, "mirror clean")), (Some(0), "yes".into()));
    assert_eq!(told(&log), "", "an idle mirror does nothing");
    // Closing marks it clean at once.
    device.write_at(&[3; 512], 0).unwrap();
    told(&log);
    drop(device);
    let closed = told(&log);
    assert!(closed.contains("fr"), "{closed}");
    let device = Device::new(rig.open(settings()).unwrap().device);
    assert_eq!((text(&device, "mirror"), text(&device, "mirror clean")), ("complete".into(), "yes".into()));
}

/// Only chunks with bits are copied, and until then their reads go to the first member.
#[test]
fn after_a_cut_the_first_member_counts() {
    for bitmap in [true, false] {
        let rig = Rig::new(1, 2);
        rig.create(2, bitmap);
        let device = Device::new(rig.open(settings()).unwrap().device);
        device.write_at(&vec![1; SIZE as usize], 0).unwrap();
        device.flush().unwrap();
        for _ in 0..20 {
            rig.pass(Span::from_millis(5));
            device.read_at(&mut [0; 512], 0).unwrap();
        }
        // The second member has it, the first one not.
        let mut channel = device.channel(1).unwrap();
        channel.submit(Bio::write(3 * CHUNK, vec![9u8; 512]).unwrap()).unwrap();
        let mut done = Vec::new();
        while rig.disks[1].inside().iter().all(|inside| inside.sector < FRONT / 512) {
            channel.poll(&mut done);
            rig.world.pass(None);
        }
        assert!(done.is_empty());
        rig.supply.cut(rig.world.clock().now(), Survivors::Seeded(0));
        rig.disks.iter().for_each(|disk| disk.settle());
        drop((channel, device));
        rig.supply.restore();
        let mut settings = settings();
        settings.pause = true;
        let raid = rig.open(settings).unwrap();
        let device = Device::new(Arc::clone(&raid.device));
        assert_eq!(
            (text(&device, "mirror"), text(&device, "mirror clean")),
            ("resyncing".into(), "no".into())
        );
        let mut data = vec![0; CHUNK as usize];
        let reads = observe(&rig, 1);
        for _ in 0..8 {
            device.read_at(&mut data, 3 * CHUNK).unwrap();
            assert_eq!(data[..], rig.medium(0)[3 * CHUNK as usize..][..CHUNK as usize]);
        }
        assert!(reads.lock().unwrap().is_empty(), "the second member was read");
        raid.pause(false);
        while text(&device, "mirror") != "complete" {
            rig.pass(Span::from_millis(1));
            device.read_at(&mut [0; 512], 0).unwrap();
        }
        assert_eq!(raid.progress().total, if bitmap { CHUNK } else { SIZE });
        assert_eq!(rig.medium(0), rig.medium(1));
    }
}

/// Where reads go: a sequence stays on a member, others to the one with the fewest.
#[test]
fn reads_are_spread_and_sequences_stay() {
    let rig = Rig::new(1, 2);
    rig.create(2, true);
    let device = Device::new(rig.open(settings()).unwrap().device);
    let logs = [observe(&rig, 0), observe(&rig, 1)];
    let counts = || logs.each_ref().map(|log| std::mem::take(&mut *log.lock().unwrap()).len());
    for at in 0..8 {
        device.read_at(&mut [0; 4096], at * 4096).unwrap();
    }
    assert!(counts().contains(&8), "a sequence");
    let (mut channel, mut done) = (device.channel(8).unwrap(), Vec::new());
    for at in [9, 3, 12, 1, 7, 14] {
        channel.submit(Bio::read(at * 4096, vec![0u8; 512]).unwrap()).unwrap();
    }
    while channel.outstanding() > 0 {
        channel.wait(&mut done, None);
    }
    assert_eq!(counts(), [3, 3]);
}

/// A recovery that goes on after a power cut has lost nothing of what it has recorded.
#[test]
fn a_recovery_is_recorded_behind_a_flush() {
    let rig = Rig::new(1, 2);
    rig.create(2, true);
    let raid = rig.open(settings()).unwrap();
    let device = Device::new(Arc::clone(&raid.device));
    device.write_at(&vec![5; SIZE as usize], 0).unwrap();
    device.flush().unwrap();
    raid.fail(1).unwrap();
    raid.remove(1).unwrap();
    let log = observe(&rig, 1);
    raid.add(1, crate::rig::uuid(9)).unwrap();
    let added = told(&log);
    while text(&device, "mirror") != "complete" {
        rig.pass(Span::from_millis(1));
        device.read_at(&mut [0; 512], 0).unwrap();
    }
    let copied = added + &told(&log);
    assert!(copied.matches("fr").count() > 10 && copied.contains('d'), "{copied}");
    assert!(!copied.contains("dr") && !copied.contains('?'), "a record without a flush: {copied}");
    assert_eq!(rig.medium(0), rig.medium(1));
}
