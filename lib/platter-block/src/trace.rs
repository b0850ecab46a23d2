//! Trace events with blktrace's meanings.

use crate::bio::{Bio, Flags, Op};
use crate::time::Time;

/// The kind of an event, by blktrace's letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Action {
    /// A bio was taken in (Q).
    Queue,
    /// A request was allocated (G).
    GetRequest,
    /// A bio waits for a free request (S).
    Sleep,
    /// A request went to the elevator (I).
    Insert,
    /// A bio joined the end of a request (M).
    BackMerge,
    /// A bio joined the start of a request (F).
    FrontMerge,
    /// The driver took a request (D).
    Issue,
    /// A request completed (C).
    Complete,
    /// A request was put back (R).
    Requeue,
    /// The device was plugged (P).
    Plug,
    /// The device was unplugged (U); `extra` is the number of queued requests.
    Unplug,
    /// The device was unplugged by its timer (UT); `extra` as for U.
    UnplugTimer,
    /// A bio was split (X); `extra` is the sector at which the second part starts.
    Split,
}

impl Action {
    /// The letter that blkparse prints.
    pub const fn letter(self) -> &'static str {
        match self {
            Action::Queue => "Q",
            Action::GetRequest => "G",
            Action::Sleep => "S",
            Action::Insert => "I",
            Action::BackMerge => "M",
            Action::FrontMerge => "F",
            Action::Issue => "D",
            Action::Complete => "C",
            Action::Requeue => "R",
            Action::Plug => "P",
            Action::Unplug => "U",
            Action::UnplugTimer => "UT",
            Action::Split => "X",
        }
    }
}

/// One event.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// Time of the event.
    pub time: Time,
    /// Kind of the event.
    pub action: Action,
    /// Operation of the bio or request.
    pub op: Op,
    /// Flags of the bio or request.
    pub flags: Flags,
    /// Offset in bytes; 0 for plug and unplug.
    pub pos: u64,
    /// Length in bytes; 0 for plug and unplug.
    pub len: u64,
    /// Context of the bio.
    pub context: u32,
    /// Errno of a completion, or 0.
    pub errno: i32,
    /// Additional data, see [`Action`].
    pub extra: u64,
}

impl Event {
    /// An event about a bio.
    pub fn of_bio(time: Time, action: Action, bio: &Bio) -> Event {
        Event {
            time,
            action,
            op: bio.op(),
            flags: bio.flags(),
            pos: bio.pos(),
            len: bio.len(),
            context: bio.context().process(),
            errno: bio.status().map_or_else(|f| f.errno(), |()| 0),
            extra: 0,
        }
    }

    /// An event about the queue.
    pub fn of_queue(time: Time, action: Action, extra: u64) -> Event {
        Event { time, action, op: Op::Read, flags: Flags::NONE, pos: 0, len: 0, context: 0, errno: 0, extra }
    }
}

/// Receives trace events. Called with the queue locked.
pub trait Sink: Send {
    /// Takes one event.
    fn event(&mut self, event: &Event);
}
