//! The two systems of the slide.

use super::system::{BYTES, Machine};
use crate::dm2002::{COMMAND_2_5, UNIT_2_5};
use crate::hosts::{Parameter, micros};
use platter_block::time::Span;

/// KiB of a block. Chosen.
pub(super) const SIZE: u64 = BYTES / 1024;

/// Processor time of functions at 1.3 GHz, which is chosen, instead of the 700 MHz of dm2002.
const FUNCTIONS: (Span, Span) = (Span(UNIT_2_5.0 * 700 / 1300), Span(COMMAND_2_5.0 * 700 / 1300));

/// Mean time of random reads of 2 KiB from man3367mp of the catalogue, and a revolution of its 10,000 a minute. A test compares.
pub(super) const RANDOM_READ: Span = Span(7_630_000);
const REVOLUTION: Span = Span(6_000_000);

pub(super) const MACHINES: [Machine; 2] = [
    Machine {
        name: "Intel",
        processors: 32,
        disks: 1000,
        // Not published.
        adapters: 32,
        service: (Span(RANDOM_READ.0 - REVOLUTION.0 / 2), REVOLUTION),
        functions: FUNCTIONS,
        // Set by the 40,000 I/Os a second with one list.
        hand_over: Span(5_935),
    },
    Machine {
        name: "SGI",
        processors: 64,
        disks: 112,
        adapters: 10,
        // Set by the 44,000 I/Os a second with one list.
        service: (Span(2_518_000), Span::ZERO),
        functions: FUNCTIONS,
        // Set by the 80,000 I/Os a second at which this machine ended with one list.
        hand_over: Span(2_800),
    },
];

/// A machine and its kernel, with the source of each parameter.
pub(crate) fn parameters(name: &str) -> Vec<Parameter> {
    MACHINES.iter().filter(|machine| machine.name == name).flat_map(of).collect()
}

fn of(machine: &Machine) -> Vec<Parameter> {
    let is_intel = machine.name == "Intel";
    let choose = |intel, sgi| if is_intel { intel } else { sgi };
    let slide = "Axboe, Tokyo 2004, plugging scalability";
    let new = |name, count: usize, source| Parameter::new("machine", name, (count, ""), source);
    let time = |name, span, source| Parameter::new("machine", name, micros(span), source);
    let (least, more) = machine.service;
    let disk = choose(
        "chosen: random reads of man3367mp, with half a revolution less or more",
        "set by the 44,000 reads a second with the list",
    );
    let lock = choose(
        "set by the 40,000 reads a second with the list",
        "set by 80,000 reads a second, the most with the list (Barnes, linux-kernel, 2 March 2004)",
    );
    let scaled = "that of 2.5.17 in dm2002, at 1.3 GHz, which is chosen";
    let kernel = |name, value, source| Parameter::new("2.6.3", name, value, source);
    let list = "Morton, linux-kernel, 1 March 2004, and from memory";
    vec![
        new("processors", machine.processors, slide),
        new("adapters", machine.adapters, choose("chosen", slide)),
        new("disks", machine.disks, slide),
        time("shortest read of a disk", least, disk),
        time("longest read of a disk", Span(least.0 + more.0), disk),
        Parameter::new("machine", "bytes of a read", (BYTES, ""), "chosen"),
        time("hand-over of a contended lock", machine.hand_over, lock),
        kernel("function of a unit", micros(machine.functions.0), scaled),
        kernel("function of a command", micros(machine.functions.1), scaled),
        kernel("acquisitions of the list's lock for a read", ("4".to_owned(), ""), list),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{SCSI, open};
    use crate::unplug2004::system::{Cell, Plugs, run};
    use platter_bench::processes::{Placement, Process, RunLimits, random_io};
    use platter_block::bio::Op;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn the_time_of_a_random_read_is_that_of_the_disk() {
        let never = AtomicBool::new(false);
        let device = open(SCSI, ("2.6.5", "deadline"), 1).unwrap();
        let file = Placement::new(device.size()).file(device.size() - (64 << 20)).unwrap();
        let reads = 4000;
        let steps = random_io(file, Op::Read, BYTES, Span::ZERO, 1, Some(reads));
        let limits = RunLimits { time: None, cancel: &never, sync_writes: false, flusher_starts: false };
        let outcome =
            platter_bench::processes::run(&device, vec![Process::new("reader", 1, steps)], &limits).unwrap();
        let mean = outcome.took.0 as f64 / reads as f64;
        assert!((0.99..1.01).contains(&(mean / RANDOM_READ.0 as f64)), "{mean}");
    }

    /// With disks that take no time the lock is all that limits the SGI system: 80,000 I/Os a second were its end.
    #[test]
    fn the_lock_ends_the_rate_of_the_sgi_system() {
        let never = AtomicBool::new(false);
        let machine = Machine { service: (Span(1), Span::ZERO), ..MACHINES[1] };
        let cell = Cell { machine, plugs: Plugs::Listed, ios: 5000, seed: 1 };
        let rate = run(&cell, &never).unwrap().rate;
        assert!((0.97..1.03).contains(&(rate / 80e3)), "{rate}");
        let own = run(&Cell { plugs: Plugs::PerDevice, ..cell }, &never).unwrap();
        assert!(own.rate > 3.0 * rate && own.foreign == 0, "{own:?}");
    }
}
