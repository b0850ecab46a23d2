//! Failover, failback, and what happens while no path works.

use crate::{SIZE, away, item, rig, text};
use platter_block::backend::Backend;
use platter_block::command::{Command, CommandSet, Reach, Transfer};
use platter_block::fault::Kind;
use platter_block::status::Value;
use platter_block::time::{Span, Time};
use platter_disk::device::Device;
use platter_disk::sync_io::{CommandData, IoOptions};
use platter_scsi::disk::FaultPlan;
use std::sync::Arc;

#[test]
fn both_paths_are_used_by_every_policy() {
    for policy in 0..3 {
        let rig = rig(&[("policy", policy)]);
        for at in 0..64u8 {
            rig.device.write_at(&[at; 4096], u64::from(at) * 4096).unwrap();
        }
        rig.device.flush().unwrap();
        let mut data = [0; 4096];
        for at in 0..64u8 {
            rig.device.read_at(&mut data, u64::from(at) * 4096).unwrap();
            assert!(data == [at; 4096]);
        }
        for path in ["path a", "path b"] {
            let told = text(&rig.device, path);
            let done: u64 = told.split(' ').nth(4).unwrap().parse().unwrap();
            assert!(told.starts_with("up; 0 in flight") && done > 20, "policy {policy}: {told}");
        }
    }
}

#[test]
fn a_path_that_fails_is_left_and_used_again_when_it_works() {
    let rig = rig(&[("check_interval", 1000)]);
    rig.ports[0].set_faults(away());
    for at in 0..32u8 {
        rig.device.write_at(&[at; 512], u64::from(at) * 512).unwrap();
    }
    assert!(text(&rig.device, "path a").starts_with("down (the device is gone)"));
    assert_eq!(item(&rig.device, "paths up"), Value::Number(1));
    rig.device.flush().unwrap();
    rig.ports[0].set_faults(FaultPlan::default());
    rig.world.clock().advance_to(rig.world.clock().now() + Span::from_secs(2));
    let mut data = [0; 512];
    for at in 0..32u8 {
        rig.device.read_at(&mut data, u64::from(at) * 512).unwrap();
        assert_eq!(data, [at; 512]);
    }
    assert_eq!(item(&rig.device, "paths up"), Value::Number(2));
    assert!(text(&rig.device, "path a").ends_with("failed 1 times"));
}

#[test]
fn io_is_held_while_no_path_works_and_fails_after_a_while() {
    let rig = rig(&[("no_path_timeout", 5000), ("check_interval", 700)]);
    rig.ports.iter().for_each(|port| port.set_faults(away()));
    let began = rig.world.clock().now();
    let error = rig.device.write_at(&[1; 512], 0).unwrap_err();
    let took = rig.world.clock().now().since(began);
    assert_eq!(error.fault.kind, Kind::Gone);
    assert!(took >= Span::from_secs(5) && took < Span::from_secs(6), "{took:?}");
    // From then on it fails at once.
    let began = rig.world.clock().now();
    assert_eq!(rig.device.read_at(&mut [0; 512], 0).unwrap_err().fault.kind, Kind::Gone);
    assert!(rig.world.clock().now().since(began) < Span::from_millis(10));
    assert!(rig.device.flush().is_err(), "nothing has flushed the disk");
    rig.ports[1].set_faults(FaultPlan::default());
    rig.world.clock().advance_to(rig.world.clock().now() + Span::from_secs(1));
    while rig.device.write_at(&[1; 512], 0).is_err() {
        rig.world.clock().advance_to(rig.world.clock().now() + Span::from_millis(100));
    }
    assert_eq!(item(&rig.device, "paths up"), Value::Number(1));
}

#[test]
fn what_is_held_goes_on_when_a_path_comes_back_in_time() {
    let rig = rig(&[("no_path_timeout", 60_000), ("check_interval", 500)]);
    let back = rig.world.clock().now() + Span::from_secs(10);
    let plan = |from| FaultPlan {
        away: Some((platter_block::time::Time(0), Some(Span(back.0)))),
        seed: from,
        ..FaultPlan::default()
    };
    rig.ports.iter().for_each(|port| port.set_faults(plan(1)));
    rig.device.write_at(&[7; 512], 0).unwrap();
    assert!(rig.world.clock().now() >= back);
    let mut data = [0; 512];
    rig.device.read_at(&mut data, 0).unwrap();
    assert_eq!(data, [7; 512]);
}

