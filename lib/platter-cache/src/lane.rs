//! The bios of one lane of a cache.

use super::Shared;
use super::answers::Exchange;
use super::engine::{Engine, PeerRead};
use super::frames::FRAME;
use super::ios::Ios;
use super::late::{Late, LateRead, LateWrite};
use super::memory;
use super::moves::Moves;
use super::plan::{Outlook, Question};
use super::policy::Policy;
use super::populate;
use super::task::{Phase, Spare, Task, Wait};
use crate::readahead::PAGE;
use platter_block::bio::{Bio, Flags, Op};
use platter_block::fault::{Fault, Stage};
use platter_block::handle::HandleId;
use platter_block::lane::{Cancel, Holder};
use platter_block::time::Time;
use platter_stack::barrier_gate::BARRIER;
use platter_stack::kit::{Host, LaneBase, LaneTasks, Turns};
use std::ops::Range;
use std::sync::{Arc, Weak};

#[derive(Default)]
pub(super) struct Tasks {
    tasks: Vec<Task>,
    /// The task to try first in the next turn.
    next: usize,
    /// Tasks have not been run yet, or could continue.
    fresh: bool,
    spare: Vec<Spare>,
    /// Pages that are to be copied to other frames.
    moves: Moves,
    /// Copies have released frames that tasks may wait for.
    released: bool,
    /// Frames whose memory is to be given back to the system.
    gone: Option<Range<u32>>,
    /// What other shards are to read.
    peer_reads: Vec<PeerRead>,
    /// The handle of the last call that asked, and its readahead.
    policy: Option<(HandleId, Policy)>,
}

impl Tasks {
    /// Asks the policy what a read is going to ask, if its first page is missing: it then takes the lock only once.
    fn ask_early(&self, shared: &Shared, task: &mut Task) {
        let Some((id, policy)) = &self.policy else { return };
        let page = task.at / PAGE;
        if *id != task.ask.id || shared.has(page) {
            return;
        }
        task.plan.attach(policy, shared.manners.ends);
        task.plan.note(Question::Missing(page));
        task.steps.planned = task.plan.ask(shared, &mut task.call);
    }

    /// Asks the policies what reads have come to want in the last turn.
    fn ask(&mut self, shared: &Shared) {
        for task in &mut self.tasks {
            task.plan.forget_begun();
            if !task.plan.is_asking() {
                continue;
            }
            self.fresh |= task.plan.ask(shared, &mut task.call);
            if self.policy.as_ref().is_none_or(|(id, _)| *id != task.ask.id) {
                self.policy = task.plan.policy().map(|policy| (task.ask.id, Arc::clone(policy)));
            }
        }
    }

    /// Makes the copies that the last turn has planned.
    fn copy(&mut self, base: &LaneBase<Shared>) {
        let (frames, mut copied) = (&base.host.frames, false);
        for task in &mut self.tasks {
            copied |= task.inflow.copy(frames, &mut task.bio);
            self.released |= task.inflow.take_released();
            if let Some(Exchange::Came(answer)) = task.exchange.as_deref() {
                let done = (answer.done as usize).min(answer.data.len());
                memory::fill(&mut task.bio, &answer.data[..done]);
                task.bio.answered(answer.done, Ok(()));
                task.exchange = None;
            }
        }
        let moved = self.moves.copy(frames);
        self.released |= moved;
        // The next turn, which follows at once, marks the pages as written.
        self.fresh |= moved || (copied && !end_write(&mut self.tasks, base));
    }

    /// Advances each task that can continue, starting with the one after the last task of the previous turn.
    fn step_all(&mut self, now: Time, base: &LaneBase<Shared>, engine: &mut Engine) {
        let count = self.tasks.len();
        let first = if self.next < count { self.next } else { 0 };
        for step in 0..count {
            let at = if first + step < count { first + step } else { first + step - count };
            let task = &mut self.tasks[at];
            if task.over || !task.is_ready(engine) {
                continue;
            }
            if engine.is_spent() {
                // The remaining tasks have not been run.
                (self.next, self.fresh) = (at, true);
                return;
            }
            engine.step(now, task, base.host.through);
            self.fresh |= task.wait == Wait::Turn;
        }
        engine.lanes.forget_failures(base.number);
    }
}

impl LaneTasks for Tasks {
    type Host = Shared;

