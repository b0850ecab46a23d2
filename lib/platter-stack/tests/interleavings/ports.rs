//! Models of a port: threads that take turns of a layer and run its own lane in between.

use crate::models::Bell;
use crate::port::{Order, Port};
use crate::sync::{Mutex, lock};
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use platter_block::bio::Bio;
use platter_block::lane::{self, Lane};
use platter_block::time::Time;
use std::sync::Arc;

/// A lane whose bios complete in the next run; or stay, each until the time that its token says.
struct OwnLane {
    stays: bool,
    /// When it is to be run in any case, unless 0. Others set it.
    alarm: Arc<AtomicU64>,
    bios: Vec<Bio>,
    done: Vec<Bio>,
}

impl Lane for OwnLane {
    fn submit(&mut self, _now: Time, bio: Bio) {
        self.bios.push(bio);
    }

    fn run(&mut self, _now: Time) {
        if !self.stays {
            self.done.append(&mut self.bios);
        }
    }

    fn take_done(&mut self, out: &mut Vec<Bio>) {
        out.append(&mut self.done);
    }

    fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    fn next_wakeup(&self) -> Option<Time> {
        let alarm = Some(self.alarm.load(Ordering::Relaxed)).filter(|&at| at != 0);
        self.bios.iter().map(Bio::token).chain(alarm).min().map(Time)
    }

    fn wait_handles(&self, out: &mut Vec<i32>) -> bool {
        out.push(0);
        true
    }
}

/// What the lock of a layer protects.
#[derive(Default)]
struct State {
    taken: Vec<Bio>,
    due: Option<Time>,
}

struct Layer {
    state: Mutex<State>,
    port: Port,
    alarm: Arc<AtomicU64>,
}

impl Layer {
    fn new(stays: bool) -> Arc<Layer> {
        let alarm = Arc::new(AtomicU64::new(0));
        let lane = OwnLane { stays, alarm: Arc::clone(&alarm), bios: Vec::new(), done: Vec::new() };
        let port = Port::new(Box::new(lane), false);
        Arc::new(Layer { state: Mutex::new(State::default()), port, alarm })
    }

    /// A turn that submits a bio, as far as it has to do with the port.
    fn turn(&self, token: u64) {
        let mut bio = Bio::flush();
        bio.set_token(token);
        let mut state = lock(&self.state);
        self.port.order([Order::Submit(bio)]);
        state.due = self.port.next_wakeup();
        drop(state);
        self.deliver();
    }

    fn deliver(&self) {
        if self.port.has_orders() && self.port.run(Time(0)) {
            self.take_in();
        }
    }

    fn take_in(&self) {
        let mut state = lock(&self.state);
        self.port.take_done(&mut state.taken);
        state.due = self.port.next_wakeup();
    }

    /// What a thread does that is about to sleep.
    fn listen(&self) {
        self.ask(None);
    }

    /// As `listen`, without waiting for another thread if there is a bell. Returns whether it has the descriptors.
    fn ask(&self, bell: Option<&Arc<dyn lane::Bell>>) -> bool {
        // The checker tries no other order of threads for an attempt to lock alone: this read has it run here while the other
        // thread has the lane.
        self.port.in_flight();
        let mut handles = Vec::new();
        if self.port.wait_handles(&mut handles, bell).1 {
            self.take_in();
        }
        self.deliver();
        !handles.is_empty()
    }

    /// What a thread with a bell does that sleeps until a descriptor is readable.
    fn listen_by_bell(&self) {
        let bell = Bell::new();
        let waker: Arc<dyn lane::Bell> = Arc::<Bell>::clone(&bell);
        while !self.ask(Some(&waker)) {
            bell.sleep();
        }
    }
}

/// Runs one part of a model on a thread of its own and another one here, with up to three preemptions.
fn check(stays: bool, other: fn(&Layer), here: fn(&Layer), then: fn(&State, &Port)) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let layer = Layer::new(stays);
        let thread = {
            let layer = Arc::clone(&layer);
            thread::spawn(move || other(&layer))
        };
        here(&layer);
        thread.join().unwrap();
        then(&lock(&layer.state), &layer.port);
    });
}

#[test]
fn an_order_that_is_left_to_another_thread_is_carried_out() {
    let then = |state: &State, port: &Port| {
        assert!(!port.has_orders());
        let mut tokens: Vec<_> = state.taken.iter().map(Bio::token).collect();
        tokens.sort_unstable();
        assert_eq!(tokens, [1, 2], "what has come back is taken");
    };
    check(false, |layer| layer.turn(1), |layer| layer.turn(2), then);
}

#[test]
fn orders_are_carried_out_in_the_order_of_turns() {
    let turns = |layer: &Layer| (1..3).for_each(|token| layer.turn(token));
    check(false, turns, Layer::deliver, |state, _| {
        assert_eq!(state.taken.iter().map(Bio::token).collect::<Vec<_>>(), [1, 2]);
    });
}

#[test]
fn an_order_that_comes_while_a_thread_asks_for_descriptors_is_carried_out() {
    check(
        false,
        |layer| layer.turn(1),
        Layer::listen,
        |state, port| {
            assert!(!port.has_orders());
            assert_eq!(state.taken.len(), 1);
        },
    );
}

/// A bell that is left to a thread which does not ring it is a deadlock of the model.
#[test]
fn a_thread_that_could_not_ask_for_descriptors_is_rung() {
    check(
        true,
        |layer| layer.turn(8),
        Layer::listen_by_bell,
        |state, port| {
            assert!(!port.has_orders());
            assert_eq!(state.due, Some(Time(8)));
        },
    );
    check(false, Layer::listen_by_bell, Layer::listen_by_bell, |_, _| {});
}

#[test]
fn a_layer_knows_the_first_time_at_which_its_lane_is_to_be_run() {
    let turns = |layer: &Layer| (4..6).rev().for_each(|token| layer.turn(token));
    check(true, turns, |layer| layer.turn(2), |state, _| assert_eq!(state.due, Some(Time(2))));
    check(true, turns, |layer| layer.turn(9), |state, _| assert_eq!(state.due, Some(Time(4))));
}

/// A disk whose queue other lanes run may set a timer at any time. It tells lanes that have been asked for descriptors.
#[test]
fn a_timer_that_others_have_set_is_known_before_a_thread_sleeps() {
    loom::model(|| {
        let layer = Layer::new(true);
        layer.turn(9);
        layer.alarm.store(3, Ordering::Relaxed);
        layer.listen();
        assert_eq!(lock(&layer.state).due, Some(Time(3)));
    });
}
