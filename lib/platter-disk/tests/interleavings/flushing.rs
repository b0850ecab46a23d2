//! Models of who flushes a device. A thread that waits for ever is reported as a deadlock.

use crate::check;
use crate::flushes::{Ended, Flushes, Turn};
use crate::sync::{Mutex, lock};
use loom::thread;
use std::rc::Rc;

/// A device: what was written to it, what is durable, and how many flushes it carries out now.
#[derive(Default)]
struct Device {
    written: u32,
    durable: u32,
    flushes: u32,
}

struct Model {
    flushes: Flushes,
    device: Mutex<Device>,
}

impl Model {
    fn new() -> Rc<Model> {
        Rc::new(Model { flushes: Flushes::new(), device: Mutex::new(Device::default()) })
    }

    fn write(&self) -> u32 {
        let mut device = lock(&self.device);
        device.written += 1;
        device.written
    }

    /// Flushes what was written before; in two steps, between which others may write.
    fn flush(&self) {
        let covered = {
            let mut device = lock(&self.device);
            device.flushes += 1;
            assert_eq!(device.flushes, 1, "one flush at a time");
            device.written
        };
        let mut device = lock(&self.device);
        device.flushes -= 1;
        device.durable = device.durable.max(covered);
    }

    /// What the shared queue does when it wants a flush, or may go on. Returns whether it has flushed.
    fn queue(&self) -> bool {
        let begins = self.flushes.begin_in_queue();
        if begins {
            self.flush();
            self.flushes.end_in_queue(Ended::Succeeded);
        }
        begins
    }

    /// A thread that writes, and flushes if it need not leave that to the queue.
    fn write_and_flush(&self) {
        let own = self.write();
        match self.flushes.begin() {
            Turn::Flush => {
                self.flush();
                if self.flushes.end(Ended::Succeeded) {
                    assert!(self.queue(), "threads let the queue go first");
                }
            }
            Turn::Served => {}
            // Here the queue flushes at once.
            Turn::Queue => return,
        }
        assert!(lock(&self.device).durable >= own);
    }
}

#[test]
fn each_thread_has_what_it_wrote_and_one_flushes_at_a_time() {
    check(|| {
        let model = Model::new();
        let threads = [0, 1].map(|_| {
            let model = Rc::clone(&model);
            thread::spawn(move || model.write_and_flush())
        });
        model.write_and_flush();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(lock(&model.device).durable, 3);
    });
}

/// The queue flushes itself, or the thread that it waits for has it flush.
#[test]
fn the_queue_is_not_forgotten() {
    check(|| {
        let model = Model::new();
        let threads = [0, 1].map(|_| {
            let model = Rc::clone(&model);
            thread::spawn(move || model.write_and_flush())
        });
        let own = model.write();
        model.queue();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(lock(&model.device).durable >= own && !model.flushes.queue_may_go_on());
    });
}

#[test]
fn the_queue_goes_before_threads_that_come_later() {
    check(|| {
        let flushes = Flushes::new();
        assert_eq!((flushes.begin(), flushes.begin_in_queue()), (Turn::Flush, false));
        assert!(!flushes.queue_may_go_on() && flushes.end(Ended::Succeeded));
        assert_eq!((flushes.queue_may_go_on(), flushes.begin()), (true, Turn::Queue));
        assert!(flushes.begin_in_queue() && !flushes.queue_may_go_on());
        assert_eq!(flushes.begin(), Turn::Queue);
        flushes.end_in_queue(Ended::Succeeded);
        assert_eq!(flushes.begin(), Turn::Flush);
    });
}

/// A flush that ended without a word on the disk serves no other thread.
#[test]
fn a_flush_that_is_undone_makes_nothing_durable() {
    check(|| {
        let model = Model::new();
        let other = Rc::clone(&model);
        let thread = thread::spawn(move || {
            if other.flushes.begin() == Turn::Flush {
                other.flushes.end(Ended::Undone);
            }
        });
        model.write_and_flush();
        thread.join().unwrap();
    });
}

/// A flush of a thread fails: none that begins, or waits, after that succeeds.
#[test]
fn nothing_succeeds_after_a_failure() {
    check(|| {
        let model = Model::new();
        let (other, failed) = (Rc::clone(&model), Rc::new(Mutex::new(false)));
        let seen = Rc::clone(&failed);
        let thread = thread::spawn(move || {
            if other.flushes.begin() == Turn::Flush {
                other.flushes.end(Ended::Failed);
                *lock(&seen) = true;
            }
        });
        let had_failed = *lock(&failed);
        let turn = model.flushes.begin();
        assert!(!had_failed || turn == Turn::Queue);
        if turn == Turn::Flush {
            model.flushes.end(Ended::Succeeded);
        }
        thread.join().unwrap();
        if *lock(&failed) {
            assert_eq!(model.flushes.begin(), Turn::Queue);
            model.flushes.acknowledge();
            assert_eq!(model.flushes.begin(), Turn::Flush);
        }
    });
}
