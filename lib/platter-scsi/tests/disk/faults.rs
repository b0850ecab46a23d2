//! What commands meet on their way, and what becomes of requests.

use crate::{SIZE, fact, number, port, ram, simulated};
use platter_block::command::{Command, CommandSet, Reach, Transfer};
use platter_block::fault::Kind;
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_disk::sync_io::{CommandData, IoOptions};
use platter_scsi::cdb::{self, Cdb};
use platter_scsi::disk::{FaultPlan, Options, ScsiTarget};
use platter_sim::World;
use platter_sim::fault::{Blow, Lands, Strike};
use std::sync::Arc;

const ALWAYS: u32 = 1_000_000;

/// Writes and reads all of a device in small pieces.
fn fill(device: &Device, seed: u8) {
    for at in (0..SIZE).step_by(4096) {
        device.write_at(&[seed ^ (at >> 12) as u8; 4096], at).unwrap();
    }
    device.flush().unwrap();
    let mut data = [0; 4096];
    for at in (0..SIZE).step_by(4096) {
        device.read_at(&mut data, at).unwrap();
        assert!(data == [seed ^ (at >> 12) as u8; 4096], "at {at}");
    }
}

#[test]
fn what_passes_is_sent_again() {
    let one = |plan: FaultPlan| (format!("{plan:?}"), plan);
    let plans = [
        one(FaultPlan { busy: 200_000, ..FaultPlan::default() }),
        one(FaultPlan { full: 200_000, ..FaultPlan::default() }),
        one(FaultPlan { attention: 100_000, ..FaultPlan::default() }),
        one(FaultPlan { not_ready: 20_000, ..FaultPlan::default() }),
        one(FaultPlan { aborted: 100_000, ..FaultPlan::default() }),
        one(FaultPlan { lost: 20_000, ..FaultPlan::default() }),
        one(FaultPlan { unanswered: 20_000, ..FaultPlan::default() }),
        one(FaultPlan { reset: 50_000, ..FaultPlan::default() }),
    ];
    for (name, plan) in plans {
        let (_, below) = simulated(&World::new(3), 50);
        let (_, device) = port(&ScsiTarget::new(below), plan);
        fill(&device, 9);
        assert!(number(&device, "sent again") > 3, "{name}");
        assert_eq!(number(&device, "failed commands"), 0, "{name}");
    }
}

#[test]
fn what_does_not_pass_fails_with_its_kind() {
    let cases = [
        (FaultPlan { busy: ALWAYS, ..FaultPlan::default() }, Kind::WouldBlock),
        (FaultPlan { conflict: ALWAYS, ..FaultPlan::default() }, Kind::Io),
        (FaultPlan { medium: ALWAYS, ..FaultPlan::default() }, Kind::Io),
        (FaultPlan { lost: ALWAYS, ..FaultPlan::default() }, Kind::TimedOut),
        (FaultPlan { attention: ALWAYS, ..FaultPlan::default() }, Kind::TimedOut),
    ];
    for (plan, kind) in cases {
        let (_, below) = simulated(&World::new(3), 50);
        let (disk, device) = port(&ScsiTarget::new(below), plan.clone());
        let error = device.write_at(&[1; 512], 0).unwrap_err();
        assert_eq!(error.fault.kind, kind, "{plan:?}: {error}");
        disk.set_faults(FaultPlan::default());
        device.write_at(&[1; 512], 0).unwrap();
    }
}

#[test]
fn a_bad_range_fails_only_there() {
    let target = ScsiTarget::new(ram());
    let (_, device) = port(&target, FaultPlan { bad: Some(8192..9216), ..FaultPlan::default() });
    let error = device.read_at(&mut [0; 65536], 0).unwrap_err();
    assert_eq!(error.fault.errno, 61, "ENODATA, a medium error: {error}");
    device.read_at(&mut [0; 8192], 0).unwrap();
    device.read_at(&mut [0; 8192], 9216).unwrap();
}

#[test]
fn a_submitters_command_is_never_sent_again() {
    let (_, below) = simulated(&World::new(3), 50);
    let (disk, device) = port(&ScsiTarget::new(below), FaultPlan { busy: ALWAYS, ..FaultPlan::default() });
    let write = Cdb::new(&cdb::WRITE_10).with("TRANSFER LENGTH", 1);
    let command = Command::new(CommandSet::Scsi, write.bytes()).unwrap().with_transfer(Transfer::ToDevice);
    let command = Arc::new(command.with_reach(Reach::Changes { pos: 0, len: 512 }));
    let send = || device.command(&command, CommandData::ToDevice(&[5; 512]), IoOptions::default());
    send().unwrap_err();
    assert_eq!(command.outcome().unwrap().status, 8, "BUSY");
    disk.set_faults(FaultPlan { unanswered: ALWAYS, ..FaultPlan::default() });
    assert_eq!(send().unwrap_err().fault.kind, Kind::TimedOut);
    assert_eq!(command.outcome(), None);
    disk.set_faults(FaultPlan::default());
    let mut data = [0; 512];
    device.read_at(&mut data, 0).unwrap();
    assert_eq!(data, [5; 512], "it was carried out, and nothing was heard of that");
    assert_eq!(number(&device, "sent again"), 0);
}

/// A write that neither an abort nor a reset ends takes the port offline until it has ended; nothing overtakes it.
#[test]
fn a_command_that_hangs_is_aborted_then_reset_then_the_port_is_offline() {
    let world = World::new(3);
    let (sim, below) = simulated(&world, 50);
    let options = Options::default().with_command_timeout(Span::from_secs(1));
    let disk = ScsiTarget::new(below).port(options).unwrap();
    let settings = DiskSettings::default();
    let device = Device::from_disk(disk, settings, None).unwrap();
    device.write_at(&[1; 4096], 0).unwrap();
    sim.set_faults(Some(platter_sim::fault::FaultPlan { abort_chance: 0, ..Default::default() }));
    sim.strike(Strike { op: None, blow: Blow::Stuck(Span::from_secs(60), Lands::Late) });
    let limit = |seconds| IoOptions::default().with_timeout(Some(Span::from_secs(seconds)));
    let began = world.clock().now();
    let error = device.write_at_with(&[2; 4096], 0, limit(10)).unwrap_err();
    // A bio has its deadline in steps of 1,024 ns.
    let took = world.clock().now().since(began);
    assert_eq!((error.fault.kind, took.0 / 1024), (Kind::TimedOut, Span::from_secs(10).0.div_ceil(1024)));
    assert_eq!((number(&device, "aborts"), number(&device, "resets")), (1, 1));
    assert_eq!(fact(&device, "port"), "offline: 1 commands do not end");
    let error = device.read_at(&mut [0; 512], 65536).unwrap_err();
    assert_eq!(error.fault.kind, Kind::Gone);
    assert!(error.to_string().contains("offline"), "{error}");
    let mut data = [0; 4096];
    while let Err(error) = device.read_at(&mut data, 0) {
        assert_eq!(error.fault.kind, Kind::Gone);
    }
    // Once it has ended, the port is offline no longer.
    assert!(world.clock().now().since(began) >= Span::from_secs(60));
    assert_eq!((data, fact(&device, "port").as_str()), ([2; 4096], "running"));
}
