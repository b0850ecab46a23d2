//! A channel: requests become commands, and the steps of commands become bios of the device.

use super::buffer::{gather, scatter};
use super::carry::{Carried, Next};
use super::hub::{Begun, Sent, Token};
use super::inbox::{Inbox, Note};
use super::listen::Listen;
use super::port::{Port, count};
use super::slot::{Bytes, Patience, Slot, State};
use crate::host::encode;
use crate::host::verdict::{Verdict, judge};
use crate::target::Attribute;
use crate::unit::{Response, Status, Step, StepError};
use platter_block::bio::{Bio, Op};
use platter_block::command::{Outcome, Sense, Transfer};
use platter_block::driver::{Completion, Driver, Started};
use platter_block::lane::Lane;
use platter_block::time::{Span, Time};
use std::boxed::Box;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::vec::Vec;

mod recover;

/// Bits of a token's slot that are the slot's number; the others are its generation.
const INDEX_BITS: u32 = 16;

/// How long a thread sleeps that no bell can wake.
const NAP: Span = Span::from_millis(1);

/// A channel of a port.
pub(super) struct Channel {
    pub(super) port: Arc<Port>,
    pub(super) number: u32,
    pub(super) lane: Box<dyn Lane>,
    inbox: Arc<Inbox>,
    pub(super) slots: Vec<Slot>,
    free: Vec<u32>,
    /// Commands to send.
    pub(super) outgoing: VecDeque<u32>,
    pub(super) timers: BTreeSet<(Time, u32)>,
    done: Vec<Completion>,
    /// Among `done` is one that was ended because of another, so what comes now must not run either.
    broken_order: bool,
    /// How many of these the target has ended.
    pub(super) ended_behind: u64,
    /// Ordered commands among `done` that have failed.
    failed_ordered: Vec<(u64, Token)>,
    /// Commands that are sent again.
    pub(super) again: u32,
    pub(super) block: u64,
    back: Vec<Bio>,
    spare: Vec<Bio>,
    notes: Vec<Note>,
    listen: Listen,
}

impl Channel {
    pub(super) fn new(port: &Arc<Port>, lane: Box<dyn Lane>, block: u64) -> Channel {
        let inbox = Arc::new(Inbox::new(lane.bell()));
        let number = port.hub.add_channel(port.nexus, Arc::clone(&inbox));
        Channel {
            port: Arc::clone(port),
            number,
            lane,
            inbox,
            slots: Vec::new(),
            free: Vec::new(),
            outgoing: VecDeque::new(),
            timers: BTreeSet::new(),
            done: Vec::new(),
            broken_order: false,
            ended_behind: 0,
            failed_ordered: Vec::new(),
            again: 0,
            block,
            back: Vec::new(),
            spare: Vec::new(),
            notes: Vec::new(),
            listen: Listen::default(),
        }
    }

    pub(super) fn slot(&mut self, index: u32) -> &mut Slot {
        &mut self.slots[index as usize]
    }

    pub(super) fn token(&self, index: u32) -> Token {
        let generation = u32::from(self.slots[index as usize].generation);
        Token { channel: self.number, slot: generation << INDEX_BITS | index }
    }

    /// The slot that a note or a bio is about; `None`: its command has ended.
    fn find(&self, slot: u32) -> Option<u32> {
        let index = slot & ((1 << INDEX_BITS) - 1);
        let found = self.slots.get(index as usize)?;
        let is_it = u32::from(found.generation) == slot >> INDEX_BITS && !matches!(found.state, State::Free);
        is_it.then_some(index)
    }

    /// A free slot; `None`: the port's depth is used up.
    fn take_slot(&mut self) -> Option<u32> {
        if let Some(index) = self.free.pop() {
            return Some(index);
        }
        let most = self.port.options.depth.min(1 << INDEX_BITS) as usize;
        if self.slots.len() >= most {
            return None;
        }
        self.slots.push(Slot::default());
        Some(self.slots.len() as u32 - 1)
    }

    pub(super) fn set_timer(&mut self, index: u32, at: Option<Time>) {
        let slot = &mut self.slots[index as usize];
        let before = std::mem::replace(&mut slot.timer, at);
        before.map(|at| self.timers.remove(&(at, index)));
        at.map(|at| self.timers.insert((at, index)));
    }