    /// Data in memory is copied at once.
    fn start(&mut self, base: &LaneBase<Shared>, mut bio: Bio) -> Option<Bio> {
        let shared = &base.host;
        let waits = bio.flags().intersects(Flags::PREFLUSH | BARRIER);
        let is_read = bio.op() == Op::Read && shared.manners.are_free() && !waits;
        if is_read {
            let end = bio.end();
            shared.frames.read_bio(&mut bio, end);
            if bio.is_empty() {
                return Some(bio);
            }
        }
        let spare = self.spare.pop().unwrap_or_default();
        // I/O of a caller that sleeps until it completes may go on its own lane.
        let own = base.sleeps && shared.own;
        let mut task = Task::new(bio, base.number, own, spare);
        if is_read {
            self.ask_early(shared, &mut task);
        }
        if task.bio.op() == Op::Command {
            task.exchange = Some(Box::new(Exchange::ToSend(memory::copy_of(&task.bio))));
        }
        self.tasks.push(task);
        self.fresh = true;
        None
    }

    fn count(&self) -> usize {
        self.tasks.len()
    }

    fn waits(&self) -> bool {
        !self.tasks.iter().all(|task| task.over)
    }

    fn is_due(&self, _now: Time) -> bool {
        self.fresh
    }

    fn next_wakeup(&self) -> Option<Time> {
        self.fresh.then_some(Time(0))
    }

    /// Processes completions and advances every task as far as possible.
    fn turn(&mut self, now: Time, base: &mut LaneBase<Shared>, engine: &mut Engine) -> bool {
        let called = base.is_called();
        for task in self.tasks.iter_mut().filter(|task| task.inflow.is_copied()) {
            if let Some(key) = task.inflow.key {
                engine.copied(now, key, task.writer);
            }
            task.inflow.reset();
        }
        let moved = self.moves.is_copied;
        if moved {
            engine.moved(now, &mut self.moves);
        }
        let mut came = base.came.drain(..);
        while !engine.is_spent()
            && let Some(bio) = came.next()
        {
            base.own_out -= 1;
            engine.came_back(now, bio);
        }
        let left: Vec<Bio> = came.collect();
        base.came.extend(left);
        engine.run(now);
        engine.run_background(now, moved);
        self.fresh = false;
        base.has_seen();
        self.tasks.iter_mut().filter(|task| task.plan.is_due()).for_each(|task| engine.carry_out(task));
        self.step_all(now, base, engine);
        let to_own = engine.submit(&mut base.to_own);
        base.own_out += to_own;
        engine.run(now);
        self.gone = self.gone.take().or_else(|| engine.pages.take_gone());
        self.peer_reads.append(&mut engine.peer_reads);
        if engine.moves.is_begun() {
            std::mem::swap(&mut self.moves, &mut engine.moves);
        }
        engine.totals.turns += 1;
        engine.totals.idle_turns += u64::from(called && !engine.progress);
        to_own > 0 || self.fresh
    }

    fn finish_unlocked(&mut self, base: &mut LaneBase<Shared>) -> bool {
        !self.fresh && end_read(&mut self.tasks, base)
    }

    /// Copies without the lock: the data of writes, answers to commands, pages that move, and the pieces that reads have taken.
    fn after_turn(&mut self, base: &LaneBase<Shared>) {
        let frames = &base.host.frames;
        // First, because others wait for it.
        self.copy(base);
        if frames.ahead.is_short(frames.count()) {
            populate::ask(frames);
        }
        base.host.send_peer_reads(&mut self.peer_reads);
        self.ask(&base.host);
        if let Some(gone) = self.gone.take() {
            frames.give_to_system(gone);
            base.host.gave();
        }
        let mut any = std::mem::take(&mut self.released);
        for task in self.tasks.iter_mut().filter(|task| !task.pieces.is_empty()) {
            any = true;
            for piece in task.pieces.drain(..) {
                frames.copy_out(piece.held, piece.offset as usize, &mut task.bio, piece.len as usize);
            }
        }
        if any
            && frames.was_starved()
            && let Ok(mut engine) = base.host.engine()
        {
            engine.enter();
            engine.pages.released_some();
            base.host.leave(base.host.now(), &mut engine);
        }
    }

    fn take_over(&mut self, own_out: u32, mut give_back: impl FnMut(Bio)) {
        let mut at = 0;
        while let Some(task) = self.tasks.get(at) {
            // Reads of a sleeping caller are on its own lane: the caller must not continue before they have
            // completed.
            if task.over && !task.plan.is_due() && !(task.ask.own && own_out > 0) {
                let (bio, spare) = self.tasks.swap_remove(at).into_parts();
                self.spare.push(spare);
                give_back(bio);
            } else {
                at += 1;
            }
        }
    }

    fn fail(&mut self, _base: &LaneBase<Shared>, fault: Fault) {
        self.fresh = false;
        for task in &mut self.tasks {
            task.bio.fail(fault);
            task.plan.end(&mut task.call);
            task.over = true;
        }
    }

