//! Who goes when, one call after the other: the models of one thread.

use crate::gate::{Door, Gate};
use platter_block::bio::{Bio, Flags};
use platter_block::lane::Bell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

fn write(token: u64, flags: Flags) -> Bio {
    let mut bio = Bio::write(0, vec![0; 512]).expect("one segment");
    bio.set_token(token);
    bio.add_flags(flags);
    bio
}

fn tokens(door: &mut Door) -> Vec<u64> {
    std::iter::from_fn(|| door.next()).map(|bio| bio.token()).collect()
}

#[test]
fn a_barrier_waits_for_all_lanes_and_holds_all_back() {
    loom::model(|| {
        let gate = Arc::new(Gate::default());
        let (mut one, mut two) = (Door::new(&gate, None), Door::new(&gate, None));
        assert!(one.pass(2) && two.pass(1));
        one.place(write(1, Flags::HARD_BARRIER));
        one.place(write(2, Flags::NONE));
        assert!(!two.pass(1) && !one.pass(1));
        two.place(write(3, Flags::NONE));
        two.place(write(4, Flags::SOFT_BARRIER));
        two.place(write(5, Flags::NONE));
        assert!(tokens(&mut one).is_empty() && tokens(&mut two).is_empty());
        one.complete(2);
        assert!(tokens(&mut one).is_empty());
        two.complete(1);
        assert!(tokens(&mut two).is_empty());
        assert_eq!(tokens(&mut one), [1]);
        one.complete_barrier();
        // The next barrier is that of the other lane, behind both that were before it.
        assert_eq!((tokens(&mut one), tokens(&mut two)), (vec![2], vec![3]));
        two.complete(1);
        assert!(tokens(&mut two).is_empty());
        one.complete(1);
        assert_eq!(tokens(&mut two), [4]);
        assert!(!one.pass(1));
        two.complete_barrier();
        assert_eq!(tokens(&mut two), [5]);
        assert!(one.pass(1));
    });
}

#[test]
fn a_lane_that_goes_leaves_no_gate_closed() {
    loom::model(|| {
        let gate = Arc::new(Gate::default());
        let (mut one, mut two) = (Door::new(&gate, None), Door::new(&gate, None));
        let mut three = Door::new(&gate, None);
        assert!(three.pass(1));
        one.place(write(1, Flags::HARD_BARRIER));
        two.place(write(2, Flags::HARD_BARRIER));
        one.place(write(3, Flags::HARD_BARRIER));
        drop(one);
        assert!(tokens(&mut two).is_empty());
        three.complete(1);
        assert_eq!(tokens(&mut two), [2]);
        assert!(!three.pass(1));
        two.complete_barrier();
        assert!(three.pass(1));
    });
}

#[test]
fn barriers_of_one_lane_take_turns() {
    loom::model(|| {
        let gate = Arc::new(Gate::default());
        let mut door = Door::new(&gate, None);
        for token in 0..3 {
            door.place(write(token, Flags::HARD_BARRIER));
        }
        for token in 0..3 {
            assert_eq!(tokens(&mut door), [token]);
            door.complete_barrier();
        }
        assert!(!door.is_holding() && door.pass(1));
    });
}

/// A lane that could not pass and found its place only behind a later barrier has nothing that this one waits for.
#[test]
fn a_lane_that_waits_for_a_barrier_is_not_waited_for() {
    loom::model(|| {
        let gate = Arc::new(Gate::default());
        let [mut one, mut two, mut three] = [(); 3].map(|()| Door::new(&gate, None));
        one.place(write(1, Flags::HARD_BARRIER));
        assert!(!two.pass(1));
        three.place(write(2, Flags::HARD_BARRIER));
        two.place(write(3, Flags::NONE));
        assert_eq!(tokens(&mut one), [1]);
        one.complete_barrier();
        assert_eq!(tokens(&mut three), [2]);
        three.complete_barrier();
        assert_eq!((tokens(&mut two), two.out()), (vec![3], 1));
    });
}

/// What lanes share beside the gate has changed: all look again.
#[test]
fn every_lane_is_rung() {
    struct Counted(AtomicU32);
    impl Bell for Counted {
        fn ring(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    loom::model(|| {
        let (gate, bell) = (Arc::new(Gate::default()), Arc::new(Counted(AtomicU32::new(0))));
        let open = || Door::new(&gate, Some(Arc::<Counted>::clone(&bell)));
        let (one, _two, _deaf) = (open(), open(), Door::new(&gate, None));
        one.ring();
        assert_eq!(bell.0.load(Ordering::Relaxed), 2);
    });
}
