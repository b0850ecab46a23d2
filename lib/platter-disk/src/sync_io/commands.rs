//! Synchronous commands of the disk's own set.

use super::{IoOptions, SyncLane};
use crate::deferred::Section;
use crate::device::Device;
use platter_block::bio::{Bio, Flags, Op};
use platter_block::buf::add_memory;
use platter_block::command::{Command, Outcome, Transfer};
use platter_block::fault::{Error, Fault, Kind, Stage};
use platter_block::segment::RegionId;
use platter_block::time::Time;
use std::sync::Arc;

/// The data of a synchronous command.
pub enum CommandData<'a> {
    /// None.
    None,
    /// Memory that the device fills.
    FromDevice(&'a mut [u8]),
    /// Data that the device gets.
    ToDevice(&'a [u8]),
}

impl CommandData<'_> {
    fn transfer(&self) -> Transfer {
        match self {
            CommandData::None => Transfer::None,
            CommandData::FromDevice(_) => Transfer::FromDevice,
            CommandData::ToDevice(_) => Transfer::ToDevice,
        }
    }

    fn memory(&mut self) -> (*mut u8, usize) {
        match self {
            CommandData::None => (std::ptr::null_mut(), 0),
            CommandData::FromDevice(data) => (data.as_mut_ptr(), data.len()),
            CommandData::ToDevice(data) => (data.as_ptr().cast_mut(), data.len()),
        }
    }

    /// A copy that a bio can own.
    fn to_owned(&self) -> Vec<u8> {
        match self {
            CommandData::None => Vec::new(),
            CommandData::FromDevice(data) => vec![0; data.len()],
            CommandData::ToDevice(data) => data.to_vec(),
        }
    }

    fn fill_from(&mut self, copy: &[u8]) {
        if let CommandData::FromDevice(data) = self {
            data.iter_mut().zip(copy).for_each(|(to, from)| *to = *from);
        }
    }
}

impl Device {
    /// Sends a command of the disk's own set and waits for the answer. The flags of `options` must name no order and no
    /// durability: what a command promises is in the command.
    ///
    /// # Errors
    /// The disk takes no such commands ([`Kind::Unsupported`]), the direction or the length of `data` does not fit the
    /// command, or the command failed. If the device has answered, [`Command::outcome`] has the status and the sense data.
    pub fn command(
        &self,
        command: &Arc<Command>,
        mut data: CommandData<'_>,
        options: IoOptions,
    ) -> Result<Outcome, Error> {
        let len = data.memory().1 as u64;
        let error = |fault| self.command_error(fault, command, len);
        if data.transfer() != command.transfer() || (data.transfer() != Transfer::None && len == 0) {
            return Err(error(Fault::new(Kind::BadSegments, Stage::Handle)));
        }
        let _section = Section::enter();
        let inner = &*self.inner;
        inner.background.place_before(options.flags);
        let until = self.until(Op::Command, options);
        let mut turn = inner.callers.take(inner, until.is_some())?;
        let lane = turn.lane();
        let mut prepare = |bio: &mut Bio| {
            bio.add_flags(options.flags | Flags::SYNC);
            bio.set_ioprio(options.ioprio);
            bio.set_context(options.context);
            bio.set_deadline(until);
            self.submitter.sign(bio);
        };
        let status = match until.is_some() {
            true => lane.run_copied(command, &mut data, until, &mut prepare),
            false => lane.run_lent(command, &mut data, &mut prepare),
        };
        turn.end();
        status.map_err(error)?;
        command.outcome().ok_or_else(|| error(Fault::new(Kind::Contract, Stage::Driver)))
    }

    #[cold]
    fn command_error(&self, fault: Fault, command: &Command, len: u64) -> Error {
        let (pos, _) = command.reach().range();
        let mut detail = self.place_of(fault, pos);
        if let Some(outcome) = command.outcome().filter(|outcome| !outcome.is_good()) {
            let separator = if detail.is_empty() { "" } else { "; " };
            let sense = match outcome.sense.bytes() {
                [] => String::new(),
                _ => format!(", sense data {:?}", outcome.sense),
            };
            detail = format!("{} status {:#04x}{sense}{separator}{detail}", command.set(), outcome.status);
        }
        self.error(fault, Op::Command, pos, len, detail)
    }
}

impl SyncLane {
    /// Sends a command over memory that the caller lends until the device has answered.
    fn run_lent(
        &mut self,
        command: &Arc<Command>,
        data: &mut CommandData<'_>,
        prepare: &mut dyn FnMut(&mut Bio),
    ) -> Result<(), Fault> {
        let mut bio = self.take_bio();
        let (ptr, len) = data.memory();
        bio.reset(Op::Command, 0, len as u64);
        // SAFETY: the caller's borrow lasts until this call returns, and the bio is flagged BORROWED, so no timeout gives
        // it up, and `SyncLane::run` waits for it or aborts.
        if let Err(fault) = unsafe { add_memory(&mut bio, ptr, len, RegionId::NONE) } {
            self.bios.push(bio);
            return Err(fault);
        }
        // SAFETY: the memory was checked to be writable where the command transfers data from the device.
        unsafe { bio.attach_command(Arc::clone(command)) };
        bio.add_flags(Flags::BORROWED);
        prepare(&mut bio);
        self.run(bio, None)
    }

    /// Sends a command over a copy of its data, so that the call can end before the device has answered.
    fn run_copied(
        &mut self,
        command: &Arc<Command>,
        data: &mut CommandData<'_>,
        until: Option<Time>,
        prepare: &mut dyn FnMut(&mut Bio),
    ) -> Result<(), Fault> {
        let mut bio = self.take_bio();
        bio.reset_command(Arc::clone(command), data.to_owned())?;
        prepare(&mut bio);
        let mut bio = self.wait_for(bio, until);
        let copy = bio.take_buffer::<Vec<u8>>();
        copy.into_iter().for_each(|copy| data.fill_from(&copy));
        self.settle(bio)
    }
}