/// An error of the medium is the same on every path: it is reported, and no path is left for it.
#[test]
fn an_error_of_the_medium_is_not_one_of_a_path() {
    let rig = rig(&[]);
    let bad = FaultPlan { bad: Some(4096..4608), ..FaultPlan::default() };
    rig.ports.iter().for_each(|port| port.set_faults(bad.clone()));
    let error = rig.device.read_at(&mut [0; 512], 4096).unwrap_err();
    assert_eq!((error.fault.kind, error.fault.errno), (Kind::Io, 61));
    assert_eq!(item(&rig.device, "paths up"), Value::Number(2));
    // One that only a path has is no error.
    rig.ports[0].set_faults(FaultPlan::default());
    (0..4).for_each(|_| rig.device.read_at(&mut [0; 512], 4096).unwrap());
}

/// What a path reports if its connection ended with the I/O on its way: whatever number of paths say so, it is not the disk's.
#[test]
fn a_transport_that_fails_is_no_error_of_the_disk() {
    let rig = rig(&[]);
    let failing = |path: &Arc<dyn Backend>| {
        let params = [("errno", 67), ("times", 3)];
        platter_stack::by_name("error").unwrap().make(&params, vec![Arc::clone(path)]).unwrap()
    };
    let paths: Vec<_> = rig.paths.iter().map(failing).collect();
    let params = [("check_interval", 500)];
    let device = Device::new(platter_stack::by_name("multipath").unwrap().make(&params, paths).unwrap());
    device.write_at(&[3; 512], 0).unwrap();
    device.flush().unwrap();
    let mut data = [0; 512];
    device.read_at(&mut data, 0).unwrap();
    assert_eq!(data, [3; 512]);
    assert!(text(&device, "path a").ends_with("times") && text(&device, "path b").ends_with("times"));
}

#[test]
fn commands_take_one_path_and_are_not_repeated() {
    let rig = rig(&[]);
    let write = |byte: u8| {
        let cdb = [0x2a, 0, 0, 0, 0, 8, 0, 0, 1, 0];
        let command = Command::new(CommandSet::Scsi, &cdb).unwrap().with_transfer(Transfer::ToDevice);
        let command = Arc::new(command.with_reach(Reach::Changes { pos: 4096, len: 512 }));
        rig.device.command(&command, CommandData::ToDevice(&[byte; 512]), IoOptions::default())
    };
    (1..5).for_each(|byte| assert!(write(byte).unwrap().is_good()));
    let mut data = [0; 512];
    rig.device.read_at(&mut data, 4096).unwrap();
    assert_eq!(data, [4; 512]);
    rig.ports.iter().for_each(|port| port.set_faults(away()));
    assert_eq!(write(9).unwrap_err().fault.kind, Kind::Gone);
    assert_eq!(item(&rig.device, "paths up"), Value::Number(1), "the second path was not tried");
    assert_eq!(rig.device.geometry().size, SIZE);
}

/// A write whose deadline passes while no path has it never reaches one, and no path has failed by it.
#[test]
fn io_that_no_path_had_is_not_late() {
    let rig = rig(&[("no_path_timeout", 3_600_000), ("check_interval", 500)]);
    let back = Span::from_secs(10);
    let plan = FaultPlan { away: Some((Time(0), Some(back))), ..FaultPlan::default() };
    rig.ports.iter().for_each(|port| port.set_faults(plan.clone()));
    let limit = IoOptions::default().with_timeout(Some(Span::from_secs(1)));
    let error = rig.device.write_at_with(&[1; 512], 0, limit).unwrap_err();
    assert_eq!(error.fault.kind, Kind::TimedOut);
    // Held until the paths are back.
    rig.device.write_at(&[2; 512], 512).unwrap();
    assert!(rig.world.clock().now() >= Time(0) + back);
    rig.device.flush().unwrap();
    for path in ["path a", "path b"] {
        assert!(text(&rig.device, path).ends_with("failed 1 times"), "{path}");
    }
    let mut data = [9; 512];
    rig.device.read_at(&mut data, 0).unwrap();
    assert_eq!(data, [0; 512], "the write that failed has left something");
}

/// A flush that no path could deliver is not held against any of them when they are back.
#[test]
fn flushes_succeed_after_all_paths_were_away() {
    let rig = rig(&[("no_path_timeout", 3_600_000), ("check_interval", 500)]);
    (0..4).for_each(|at| rig.device.write_at(&[1; 512], at * 512).unwrap());
    let plan = FaultPlan { away: Some((Time(0), Some(Span::from_secs(10)))), ..FaultPlan::default() };
    rig.ports.iter().for_each(|port| port.set_faults(plan.clone()));
    rig.device.flush().unwrap();
    rig.world.clock().advance_to(rig.world.clock().now() + Span::from_secs(2));
    for at in 0..8 {
        rig.device.write_at(&[2; 512], at * 512).unwrap();
        rig.device.flush().unwrap();
    }
    assert_eq!(item(&rig.device, "paths up"), Value::Number(2));
}