    /// Fills a slot with a request's command. `false`: there is no command for it.
    fn fill(&mut self, index: u32, request: &Started<'_>) -> bool {
        let block = self.block;
        let slot = self.slot(index);
        slot.reset();
        (slot.tag, slot.len, slot.ioprio) = (request.tag, request.len, request.ioprio);
        slot.attribute = if request.is_ordered() { Attribute::Ordered } else { Attribute::Simple };
        let (to_device, from_device);
        if let Some(command) = request.command() {
            slot.cdb = Bytes::new(command.bytes());
            if command.is_at_head() && slot.attribute == Attribute::Simple {
                slot.attribute = Attribute::HeadOfQueue;
            }
            (to_device, from_device) =
                (command.transfer() == Transfer::ToDevice, command.transfer() == Transfer::FromDevice);
            slot.own = Some(Arc::clone(command));
            let (from, end) = command.reach().range();
            slot.range = (from < end && slot.len > 0).then_some((from, end));
        } else {
            let Started { op, pos, len, fua, .. } = *request;
            let Ok(blocks) = u32::try_from(len / block) else { return false };
            let (cdb, transfer, own) = encode::command(op, pos / block, blocks, fua, block as usize);
            slot.cdb = Bytes::new(cdb.get());
            (to_device, from_device) =
                (transfer == Transfer::ToDevice && own.is_none(), transfer == Transfer::FromDevice);
            slot.range = op.has_data().then_some((pos, pos + len));
            slot.result = len as i64;
            if let Some(own) = own {
                slot.set_data_out(own.len(), |data| data.copy_from_slice(&own));
            }
        }
        if to_device {
            slot.set_data_out(request.len as usize, |data| gather(request, data));
        }
        if from_device {
            request.for_each_segment(|segment| slot.segments.push(segment));
        }
        true
    }

    /// Sends what is to be sent.
    pub(super) fn send(&mut self, now: Time) -> bool {
        let any = !self.outgoing.is_empty();
        while let Some(index) = self.outgoing.pop_front() {
            if matches!(self.slots[index as usize].state, State::Due) {
                self.send_one(now, index);
            }
        }
        any
    }

    fn send_one(&mut self, now: Time, index: u32) {
        if self.port.hung.load(Ordering::Relaxed) > 0 {
            return self.turn_away(now, index);
        }
        let slot = &self.slots[index as usize];
        let is_ordered = slot.attribute == Attribute::Ordered;
        if slot.order.is_none() && (self.broken_order || (is_ordered && self.again > 0)) {
            return self.break_off(index);
        }
        count(&self.port.counts.commands);
        let token = self.token(index);
        let slot = &self.slots[index as usize];
        let sent = Sent {
            cdb: slot.cdb.bytes(),
            data_out: slot.data_out(),
            attribute: slot.attribute,
            token,
            order: slot.order,
            range: slot.range,
        };
        let (order, begun) = self.port.hub.begin(self.port.nexus, now, &sent);
        if matches!(begun, Begun::Behind) {
            return self.break_off(index);
        }
        let slot = self.slot(index);
        slot.order = Some(order);
        slot.patience = Patience::Waits;
        self.set_timer(index, Some(now + self.port.options.command_timeout));
        self.has_begun(now, index, begun);
    }

    fn has_begun(&mut self, now: Time, index: u32, begun: Begun) {
        match begun {
            Begun::Respond(response) => {
                self.slot(index).read = 0;
                self.responded(now, index, &response);
            }
            Begun::Wait => self.slot(index).state = State::Waits,
            Begun::Lost => self.slot(index).state = State::Lost,
            Begun::Behind => self.break_off(index),
            Begun::Away => self.turn_away(now, index),
            Begun::Reset => {
                count(&self.port.counts.resets);
                self.not_answered(now, index, false);
            }
            Begun::Run(task, steps, answers) => {
                self.slot(index).state = State::Runs(Carried::new(task, steps, answers));
                self.next_bio(now, index);
            }
        }
    }

    /// Submits the next bio of a command that runs.
    fn next_bio(&mut self, now: Time, index: u32) {
        let token = self.token(index);
        let bio = self.spare.pop().unwrap_or_else(Bio::flush);
        let block = self.block;
        let slot = self.slot(index);
        let ioprio = slot.ioprio;
        let (State::Runs(carried), mut memory) = slot.memory() else { return };
        match carried.bio(bio, &mut memory, block) {
            Ok(mut bio) => {
                bio.set_token(token.number());
                bio.set_ioprio(ioprio);
                self.lane.submit(now, bio);
            }
            Err(fault) => {
                let step = Step { action: crate::unit::Action::Flush, pos: 0, len: 0 };
                self.ended(now, index, Some((step, StepError::Device { kind: fault.kind, pos: 0 })));
            }
        }
    }

