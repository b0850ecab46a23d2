//! Models of lanes that sleep for one driver. A lane that sleeps for ever is reported as a deadlock.

use crate::mailbox::Mailbox;
use crate::poller::Poller;
use crate::runner::Runner;
use crate::sync::{AtomicBool, Mutex, Ordering, lock};
use crate::woken::Woken;
use loom::thread;
use platter_block::bio::Bio;
use std::sync::Arc;

/// A device with a queue that all lanes share. Each lane has one bio with the disk.
struct Device {
    poller: Poller,
    boxes: Vec<Mailbox>,
    queue: Runner<()>,
    /// The threads that have been woken and do not run yet.
    woken: Arc<Woken>,
    /// Lanes with a bio on the way to the queue. The disk completes what the queue gets at once.
    inbox: Mutex<Vec<usize>>,
    has_inbox: AtomicBool,
    /// Lanes whose bios the disk has completed: while there are any, the driver's descriptor is readable.
    completed: Mutex<Vec<usize>>,
    /// The lane that polls the descriptor. It sleeps on its bell, which rings when the descriptor becomes readable.
    polled_by: Mutex<Option<usize>>,
}

impl Device {
    fn new(lanes: usize) -> Arc<Device> {
        let woken = Arc::new(Woken::new());
        Arc::new(Device {
            poller: Poller::new(),
            boxes: (0..lanes).map(|_| Mailbox::new(Arc::clone(&woken))).collect(),
            woken,
            inbox: Mutex::new(Vec::new()),
            has_inbox: AtomicBool::new(false),
            queue: Runner::new((), 2),
            completed: Mutex::new(Vec::new()),
            polled_by: Mutex::new(None),
        })
    }

    fn complete(&self, lane: usize) {
        lock(&self.completed).push(lane);
        self.call_runner();
    }

    /// Delivers what is complete. Returns the lanes to ring: those that sleep.
    fn run_locked(&self) -> Vec<usize> {
        if self.has_inbox.swap(false, Ordering::SeqCst) {
            let sent = std::mem::take(&mut *lock(&self.inbox));
            lock(&self.completed).extend(sent);
        }
        let mut completed = std::mem::take(&mut *lock(&self.completed));
        completed.iter().for_each(|&lane| assert!(!self.boxes[lane].put(Bio::flush())));
        completed.retain(|&lane| self.boxes[lane].is_asleep());
        completed
    }

    /// Delivers, and rings without the queue's lock.
    fn run(&self) {
        let mut wakes = Vec::new();
        let step = |state: Option<&mut ()>| {
            match state {
                Some(()) => wakes.extend(self.run_locked()),
                None => wakes.drain(..).for_each(|lane: usize| self.boxes[lane].ring()),
            }
            !wakes.is_empty()
        };
        self.queue.run(step, || self.call_runner());
    }

    /// Leaves the queue to the lane that polls. Without one, the next lane that is about to sleep polls.
    fn call_runner(&self) {
        let polled_by = *lock(&self.polled_by);
        polled_by.into_iter().for_each(|lane| self.boxes[lane].ring());
    }

    fn poll(&self, lane: usize) {
        // The descriptor is requested with the queue's lock held.
        let ring = |()| self.run_locked().into_iter().for_each(|lane| self.boxes[lane].ring());
        let listen = |(): &mut ()| *lock(&self.polled_by) = Some(lane);
        self.queue.with(listen, |&mut ()| ring(()), || self.call_runner());
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
        if self.must_run(lane) {
            return self.run();
        }
        let wake = mailbox.fall_asleep().expect("a descriptor");
        if !mailbox.has_mail() {
            self.poller.enter(lane as u32);
            self.poll(lane);
            wake.sleep();
        }
    }

    /// The lane runs. Returns whether others have left bios to it.
    fn must_run(&self, lane: usize) -> bool {
        self.boxes[lane].parker.settle() && self.has_inbox.load(Ordering::SeqCst)
    }

    /// Sends a bio, and leaves it to a woken thread if there is one.
    fn send(&self, lane: usize) {
        lock(&self.inbox).push(lane);
        self.has_inbox.store(true, Ordering::SeqCst);
        if !self.woken.any() {
            self.run();
        }
    }

    /// Waits as a lane does, until its bio is back.
    fn wait(&self, lane: usize) {
        let mailbox = &self.boxes[lane];
        let mut bios = Vec::new();
        loop {
            self.sleep(lane);
            if self.must_run(lane) {
                self.run();
            }
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

/// One lane is woken for its bio, while another one sends a bio and leaves it to the woken lane.
#[test]
fn a_woken_lane_hands_over_what_was_left_to_it() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let device = Device::new(2);
        let sleeper = {
            let device = Arc::clone(&device);
            thread::spawn(move || device.wait(0))
        };
        let disk = {
            let device = Arc::clone(&device);
            thread::spawn(move || device.complete(0))
        };
        device.send(1);
        device.wait(1);
        sleeper.join().unwrap();
        disk.join().unwrap();
        assert!(lock(&device.inbox).is_empty());
    });
}
