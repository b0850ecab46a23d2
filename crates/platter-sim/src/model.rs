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
