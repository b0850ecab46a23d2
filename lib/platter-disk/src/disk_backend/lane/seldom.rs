//! What a lane does seldom: opening, cancelling, its work when the gate is not in its usual state, bios are with the shared queue, depth
//! is short, or requests have been given up; memory that must be bounced; what changes during the life of a lane (its driver, the size
//! of the device, the registered regions); and its end.

use super::super::Shared;
use super::super::control::{Outbox, Runs};
use super::super::depth::Depth;
use super::super::gate::View;
use super::super::others::Others;
use super::DiskLane;
use crate::bounce::Bouncer;
use crate::sync::{Ordering, lock};
use crate::wake::Sleeper;
use platter_block::backend::LaneUse;
use platter_block::bio::{Bio, Op};
use platter_block::command::MemoryUse;
use platter_block::counters::Counters;
use platter_block::driver::Driver;
use platter_block::fault::{Error, Fault, Kind, Stage};
use platter_block::lane::{Cancel, Lane};
use platter_block::queue::DirectLane;
use platter_block::time::{Span, Time};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

/// Most bios that are left in the inbox; the next one is handed over with them. Few, because on a busy machine the thread
/// that they are left to may wait long for a processor.
const MOST_LEFT: u32 = 4;

impl DiskLane {
    pub(in crate::disk_backend) fn open(shared: &Arc<Shared>, lane_use: LaneUse) -> Result<DiskLane, Error> {
        let gate = shared.gate.look();
        // Lanes must not take the last channel of a disk that has only some: flushes and barriers need one.
        if shared.disk.max_channels().is_some() {
            shared.with_control(|control| control.open(shared))?;
        }
        // Before other threads know the lane, so that nothing remains of a lane that cannot be opened.
        let driver = match gate.has_elevator() {
            true => None,
            false => Some(shared.open_driver(lane_use)?),
        };
        let (cell, route) = shared.lanes.add(Arc::new(Counters::default()), lane_use);
        let queue = &shared.settings.queue;
        let mut lane = DiskLane {
            shared: Arc::clone(shared),
            cell,
            route,
            lane_use,
            plug: VecDeque::with_capacity(shared.settings.queue.nr_requests as usize),
            local: None,
            expected: View::NEVER,
            looked: View::NEVER,
            regions: Vec::new(),
            busy: false,
            silent: None,
            left: None,
            fails: false,
            has_timeouts: queue.timeout.is_some() || queue.slow_timeout.is_some(),
            depth: Depth::default(),
            away: 0,
            queued_behind: 0,
            done: Vec::new(),
            wakes: Vec::new(),
            outbox: Outbox::default(),
            examiner: shared.examiner(shared.extent.size()),
            sleeper: Sleeper::default(),
            listed: RefCell::default(),
            bouncer: Bouncer::default(),
            size: shared.extent.size(),
            sink_change: 0,
            failed: 0,
        };
        driver.into_iter().for_each(|driver| lane.set_driver(driver));
        Ok(lane)
    }

    /// See [`Lane::next_wakeup`].
    pub(super) fn find_wakeup(&self) -> Option<Time> {
        if self.has_done() {
            return Some(Time(0));
        }
        let local = self.local.as_ref().and_then(Lane::next_wakeup);
        if !self.needs_shared() {
            return local;
        }
        if self.cell.mailbox.has_mail() {
            return Some(Time(0));
        }
        let shared = self.shared.with_control(|control| control.next_wakeup());
        Time::earliest(local, shared)
    }

    /// See [`Lane::cancel`].
    pub(super) fn cancel_all(&mut self, now: Time, which: &Cancel) {
        self.cancel_plugged(which);
        if let Some(local) = &mut self.local {
            local.cancel(now, which);
            local.take_done(&mut self.done);
        }
        if self.away > 0 {
            self.cancel_away(now, which);
        }
    }

