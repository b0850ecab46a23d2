//! Devices of the examples, each of 1 MiB.

use platter::registry::{elevator_names, open_in, parse};
use platter::sim::World;
use platter::{Access, Device, open};
use platter_disk::drivers::FileDriver;
use std::sync::Once;
use tempfile::NamedTempFile;

pub(crate) const SIZE: u64 = 1 << 20;

#[path = "../../examples/my_driver.rs"]
mod my_driver;
#[path = "../../examples/my_elevator.rs"]
mod my_elevator;
#[path = "../../examples/my_layer.rs"]
mod my_layer;

/// Runs the examples once; they register what they have.
pub(crate) fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for main in [my_driver::main, my_elevator::main, my_layer::main] {
            main().expect("the example works");
        }
    });
}

/// `none` and every elevator.
pub(crate) fn elevators() -> Vec<&'static str> {
    register();
    elevator_names().to_vec()
}

fn device(spec: &str) -> Device {
    register();
    let opened =
        parse(spec).map_err(Into::into).and_then(|spec| open_in(&World::new(1), &spec, Access::read_write()));
    opened.unwrap_or_else(|error| panic!("{spec}: {error}"))
}

const SPECS: &[&str] = &[
    "stall(nth=7, pause=1ms, ram(1M))",
    "stall(nth=7, pause=1ms, ram(1M, elevator=deadline))",
    "stall(nth=7, pause=1ms, partition(length=1M, sim(ideal)))",
    "stall(nth=7, pause=1ms, raid0(chunk=64K, ram(512K), stall(ram(512K))))",
    "raid0(chunk=64K, stall(nth=7, pause=1ms, ram(512K)), shelf(512K))",
    "shelf(1M)",
    "shelf(1M, elevator=deadline)",
    "shelf(1M, depth=1)",
    "partition(offset=64K, stall(shelf(1088K, elevator=lifo)))",
    "cache(size=256K, stall(shelf(1M)))",
    "ram(1M, elevator=lifo)",
    "ram(1M, elevator=lifo(fair=2), depth=2)",
    "partition(length=1M, sim(ideal, elevator=lifo))",
];

/// Runs a test on a zero-filled device of every kind.
pub(crate) fn on_all(test: impl Fn(&str, &Device)) {
    SPECS.iter().for_each(|spec| test(spec, &device(spec)));
}

/// Devices for tests with many threads.
pub(crate) fn in_memory() -> Vec<(&'static str, Device)> {
    let specs = SPECS.iter().filter(|spec| !spec.contains("sim"));
    specs.map(|spec| (*spec, device(spec))).collect()
}

/// A file with each driver and an elevator, below the layer.
fn over_file(driver: FileDriver, elevator: &str) -> Option<(Device, NamedTempFile)> {
    register();
    let file = NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a file");
    file.as_file().set_len(SIZE).expect("a size");
    let path = file.path().to_string_lossy();
    let spec = format!("stall(nth=7, pause=1ms, file(\"{path}\", driver={driver}, elevator={elevator}))");
    match open(&spec, Access::read_write()) {
        Ok(device) => Some((device, file)),
        Err(error) => {
            eprintln!("skipped {driver}: {error}");
            None
        }
    }
}

/// Runs a test on a file with each driver, below the layer.
pub(crate) fn on_files(elevators: &[&str], test: impl Fn(&str, &Device, &NamedTempFile)) {
    for driver in FileDriver::ALL {
        for elevator in elevators {
            if let Some((device, file)) = over_file(driver, elevator) {
                test(&format!("stall over {driver} {elevator}"), &device, &file);
            }
        }
    }
}

/// A file below the layer.
pub(crate) fn files(driver: FileDriver) -> Option<(Device, NamedTempFile)> {
    over_file(driver, "none")
}
