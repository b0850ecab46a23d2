//! Models of an inbox beside the lock whose holders take from it.

use crate::inbox::Inbox;
use crate::sync::{Mutex, lock};
use loom::cell::UnsafeCell;
use loom::thread;
use std::sync::Arc;

/// What the lock protects, and whether it may be waited for.
#[derive(Default)]
struct State {
    taken: Vec<u32>,
    waits_for: Option<u32>,
}

struct Shared {
    state: Mutex<State>,
    inbox: Inbox<u32>,
}

impl Shared {
    fn new() -> Arc<Shared> {
        Arc::new(Shared { state: Mutex::new(State::default()), inbox: Inbox::default() })
    }

    /// Takes the lock, changes the state, and releases the lock as a turn of the engine does.
    fn turn(&self, change: impl FnOnce(&mut State)) {
        let mut state = lock(&self.state);
        self.inbox.take(&mut state.taken);
        change(&mut state);
        let waits = |state: &State| state.waits_for.is_some_and(|entry| !state.taken.contains(&entry));
        if self.inbox.set_urgent(waits(&state)) {
            self.inbox.take(&mut state.taken);
        }
    }

    /// Leaves an entry, and takes the lock if that is asked for.
    fn leave(&self, entry: u32) {
        if self.inbox.put(entry) {
            self.turn(|_| {});
        }
    }
}

/// A thread that waits for an entry gets it without another turn of its own.
#[test]
fn what_is_waited_for_does_not_stay() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let shared = Shared::new();
        let threads: Vec<_> = [1, 2]
            .into_iter()
            .map(|entry| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.leave(entry))
            })
            .collect();
        shared.turn(|state| state.waits_for = Some(2));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let state = lock(&shared.state);
        assert!(state.taken.contains(&2), "{:?}", state.taken);
    });
}

/// Each entry is taken once, with what its thread wrote before.
#[test]
fn entries_are_taken_once() {
    struct Written(UnsafeCell<u32>);
    // SAFETY: the checker proves that no write overlaps with another access.
    unsafe impl Sync for Written {}
    loom::model(|| {
        let (shared, written) = (Shared::new(), Arc::new(Written(UnsafeCell::new(0))));
        let thread = {
            let (shared, written) = (Arc::clone(&shared), Arc::clone(&written));
            thread::spawn(move || {
                // SAFETY: see `Sync`.
                written.0.with_mut(|value| unsafe { *value = 7 });
                shared.leave(1);
            })
        };
        let mut seen = 0;
        for _ in 0..2 {
            shared.turn(|state| {
                for _ in state.taken.drain(..) {
                    seen += 1;
                    // SAFETY: see `Sync`.
                    assert_eq!(written.0.with(|value| unsafe { *value }), 7);
                }
            });
        }
        thread.join().unwrap();
        shared.turn(|state| seen += state.taken.len());
        assert_eq!(seen, 1);
    });
}