    /// The gate is not in its usual state, or a barrier has `counted` the contents of the lane's queue as complete.
    /// Returns whether the lane may use its own queue.
    #[cold]
    pub(super) fn enter_with_care(&mut self, now: Time, counted: bool) -> bool {
        if counted && let Some(local) = &mut self.local {
            local.queue.count_as_complete();
        }
        loop {
            let gate = self.shared.gate.look();
            if self.looked != gate.open() {
                self.looked = gate.open();
                self.look_up_changes();
            }
            if gate.is_shared() || gate.is_frozen() {
                self.send_all();
                return false;
            }
            if self.local.is_none() && !self.open_late() {
                return false;
            }
            if self.fails {
                self.look_at_gate(now);
            }
            self.expected = gate.open();
            let enters = match self.busy {
                true => self.shared.gate.look() == self.expected,
                false => self.cell.busy.enter(&self.shared.gate, self.expected),
            };
            if enters {
                return true;
            }
        }
    }

    /// Runs the shared queue if no other thread does, and collects mail.
    pub(in crate::disk_backend) fn help(&mut self, now: Time) {
        let before = self.done.len();
        let runs = Runs {
            route: self.route,
            outbox: &mut self.outbox,
            done: &mut self.done,
            wakes: &mut self.wakes,
        };
        self.shared.run_control(now, Some(runs));
        self.cell.mailbox.take(&mut self.done);
        self.has_come_back(before);
    }

    /// Bios have come back from the shared queue: those of `done` from index `before` on.
    pub(in crate::disk_backend) fn has_come_back(&mut self, before: usize) {
        self.away -= self.done.len() - before;
    }

    /// Waits for bios that may be in the shared queue.
    pub(super) fn wait_shared(&mut self, now: Time, timeout: Option<Span>) {
        if self.has_done() {
            return self.post();
        }
        if self.away > 0 {
            // The thread that runs the queue next starts the device, so this one need not wait for its lock.
            self.shared.unplugs.ask();
        }
        if self.leaves_bios() {
            return self.sleep_on(now, timeout, &[]);
        }
        self.run(now);
        if self.away > 0 && !self.shared.shows_completions.load(Ordering::Relaxed) {
            // A completion that no descriptor shows is there at the next run.
            self.help(now);
        }
        if !self.has_done() {
            self.sleep_on(now, timeout, &[]);
        }
    }

    /// Whether the lane may leave its bios in the inbox, because a thread that has been woken will run the queue. It does so
    /// only while the device has much more to do than waits there, so that it is not idle in the meantime.
    fn leaves_bios(&mut self) -> bool {
        let may = self.away > 0
            && !self.busy
            && self.shared.shows_completions.load(Ordering::Relaxed)
            && self.shared.lanes.woken.any();
        if !may {
            return false;
        }
        // That thread looks for what is there when it runs.
        self.post();
        let most = MOST_LEFT.min(self.shared.control_in_flight.load(Ordering::Relaxed) / 4);
        self.queued_behind < most && self.shared.lanes.woken.any()
    }

    /// Whether the lane has something in the shared queue that `run` must look after.
    pub(in crate::disk_backend) fn needs_shared(&self) -> bool {
        self.away > 0
    }

    /// Visits the lane with the lock held that its queue shares with others, if there is one.
    #[cold]
    pub(super) fn locked<R>(&mut self, visit: impl FnOnce(&mut DiskLane) -> R) -> R {
        let (shared, cell) = (Arc::clone(&self.shared), Arc::clone(&self.cell));
        let stamps = shared.settings.lock_stamps;
        let _held = shared.scope.as_ref().map(|lock| lock.hold(&cell.counters, stamps));
        visit(self)
    }

    /// Without the caller's plug: a bio goes to a queue by itself.
    #[cold]
    pub(super) fn flush_single(&mut self, now: Time) {
        // Programs with channels read the clock when they poll. A deadline counts from now, not from that reading.
        let now = now.max(self.shared.clock.now());
        if self.enter(now) {
            self.locked(|lane| lane.queue_rest(now));
        }
        if self.away > 0 {
            self.help(now);
        }
    }

    /// Some lane is short of depth.
    #[cold]
    pub(super) fn share_depth(&mut self) {
        let Some(local) = &mut self.local else { return };
        self.depth.give_back(&self.shared, &mut local.queue);
    }

