//! After warm-up, no I/O allocates: on every kind of device, with every elevator, in every way to call;
//! including splits, merges, 16 segments, errors, bounced memory and cancelled futures.

mod commands;
mod counting;
mod devices;
mod styles;

use platter_block::command::MemoryUse;
use styles::Style;

/// Rounds of I/Os that are evaluated together.
const ROUNDS: usize = 40;
/// Lists grow as long as threads fall behind each other by chance; that ends. An allocation per I/O would not
/// end.
const PATIENCE: usize = 12;

fn check(name: &str, mut round: impl FnMut()) {
    let mut counts = Vec::new();
    for _ in 0..PATIENCE {
        let before = counting::allocations();
        (0..ROUNDS).for_each(|_| round());
        counts.push(counting::allocations() - before);
        if counts.ends_with(&[0]) {
            return;
        }
    }
    panic!("{name}: allocations in {ROUNDS} rounds: {counts:?}");
}

#[test]
fn no_io_allocates_once_warm() {
    for device in devices::all() {
        for elevator in device.elevators() {
            device.handle.set_elevator(elevator).unwrap();
            for style in Style::ALL {
                let mut caller = style.caller(&device);
                check(&format!("{} {elevator} {style:?}", device.name), || caller.round());
            }
        }
    }
    // Not a test of its own: it would run beside this one, and all allocations of the process are counted.
    no_command_allocates_once_warm();
}

fn no_command_allocates_once_warm() {
    let device = commands::device();
    for memory in [MemoryUse::Mapped, MemoryUse::Copied] {
        for elevator in ["none", "deadline"] {
            device.set_elevator(elevator).unwrap();
            let mut caller = commands::Polled::new(&device, memory);
            check(&format!("commands {memory:?} {elevator}"), || caller.round());
        }
    }
}
