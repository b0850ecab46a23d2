//! Models of a port: threads that take turns of a layer and run its own lane in between.

use crate::port::{Order, Port};
use crate::sync::{Mutex, lock};
use loom::thread;
use platter_block::bio::Bio;
use platter_block::lane::Lane;
use platter_block::time::Time;
use std::sync::Arc;

/// A lane whose bios complete in the next run; or stay, each until the time that its token says.
struct OwnLane {
    stays: bool,
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
        self.bios.iter().map(|bio| Time(bio.token())).min()
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
}

impl Layer {
    fn new(stays: bool) -> Arc<Layer> {
        let lane = Box::new(OwnLane { stays, bios: Vec::new(), done: Vec::new() });
        Arc::new(Layer { state: Mutex::new(State::default()), port: Port::new(lane, false) })
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
            let mut state = lock(&self.state);
            self.port.take_done(&mut state.taken);
            state.due = self.port.next_wakeup();
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
    let listens = |layer: &Layer| {
        layer.port.wait_handles(&mut Vec::new());
        layer.deliver();
    };
    check(
        false,
        |layer| layer.turn(1),
        listens,
        |state, port| {
            assert!(!port.has_orders());
            assert_eq!(state.taken.len(), 1);
        },
    );
}

#[test]
fn a_layer_knows_the_first_time_at_which_its_lane_is_to_be_run() {
    let turns = |layer: &Layer| (4..6).rev().for_each(|token| layer.turn(token));
    check(true, turns, |layer| layer.turn(2), |state, _| assert_eq!(state.due, Some(Time(2))));
    check(true, turns, |layer| layer.turn(9), |state, _| assert_eq!(state.due, Some(Time(4))));
}
