//! Asymmetric access: ports of the target that reach the unit well, less well, or not.

use crate::{Rig, item, rig_at, text};
use platter_block::status::Value;
use platter_block::time::Span;
use platter_scsi::disk::AccessState::{NonOptimized, Optimized, Standby, Unavailable};
use platter_scsi::disk::{AccessState, FaultPlan};

/// I/Os that a path has carried out.
fn done(rig: &Rig, path: &str) -> u64 {
    let told = text(&rig.device, path);
    let (before, _) = told.split_once(" done").unwrap();
    before.rsplit(' ').next().unwrap().parse().unwrap()
}

/// The paths that carry out eight writes.
fn used(rig: &Rig) -> [bool; 2] {
    let counts = || ["path a", "path b"].map(|path| done(rig, path));
    let before = counts();
    (0..8u8).for_each(|at| rig.device.write_at(&[at; 512], u64::from(at) * 512).unwrap());
    let after = counts();
    [0, 1].map(|path| after[path] > before[path])
}

fn pass(rig: &Rig, time: Span) {
    rig.world.clock().advance_to(rig.world.clock().now() + time);
}

/// Time passes, and I/O has the layer ask again.
fn ask_again(rig: &Rig) {
    pass(rig, Span::from_secs(6));
    (0..2).for_each(|_| rig.device.read_at(&mut [0; 512], 0).unwrap());
}

#[test]
fn optimized_paths_are_used_and_others_in_their_place() {
    for policy in 0..3 {
        for (other, used_alone) in
            [(Optimized, [true, true]), (NonOptimized, [false, true]), (Standby, [false, true])]
        {
            let rig = rig_at(&[("policy", policy)], [other, Optimized]);
            assert_eq!(used(&rig), used_alone, "policy {policy}, {other:?}");
        }
        let rig = rig_at(&[("policy", policy)], [NonOptimized, NonOptimized]);
        assert_eq!(used(&rig), [true, true]);
    }
}

#[test]
fn a_path_with_worse_access_takes_over_and_gives_back() {
    let rig = rig_at(&[("check_interval", 1000)], [Optimized, NonOptimized]);
    assert_eq!(used(&rig), [true, false]);
    rig.ports[0].set_faults(crate::away());
    assert_eq!(used(&rig), [false, true]);
    assert!(
        text(&rig.device, "path a").starts_with("down (the device is gone), optimized (target port group 1)")
    );
    rig.ports[0].set_faults(FaultPlan::default());
    ask_again(&rig);
    assert_eq!(used(&rig), [true, false]);
}

/// The target moves the unit from one controller to the other: initiators follow, whatever the old port says from then on.
#[test]
fn the_unit_is_followed_to_another_port() {
    for (left, down) in [(NonOptimized, false), (Standby, true), (Unavailable, true)] {
        let rig = rig_at(&[("check_interval", 5000)], [Optimized, Standby]);
        assert_eq!(used(&rig), [true, false]);
        rig.ports[0].set_access(left);
        rig.ports[1].set_access(Optimized);
        ask_again(&rig);
        assert_eq!(used(&rig), [false, true], "{left:?}");
        let up = if down { 1 } else { 2 };
        assert_eq!(
            item(&rig.device, "paths up"),
            Value::Number(up),
            "{left:?}: {}",
            text(&rig.device, "path a")
        );
        // And back.
        rig.ports[1].set_access(left);
        rig.ports[0].set_access(Optimized);
        ask_again(&rig);
        ask_again(&rig);
        assert_eq!(used(&rig), [true, false], "{left:?}: {}", text(&rig.device, "path a"));
        let mut data = [9; 512];
        (0..8u8).for_each(|at| {
            rig.device.read_at(&mut data, u64::from(at) * 512).unwrap();
            assert_eq!(data, [at; 512]);
        });
    }
}

/// While no port reaches the unit, I/O is held as it is while no path works.
#[test]
fn io_is_held_while_every_port_is_in_standby() {
    let rig = rig_at(&[("no_path_timeout", 3000), ("check_interval", 500)], [Optimized, NonOptimized]);
    let set = |state: AccessState| rig.ports.iter().for_each(|port| port.set_access(state));
    set(Standby);
    let began = rig.world.clock().now();
    assert!(rig.device.write_at(&[1; 512], 0).is_err());
    assert!(rig.world.clock().now().since(began) >= Span::from_secs(3));
    set(Optimized);
    pass(&rig, Span::from_secs(1));
    while rig.device.write_at(&[1; 512], 0).is_err() {
        pass(&rig, Span::from_millis(100));
    }
    ask_again(&rig);
    assert_eq!(used(&rig), [true, true]);
}

/// Nothing is asked while there is no I/O: an idle device sleeps.
#[test]
fn an_idle_device_asks_nothing() {
    let rig = rig_at(&[("check_interval", 1)], [Optimized, NonOptimized]);
    let commands = || -> u64 {
        let facts = rig.paths.iter().flat_map(|path| path.facts());
        facts.filter(|fact| fact.0 == "commands").map(|fact| fact.1.parse::<u64>().unwrap()).sum()
    };
    let before = commands();
    pass(&rig, Span::from_secs(1));
    (0..2).for_each(|_| rig.device.read_at(&mut [0; 512], 0).unwrap());
    let after = commands();
    assert!(after >= before + 4, "two reads, and both paths were asked");
    pass(&rig, Span::from_secs(3600));
    assert_eq!(commands(), after);
}
