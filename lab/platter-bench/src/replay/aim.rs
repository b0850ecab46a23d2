//! What replays an I/O: the operation, its place and its size on the device that gets it.

use platter_block::bio::{Context, Flags, Op};
use platter_disk::device::Device;
use platter_traces::{Event, Flags as Marks};

use super::error::ReplayError;
use super::fit::{Fit, Fitting};
use super::options::{Discards, ReplayOptions, Writes};
use super::step::{Aim, Fate};

/// Most bytes of a read or a write: a kernel makes none that come near it.
pub(super) const MOST_BYTES: u64 = 256 << 20;

/// What a device allows.
struct Facts {
    name: String,
    size: u64,
    block: u64,
    read_only: bool,
    discards: bool,
    fit: Fit,
}

/// Aims the I/Os of a trace at devices.
pub(super) struct Aimer {
    facts: Vec<Facts>,
    fit: Fitting,
    align: bool,
    writes: Writes,
    discards: Discards,
}

fn unfit(event: &Event, problem: &str) -> ReplayError {
    let (seconds, rest) = (event.time_ns / 1_000_000_000, event.time_ns % 1_000_000_000);
    ReplayError::Unfit(format!(
        "the I/O of device {} at {seconds}.{rest:09} s, offset {} and length {}: {problem}",
        event.device.text(),
        event.offset,
        event.length
    ))
}

impl Aimer {
    /// Each device with the size of the one of the trace that it stands for.
    pub(super) fn new<'d>(
        options: &ReplayOptions,
        devices: impl Iterator<Item = (&'d Device, u64)>,
    ) -> Aimer {
        let facts = |(device, source): (&Device, u64)| {
            let geometry = device.geometry();
            let block = u64::from(geometry.limits.logical_block);
            Facts {
                name: device.name().to_string(),
                size: geometry.size,
                block,
                read_only: geometry.features.read_only,
                discards: geometry.limits.discard_granularity > 0,
                fit: Fit::new(options.fit, source, geometry.size, block),
            }
        };
        Aimer {
            facts: devices.map(facts).collect(),
            fit: options.fit,
            align: options.align,
            writes: options.writes,
            discards: options.discards,
        }
    }

    /// What becomes of an I/O of this kind.
    ///
    /// # Errors
    /// The device does not allow it.
    pub(super) fn aim(
        &self,
        event: &Event,
        kind: usize,
        target: usize,
    ) -> Result<(Fate, Option<Aim>), ReplayError> {
        let Some(op) = op_for(kind, self.writes, self.discards) else { return Ok((Fate::Skipped, None)) };
        let facts = &self.facts[target];
        let writes = op != Op::Read;
        if writes && facts.read_only {
            return Err(unfit(event, &format!("{} is read-only; give --writes read or skip", facts.name)));
        }
        if op == Op::Discard && !facts.discards {
            return Err(unfit(event, &format!("{} cannot discard; give --discards skip", facts.name)));
        }
        let (flags, context) = (flags(event, op), Context::new(event.process));
        let aim = Aim { target, op, flags, context, offset: 0, length: 0, moved: false };
        if op == Op::Flush {
            return Ok((Fate::Replayed, Some(aim)));
        }
        let (offset, length) = self.range(event, facts)?;
        if length > MOST_BYTES && matches!(op, Op::Read | Op::Write) {
            return Err(unfit(event, &format!("at most {MOST_BYTES} bytes can be replayed at once")));
        }
        let place = facts.fit.place(offset, length).ok_or_else(|| self.beyond(event, facts))?;
        let changed = length != event.length || (op == Op::Read) != (kind == 0);
        let fate = if changed { Fate::Changed } else { Fate::Replayed };
        Ok((fate, Some(Aim { offset: place, length, moved: place != offset, ..aim })))
    }

    /// The range in whole blocks of the device.
    fn range(&self, event: &Event, facts: &Facts) -> Result<(u64, u64), ReplayError> {
        let (offset, end, block) = (event.offset, event.end(), facts.block);
        // A device that ends within a block has a last part that is none.
        if offset.is_multiple_of(block) && (end.is_multiple_of(block) || end == facts.size) {
            return Ok((offset, event.length));
        }
        if !self.align {
            return Err(unfit(
                event,
                &format!(
                    "not whole blocks of {}, which has {block} bytes in each; give --align to round out",
                    facts.name
                ),
            ));
        }
        let start = offset / block * block;
        let end = if end < facts.size {
            end.next_multiple_of(block).min(facts.size)
        } else {
            end.next_multiple_of(block)
        };
        Ok((start, end - start))
    }

    fn beyond(&self, event: &Event, facts: &Facts) -> ReplayError {
        let help = match self.fit {
            Fitting::Refuse => "give a larger device, or --fit wrap or scale",
            Fitting::Wrap | Fitting::Scale => "give a larger device",
        };
        unfit(
            event,
            &format!("it ends at byte {}, and {} has {} bytes; {help}", event.end(), facts.name, facts.size),
        )
    }
}

/// The operation for a kind of the trace; `None` if it is left out.
pub(super) fn op_for(kind: usize, writes: Writes, discards: Discards) -> Option<Op> {
    let write = |op| match writes {
        Writes::Keep => Some(op),
        Writes::Read => Some(Op::Read),
        Writes::Skip => None,
    };
    match kind {
        0 => Some(Op::Read),
        1 => write(Op::Write),
        2 => write(Op::WriteZeroes),
        // Neither moves data, so it does not become a read.
        3 => (discards == Discards::Keep && writes == Writes::Keep).then_some(Op::Discard),
        4 => (writes == Writes::Keep).then_some(Op::Flush),
        _ => None,
    }
}

/// The flags of the operation. Marks of metadata and readahead are hints that no device sees, and readahead may fail when a queue
/// is full: they are left out.
fn flags(event: &Event, op: Op) -> Flags {
    let with = |mark: Marks, flag: Flags| if event.flags.has(mark) { flag } else { Flags::NONE };
    match op {
        Op::Write | Op::WriteZeroes => {
            with(Marks::PREFLUSH, Flags::PREFLUSH)
                | with(Marks::FUA, Flags::FUA)
                | with(Marks::SYNC, Flags::SYNC)
        }
        _ => with(Marks::SYNC, Flags::SYNC),
    }
}
