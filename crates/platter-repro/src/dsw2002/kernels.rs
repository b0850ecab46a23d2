//! The machine, the load and the kernels of the decision-support workload, as data.

use crate::dm2002::{self, ADAPTER};
use crate::host::kernel::{Holds, Kernel};
use crate::host::machine::Machine;
use crate::host::readers::Agents;
use platter_block::time::Span;

/// Section 3: six adapters, each with two enclosures of ten disks. The times of an adapter are those of `dm2002`.
pub(super) const MACHINE: Machine =
    Machine { processors: 8, adapters: 6, disks: 120, command: ADAPTER.0, kib: ADAPTER.1 };

/// Bytes that an agent reads at once, and the buffers of a `readv`, as in the microbenchmark of the paper.
pub(super) const BYTES: u64 = 64 << 10;
pub(super) const PIECES: u64 = 16;
/// Agents, one for each processor. Chosen.
pub(super) const AGENTS: usize = 8;

/// The mix. Table 5 counts 9,973,270 units and 877,838 commands: 11.4 units a command. An extent is 128 units, which is one command
/// with `read`, and sixteen with `readv` on SB; so 6 of 19 extents are read with `read`. The processor time of the queries is set by
/// the user time of Baseline.
pub(super) const LOADED: Agents = Agents { compute: COMPUTE, whole: (6, 19) };
const COMPUTE: Span = Span(1_700_000);

/// Time to copy a KiB through low memory. Set by the kernel time of Baseline, of which the model reaches 41.5 % at most: the copy is in
/// the bottom half, which one processor at a time runs.
const COPY_KIB: Span = Span(13_000);

/// Mean hold times of Table 5.
const HOLDS: Holds =
    Holds { queue: Span(3_800), unplug: Span(8_800), send: Span(13_000), interrupt: Span(20_000) };

/// The kernels of Table 2, which have the switches of the ladder's rungs. Functions outside locks take as long as in `dm2002`,
/// whose processors are the same.
pub(super) fn kernels() -> Vec<Kernel> {
    let rungs = ["Baseline", "SB", "SBI", "SBIR", "SBIRV"].into_iter().filter_map(dm2002::rung);
    rungs.map(|kernel| Kernel { copy_kib: COPY_KIB, holds: Some(HOLDS), ..kernel }).collect()
}
