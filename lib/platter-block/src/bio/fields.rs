//! The fields of a bio: what its submitter sets, with the command of one that carries a command, and what queues and layers
//! note in it.

use super::{Bio, Context, Deadline, Flags, IoPrio, Op};
use crate::command::{Command, Transfer};
use crate::fault::Status;
use crate::handle::HandleId;
use crate::time::Time;
use alloc::sync::Arc;

impl Bio {
    /// The operation.
    #[inline]
    pub fn op(&self) -> Op {
        self.0.op
    }

    /// Offset of the first byte that is not done.
    #[inline]
    pub fn pos(&self) -> u64 {
        self.0.pos
    }

    /// Bytes that are not done.
    #[inline]
    pub fn len(&self) -> u64 {
        self.0.len
    }

    /// Whether nothing is left to do.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// Offset just past the bio.
    #[inline]
    pub fn end(&self) -> u64 {
        self.0.pos.saturating_add(self.0.len)
    }

    /// Bytes that are done.
    #[inline]
    pub fn done(&self) -> u64 {
        self.0.done
    }

    /// A number that the submitter chose.
    #[inline]
    pub fn token(&self) -> u64 {
        self.0.token
    }

    /// Sets the submitter's number.
    #[inline]
    pub fn set_token(&mut self, token: u64) {
        self.0.token = token;
    }

    /// Flags.
    #[inline]
    pub fn flags(&self) -> Flags {
        self.0.flags
    }

    /// Adds flags.
    #[inline]
    pub fn add_flags(&mut self, flags: Flags) {
        self.0.flags = self.0.flags | flags;
    }

    /// Takes flags away.
    #[inline]
    pub fn remove_flags(&mut self, flags: Flags) {
        self.0.flags = self.0.flags.without(flags);
    }

    /// Priority of the I/O.
    #[inline]
    pub fn ioprio(&self) -> IoPrio {
        self.0.ioprio
    }

    /// Sets the priority of the I/O.
    pub fn set_ioprio(&mut self, ioprio: IoPrio) {
        self.0.ioprio = ioprio;
    }

    /// The process on whose behalf the I/O runs.
    #[inline]
    pub fn context(&self) -> Context {
        self.0.context
    }

    /// Sets the process on whose behalf the I/O runs.
    pub fn set_context(&mut self, context: Context) {
        self.0.context = context;
    }

    /// The open handle that the I/O came through; [`HandleId::DEVICE`]: no handle of its own.
    #[inline]
    pub fn handle(&self) -> HandleId {
        self.0.handle
    }

    /// Sets the open handle that the I/O came through.
    #[inline]
    pub fn set_handle(&mut self, handle: HandleId) {
        self.0.handle = handle;
    }

    /// The time at which the handle that the bio is submitted to fails it with [`TimedOut`](crate::fault::Kind::TimedOut)
    /// unless it has completed; `None`: no such time. Lanes and queues do not look at it. Kept in steps of 1,024 ns,
    /// rounded up.
    #[inline]
    pub fn deadline(&self) -> Option<Time> {
        self.0.deadline.time()
    }

    /// Sets the deadline, in the time of the device that the bio is submitted to.
    #[inline]
    pub fn set_deadline(&mut self, deadline: Option<Time>) {
        self.0.deadline = Deadline::new(deadline);
    }

    /// The number of the lane of a layer that made the bio as a part of another and gets it back; 0: none.
    #[inline]
    pub fn maker(&self) -> u32 {
        self.0.maker
    }

    /// Sets which lane of a layer gets the bio back. Also for bios that stand for others.
    #[inline]
    pub fn set_maker(&mut self, maker: u32) {
        self.0.maker = maker;
    }

    /// Which of several submitters to a shared queue gets this bio back. Set by the owner of the shared queue.
    #[inline]
    pub fn route(&self) -> u32 {
        self.0.route
    }

    /// Sets which submitter gets the bio back.
    #[inline]
    pub fn set_route(&mut self, route: u32) {
        self.0.route = route;
    }

    /// Counts one more attempt; returns the number of earlier ones.
    pub(crate) fn count_attempt(&mut self) -> u8 {
        let before = self.0.attempts;
        self.0.attempts = before.saturating_add(1);
        before
    }

    /// The bio has made progress: attempts are counted from zero again.
    pub(crate) fn forget_attempts(&mut self) {
        self.0.attempts = 0;
    }

    /// The family in the queue that this bio belongs to.
    #[inline]
    pub(crate) fn parent(&self) -> u32 {
        self.0.parent
    }

    /// Makes this bio a child of a family.
    pub(crate) fn set_parent(&mut self, parent: u32) {
        self.0.parent = parent;
    }

    /// Moves the bio to another offset on the device (a layer's remapping) without touching its memory.
    #[inline]
    pub fn remap(&mut self, pos: u64) {
        self.0.pos = pos;
    }

    /// Lengthens the bio by a segment that was added.
    pub(crate) fn grow(&mut self, bytes: u64) {
        self.0.len += bytes;
    }

    /// Turns an emptied bio into one for `command`, without data so far.
    pub(crate) fn set_command(&mut self, command: Arc<Command>) {
        command.clear_outcome();
        let (pos, end) = command.reach().range();
        self.0.op = Op::Command;
        self.0.pos = if end > pos { pos } else { 0 };
        self.0.list.set_command(Some(command));
    }

    /// The command, with its outcome once the bio has completed; `None` for every other operation.
    #[inline]
    pub fn command(&self) -> Option<&Arc<Command>> {
        self.0.list.command()
    }

    /// Whether the bio changes the device.
    #[inline]
    pub fn changes(&self) -> bool {
        match self.0.op {
            Op::Command => self.command().is_none_or(|command| command.reach().changes()),
            op => op.changes(),
        }
    }

    /// First byte, and byte past the last, of what the bio may read or change. Not the same as position and length for a
    /// command, whose length is that of its data.
    #[inline]
    pub fn reach(&self) -> (u64, u64) {
        match self.0.op {
            Op::Command => self.command().map_or((0, u64::MAX), |command| command.reach().range()),
            _ => (self.pos(), self.end()),
        }
    }

    /// Whether the device gets data from the bio's memory.
    #[inline]
    pub fn is_to_device(&self) -> bool {
        self.0.op == Op::Write || self.transfers(Transfer::ToDevice)
    }

    /// Whether the device puts data into the bio's memory.
    #[inline]
    pub fn is_from_device(&self) -> bool {
        self.0.op == Op::Read || self.transfers(Transfer::FromDevice)
    }

    fn transfers(&self, direction: Transfer) -> bool {
        self.0.op == Op::Command && self.command().is_some_and(|command| command.transfer() == direction)
    }

    /// Records the outcome of a command that another bio has carried out in this one's place.
    pub fn answered(&mut self, bytes: u64, status: Status) {
        match status {
            Ok(()) => self.finish_command(bytes),
            Err(fault) => self.fail(fault),
        }
    }

    /// Records that the device has answered the bio's command and transferred `bytes` of its data.
    pub(crate) fn finish_command(&mut self, bytes: u64) {
        self.0.done += bytes;
        self.0.len = 0;
    }
}
