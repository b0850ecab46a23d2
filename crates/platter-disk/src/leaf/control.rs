//! The shared queue of a leaf and how it is run.

use super::{AnyLane, NO_CHANNEL, Shared};
use crate::sync::{Ordering, lock};
use platter_block::backend::LaneUse;
use platter_block::bio::Bio;
use platter_block::fault::Error;
use platter_block::lane::{Lane, QueueLane};
use platter_block::queue::Queue;
use platter_block::time::Time;

/// Mark in the route of a bio: its sender closed the gate, and its completion opens it.
pub(super) const CLOSED_GATE: u32 = 1 << 31;

/// The shared queue: before anything needed it, without a driver.
enum State {
    Waiting(Box<Queue>),
    Open(Box<AnyLane>),
    Moving,
}

pub(super) struct Control {
    state: State,
    /// Some lane went to sleep and could not see what the driver does next.
    deaf: bool,
    /// When the elevator wants to be asked again, as those who sleep could know.
    alarm: Option<Time>,
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
        let state = State::Waiting(Box::new(queue));
        Control { state, deaf: false, alarm: None, inbox: Vec::new(), done: Vec::new() }
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

    /// Lists what the progress of the shared queue can be seen on. A lane that sleeps on less is rung when
    /// there is something to look at.
    pub(super) fn listen(&mut self, handles: &mut Vec<i32>) -> bool {
        let heard = self.lane_mut().is_some_and(|lane| lane.wait_handles(handles));
        self.deaf |= !heard;
        heard
    }
}

impl Shared {
    /// Runs the shared queue, or leaves it to whoever does.
    pub(super) fn run_control(&self, now: Time, mut runs: Option<Runs<'_>>) -> bool {
        self.control.run(|control| self.run_locked(now, control, runs.as_mut()))
    }

    /// Looks at the shared queue, waiting for whoever runs it.
    pub(super) fn with_control<R>(&self, visit: impl FnOnce(&mut Control) -> R) -> R {
        self.control.with(visit, |control| self.run_locked(self.clock.now(), control, None))
    }

    /// One round of the shared queue: takes the inbox, runs, delivers.
    fn run_locked(&self, now: Time, control: &mut Control, runs: Option<&mut Runs<'_>>) {
        std::mem::swap(&mut *lock(&self.inbox), &mut control.inbox);
        if control.lane_mut().is_none() {
            if control.inbox.is_empty() {
                return;
            }
            if control.open(self).is_err() {
                return self.refuse(control, runs);
            }
        }
        self.run_queue(now, control);
        self.deliver(control, runs);
    }

    fn run_queue(&self, now: Time, control: &mut Control) {
        let barriers = control.inbox.iter().any(|bio| bio.route() & CLOSED_GATE != 0);
        let mut inbox = std::mem::take(&mut control.inbox);
        let _held = match &self.scope {
            Some(lock) => Some(lock.hold(&self.control_counters, self.settings.lock_stamps)),
            None => {
                self.control_counters.lock_acquisitions.add(1);
                None
            }
        };
        let Some(lane) = control.lane_mut() else { return };
        if lane.queue.geometry().size != self.extent.size() {
            self.extent.tell(&mut lane.queue);
        }
        if barriers || lane.queue.barrier_pending() {
            lane.queue.set_outside_busy(now, self.lanes.any_busy());
        }
        for bio in inbox.drain(..) {
            lane.queue.submit_sound(now, bio);
        }
        lane.run(now);
        let in_flight = lane.in_flight();
        self.control_in_flight.store(in_flight, Ordering::Relaxed);
        let alarm = lane.queue.elevator_wakeup();
        control.inbox = inbox;
        // Whoever sleeps goes by the time it knew then, and the lane on whose behalf this is may go away.
        let earlier = alarm.is_some_and(|at| control.alarm.is_none_or(|known| at < known));
        control.alarm = alarm;
        if earlier || control.deaf && in_flight > 0 {
            control.deaf &= in_flight == 0;
            self.lanes.ring_all();
        }
    }

    /// Hands completed bios to their lanes.
    fn deliver(&self, control: &mut Control, mut runs: Option<&mut Runs<'_>>) {
        let mut done = std::mem::take(&mut control.done);
        if let Some(lane) = control.lane_mut() {
            lane.take_done(&mut done);
        }
        self.extent.look_after(&done);
        for bio in done.drain(..) {
            let route = bio.route();
            if route & CLOSED_GATE != 0 {
                self.gate.open();
            }
            let route = route & !CLOSED_GATE;
            match &mut runs {
                Some(runs) if runs.route == route => runs.done.push(bio),
                _ => self.lanes.post(route, bio),
            }
        }
        control.done = done;
    }

    /// The driver cannot be opened: what came for it fails.
    #[cold]
    fn refuse(&self, control: &mut Control, runs: Option<&mut Runs<'_>>) {
        for mut bio in control.inbox.drain(..) {
            bio.fail(NO_CHANNEL);
            control.done.push(bio);
        }
        self.deliver(control, runs);
    }
}