    /// What remains of a task that ends here is the cache's own business: pages that are being read, or are dirty.
    fn cancel(&mut self, now: Time, _number: u32, which: &Cancel, engine: &mut Engine) {
        let concerned = |task: &&mut Task| !task.over && !task.ask.own && which.matches(&task.bio);
        for task in self.tasks.iter_mut().filter(concerned) {
            match engine.io_of_pass(task.ticket) {
                // The device is carrying it out and is asked to take it back.
                Some(key) => engine.cancel(key, which),
                // The device has carried it out: it ends soon, with the result.
                None if engine.has_result(task.ticket) => {}
                // Its data is on its way to the disk, or there: it ends with its flush.
                None if matches!(task.phase, Phase::After | Phase::Forget(..)) => {}
                None => engine.take_back(now, task, Fault::new(which.kind(), Stage::Layer)),
            }
        }
    }

    fn end(&mut self, base: &mut LaneBase<Shared>) {
        let now = base.host.now();
        // Pages that are being read belong to all lanes.
        while base.own_out > 0 {
            base.own.wait(now, None);
            base.own.run(now);
            base.own.take_done(&mut base.came);
            base.own_out -= base.came.len() as u32;
            match base.host.engine() {
                Ok(mut engine) => base.came.drain(..).for_each(|bio| engine.came_back(now, bio)),
                Err(_) => base.came.clear(),
            }
        }
        // Only after a panic of a program's own code between a turn and its copies.
        self.copy(base);
        for task in &mut self.tasks {
            task.pieces.drain(..).for_each(|piece| base.host.frames.release_copied(piece.held));
        }
        let Ok(mut engine) = base.host.engine() else { return };
        engine.enter();
        engine.moved(now, &mut self.moves);
        for task in &mut self.tasks {
            if let Some(key) = task.inflow.key.take() {
                engine.copied(now, key, task.writer);
            }
            if let Some(left) = base.left.as_ref().filter(|_| !task.over) {
                let holder: Weak<dyn Holder> = Arc::downgrade(&base.host) as Weak<Shared>;
                engine.leave_pass(task.ticket, || Arc::clone(left).keep_late(holder));
            }
            if !task.over {
                engine.finish(now, task);
            }
        }
        engine.lanes.leave(base.number);
        base.host.leave(now, &mut engine);
    }
}

/// Ends the only read of a lane without the lock, if that is possible: its own I/O has come back, and no other task waits for
/// it. Returns whether the read has ended.
fn end_read(tasks: &mut [Task], base: &mut LaneBase<Shared>) -> bool {
    let ([task], [came], 1) = (tasks, &base.came[..], base.own_out) else { return false };
    let Some(key) = task.early.key.filter(|&key| !task.over && task.wait == Wait::Io(key)) else {
        return false;
    };
    let inbox = &base.host.late;
    // One that has not filled all of its memory has failed, too.
    let has_failed = came.status().is_err() || !came.is_empty();
    if came.token() != Ios::token(key) || has_failed || inbox.is_urgent() {
        return false;
    }
    let pages = task.at / PAGE..task.end.div_ceil(PAGE);
    for &frame in &task.early.frames {
        let offset = (task.at % PAGE) as usize;
        let len = (task.end - task.at).min((FRAME - offset) as u64) as usize;
        base.host.frames.copy_filled(frame, offset, &mut task.bio, len);
        task.at += len as u64;
    }
    (task.wait, task.over) = (Wait::None, true);
    let Some(bio) = base.came.pop() else { return false };
    base.own_out -= 1;
    let read = LateRead { bio, hold: task.hold.take(), handle: task.ask.handle, pages };
    task.early.reset();
    leave_late(&base.host, Late::Read(read));
    true
}

/// Ends the only write of a lane whose data has been copied without the lock, if nothing else is left to be done for it and no
/// task waits. Returns whether it has ended.
fn end_write(tasks: &mut [Task], base: &LaneBase<Shared>) -> bool {
    let ([task], 0) = (tasks, base.own_out) else { return false };
    let Some(key) = task.inflow.key.filter(|_| task.inflow.is_last && !task.over) else { return false };
    if base.host.late.is_urgent() {
        return false;
    }
    for part in task.inflow.parts.iter().filter(|part| part.is_whole) {
        base.host.frames.open_copied(part.frame);
    }
    (task.wait, task.over) = (Wait::None, true);
    let write = LateWrite { key, writer: task.writer.take(), since: task.inflow.since };
    task.inflow.reset();
    leave_late(&base.host, Late::Write(write));
    true
}

/// Leaves the rest of a bio that has ended to the next thread that takes the lock; takes it now if a task waits.
fn leave_late(host: &Shared, late: Late) {
    if host.late.put(late)
        && let Ok(mut engine) = host.engine()
    {
        engine.enter();
        host.leave(host.now(), &mut engine);
    }
}
