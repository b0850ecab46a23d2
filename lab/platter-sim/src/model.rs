//! The model of a disk: a state machine that takes commands and decides when they complete.

use platter_block::bio::{IoPrio, Op};
use platter_block::driver::Geometry;
use platter_block::time::Time;

/// A command as the disk gets it: positions in sectors of 512 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Number under which its end is reported.
    pub tag: u32,
    /// The operation.
    pub op: Op,
    /// First sector.
    pub sector: u64,
    /// Sectors; 0 for a flush.
    pub sectors: u32,
    /// Durable on completion.
    pub fua: bool,
    /// Priority, for disks that know it.
    pub ioprio: IoPrio,
    /// Its place in the order of the disk's queue: it takes effect only after all commands with lower numbers have ended.
    /// An ordered tag has a number of its own, which is odd; simple ones between two ordered tags share a number. Never
    /// falls from one command to the next; 0 unless [`Features::ordered_tags`](platter_block::driver::Features::ordered_tags).
    pub order: u64,
}

/// Keeps the ends of commands in the order of their [numbers](Command::order), for models that begin them in that order.
#[derive(Clone, Copy, Debug, Default)]
pub struct InOrder {
    order: u64,
    /// Ends of commands of this number are not before this time.
    floor: u64,
    last: u64,
}

impl InOrder {
    /// A command of this number begins: all with lower numbers have begun.
    #[inline]
    pub fn begin(&mut self, order: u64) {
        if order > self.order {
            (self.order, self.floor) = (order, self.last + 1);
        }
    }

    /// When the command that has begun last ends, if it could end at `at` (in ns).
    #[inline]
    pub fn end(&mut self, at: u64) -> u64 {
        let at = at.max(self.floor);
        self.last = self.last.max(at);
        at
    }
}

/// A command that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The command's tag.
    pub tag: u32,
    /// When.
    pub at: Time,
}

/// The timing of a disk. It has no contents, which are stored separately.
///
/// Time never goes back: `now` is at least that of every earlier call. A model does nothing by itself;
/// between two calls its state is what [`next_event`](Model::next_event) announced. Integers only, so that
/// every machine gets the same times.
pub trait Model: Send {
    /// Size, limits, features.
    fn geometry(&self) -> Geometry;

    /// Most commands the disk holds at once.
    fn depth(&self) -> u32;

    /// Takes a command, within the geometry. `false`: the disk's queue is full; offer it again after an end.
    fn accept(&mut self, now: Time, command: &Command) -> bool;

    /// The time of the next event without another command, if there is one. Not before the last `now`.
    fn next_event(&self) -> Option<Time>;

    /// Advances to `now` and appends the commands that have ended, in order of time.
    fn advance(&mut self, now: Time, ended: &mut Vec<Ended>);
}