    /// Takes bios that have come back.
    fn take_back(&mut self, now: Time) -> bool {
        let mut back = std::mem::take(&mut self.back);
        self.lane.take_done(&mut back);
        let any = !back.is_empty();
        for mut bio in back.drain(..) {
            if let Some(index) = self.find(bio.token() as u32) {
                self.came_back(now, index, &mut bio);
            }
            bio.recycle();
            self.spare.push(bio);
        }
        self.back = back;
        any
    }

    fn came_back(&mut self, now: Time, index: u32, bio: &mut Bio) {
        if bio.op() == Op::Flush && bio.status().is_err() {
            // The unit reports it to the initiator, whose queue keeps it in mind.
            self.port.hub.device.acknowledge_flush_failure();
        }
        let block = self.block;
        let slot = self.slot(index);
        let (State::Runs(carried), mut memory) = slot.memory() else { return };
        match carried.came_back(bio, &mut memory, block) {
            Next::Bio if self.slots[index as usize].patience > Patience::Waits => {
                self.ended(now, index, None)
            }
            Next::Bio => self.next_bio(now, index),
            Next::Done => self.ended(now, index, None),
            Next::Failed(step, error) => self.ended(now, index, Some((step, error))),
        }
    }

    /// The device has nothing of a command any more.
    fn ended(&mut self, now: Time, index: u32, failed: Option<(Step, StepError)>) {
        let nexus = self.port.nexus;
        let slot = self.slot(index);
        let order = slot.order.unwrap_or_default();
        let State::Runs(carried) = std::mem::replace(&mut slot.state, State::Unanswered) else { return };
        slot.changed |= carried.changed;
        slot.read = carried.read as usize;
        if slot.patience == Patience::Offline {
            self.port.hung.fetch_sub(1, Ordering::Relaxed);
        }
        let Some(response) = self.port.hub.end((nexus, order), carried.task, failed) else {
            return self.not_answered(now, index, true);
        };
        // What does not arrive is noticed by the timer.
        if carried.answers {
            self.responded(now, index, &response);
        }
    }

    /// The initiator has the response to a command.
    fn responded(&mut self, now: Time, index: u32, response: &Response) {
        let verdict = match judge(response.status.code(), &response.sense).verdict {
            // A reset of the unit leaves the device and its cache as they are.
            Verdict::Reset { .. } => Verdict::Again,
            verdict => verdict,
        };
        if matches!(verdict, Verdict::Again | Verdict::Busy) {
            count(&self.port.counts.refusals);
        }
        if self.slots[index as usize].own.is_some() {
            return self.answer(index, response, verdict);
        }
        match verdict {
            Verdict::Good => {
                let slot = self.slot(index);
                deliver(slot, response);
                let result = slot.result;
                self.complete(index, result);
            }
            Verdict::Failed(errno) => {
                count(&self.port.counts.failures);
                self.complete(index, -i64::from(errno));
            }
            _ => self.refused(now, index, &verdict),
        }
    }

    /// A command of the submitter has its answer: it is never sent again.
    fn answer(&mut self, index: u32, response: &Response, verdict: Verdict) {
        let slot = self.slot(index);
        let moved = match slot.segments.is_empty() {
            true if response.status == Status::Good => slot.len,
            true => 0,
            false => deliver(slot, response),
        };
        if let Some(command) = &slot.own {
            command.set_outcome(&Outcome {
                status: u16::from(response.status.code()),
                residual: u32::try_from(slot.len - moved.min(slot.len)).unwrap_or(u32::MAX),
                sense: Sense::new(&response.sense),
                ..Outcome::GOOD
            });
        }
        let result = match verdict {
            Verdict::Good => moved as i64,
            Verdict::Failed(errno) => -i64::from(errno),
            _ => -i64::from(recover::REFUSED),
        };
        self.complete(index, result);
    }

    /// Reports a command to the queue.
    pub(super) fn complete(&mut self, index: u32, result: i64) {
        let token = self.token(index);
        self.set_timer(index, None);
        let slot = self.slot(index);
        let was_again = slot.attempts > 0 || slot.refused.is_some();
        let (tag, order) = (slot.tag, slot.order);
        slot.state = State::Free;
        slot.own = None;
        slot.segments.clear();
        self.again -= u32::from(was_again);
        if let Some(order) = order {
            if self.slots[index as usize].attribute == Attribute::Ordered && result < 0 {
                self.failed_ordered.push((order, token));
            }
            self.port.hub.forget(self.port.nexus, order, token);
        }
        self.free.push(index);
        self.done.push(Completion { tag, result });
    }

    /// Ends a command because one that it must follow has failed.
    pub(super) fn break_off(&mut self, index: u32) {
        debug_assert!(!matches!(self.slots[index as usize].state, State::Runs(_)), "it has no effect");
        self.broken_order = true;
        self.complete(index, Completion::ABORTED);
    }

