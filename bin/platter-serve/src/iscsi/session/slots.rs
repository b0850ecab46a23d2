//! The commands of a session that have not been answered completely.

use crate::age::Mark;
use platter_disk::pool::PoolBuf;
use platter_remote::iscsi::wire::{Header, NO_TAG};
use platter_scsi::target::{Attribute, TaskId};
use platter_scsi::unit::{Response, Step};

/// How far a command is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Free,
    /// Its data is being received.
    Receiving,
    /// Its data is complete; it waits for its share of the device.
    Arrived,
    /// The target lets it wait for other commands.
    Waiting,
    /// Its steps are carried out.
    Running,
    /// Its response waits to be sent.
    Sending,
}

/// What is read in the present step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Part {
    /// All of it.
    #[default]
    Whole,
    /// A piece, which is compared or forgotten.
    Piece,
    /// A block of a read that failed, to find the first bad one.
    Block,
}

/// A command.
#[derive(Default)]
pub(super) struct Slot {
    pub(super) state: State,
    pub(super) tag: u32,
    pub(super) cdb: [u8; 16],
    pub(super) lun: u64,
    pub(super) flags: u8,
    /// Expected Data Transfer Length.
    pub(super) expected: u32,
    /// Bytes that the command takes from the initiator, and how many of them are to be received.
    pub(super) needed: u64,
    pub(super) wanted: u32,
    /// Data to or from the medium.
    pub(super) data: Option<PoolBuf>,
    /// Bytes of the buffer that its bio has.
    pub(super) capacity: usize,
    /// Where the next data lies, and where the burst ends.
    pub(super) offset: u32,
    pub(super) burst_end: u32,
    pub(super) data_sn: u32,
    pub(super) r2ts: u32,
    /// The Target Transfer Tag of the burst; that of unsolicited data names no task.
    pub(super) transfer_tag: u32,
    /// How it will be answered, whatever the target says.
    pub(super) refused: Option<Response>,
    pub(super) task: Option<TaskId>,
    pub(super) steps: Vec<Step>,
    pub(super) step: usize,
    /// Bytes of the present step that are done.
    pub(super) done: u64,
    pub(super) part: Part,
    /// Its place among the commands of the session.
    number: u64,
    /// When it was admitted.
    pub(super) mark: Option<Mark>,
    generation: u16,
}

pub(super) struct Slots {
    all: Vec<Slot>,
    free: Vec<u16>,
    /// Those that have not been answered.
    open: usize,
    /// Of these, those with the ordered task attribute.
    ordered: usize,
    taken: u64,
}

/// The task attribute of a SCSI Command (RFC 7143, section 11.3.1).
const ATTRIBUTE: u8 = 7;
const ORDERED: u8 = 2;
const HEAD_OF_QUEUE: u8 = 3;

impl Slot {
    /// When it may run, relative to others.
    pub(super) fn attribute(&self) -> Attribute {
        match self.flags & ATTRIBUTE {
            ORDERED => Attribute::Ordered,
            HEAD_OF_QUEUE => Attribute::HeadOfQueue,
            _ => Attribute::Simple,
        }
    }

    fn is_ordered(&self) -> bool {
        self.attribute() == Attribute::Ordered
    }

    /// Whether the target has not heard of it.
    pub(super) fn is_before_target(&self) -> bool {
        matches!(self.state, State::Receiving | State::Arrived)
    }
}

impl Slots {
    pub(super) fn new(count: usize) -> Slots {
        let count = count.min(usize::from(u16::MAX) - 1) as u16;
        Slots {
            all: (0..count).map(|_| Slot::default()).collect(),
            free: (0..count).rev().collect(),
            open: 0,
            ordered: 0,
            taken: 0,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Commands that have not been answered.
    pub(super) fn open(&self) -> usize {
        self.open
    }

    /// A place for a command; `None`: all are in use.
    pub(super) fn take(&mut self, header: &Header, expected: u32) -> Option<u16> {
        let index = self.free.pop()?;
        let slot = &mut self.all[usize::from(index)];
        let generation = slot.generation.wrapping_add(1);
        *slot = Slot {
            state: State::Receiving,
            tag: header.task_tag(),
            lun: header.lun(),
            flags: header.flags(),
            expected,
            transfer_tag: NO_TAG,
            generation,
            number: self.taken,
            // Its memory is used again.
            steps: std::mem::take(&mut slot.steps),
            ..Slot::default()
        };
        slot.steps.clear();
        slot.cdb.copy_from_slice(&header.0[32..48]);
        self.ordered += usize::from(slot.is_ordered());
        self.open += 1;
        self.taken += 1;
        Some(index)
    }

    pub(super) fn get(&mut self, index: u16) -> &mut Slot {
        &mut self.all[usize::from(index)]
    }

    /// The data of a command.
    pub(super) fn data(&self, index: u16) -> &[u8] {
        self.all[usize::from(index)].data.as_deref().unwrap_or_default()
    }

    /// The slot has its answer, or needs none.
    pub(super) fn answered(&mut self, index: u16) {
        let slot = &mut self.all[usize::from(index)];
        slot.state = State::Sending;
        self.ordered -= usize::from(slot.is_ordered());
        self.open -= 1;
    }

    /// Whether the target may hear of a command whose data is there. Commands come to it when their data is complete, which
    /// is not the order in which they were sent: an ordered one waits here for those that were sent before it, and others
    /// for an ordered one.
    pub(super) fn may_begin(&self, index: u16) -> bool {
        if self.ordered == 0 {
            return true;
        }
        let own = &self.all[usize::from(index)];
        let before = |slot: &&Slot| slot.is_before_target() && slot.number < own.number;
        match own.attribute() {
            Attribute::HeadOfQueue => true,
            Attribute::Ordered => !self.all.iter().any(|slot| before(&slot)),
            Attribute::Simple => !self.all.iter().any(|slot| before(&slot) && slot.is_ordered()),
        }
    }

    /// Frees a slot that was answered.
    pub(super) fn put(&mut self, index: u16) {
        self.all[usize::from(index)].state = State::Free;
        self.free.push(index);
    }

    /// A new Target Transfer Tag for a burst of the command.
    pub(super) fn new_transfer_tag(&mut self, index: u16) -> u32 {
        let slot = &mut self.all[usize::from(index)];
        slot.generation = slot.generation.wrapping_add(1);
        // The high half cannot be all ones, so that it is never the tag that names no task.
        slot.transfer_tag = u32::from(slot.generation) | u32::from(index) << 16;
        slot.transfer_tag
    }

    /// The unanswered command of an Initiator Task Tag.
    pub(super) fn find(&self, tag: u32) -> Option<u16> {
        let is = |slot: &Slot| slot.tag == tag && !matches!(slot.state, State::Free | State::Sending);
        self.all.iter().position(is).map(|index| index as u16)
    }

    /// The command whose data this is.
    pub(super) fn receiving(&self, tag: u32, transfer_tag: u32) -> Option<u16> {
        let is = |slot: &Slot| {
            slot.state == State::Receiving && slot.tag == tag && slot.transfer_tag == transfer_tag
        };
        match transfer_tag {
            NO_TAG => self.all.iter().position(is).map(|index| index as u16),
            _ => {
                let index = (transfer_tag >> 16) as u16;
                self.all.get(usize::from(index)).filter(|slot| is(slot)).map(|_| index)
            }
        }
    }

    /// The commands in one of these states.
    pub(super) fn in_states(&self, states: &[State]) -> Vec<u16> {
        let all = self.all.iter().enumerate().filter(|(_, slot)| states.contains(&slot.state));
        all.map(|(index, _)| index as u16).collect()
    }
}
