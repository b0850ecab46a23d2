//! The decision-support machine, its kernels and the mix of the workload, as data.

use crate::dm2002::{self, HOLDS};
use crate::host::kernel::{Holds, Kernel, Scope};
use crate::host::machine::Machine;
use crate::host::readers::Load;
use crate::hosts::{KernelSources, Parameter, micros, of_holds, of_kernel, of_machine};
use platter_bench::report::units::bytes;
use platter_block::time::Span;

/// The machine of section 3: the processors and the kind of adapters of the microbenchmark, with six of them and 20 disks on each.
pub(super) const MACHINE: Machine = Machine { adapters: 6, disks: 120, ..dm2002::MACHINE };

/// To queue a unit under the lock of all queues with Lockmeter: Table 5.
pub(super) const METERED: Span = Span(3_800);

/// What the machine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mix {
    /// All queries: Table 2.
    Suite,
    /// One of them, which waits for disks: Tables 1 and 4 to 7, some of which Lockmeter took.
    Query,
}

/// Agents, each with a disk: one for each processor.
pub(super) const AGENTS: usize = 8;
/// Bytes of a prefetch, and its buffers: pages of 16 KiB.
pub(super) const BYTES: u64 = 64 << 10;
pub(super) const PIECES: u64 = 4;
/// Computing on a KiB. Set by the user time of Baseline.
pub(super) const COMPUTE_KIB: Span = Span(28_957);

/// Computing of the query on a KiB: what the time of Table 6 leaves for it.
pub(super) const QUERY_COMPUTE_KIB: Span = Span(13_300);
/// Time of a disk for a command of it: what the idle times of Tables 4 and 7 leave beside the adapter.
pub(super) const QUERY_DISK: Span = Span(306_000);

/// The kernels of a mix, with the functions of the microbenchmark.
pub(super) fn kernels(mix: Mix) -> Vec<Kernel> {
    let names: &[&str] = match mix {
        Mix::Suite => &["Baseline", "SB", "SBI", "SBIR", "SBIRV"],
        Mix::Query => &["Baseline", "SB", "SBI"],
    };
    let of_mix = |kernel: Kernel| {
        let metered = mix == Mix::Query && kernel.queueing == Scope::All;
        let queue = if metered { METERED } else { HOLDS.queue };
        Kernel { chunk: KIOBUF, holds: Some(Holds { queue, ..HOLDS }), ..kernel }
    };
    names.iter().filter_map(|name| dm2002::rung(name)).map(of_mix).collect()
}

/// A kiobuf has 65 pages, one of which is for a buffer that does not begin at a page.
const KIOBUF: u64 = 64 * 4096;

pub(super) fn load(mix: Mix, calls: u64) -> Load {
    let (compute, disk) = match mix {
        Mix::Suite => (COMPUTE_KIB, Span::ZERO),
        Mix::Query => (QUERY_COMPUTE_KIB, QUERY_DISK),
    };
    Load {
        bytes: BYTES,
        pieces: PIECES,
        calls,
        processes: AGENTS,
        cached: None,
        compute: Span(compute.0 * BYTES / 1024),
        disk,
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
    let metered = "OLS 2002, Table 5: the query, Baseline and SB";
    all.extend(of_holds(&HOLDS));
    all.push(Parameter::new("locks", "hold to queue a unit with Lockmeter", micros(METERED), metered));
    let mix = |name, value: (String, &'static str), source| Parameter::new("mix", name, value, source);
    let chosen = "chosen: the queries are not published";
    all.extend([
        mix("agents", (AGENTS.to_string(), ""), "chosen: one for each processor, each with a disk"),
        mix("prefetch with readv", (bytes(BYTES), ""), chosen),
        mix("buffer of it", (bytes(BYTES / PIECES), ""), chosen),
        mix("suite: computing on a KiB", micros(COMPUTE_KIB), "set by the user time of Baseline in Table 2"),
        mix(
            "query: computing on a KiB",
            micros(QUERY_COMPUTE_KIB),
            "OLS 2002, Tables 6 and 7: what they leave for the program",
        ),
        mix(
            "query: disk for a command",
            micros(QUERY_DISK),
            "OLS 2002, Tables 4 to 7: idle time less the adapter's",
        ),
    ]);
    all.extend(kernels(Mix::Suite).iter().flat_map(|kernel| of_kernel(kernel, &sources)));
    all
}
