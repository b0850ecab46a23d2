//! A first reading of a trace, before anything of it is replayed: whether it can be read, and what it needs.

use platter_block::bio::Op;
use platter_disk::device::Device;
use platter_traces::{Action, Item, Merged};

use super::aim::{MOST_BYTES, op_for};
use super::buffers::class_of;
use super::error::ReplayError;
use super::fit::Fitting;
use super::options::ReplayOptions;
use super::routes::Routes;
use super::step::{KINDS, kind_of};
use crate::report::units::bytes;

/// What the I/Os for one device need.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Needs {
    /// The first byte behind all of them.
    end: u64,
    /// Offsets, all in one: its lowest bit is the largest block that all begin with.
    offsets: u64,
    longest: u64,
    /// Whether there are any of each kind.
    kinds: [bool; KINDS.len()],
}

/// What a trace needs.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    needs: Vec<Needs>,
    /// Sizes of buffers: of reads, of writes.
    classes: [u64; 2],
    ios: u64,
}

impl Survey {
    /// A survey for this number of devices.
    pub fn new(devices: usize) -> Survey {
        Survey { needs: vec![Needs::default(); devices], ..Survey::default() }
    }

    /// Reads the whole trace, or as far as it is replayed. `go_on` is asked for each record; when it says no, the survey is not whole.
    ///
    /// # Errors
    /// A record cannot be read; a device of the trace has no target.
    pub fn read(
        &mut self,
        merged: &mut Merged<'_>,
        at: Option<Action>,
        options: &ReplayOptions,
        routes: &mut Routes,
        mut go_on: impl FnMut() -> bool,
    ) -> Result<bool, ReplayError> {
        merged.fill()?;
        let basis = at.unwrap_or_else(|| merged.basis());
        while self.ios < options.limit.unwrap_or(u64::MAX) {
            if !go_on() {
                return Ok(false);
            }
            let event = match merged.next_item()? {
                None => break,
                Some(Item::Event(event)) if event.action == basis => event,
                Some(_) => continue,
            };
            let Some(target) = routes.of(&event.device)? else { continue };
            self.ios += 1;
            let kind = kind_of(&event);
            let needs = &mut self.needs[target];
            needs.kinds[kind] = true;
            let Some(op) = op_for(kind, options.writes, options.discards) else { continue };
            if op != Op::Flush {
                needs.end = needs.end.max(event.end());
                needs.offsets |= event.offset;
            }
            if matches!(op, Op::Read | Op::Write) {
                needs.longest = needs.longest.max(event.length);
                self.classes[usize::from(op == Op::Write)] |= class_of(event.length);
            }
        }
        Ok(true)
    }

    /// Whether anything that is replayed changes a device.
    pub fn changes(&self, options: &ReplayOptions) -> bool {
        let changes = |kind| op_for(kind, options.writes, options.discards).is_some_and(|op| op != Op::Read);
        let any = |kind: usize| self.needs.iter().any(|needs| needs.kinds[kind]);
        (0..KINDS.len()).any(|kind| any(kind) && changes(kind))
    }

    /// The first byte behind all I/Os for a device.
    pub(super) fn end(&self, target: usize) -> u64 {
        self.needs.get(target).map_or(0, |needs| needs.end)
    }

    pub(super) fn classes(&self) -> [u64; 2] {
        self.classes
    }

    /// Whether the devices can take what is replayed.
    ///
    /// # Errors
    /// One cannot.
    pub fn check(&self, devices: &[Device], options: &ReplayOptions) -> Result<(), ReplayError> {
        self.needs.iter().zip(devices).try_for_each(|(needs, device)| needs.check(device, options))
    }
}

impl Needs {
    fn check(&self, device: &Device, options: &ReplayOptions) -> Result<(), ReplayError> {
        let (geometry, name) = (device.geometry(), device.name());
        let block = u64::from(geometry.limits.logical_block);
        let unfit = |problem: String| Err(ReplayError::Unfit(problem));
        let rounds = |end: u64| if options.align { end.next_multiple_of(block) } else { end };
        if options.fit == Fitting::Refuse && rounds(self.end) > geometry.size && self.end > geometry.size {
            return unfit(format!(
                "the trace needs a device of {} bytes ({}), and {name} has {} ({}); give a larger one, or --fit wrap or scale",
                self.end,
                bytes(self.end),
                geometry.size,
                bytes(geometry.size)
            ));
        }
        if !options.align && self.offsets & (block - 1) != 0 {
            return unfit(format!(
                "the trace has I/Os that do not begin at a block of {name}, which has {block} bytes in each; give --align to round them out"
            ));
        }
        if self.longest > MOST_BYTES {
            return unfit(format!(
                "the trace has an I/O of {} bytes; at most {MOST_BYTES} can be replayed at once",
                self.longest
            ));
        }
        let has = |op: Op| {
            let of = |kind| op_for(kind, options.writes, options.discards) == Some(op);
            (0..KINDS.len()).any(|kind| self.kinds[kind] && of(kind))
        };
        if has(Op::Discard) && geometry.limits.discard_granularity == 0 {
            return unfit(format!("the trace has discards, and {name} cannot discard; give --discards skip"));
        }
        Ok(())
    }
}
