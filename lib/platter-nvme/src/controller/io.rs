//! I/O commands of the NVM command set.

use super::{
    ALL_NAMESPACES, Action, Controller, Failure, FusedPlan, Handler, Plan, Response, Step, StepError, field,
    invalid, one_namespace,
};
use crate::command::{self, Command, Entry};
use crate::data::{self, RANGE};
use crate::status::Status;
use alloc::vec;
use alloc::vec::Vec;

pub(super) const HANDLERS: &[(&Command, Handler)] = &[
    (&command::FLUSH, flush),
    (&command::WRITE, write),
    (&command::READ, read),
    (&command::COMPARE, compare),
    (&command::WRITE_ZEROES, write_zeroes),
    (&command::DATASET_MANAGEMENT, dataset_management),
    (&command::VERIFY, verify),
];

/// Operation codes of commands that not every device can carry out.
pub(super) const WRITE_ZEROES: u8 = 0x08;
pub(super) const DATASET_MANAGEMENT: u8 = 0x09;

/// Most blocks of a fused Compare and Write: a host replaces a record by it, and others wait meanwhile.
pub(super) const MAX_COMPARE: u64 = 128;

const OUT_OF_RANGE: Failure = Failure::of(Status::LBA_OUT_OF_RANGE);

impl Controller {
    /// Offset and length in bytes of logical blocks.
    fn range(&self, first: u64, blocks: u64) -> Result<(u64, u64), Failure> {
        match first.checked_add(blocks) {
            Some(end) if end <= self.blocks() => Ok((first * self.block(), blocks * self.block())),
            _ => Err(Failure { lba: Some(first), ..OUT_OF_RANGE }),
        }
    }

    /// The same, of the blocks that a command names in the namespace.
    fn named(&self, entry: &Entry) -> Result<(u64, u64), Failure> {
        one_namespace(entry)?;
        let (first, blocks) = entry.blocks().unwrap_or((0, 0));
        self.range(first, blocks).map_err(|failure| failure.at(entry, "slba"))
    }

    /// The same, of a command that transfers these blocks, or reads them.
    fn transfer(&self, entry: &Entry) -> Result<(u64, u64), Failure> {
        let (pos, len) = self.named(entry)?;
        if len > self.max_transfer {
            return Err(invalid(entry, "nlb"));
        }
        Ok((pos, len))
    }

    fn writable(&self) -> Result<(), Failure> {
        if self.is_write_protected() { Err(Failure::of(Status::WRITE_PROTECTED)) } else { Ok(()) }
    }

    /// A step that brings what is in a volatile cache to the medium, for commands whose FUA asks for what the medium holds.
    fn flush_before(&self, entry: &Entry, pos: u64, len: u64) -> Option<Step> {
        let features = &self.geometry.features;
        let needed = field(entry, "fua") != 0 && features.write_cache && !features.read_only;
        needed.then_some(Step { action: Action::Flush, pos, len })
    }

    fn is_durable(&self, entry: &Entry) -> bool {
        field(entry, "fua") != 0 || self.features.is_write_through()
    }

    /// What is to be done for a Compare and a Write that are fused, with the data of the first, then that of the second. While
    /// the steps are carried out, no other command may run that names their blocks.
    pub fn plan_fused(&mut self, pair: &[Entry; 2], data_out: &[u8]) -> FusedPlan {
        match self.try_plan_fused(pair, data_out) {
            Ok(steps) => FusedPlan::Steps(steps),
            Err((0, failure)) => {
                let first = self.refuse(&pair[0], failure);
                FusedPlan::Done([first, Response::of(Status::FAILED_FUSED)])
            }
            Err((_, failure)) => {
                let second = self.refuse(&pair[1], failure);
                FusedPlan::Done([Response::of(Status::FAILED_FUSED), second])
            }
        }
    }

    /// The error is that of the first command (0) or of the second.
    fn try_plan_fused(&self, pair: &[Entry; 2], data_out: &[u8]) -> Result<Vec<Step>, (usize, Failure)> {
        let [first, second] = pair;
        for (n, (entry, command)) in
            [(first, &command::COMPARE), (second, &command::WRITE)].into_iter().enumerate()
        {
            if field(entry, "fuse") != n as u64 + 1 {
                return Err((n, invalid(entry, "fuse")));
            }
            if !core::ptr::eq(entry.command(), command) {
                return Err((n, Failure::of(Status::INVALID_OPCODE).at(entry, "opcode")));
            }
        }
        let (pos, len) = self.transfer(first).map_err(|failure| (0, failure))?;
        if len > MAX_COMPARE * self.block() {
            return Err((0, invalid(first, "nlb")));
        }
        if self.transfer(second).map_err(|failure| (1, failure))? != (pos, len) {
            return Err((1, invalid(second, "slba")));
        }
        self.writable().map_err(|failure| (1, failure))?;
        needs(data_out, 2 * len).map_err(|failure| (0, failure))?;
        let compare = Step { action: Action::Compare { at: 0 }, pos, len };
        let write = Action::Write { at: len, fua: self.is_durable(second) };
        Ok(self
            .flush_before(first, pos, len)
            .into_iter()
            .chain([compare, Step { action: write, pos, len }])
            .collect())
    }

