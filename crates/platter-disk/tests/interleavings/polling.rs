//! Models of lanes that sleep for one driver. A lane that sleeps for ever is reported as a deadlock.

use crate::mailbox::Mailbox;
use crate::poller::Poller;
use crate::runner::Runner;
use crate::sync::{Mutex, lock};
use loom::thread;
use platter_block::bio::Bio;
use std::sync::Arc;

/// A device with a queue that all lanes share. Each lane has one bio with the disk.
struct Device {
    poller: Poller,
    boxes: Vec<Mailbox>,
    queue: Runner<()>,
    /// Lanes whose bios the disk has completed: while there are any, the driver's descriptor is readable.
    completed: Mutex<Vec<usize>>,
    /// The lane that polls the descriptor. It sleeps on its bell, which rings when the descriptor becomes readable.
    polled_by: Mutex<Option<usize>>,
}

impl Device {
    fn new(lanes: usize) -> Arc<Device> {
        Arc::new(Device {
            poller: Poller::new(),
            boxes: (0..lanes).map(|_| Mailbox::new()).collect(),
            queue: Runner::new(()),
            completed: Mutex::new(Vec::new()),
            polled_by: Mutex::new(None),
        })
    }

    fn complete(&self, lane: usize) {
        lock(&self.completed).push(lane);
        let polled_by = *lock(&self.polled_by);
        polled_by.into_iter().for_each(|lane| self.boxes[lane].ring());
    }

    /// Delivers what is complete. Returns the lanes to ring: those that sleep.
    fn run_locked(&self) -> Vec<usize> {
        let mut completed = std::mem::take(&mut *lock(&self.completed));
        completed.iter().for_each(|&lane| assert!(!self.boxes[lane].put(Bio::flush())));
        completed.retain(|&lane| self.boxes[lane].is_asleep());
        completed
    }

    /// Delivers, and rings without the queue's lock.
    fn run(&self) {
        let mut wakes = Vec::new();
        self.queue.run(|state| {
            match state {
                Some(()) => wakes.extend(self.run_locked()),
                None => wakes.drain(..).for_each(|lane: usize| self.boxes[lane].ring()),
            }
            !wakes.is_empty()
        });
    }

    fn poll(&self, lane: usize) {
        // The descriptor is requested with the queue's lock held.
        let ring = |()| self.run_locked().into_iter().for_each(|lane| self.boxes[lane].ring());
        self.queue.with(|()| *lock(&self.polled_by) = Some(lane), |&mut ()| ring(()));
        if !lock(&self.completed).is_empty() {
            self.boxes[lane].ring();
        }
    }

    /// Sleeps once as a lane of synchronous calls does: on the driver's descriptor if it polls, else until it is rung.
    fn sleep(&self, lane: usize) {
        let mailbox = &self.boxes[lane];
        mailbox.parker.arm();
        if mailbox.has_mail() {
            return;
        }
        if !self.poller.enter(lane as u32) {
            return mailbox.parker.sleep(None);
        }
        mailbox.parker.disarm();
        let wake = mailbox.fall_asleep().expect("a descriptor");
        if !mailbox.has_mail() {
            self.poller.enter(lane as u32);
            self.poll(lane);
            wake.sleep();
        }
    }

    /// Waits as a lane does, until its bio is back.
    fn wait(&self, lane: usize) {
        let mailbox = &self.boxes[lane];
        let mut bios = Vec::new();
        loop {
            self.sleep(lane);
            let is_called = self.poller.is_called(lane as u32);
            mailbox.take(&mut bios);
            if bios.is_empty() && !is_called {
                self.run();
                mailbox.take(&mut bios);
            }
            if !bios.is_empty() {
                break;
            }
        }
        mailbox.wake_up();
        if let Some(next) = self.poller.leave(lane as u32) {
            self.boxes[next as usize].ring();
        }
    }
}

fn check(lanes: usize, preemptions: usize) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        let device = Device::new(lanes);
        let others: Vec<_> = (1..lanes)
            .map(|lane| {
                let device = Arc::clone(&device);
                thread::spawn(move || device.wait(lane))
            })
            .collect();
        let disk = {
            let device = Arc::clone(&device);
            thread::spawn(move || (0..lanes).for_each(|lane| device.complete(lane)))
        };
        device.wait(0);
        others.into_iter().for_each(|lane| lane.join().unwrap());
        disk.join().unwrap();
        assert!(lock(&device.completed).is_empty());
    });
}

#[test]
fn lanes_that_rely_on_another_to_poll_hear_of_their_bios() {
    check(2, 3);
}

/// A lane that takes over may find its own bio, and must then pass on the polling.
#[test]
fn the_duty_to_poll_is_passed_on_until_all_are_served() {
    check(3, 2);
}