    fn read_notes(&mut self, now: Time) -> bool {
        if !self.inbox.has_notes() {
            return false;
        }
        let mut notes = std::mem::take(&mut self.notes);
        self.inbox.take(&mut notes);
        for note in notes.drain(..) {
            let (Note::Enabled(_, slot) | Note::Dropped(slot) | Note::Behind(slot)) = note;
            self.ended_behind += u64::from(matches!(note, Note::Behind(_)));
            let Some(index) = self.find(slot) else { continue };
            match note {
                Note::Enabled(task, _) => self.resume(now, index, task),
                Note::Dropped(_) => self.not_answered(now, index, false),
                Note::Behind(_) => self.break_off(index),
            }
        }
        self.notes = notes;
        true
    }

    /// How many commands were ended because of others without that the channel has looked.
    pub(super) fn unread_behind(&mut self) -> u64 {
        self.inbox.take(&mut self.notes);
        self.notes.iter().filter(|note| matches!(note, Note::Behind(_))).count() as u64
    }

    fn resume(&mut self, now: Time, index: u32, task: crate::target::TaskId) {
        let slot = &self.slots[index as usize];
        let at = (self.port.nexus, slot.order.unwrap_or_default());
        let begun = self.port.hub.resume(at, task, slot.cdb.bytes(), slot.data_out());
        self.has_begun(now, index, begun);
    }

    /// Whether there is something to report or to do at once.
    fn is_due(&self) -> bool {
        !self.done.is_empty() || !self.outgoing.is_empty() || self.inbox.has_notes() || self.lane.has_done()
    }

    /// Does everything that can be done now.
    fn turn(&mut self, now: Time) {
        loop {
            let mut any = self.send(now);
            self.lane.run(now);
            any |= self.take_back(now);
            any |= self.read_notes(now);
            any |= self.run_timers(now);
            if !any {
                break;
            }
        }
    }
}

/// Copies the data of a command to the memory of its request, which has not completed. Returns how many bytes.
#[allow(unsafe_code)]
fn deliver(slot: &Slot, response: &Response) -> u64 {
    let data = match response.data_in.is_empty() {
        true => slot.data.bytes().get(..slot.read).unwrap_or_default(),
        false => &response.data_in,
    };
    // SAFETY: segments are in a slot only while its request has been taken and its completion has not been reported.
    unsafe { scatter(&slot.segments, data) };
    slot.len.min(data.len() as u64)
}

impl Driver for Channel {
    fn queue(&mut self, _now: Time, request: &Started<'_>) -> bool {
        let Some(index) = self.take_slot() else { return false };
        if !self.fill(index, request) {
            self.free.push(index);
            self.done.push(Completion { tag: request.tag, result: -i64::from(recover::UNSUPPORTED) });
            return true;
        }
        self.slot(index).state = State::Due;
        self.outgoing.push_back(index);
        true
    }

    fn submit(&mut self, now: Time) {
        if self.send(now) {
            self.lane.run(now);
        }
    }

    fn reap(&mut self, now: Time, done: &mut Vec<Completion>) {
        self.turn(now);
        self.broken_order = false;
        if self.ended_behind > 0 || !self.failed_ordered.is_empty() {
            let behind = std::mem::take(&mut self.ended_behind);
            self.port.hub.told(self.port.nexus, behind, &self.failed_ordered);
            self.failed_ordered.clear();
        }
        done.append(&mut self.done);
    }

    fn next_event(&self) -> Option<Time> {
        if self.is_due() {
            return Some(Time(0));
        }
        let timer = self.timers.first().map(|&(at, _)| at);
        Time::earliest(timer, self.lane.next_wakeup())
    }

    fn wait(&mut self, now: Time, timeout: Option<Span>) {
        self.submit(now);
        if self.is_due() {
            return;
        }
        let timer = self.timers.first().map(|&(at, _)| at.since(now));
        let nap = (!self.inbox.rings()).then_some(NAP);
        let timeout = timeout.into_iter().chain(timer).chain(nap).min();
        if self.lane.is_idle() {
            self.lane.sleep(now, timeout, &[]);
        } else {
            self.lane.wait(now, timeout);
        }
    }

    fn wait_handle(&self) -> Option<i32> {
        self.listen.descriptor(&*self.lane)
    }

    fn cancel(&mut self, now: Time, tag: u32) -> bool {
        let is_it = |slot: &Slot| slot.tag == tag && !matches!(slot.state, State::Free);
        if let Some(index) = self.slots.iter().position(is_it) {
            self.cancel_slot(now, index as u32);
        }
        true
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.finish();
    }
}