    /// A barrier may have waited for this lane.
    #[cold]
    pub(super) fn help_barrier(&mut self, now: Time) {
        if self.shared.gate.look().is_frozen() {
            self.help(now);
        }
    }

    /// The gate is not in its usual state while the lane has requests.
    #[cold]
    pub(super) fn look_at_gate(&mut self, now: Time) {
        let fails = self.shared.gate.look().is_failed();
        if self.fails != fails
            && let Some(local) = &mut self.local
        {
            self.fails = fails;
            local.queue.set_failed(now, fails);
            local.take_done(&mut self.done);
        }
        self.help_barrier(now);
    }

    /// Tells the device whether the lane's queue is silent.
    pub(super) fn look_at_silence(&mut self, now: Time) {
        let Some(local) = &mut self.local else { return };
        self.shared.note_silence(local.queue.is_silent(), &mut self.silent);
        if self.fails && !self.shared.gate.look().is_failed() {
            self.fails = false;
            local.queue.set_failed(now, false);
        }
    }
}

// The memory of a lane's bios: checked once, and bounced if it is misaligned.
impl DiskLane {
    /// Checks the memory of a bio, which the queues rely on. Returns the bio, or a bounced one in its place if the
    /// memory is misaligned; `None`: the bio has failed.
    #[inline]
    pub(super) fn check_memory(&mut self, bio: Bio) -> Option<Bio> {
        if bio.op() == Op::Command {
            return self.check_command(bio);
        }
        match self.shared.geometry.limits.check_memory(&bio, self.size) {
            Ok(()) => Some(bio),
            Err(fault) => self.bounce(bio, fault),
        }
    }

    /// The same for a command, which may say itself how the device gets at its data.
    #[cold]
    fn check_command(&mut self, bio: Bio) -> Option<Bio> {
        let limits = &self.shared.geometry.limits;
        let checked = limits.check_memory(&bio, self.size);
        let memory = bio.command().map_or(MemoryUse::Auto, |command| command.memory());
        let copies = match (checked, memory) {
            (Err(fault), _) if fault.kind != Kind::Misaligned => Err(fault),
            (Err(fault), MemoryUse::Mapped) => Err(fault),
            (Err(_), _) if self.shared.settings.bounce || memory == MemoryUse::Copied => Ok(true),
            (Err(fault), _) => Err(fault),
            (Ok(()), memory) => Ok(memory == MemoryUse::Copied),
        };
        let counters = &self.cell.counters;
        match copies {
            Ok(true) if !bio.is_empty() => match self.bouncer.wrap(limits, bio) {
                Ok(bio) => {
                    counters.commands_copied.add(1);
                    Some(bio)
                }
                Err(refused) => {
                    self.refuse(refused, Fault::new(Kind::NoMemory, Stage::Queue));
                    None
                }
            },
            Ok(_) => {
                counters.commands_mapped.add(u64::from(!bio.is_empty()));
                Some(bio)
            }
            Err(fault) => {
                self.refuse(bio, fault);
                None
            }
        }
    }

    /// Makes a bounced bio in place of a misaligned one, if bouncing is allowed and helps.
    #[cold]
    pub(super) fn bounce(&mut self, mut bio: Bio, fault: Fault) -> Option<Bio> {
        let limits = &self.shared.geometry.limits;
        if let Err(range) = limits.check_range(bio.pos(), bio.len(), self.shared.extent.size()) {
            // At once: if the disk grows before a queue checks it, the queue would accept it with this memory.
            let fault = self.shared.extent.past_the_end(&bio, range);
            self.refuse(bio, fault);
            return None;
        }
        if fault.kind == Kind::Misaligned && self.shared.settings.bounce {
            match self.bouncer.wrap(limits, bio) {
                Ok(bio) => return Some(bio),
                Err(refused) => bio = refused,
            }
        }
        self.refuse(bio, fault);
        None
    }

    /// Fails a bio that is in no queue.
    #[cold]
    pub(super) fn refuse(&mut self, mut bio: Bio, fault: Fault) {
        bio.fail(fault);
        self.cell.counters.refused(&bio);
        self.done.push(bio);
    }

