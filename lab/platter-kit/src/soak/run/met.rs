//! The flags, layers and faults of each I/O, for the coverage table.

use super::Run;
use super::submit::{By, Live};
use crate::soak::Feature;
use crate::soak::cells::{self, Bits};
use crate::soak::plan::{Node, Plan, Transport};
use platter_block::bio::{Flags, Op};

/// Flags and their names in the table.
const FLAGS: [(Flags, &str); 8] = [
    (Flags::SYNC, "sync"),
    (Flags::FUA, "fua"),
    (Flags::PREFLUSH, "preflush"),
    (Flags::SOFT_BARRIER, "soft-barrier"),
    (Flags::HARD_BARRIER, "hard-barrier"),
    (Flags::READAHEAD, "readahead"),
    (Flags::NOMERGE, "nomerge"),
    (Flags::ATOMIC, "atomic"),
];

fn bit(list: &[&str], name: &str) -> Bits {
    cells::number(list, name).map_or(0, |at| 1 << at)
}

/// The bits of those names for which something holds.
fn bits(list: &[&str], names: &[(bool, &str)]) -> Bits {
    names.iter().filter(|(holds, _)| *holds).fold(0, |bits, (_, name)| bits | bit(list, name))
}

/// The layers of a plan.
pub(super) fn layers(plan: &Plan) -> Bits {
    let doubled = plan.disks.iter().filter_map(|disk| disk.transport.as_ref()).any(Transport::is_double);
    of_stack(&plan.stack) | bits(&cells::LAYERS, &[(doubled, "multipath")])
}

fn of_stack(node: &Node) -> Bits {
    let own = bit(&cells::LAYERS, node.kind());
    node.members().iter().fold(own, |bits, member| bits | of_stack(member))
}

fn flags(live: &Live) -> Bits {
    let set: Vec<(bool, &str)> = FLAGS.iter().map(|&(flag, name)| (live.has(flag), name)).collect();
    let own = bits(&cells::FLAGS, &set)
        | bits(
            &cells::FLAGS,
            &[
                (live.deadline.is_some(), "deadline"),
                (live.by == By::Call, "call"),
                (live.by == By::Futures, "future"),
                (live.again, "used again"),
                (live.lent, "lent"),
            ],
        );
    if own == 0 { bit(&cells::FLAGS, "plain") } else { own }
}

impl Run<'_> {
    /// An I/O has ended.
    pub(super) fn meet(&mut self, live: &Live) {
        let op = match live.op {
            Op::Read => 0,
            Op::Write => 1,
            Op::Flush if live.count == 0 => 2,
            Op::Flush => 3,
            Op::Discard => 4,
            Op::WriteZeroes => 5,
            Op::Command => unreachable!("no plan has commands"),
        };
        let (now, before) = (self.injected(), &live.before);
        let errors = |counts: &platter_sim::fault::Injected| counts.read_errors + counts.write_errors;
        let neglected = self.open.iter().flat_map(|open| &open.lanes).any(|lane| lane.neglected > self.step);
        let slow = self.is_slow_now();
        if slow {
            let stack = self.stack();
            self.cover.late += 1;
            self.cover.late_deep += u64::from(self.plan.features.has(Feature::Deep));
            self.cover.late_twins += u64::from(self.plan.features.has(Feature::Twins));
            self.cover.late_snapshots += u64::from(stack.has("snapshot") || stack.has("snapshot-origin"));
        }
        let faults = bits(
            &cells::FAULTS,
            &[
                (now.spikes > before.spikes, "spike"),
                (now.stuck > before.stuck, "stuck"),
                (now.transient > before.transient, "transient"),
                (errors(&now) > errors(before), "error"),
                (now.flush_errors > before.flush_errors, "flush error"),
                (now.deaths > before.deaths, "death"),
                (!self.supply.is_on(), "cut"),
                (live.cancelled, "cancel"),
                (self.cover.switches > live.switches, "switch"),
                (neglected, "neglect"),
                (self.sizes.changes() > live.changes, "resize"),
                (slow, "late"),
            ],
        );
        let faults = if faults == 0 { bit(&cells::FAULTS, "nothing") } else { faults };
        self.cells.met(op, flags(live), self.layers, faults);
    }
}
