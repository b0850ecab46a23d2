//! Kernels and the machine of the paper, as data.
//!
//! Every function on a path takes the same time, one time for those of a unit and one for those of a command. That was fixed before
//! anything was run. The holds of 2.4 are those that the paper measured; the other times are such that the inputs come out.

use crate::host::kernel::{Holds, INTERRUPT, Kernel, SEND, Scope, UNLIMITED, UNPLUG, unit_bytes};
use crate::host::machine::{Machine, PENTIUM_III};
use platter_bench::ladder::{self, Switches, Unit, Vector};
use platter_block::time::Span;

/// The machine of the microbenchmark: section 3. The times of its adapters are set by the two rates of 2.5.17.
pub(crate) const MACHINE: Machine = Machine {
    processors: 8,
    adapters: 4,
    disks: 32,
    command: Span(44_600),
    kib: Span(16_164),
    contention: PENTIUM_III,
};
/// Time to copy a KiB through low memory. Set by the rate of Baseline.
pub(crate) const COPY_KIB: Span = Span(14_921);

/// Mean holds: Table 5, and Table 6 to queue a unit. The acquisitions that Table 5 does not list are 3.75 for each command and held for
/// 13.1 us in all: four of a quarter of it, two after a command was sent and two at its completion.
pub(crate) const HOLDS: Holds = Holds {
    queue: Span(900),
    unplug: Span(8_800),
    send: Span(13_000),
    interrupt: Span(20_000),
    other: Span(3_267),
    others: 2,
};

/// Of 2.4.17, outside locks. Set by the idle time of SBI.
pub(crate) const UNIT_2_4: Span = Span(636);
/// The mean of the functions whose holds Table 5 has.
pub(crate) const COMMAND_2_4: Span = Span(
    (HOLDS.unplug.0 + HOLDS.send.0 + HOLDS.interrupt.0)
        / (UNPLUG.len() + SEND.len() + INTERRUPT.len()) as u64,
);
/// Of 2.5.17, whose holds nothing gives: what the idle times of SBI and SBIR give for a unit if no hold of 2.4 is given either.
pub(crate) const UNIT_2_5: Span = Span(775);
/// Set by its idle time with `read`.
pub(crate) const COMMAND_2_5: Span = Span(2_136);

/// Calls of the microbenchmark are shorter than any limit.
const UNBOUNDED: Kernel = Kernel {
    name: "",
    bounce: false,
    unit: unit_bytes(Unit::Call),
    chunk: UNLIMITED,
    command: 1 << 30,
    per_segment: false,
    queueing: Scope::Queue,
    sending: Scope::All,
    per_unit: UNIT_2_4,
    per_command: COMMAND_2_4,
    copy_kib: Span::ZERO,
    holds: Some(HOLDS),
};

pub(crate) fn rung(name: &'static str) -> Option<Kernel> {
    let Switches { bounce, unit, vector, lock, .. } = ladder::find(name)?.switches;
    let (queueing, sending) = match lock {
        ladder::Lock::All => (Scope::All, Scope::All),
        _ => (Scope::Queue, Scope::All),
    };
    Some(Kernel {
        name,
        bounce,
        unit: unit_bytes(unit),
        per_segment: vector == Vector::PerSegment,
        queueing,
        sending,
        copy_kib: COPY_KIB,
        ..UNBOUNDED
    })
}

/// The kernels of Table 3. Those of 2.4 have the switches of the ladder's rungs.
pub(super) fn kernels() -> Vec<Kernel> {
    let mut all: Vec<Kernel> =
        ["Baseline", "SB", "SBI", "SBIR", "SBIRV"].into_iter().filter_map(rung).collect();
    all.push(Kernel {
        name: "2.5.17",
        // Section 9.4: the readv path has not seen the benefits of the bio.
        per_segment: true,
        queueing: Scope::Adapter,
        sending: Scope::Adapter,
        per_unit: UNIT_2_5,
        per_command: COMMAND_2_5,
        holds: None,
        ..UNBOUNDED
    });
    all
}