    #[cold]
    pub(super) fn unwrap_bounced(&mut self) {
        for bio in &mut self.done {
            if let Some(bytes) = self.bouncer.unwrap(bio) {
                self.cell.counters.bytes_bounced.add(bytes);
            }
        }
        if self.is_idle() {
            self.bouncer.out = 0;
        }
    }
}

// What changes during the life of a lane, and its end.
impl DiskLane {
    /// Gives the lane a queue of its own.
    pub(super) fn set_driver(&mut self, driver: Box<dyn Driver>) {
        self.cell.set_driver(&driver);
        let mut queue = self.shared.make_queue(&self.cell.counters);
        // Before the sink: a change between the two is seen once more.
        self.sink_change = self.shared.sink_changes.load(Ordering::SeqCst);
        queue.set_sink(self.shared.new_sink());
        queue.set_watch(Some(Others::new(&self.shared, Some(Arc::clone(&self.cell)))));
        let mut local = DirectLane::new(queue, driver);
        local.set_reopen(self.shared.reopener(self.lane_use, Some(Arc::clone(&self.cell))));
        self.local = Some(local);
        // Sleeping threads do not listen to it yet.
        self.cell.mailbox.ring();
        // The driver was told of the regions when it was opened; the next batch looks up which they are.
        self.regions.clear();
        (self.expected, self.looked) = (View::NEVER, View::NEVER);
    }

    /// Updates the device's size and the trace, registers the present regions with the lane's driver, and withdraws the others.
    pub(super) fn look_up_changes(&mut self) {
        if self.size != self.shared.extent.size() {
            self.resize();
        }
        let change = self.shared.sink_changes.load(Ordering::SeqCst);
        if self.sink_change != change
            && let Some(local) = &mut self.local
        {
            self.sink_change = change;
            local.queue.set_sink(self.shared.new_sink());
        }
        let Some(local) = &mut self.local else { return };
        let regions = lock(&self.shared.regions);
        self.regions.retain(|&id| {
            let stays = regions.iter().any(|region| region.id == id);
            if !stays {
                local.unregister(id);
            }
            stays
        });
        for region in regions.iter() {
            if !self.regions.contains(&region.id) {
                local.register(region);
                self.regions.push(region.id);
            }
        }
    }

    /// The device's size differs from the one in the lane's queue.
    #[cold]
    pub(super) fn resize(&mut self) {
        let (size, largest) = self.shared.extent.sizes();
        self.size = size;
        self.examiner = self.shared.examiner(size);
        if let Some(local) = &mut self.local {
            local.queue.set_size(size, largest);
        }
    }

    /// The device had an elevator when the lane was opened and has none now.
    #[cold]
    pub(super) fn open_late(&mut self) -> bool {
        match self.shared.open_driver(self.lane_use) {
            Ok(driver) => {
                self.set_driver(driver);
                self.look_up_changes();
                self.cell.mailbox.ring();
                true
            }
            Err(error) => {
                // Not counted as failures, like those of the shared queue.
                for mut bio in self.plug.drain(..) {
                    bio.fail(error.fault);
                    self.done.push(bio);
                }
                false
            }
        }
    }
}

impl Drop for DiskLane {
    fn drop(&mut self) {
        if let Some(local) = self.local.take() {
            // The wait is limited: requests that the disk does not return in time are left to another thread.
            self.shared.close_lane(local, self.silent.take(), self.left.clone());
        }
        self.cell.busy.leave();
        self.depth.close(&self.shared);
        // Bios in the shared queue are carried out without the lane.
        self.unplug(self.shared.clock.now());
        let (left, holder) = (self.left.take(), Arc::downgrade(&self.shared));
        self.shared.lanes.remove(self.route, self.away, || left?.keep_late(holder));
        if self.away > 0 || self.shared.gate.look().is_frozen() {
            // The thread that runs the queue may be in its last round, and no other visit follows: after this wait it has been run.
            self.shared.run_control(self.shared.clock.now(), None);
            self.shared.with_control(|_| ());
        }
    }
}
