//! A channel or the device is dropped while one path answers nothing and another one is checked again and again.

use crate::{Rig, away, item, rig_of, text};
use platter_block::bio::{Bio, Op};
use platter_block::fault::Kind;
use platter_block::status::Value;
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_scsi::disk::Options;
use platter_sim::fault::{Blow, Lands, Strike};
use std::sync::Arc;

/// The disk has a command for this long, and nothing else ends it.
const HANG: Span = Span::from_secs(3600);

/// What a drop may take: 30 s, and a little for what it does at the end.
const MOST: Span = Span::from_secs(31);

/// Path a works and has no timeout; path b is away, and is checked every 5 s. The next command `op` hangs.
fn rig_that_hangs(op: Op) -> Rig {
    let patient = || Options::default().with_command_timeout(Span::from_secs(86_400));
    let rig = rig_of(&[("check_interval", 5000)], [patient(), patient()]);
    rig.ports[1].set_faults(away());
    (0..4).for_each(|at| rig.device.write_at(&[1; 512], at * 512).unwrap());
    assert!(text(&rig.device, "path b").starts_with("down"));
    assert_eq!(item(&rig.device, "paths up"), Value::Number(1));
    rig.sim.strike(Strike { op: Some(op), blow: Blow::Stuck(HANG, Lands::Late) });
    rig
}

#[test]
fn a_channel_is_dropped_in_time_while_a_path_is_checked() {
    let rig = rig_that_hangs(Op::Write);
    let mut channel = rig.device.channel(4).unwrap();
    channel.submit(Bio::write(4096, vec![2u8; 512]).unwrap()).unwrap();
    channel.flush();
    let began = rig.world.clock().now();
    drop(channel);
    let took = rig.world.clock().now().since(began);
    assert!(took <= MOST, "{took:?}");
    assert!(took >= Span::from_secs(29), "it did not wait for the write: {took:?}");
    // The lock is free for others, and the path still carries out their I/O.
    let (mut data, others) = ([9; 512], Device::new(Arc::clone(rig.device.backend())));
    others.read_at(&mut data, 0).unwrap();
    assert_eq!(data, [1; 512]);
    // For this device the write is late, wherever it is.
    assert_eq!(rig.device.flush().unwrap_err().fault.kind, Kind::Unsettled);
    rig.device.read_at(&mut data, 4096).unwrap();
    assert!(rig.world.clock().now().since(began) >= HANG);
    rig.device.flush().unwrap();
}

/// A layer that is dropped flushes its devices.
#[test]
fn a_device_is_dropped_in_time_while_a_path_is_checked() {
    let Rig { world, sim: _sim, ports: _ports, paths: _paths, device } = rig_that_hangs(Op::Flush);
    let began = world.clock().now();
    drop(device);
    let took = world.clock().now().since(began);
    assert!(took <= MOST, "{took:?}");
    assert!(took >= Span::from_secs(29), "it did not wait for the flush: {took:?}");
}
