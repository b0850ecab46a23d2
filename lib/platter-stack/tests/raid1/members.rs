//! Members that fail, are missing or behind, and come back.

use crate::rig::{CHUNK, FRONT, Rig, SIZE, new, settings, text, uuid};
use platter_block::bio::Bio;
use platter_block::fault::Kind;
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_sim::fault::{BadSectors, Blow, FaultPlan, Lands, Strike};
use platter_sim::power::Survivors;
use platter_stack::raid1::{Raid1, Settings, create};
use std::sync::Arc;

fn open(rig: &Rig) -> (Raid1, Device) {
    let raid = rig.open(settings()).unwrap();
    let device = Device::new(Arc::clone(&raid.device));
    (raid, device)
}

/// The array of some of the disks.
fn open_some(
    rig: &Rig,
    disks: &[usize],
    change: impl FnOnce(&mut Settings),
) -> Result<(Raid1, Device), String> {
    let mut settings = settings();
    change(&mut settings);
    let devices = disks.iter().map(|nth| rig.device(*nth)).collect();
    let raid = Raid1::open(devices, settings).map_err(|error| error.to_string())?;
    let device = Device::new(Arc::clone(&raid.device));
    Ok((raid, device))
}

fn write_errors(rig: &Rig, nth: usize) {
    let front = FRONT / 512;
    let bad = vec![BadSectors { sectors: front..front + SIZE / 512, reads: false, writes: true }];
    rig.disks[nth].set_faults(Some(FaultPlan { bad, ..FaultPlan::default() }));
}

/// Time passes until nothing is copied any more.
fn settle(rig: &Rig, device: &Device) {
    for _ in 0..1000 {
        rig.pass(Span::from_millis(1));
        device.read_at(&mut [0; 512], 0).unwrap();
        let word = text(device, "mirror");
        if word == "complete" || word == "degraded" {
            return;
        }
    }
    panic!("it is {} for ever", text(device, "mirror"));
}

fn count(device: &Device, name: &str) -> u64 {
    device.layers()[0].number(name).unwrap()
}

#[test]
fn a_member_that_fails_a_write_is_recorded_as_failed_before_the_write_ends() {
    let rig = Rig::new(1, 2);
    rig.create(2, true);
    let (raid, device) = open(&rig);
    device.write_at(&[1; 512], 0).unwrap();
    write_errors(&rig, 0);
    device.write_at(&[2; 512], 0).unwrap();
    // At this moment.
    rig.supply.cut(rig.world.clock().now(), Survivors::None);
    rig.disks.iter().for_each(|disk| disk.settle());
    drop((raid, device));
    rig.supply.restore();
    rig.disks[0].set_faults(None);
    let (_raid, device) = open(&rig);
    assert_eq!(text(&device, "member a"), "failed (it is behind the others)");
    assert_eq!(text(&device, "mirror"), "degraded");
}

#[test]
fn the_last_member_never_fails() {
    let rig = Rig::new(1, 2);
    rig.create(2, true);
    let (raid, device) = open(&rig);
    raid.fail(1).unwrap();
    assert!(raid.fail(0).unwrap_err().to_string().contains("the last member in sync"));
    write_errors(&rig, 0);
    let error = device.write_at(&[2; 512], 0).unwrap_err();
    assert_eq!(error.fault.kind, Kind::Io);
    rig.disks[0].set_faults(None);
    device.write_at(&[3; 512], 0).unwrap();
    assert!(text(&device, "member a").starts_with("in sync"));
    rig.disks[0].set_faults(Some(FaultPlan { flush_error_chance: 1_000_000, ..FaultPlan::default() }));
    assert!(device.flush().is_err());
    rig.disks[0].set_faults(None);
    device.acknowledge_flush_failure();
    device.flush().unwrap();
    assert!(text(&device, "member a").starts_with("in sync"));
}

#[test]
fn a_flush_that_a_member_fails_fails_the_member() {
    let rig = Rig::new(1, 2);
    rig.create(2, true);
    let (_raid, device) = open(&rig);
    rig.disks[1].set_faults(Some(FaultPlan { flush_error_chance: 1_000_000, ..FaultPlan::default() }));
    device.write_at(&[3; 512], 0).unwrap();
    device.flush().unwrap();
    assert!(text(&device, "member b").starts_with("failed (a flush failed"), "{}", text(&device, "member b"));
}

/// Only what was changed meanwhile is copied; all, if bits were cleared since.
#[test]
fn a_member_comes_back_by_the_bits_or_whole() {
    let rig = Rig::new(1, 3);
    create(&rig.devices(), &new(3, true)).unwrap();
    let (raid, device) = open(&rig);
    device.write_at(&[1; SIZE as usize], 0).unwrap();
    raid.fail(1).unwrap();
    device.write_at(&[2; 512], 5 * CHUNK).unwrap();
    // However long it is missing, its bits stay.
    for _ in 0..10 {
        rig.pass(Span::from_secs(1));
        device.read_at(&mut [0; 512], 0).unwrap();
    }
    raid.re_add(1).unwrap();
    settle(&rig, &device);
    assert_eq!((text(&device, "mirror"), rig.medium(1)), ("complete".to_string(), rig.medium(0)));
    // Now no bit is set but that of the next write.
    for _ in 0..10 {
        rig.pass(Span::from_secs(1));
        device.read_at(&mut [0; 512], 0).unwrap();
    }
    assert_eq!((count(&device, "mirror bits set"), text(&device, "mirror clean")), (0, "yes".to_string()));
    raid.fail(1).unwrap();
    device.write_at(&[3; 512], 5 * CHUNK).unwrap();
    raid.re_add(1).unwrap();
    settle(&rig, &device);
    assert_eq!(raid.progress().total, CHUNK, "one chunk");
    assert_eq!(rig.medium(1), rig.medium(0));
    // The third member takes no part until after another one has its place, so bits are cleared that it needs.
    raid.fail(2).unwrap();
    raid.remove(2).unwrap();
    assert!(raid.re_add(2).unwrap_err().to_string().contains("no member"));
    raid.add(2, uuid(50)).unwrap();
    settle(&rig, &device);
    assert_eq!((raid.progress().total, rig.medium(2)), (SIZE, rig.medium(0)));
}