    /// The responses to a fused pair all of whose steps have succeeded.
    pub fn fused_done(&mut self, pair: &[Entry; 2]) -> [Response; 2] {
        [self.done(&pair[0]), self.done(&pair[1])]
    }

    /// The responses to a fused pair of which a step has failed.
    pub fn fused_failed(&mut self, pair: &[Entry; 2], step: &Step, error: StepError) -> [Response; 2] {
        match step.action {
            Action::Write { .. } => [self.done(&pair[0]), self.failed(&pair[1], step, error)],
            _ => [self.failed(&pair[0], step, error), Response::of(Status::FAILED_FUSED)],
        }
    }
}

/// The host sent fewer bytes than the command needs.
fn needs(data_out: &[u8], len: u64) -> Result<(), Failure> {
    if (data_out.len() as u64) < len { Err(Failure::of(Status::DATA_TRANSFER_ERROR)) } else { Ok(()) }
}

fn flush(controller: &mut Controller, entry: &Entry, _: &[u8]) -> Result<Plan, Failure> {
    if field(entry, "nsid") != ALL_NAMESPACES {
        one_namespace(entry)?;
    }
    if controller.geometry.features.read_only {
        return Ok(Plan::Done(Response::SUCCESS));
    }
    let len = controller.blocks() * controller.block();
    Ok(Plan::Steps(vec![Step { action: Action::Flush, pos: 0, len }]))
}

fn write(controller: &mut Controller, entry: &Entry, data_out: &[u8]) -> Result<Plan, Failure> {
    let (pos, len) = controller.transfer(entry)?;
    directives(entry)?;
    controller.writable()?;
    needs(data_out, len)?;
    let fua = controller.is_durable(entry);
    Ok(Plan::Steps(vec![Step { action: Action::Write { at: 0, fua }, pos, len }]))
}

/// Directives, such as streams, are not supported.
fn directives(entry: &Entry) -> Result<(), Failure> {
    if field(entry, "dtype") == 0 { Ok(()) } else { Err(invalid(entry, "dtype")) }
}

/// One step that reads, behind the flush that it may need.
fn reading(controller: &Controller, entry: &Entry, action: Action) -> Result<Plan, Failure> {
    let (pos, len) = controller.transfer(entry)?;
    let flush = controller.flush_before(entry, pos, len);
    Ok(Plan::Steps(flush.into_iter().chain([Step { action, pos, len }]).collect()))
}

fn read(controller: &mut Controller, entry: &Entry, _: &[u8]) -> Result<Plan, Failure> {
    reading(controller, entry, Action::Read { at: 0 })
}

fn verify(controller: &mut Controller, entry: &Entry, _: &[u8]) -> Result<Plan, Failure> {
    reading(controller, entry, Action::Verify)
}

fn compare(controller: &mut Controller, entry: &Entry, data_out: &[u8]) -> Result<Plan, Failure> {
    let (_, len) = controller.transfer(entry)?;
    needs(data_out, len)?;
    reading(controller, entry, Action::Compare { at: 0 })
}

fn write_zeroes(controller: &mut Controller, entry: &Entry, _: &[u8]) -> Result<Plan, Failure> {
    let (pos, len) = controller.named(entry)?;
    directives(entry)?;
    controller.writable()?;
    let mut all = vec![Step { action: Action::WriteZeroes, pos, len }];
    if controller.is_durable(entry) {
        all.push(Step { action: Action::Flush, pos, len });
    }
    Ok(Plan::Steps(all))
}

/// Deallocates whole units of discard inside the ranges; other attributes are hints without effect.
fn dataset_management(controller: &mut Controller, entry: &Entry, data_out: &[u8]) -> Result<Plan, Failure> {
    one_namespace(entry)?;
    let len = (field(entry, "nr") as usize + 1) * RANGE;
    needs(data_out, len as u64)?;
    let mut all = Vec::new();
    for range in data::RANGES.decode(&data_out[..len]).items() {
        let get = |name| range.get(name).unwrap_or(0);
        let (pos, len) = controller.range(get("slba"), get("nlb"))?;
        all.extend(discard(controller, pos, len));
    }
    if field(entry, "ad") == 0 || all.is_empty() {
        return Ok(Plan::Done(Response::SUCCESS));
    }
    controller.writable()?;
    Ok(Plan::Steps(all))
}

/// The whole units of discard inside a range.
fn discard(controller: &Controller, pos: u64, len: u64) -> Option<Step> {
    let granularity = u64::from(controller.geometry.limits.discard_granularity).max(controller.block());
    let from = pos.next_multiple_of(granularity);
    let end = match pos + len {
        end if end == controller.blocks() * controller.block() => end,
        end => end / granularity * granularity,
    };
    (from < end).then(|| Step { action: Action::Discard, pos: from, len: end - from })
}
