//! Models of a queue that holds bios back until a thread waits for them.

use crate::runner::Runner;
use crate::sync::{Mutex, lock};
use crate::unplugs::Unplugs;
use crate::{ROUNDS, never_leaves};
use loom::thread;
use std::rc::Rc;

/// Bios are bits.
#[derive(Default)]
struct Queue {
    plugged: bool,
    held: u32,
    started: u32,
}

impl Queue {
    fn start(&mut self) {
        if !self.plugged {
            self.started |= std::mem::take(&mut self.held);
        }
    }
}

struct Model {
    unplugs: Unplugs,
    inbox: Mutex<u32>,
    queue: Runner<Queue>,
}

impl Model {
    fn new() -> Rc<Model> {
        let queue = Runner::new(Queue::default(), ROUNDS);
        Rc::new(Model { unplugs: Unplugs::new(), inbox: Mutex::new(0), queue })
    }

    fn put(&self, bio: u32) {
        *lock(&self.inbox) |= bio;
    }

    fn run(&self) {
        let step = |queue: Option<&mut Queue>| {
            let Some(queue) = queue else { return false };
            let waits = self.unplugs.take();
            let new = std::mem::take(&mut *lock(&self.inbox));
            queue.plugged |= new != 0 && queue.held == 0;
            queue.held |= new;
            queue.plugged &= !waits;
            queue.start();
            if self.unplugs.tell(queue.plugged) {
                self.queue.again();
            }
            false
        };
        self.queue.run(step, never_leaves);
    }

    fn started(&self) -> u32 {
        self.queue.with(|queue| queue.started, |_| (), || ())
    }
}

/// Two threads send a bio each and wait for it.
#[test]
fn what_a_thread_waits_for_is_started() {
    loom::model(|| {
        let model = Model::new();
        let send = |bio| {
            let model = Rc::clone(&model);
            move || {
                model.put(bio);
                model.unplugs.ask();
                model.run();
            }
        };
        let threads = [thread::spawn(send(1)), thread::spawn(send(2))];
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(model.started(), 3);
    });
}

/// A thread asks without running the queue, which another one may run just then.
#[test]
fn what_is_asked_for_outside_a_run_is_started() {
    let mut bounded = loom::model::Builder::new();
    bounded.preemption_bound = Some(3);
    bounded.check(|| {
        let model = Model::new();
        let (first, second) = (Rc::clone(&model), Rc::clone(&model));
        let waits = thread::spawn(move || {
            first.put(1);
            first.run();
            if first.unplugs.ask_outside() {
                first.run();
            }
        });
        let other = thread::spawn(move || {
            second.put(2);
            second.run();
        });
        waits.join().unwrap();
        other.join().unwrap();
        assert_eq!(model.started() & 1, 1);
    });
}
