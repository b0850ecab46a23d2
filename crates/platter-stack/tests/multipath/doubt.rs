//! A write that a path may still carry out is not overtaken through another path.

use crate::{item, limit, rig};
use platter_block::fault::Kind;
use platter_block::status::Value;
use platter_block::time::Span;
use platter_sim::fault::{Blow, FaultPlan, Lands, Strike};

#[test]
fn nothing_overtakes_a_write_in_doubt() {
    let rig = rig(&[("check_interval", 1000)]);
    rig.device.write_at(&[1; 4096], 0).unwrap();
    rig.sim.set_faults(Some(FaultPlan { abort_chance: 0, ..FaultPlan::default() }));
    rig.sim.strike(Strike { op: None, blow: Blow::Stuck(Span::from_secs(20), Lands::Late) });
    let began = rig.world.clock().now();
    let error = rig.device.write_at_with(&[2; 4096], 0, limit(1)).unwrap_err();
    assert_eq!(error.fault.kind, Kind::TimedOut);
    // Elsewhere work goes on, through both paths.
    (1..5).for_each(|at| rig.device.write_at(&[9; 4096], at * 4096).unwrap());
    assert!(rig.world.clock().now().since(began) < Span::from_secs(2));
    assert_eq!(item(&rig.device, "in doubt"), Value::Number(1));
    assert_eq!(rig.device.flush().unwrap_err().fault.kind, Kind::InDoubt);
    let error = rig.device.write_at_with(&[3; 512], 512, limit(1)).unwrap_err();
    assert!(matches!(error.fault.kind, Kind::TimedOut | Kind::InDoubt), "{error}");
    // The next one waits until the first has landed, and wins.
    rig.device.write_at(&[4; 4096], 0).unwrap();
    assert!(rig.world.clock().now().since(began) >= Span::from_secs(20));
    let mut data = [0; 4096];
    (0..4).for_each(|_| {
        rig.device.read_at(&mut data, 0).unwrap();
        assert!(data == [4; 4096], "{}", data[0]);
    });
    assert_eq!(item(&rig.device, "in doubt"), Value::Number(0));
    rig.device.flush().unwrap();
}
