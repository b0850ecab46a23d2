//! A request on its way as a command.

use super::buffer::Buffer;
use super::carry::{Carried, Memory};
use crate::target::Attribute;
use platter_block::bio::IoPrio;
use platter_block::command::Command;
use platter_block::segment::Segment;
use platter_block::time::Time;
use std::sync::Arc;
use std::vec::Vec;

/// Most bytes of a command.
const MAX: usize = platter_block::command::MAX_BYTES;

/// The bytes of a command.
#[derive(Clone, Copy)]
pub(super) struct Bytes {
    bytes: [u8; MAX],
    len: usize,
}

impl Bytes {
    pub(super) fn new(bytes: &[u8]) -> Bytes {
        let len = bytes.len().min(MAX);
        let mut all = [0; MAX];
        all.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        Bytes { bytes: all, len }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// How far a command is.
pub(super) enum State {
    /// There is none.
    Free,
    /// It is to be sent, or sent again.
    Due,
    /// It was sent, and nothing will be heard of it.
    Lost,
    /// The target has it, and it waits for others.
    Waits,
    /// The device carries it out.
    Runs(Carried),
    /// The device has carried it out; what the target says to that did not arrive.
    Unanswered,
}

/// What was done about a command that takes too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Patience {
    /// Nothing yet.
    Waits,
    /// It was aborted.
    Aborted,
    /// The unit was reset.
    Reset,
    /// Nothing helps.
    Offline,
}

/// A request on its way as a command.
pub(super) struct Slot {
    pub(super) tag: u32,
    /// Distinguishes the commands that use the slot one after the other.
    pub(super) generation: u16,
    pub(super) cdb: Bytes,
    /// The command of the submitter; `None`: the command was made of a read, write, flush or discard.
    pub(super) own: Option<Arc<Command>>,
    pub(super) attribute: Attribute,
    /// Its place in the order at the target, once it has been sent.
    pub(super) order: Option<u64>,
    /// The bytes of the medium that it transfers.
    pub(super) range: Option<(u64, u64)>,
    pub(super) ioprio: IoPrio,
    /// Bytes of the request.
    pub(super) len: u64,
    /// The result if it succeeds.
    pub(super) result: i64,
    /// The memory of a request that gets data; empty for others.
    pub(super) segments: Vec<Segment>,
    pub(super) data: Buffer,
    pub(super) data_out: usize,
    /// Bytes of the data that came from the medium.
    pub(super) read: usize,
    pub(super) scratch: Buffer,
    pub(super) state: State,
    /// How often it has failed, and since when it is refused for the time being.
    pub(super) attempts: u32,
    pub(super) refused: Option<Time>,
    pub(super) refusals: u32,
    pub(super) patience: Patience,
    /// Its timer.
    pub(super) timer: Option<Time>,
    /// The queue wants it back.
    pub(super) cancelled: bool,
    /// An attempt has changed the medium.
    pub(super) changed: bool,
    /// The port was offline when it was to be sent.
    pub(super) turned_away: bool,
}

impl Default for Slot {
    fn default() -> Slot {
        Slot {
            tag: 0,
            generation: 0,
            cdb: Bytes::new(&[]),
            own: None,
            attribute: Attribute::Simple,
            order: None,
            range: None,
            ioprio: IoPrio::NONE,
            len: 0,
            result: 0,
            segments: Vec::new(),
            data: Buffer::default(),
            data_out: 0,
            read: 0,
            scratch: Buffer::default(),
            state: State::Free,
            attempts: 0,
            refused: None,
            refusals: 0,
            patience: Patience::Waits,
            timer: None,
            cancelled: false,
            changed: false,
            turned_away: false,
        }
    }
}

impl Slot {
    /// Its data from the initiator.
    pub(super) fn data_out(&self) -> &[u8] {
        self.data.bytes().get(..self.data_out).unwrap_or_default()
    }

    /// Gives it `len` bytes of data from the initiator.
    pub(super) fn set_data_out(&mut self, len: usize, fill: impl FnOnce(&mut [u8])) {
        self.data.resize(len);
        fill(self.data.bytes_mut());
        self.data_out = len;
    }

    pub(super) fn memory(&mut self) -> (&mut State, Memory<'_>) {
        (&mut self.state, Memory { data: &mut self.data, scratch: &mut self.scratch })
    }

    /// Begins a new command in the slot.
    pub(super) fn reset(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        self.segments.clear();
        (self.own, self.order, self.range) = (None, None, None);
        (self.attempts, self.refused, self.refusals) = (0, None, 0);
        (self.patience, self.timer) = (Patience::Waits, None);
        (self.cancelled, self.changed, self.turned_away) = (false, false, false);
        (self.data_out, self.read, self.result) = (0, 0, 0);
    }
}