#[test]
fn a_member_that_is_behind_is_not_read_until_it_is_added_again() {
    let rig = Rig::new(1, 2);
    rig.create(2, true);
    drop(open(&rig));
    // The others do not know that it is missing.
    let refused = open_some(&rig, &[0], |_| {}).err().unwrap();
    assert!(refused.contains("degraded=on") && refused.contains("the members 1 are missing"), "{refused}");
    let (raid, device) = open_some(&rig, &[0], |settings| settings.degraded = true).unwrap();
    device.write_at(&[7; 4096], 8192).unwrap();
    drop((raid, device));
    // Now they do.
    drop(open_some(&rig, &[0], |_| {}).unwrap());
    let refused = open_some(&rig, &[1], |_| {}).err().unwrap();
    assert!(refused.contains("the members 0 are missing"), "{refused}");
    let (raid, device) = open(&rig);
    let mut data = [0; 4096];
    for _ in 0..8 {
        device.read_at(&mut data, 8192).unwrap();
        assert_eq!(data, [7; 4096]);
    }
    drop((raid, device));
    let (_raid, device) = open_some(&rig, &[1, 0], |settings| settings.readd = true).unwrap();
    settle(&rig, &device);
    assert_eq!((text(&device, "mirror"), rig.medium(1)), ("complete".to_string(), rig.medium(0)));
}

#[test]
fn members_that_were_used_apart_are_not_put_together() {
    let rig = Rig::new(1, 2);
    rig.create(2, true);
    for nth in [0, 1] {
        let (_raid, device) = open_some(&rig, &[nth], |settings| settings.degraded = true).unwrap();
        device.write_at(&[nth as u8 + 1; 512], 0).unwrap();
    }
    let refused = rig.open(settings()).err().unwrap().to_string();
    assert!(refused.contains("were used without each other"), "{refused}");
}

/// A disk that does not answer is failed after 100 ms. Then the write ends, although the disk carries it out much later.
#[test]
fn a_write_ends_although_a_member_never_answers() {
    let rig = Rig::new(1, 2);
    rig.create(2, true);
    let (raid, device) = open(&rig);
    device.write_at(&[1; 512], 0).unwrap();
    rig.disks[1].set_faults(Some(FaultPlan { abort_chance: 0, ..FaultPlan::default() }));
    let blow = Blow::Stuck(Span::from_secs(60), Lands::Late);
    rig.disks[1].strike(Strike { op: None, blow });
    let (clock, began) = (rig.world.clock(), rig.world.clock().now());
    let (mut channel, mut done) = (device.channel(4).unwrap(), Vec::new());
    channel.submit(Bio::write(0, vec![2u8; 512]).unwrap()).unwrap();
    while channel.poll(&mut done) == 0 {
        assert!(clock.now().since(began) < Span::from_secs(1), "it waits for the member");
        rig.pass(Span::from_millis(1));
    }
    assert_eq!(done[0].status(), Ok(()));
    let told = text(&device, "member b");
    assert!(told.starts_with("failed (it does not answer); has 1 changes"), "{told}");
    assert!(raid.re_add(1).unwrap_err().to_string().contains("they could come late"));
    device.write_at(&[3; 512], 0).unwrap();
    device.flush().unwrap();
    // It comes after the newer data, and the member is brought up to date after that.
    while clock.now().since(began) < Span::from_secs(61) {
        rig.pass(Span::from_millis(100));
        channel.poll(&mut done);
    }
    assert_eq!(rig.medium(1)[..512], [2; 512]);
    raid.re_add(1).unwrap();
    settle(&rig, &device);
    assert!(rig.medium(1) == rig.medium(0) && rig.medium(1)[..512] == [3; 512]);
}

#[test]
fn what_holds_a_mirror_is_not_made_another_one_without_force() {
    let rig = Rig::new(1, 2);
    rig.create(2, true);
    let refused = create(&rig.devices(), &new(2, true)).unwrap_err().to_string();
    assert!(refused.contains("is a member of the mirror 4d4d"), "{refused}");
    let mut again = new(2, true);
    again.force = true;
    create(&rig.devices(), &again).unwrap();
    drop(open(&rig));
    let small = rig.devices().into_iter().map(|disk| platter_stack::partition::new(disk, 0, Some(1 << 20)));
    let small = small.collect::<Result<Vec<_>, _>>().unwrap();
    assert!(create(&small, &again).unwrap_err().to_string().contains("it must have at least"));
}
