//! The decision-support machine, its kernels and the mix of the workload, as data.

use crate::dm2002;
use crate::host::kernel::{Holds, Kernel, Starts};
use crate::host::machine::Machine;
use crate::host::readers::Load;
use crate::hosts::{KernelSources, Parameter, micros, of_kernel, of_machine};
use platter_bench::report::units::bytes;
use platter_block::time::Span;

/// The machine of section 3: the processors and the kind of adapters of the microbenchmark, with six of them and 20 disks on each.
pub(super) const MACHINE: Machine = Machine { adapters: 6, disks: 120, ..dm2002::MACHINE };

/// Mean holds of Table 5. The acquisitions that the table does not list are 3.75 for each command and held for 13.1 us in all: four
/// of a quarter of it, two after a command was sent and two at its completion.
pub(super) const HOLDS: Holds = Holds {
    queue: Span(3_800),
    unplug: Span(8_800),
    send: Span(13_000),
    interrupt: Span(20_000),
    other: Span(3_267),
    others: 2,
};

/// Agents, each with a disk: one for each processor.
pub(super) const AGENTS: usize = 8;
/// Bytes of a prefetch, and its buffers: pages of 16 KiB.
pub(super) const BYTES: u64 = 64 << 10;
pub(super) const PIECES: u64 = 4;
/// Computing on a KiB. Set by the user time of Baseline.
pub(super) const COMPUTE_KIB: Span = Span(26_000);

/// The kernels of Table 2, with the stages of the microbenchmark and the holds of this workload.
pub(super) fn kernels() -> Vec<Kernel> {
    let rungs = ["Baseline", "SB", "SBI", "SBIR", "SBIRV"].into_iter().filter_map(dm2002::rung);
    rungs.map(|kernel| Kernel { chunk: KIOBUF, starts: Starts::All, holds: Some(HOLDS), ..kernel }).collect()
}

/// A kiobuf has 65 pages, one of which is for a buffer that does not begin at a page.
const KIOBUF: u64 = 64 * 4096;

pub(super) fn load(calls: u64) -> Load {
    Load {
        bytes: BYTES,
        pieces: PIECES,
        calls,
        processes: AGENTS,
        cached: None,
        compute: Span(COMPUTE_KIB.0 * BYTES / 1024),
    }
}

/// The machine, the kernels and the mix, with the source of each parameter.
pub(crate) fn parameters() -> Vec<Parameter> {
    let dm = "as in dm2002";
    let sources = KernelSources {
        sizes: "OLS 2002, sections 2, 6 and 7; the kiobuf less the page of a buffer that begins within one",
        locks: "OLS 2002, section 5",
        unit: "as in dm2002, where no lock is held",
        command: "as in dm2002, where no lock is held",
        copy: dm,
    };
    let counts = "OLS 2002, section 3; that disks are not joined by the RAID adapters is chosen";
    let mut all = of_machine(&MACHINE, [counts, dm]);
    let hold = |name, span| Parameter::new("locks", name, micros(span), "OLS 2002, Table 5");
    all.extend([
        hold("hold to queue a unit", HOLDS.queue),
        hold("hold to take requests from a queue", HOLDS.unplug),
        hold("hold to send a command", HOLDS.send),
        hold("hold of an interrupt", HOLDS.interrupt),
        hold("hold of the others, each", HOLDS.other),
        Parameter::new(
            "locks",
            "others for a command",
            (HOLDS.others * 2, ""),
            "OLS 2002, Table 5: 3.75; half of them at completion is chosen",
        ),
    ]);
    let mix = |name, value: (String, &'static str), source| Parameter::new("mix", name, value, source);
    let chosen = "chosen: the queries are not published";
    all.extend([
        mix("agents", (AGENTS.to_string(), ""), "chosen: one for each processor, each with a disk"),
        mix("prefetch with readv", (bytes(BYTES), ""), chosen),
        mix("buffer of it", (bytes(BYTES / PIECES), ""), chosen),
        mix("computing on a KiB", micros(COMPUTE_KIB), "set by the user time of Baseline in Table 2"),
    ]);
    all.extend(kernels().iter().flat_map(|kernel| of_kernel(kernel, &sources)));
    all
}
