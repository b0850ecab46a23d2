//! The soak on real drivers, over block devices.

#[path = "../../../lib/platter-disk/tests/drivers/loops.rs"]
mod loops;
#[path = "../../../lib/platter-disk/tests/drivers/nodes.rs"]
mod nodes;
#[path = "../../../lib/platter-disk/tests/drivers/zram.rs"]
mod zram;

use platter_disk::drivers::FileDriver;
use platter_kit::soak::Features;
use platter_kit::soak::real::{RealOptions, run};
use std::sync::atomic::AtomicBool;

#[test]
fn block_devices_keep_their_promises_under_a_script() {
    let is_named = !nodes::given().is_empty();
    let rounds = if is_named { 3 } else { 1 };
    let mut seed = 1;
    nodes::on_nodes(|name, path| {
        seed += rounds;
        let mut drivers = FileDriver::ALL.to_vec();
        if !is_named {
            // The default, and the others in turn: each round takes a second.
            drivers
                .retain(|driver| *driver == FileDriver::Uring || (*driver as u64 + seed).is_multiple_of(2));
        }
        let (place, without) = (path.to_owned(), Features::default());
        let options = RealOptions { place, drivers, seed, rounds, time: None, threads: 3, ios: 50, without };
        let report = run(&options, &AtomicBool::new(false), &mut |_| {});
        let report = report.unwrap_or_else(|error| panic!("{name}: {error}"));
        report.skipped.iter().for_each(|why| println!("skipped: {why}"));
        println!("{name}: {} rounds, {} I/Os", report.rounds, report.ios);
        assert_eq!(report.found, None, "{name}");
        assert!(report.rounds >= rounds && report.ios > 50, "{name}: {report:?}");
    });
}
