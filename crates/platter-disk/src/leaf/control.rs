//! The shared queue of a leaf and how it is run.

use super::{AnyLane, NO_CHANNEL, Shared};
use crate::sync::{Ordering, lock};
use platter_block::backend::LaneUse;
use platter_block::bio::{Bio, Flags};
use platter_block::fault::Error;
use platter_block::lane::{Lane, QueueLane};
use platter_block::queue::Queue;
use platter_block::time::Time;
use std::sync::Arc;

/// The shared queue: before anything needed it, without a driver.
enum State {
    Waiting(Box<Queue>),
    Open(Box<AnyLane>),
    Moving,
}

pub(super) struct Control {
    state: State,
    /// Hard barriers in the queue that closed the gate.
    closers: u32,
    inbox: Vec<Bio>,
    done: Vec<Bio>,
}

/// The lane on whose behalf the shared queue is run: its own completions skip the mailbox.
pub(super) struct Runs<'a> {
    pub(super) route: u32,
    pub(super) done: &'a mut Vec<Bio>,
}

impl Control {
    pub(super) fn new(queue: Queue) -> Control {
        Control { state: State::Waiting(Box::new(queue)), closers: 0, inbox: Vec::new(), done: Vec::new() }
    }

    /// Opens the driver, if it is not.
    pub(super) fn open(&mut self, shared: &Shared) -> Result<(), Error> {
        if let State::Waiting(queue) = &mut self.state {
            let driver = shared.open_driver(LaneUse::Shared)?;
            queue.set_sink(shared.new_sink());
            if let State::Waiting(queue) = std::mem::replace(&mut self.state, State::Moving) {
                self.state = State::Open(Box::new(QueueLane::new(*queue, driver)));
            }
        }
        Ok(())
    }

    pub(super) fn queue(&mut self) -> &mut Queue {
        match &mut self.state {
            State::Open(lane) => &mut lane.queue,
            State::Waiting(queue) => queue,
            State::Moving => unreachable!("the state only moves inside `open`"),
        }
    }

    pub(super) fn lane_mut(&mut self) -> Option<&mut AnyLane> {
        match &mut self.state {
            State::Open(lane) => Some(lane),
            _ => None,
        }
    }

    /// A lane sends a hard barrier while lanes have queues of their own: it has closed the gate.
    pub(super) fn barrier_closed_gate(&mut self) {
        self.closers += 1;
    }
}

impl Shared {
    /// Runs the shared queue, or leaves it to whoever does.
    pub(super) fn run_control(&self, now: Time, mut runs: Option<Runs<'_>>) -> bool {
        self.control.run(|control| self.run_locked(now, control, runs.as_mut()))
    }

    /// One round of the shared queue: takes the inbox, runs, delivers.
    fn run_locked(&self, now: Time, control: &mut Control, runs: Option<&mut Runs<'_>>) {
        std::mem::swap(&mut *lock(&self.inbox), &mut control.inbox);
        if control.lane_mut().is_none() {
            if control.inbox.is_empty() {
                return;
            }
            if control.open(self).is_err() {
                self.reopen_gate(control);
                return self.fail_all(&mut control.inbox, NO_CHANNEL);
            }
        }
        let barriers = control.inbox.iter().any(|bio| bio.flags().contains(Flags::HARD_BARRIER));
        let mut inbox = std::mem::take(&mut control.inbox);
        {
            let _scope =
                self.scope.as_ref().map(|lock| lock.hold(&self.control_counters, self.settings.lock_stamps));
            if self.scope.is_none() {
                self.control_counters.lock_acquisitions.add(1);
            }
            let Some(lane) = control.lane_mut() else { return };
            if barriers || lane.queue.barrier_pending() {
                lane.queue.set_outside_busy(now, self.any_lane_busy());
            }
            for bio in inbox.drain(..) {
                lane.submit(now, bio);
            }
            lane.run(now);
            self.control_in_flight.store(lane.in_flight(), Ordering::Relaxed);
        }
        control.inbox = inbox;
        self.deliver(control, runs);
    }

    /// Hands completed bios to their lanes.
    fn deliver(&self, control: &mut Control, mut runs: Option<&mut Runs<'_>>) {
        let mut done = std::mem::take(&mut control.done);
        if let Some(lane) = control.lane_mut() {
            lane.take_done(&mut done);
        }
        for bio in done.drain(..) {
            if control.closers > 0 && bio.flags().contains(Flags::HARD_BARRIER) {
                control.closers -= 1;
                if self.gate.open() {
                    self.ring_all();
                }
            }
            match &mut runs {
                Some(runs) if runs.route == bio.route() => runs.done.push(bio),
                _ => self.post(bio),
            }
        }
        control.done = done;
    }

    fn post(&self, bio: Bio) {
        let cell = lock(&self.lanes).get(bio.route() as usize).and_then(|cell| cell.as_ref().map(Arc::clone));
        if let Some(cell) = cell {
            cell.mailbox.put(bio);
        }
    }

    /// Barriers that cannot reach the disk must not keep the gate closed.
    fn reopen_gate(&self, control: &mut Control) {
        while control.closers > 0 {
            control.closers -= 1;
            self.gate.open();
        }
    }
}
