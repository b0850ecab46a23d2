//! Every interleaving of threads that wait for requests and one that ends them, on the library's source with the
//! futex of a model checker. A wake-up that is lost is a thread that sleeps for ever, which the checker reports.

#[path = "../../src/board.rs"]
mod board;
mod sync;

use board::Board;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use sync::{AtomicU32, Futex};

struct Shared {
    board: Board,
    ended: [AtomicBool; 2],
}

fn shared() -> Arc<Shared> {
    let board = Board::new(Futex::new(0), AtomicU32::new(0));
    Arc::new(Shared { board, ended: [AtomicBool::new(false), AtomicBool::new(false)] })
}

impl Shared {
    fn end(&self, request: usize) {
        self.ended[request].store(true, Ordering::Release);
        self.board.post();
    }

    fn has_ended(&self, request: usize) -> bool {
        self.ended[request].load(Ordering::Acquire)
    }
}

#[test]
fn a_thread_that_waits_for_one_of_two_sees_it() {
    loom::model(|| {
        let shared = shared();
        let waits = Arc::clone(&shared);
        let waiter = thread::spawn(move || {
            assert_eq!(waits.board.wait(|| waits.has_ended(1), None), Ok(()));
            assert!(waits.has_ended(0), "the results before an announcement are visible");
        });
        shared.end(0);
        shared.end(1);
        waiter.join().unwrap();
    });
}

#[test]
fn threads_that_wait_for_different_requests_all_wake() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let shared = shared();
        let waiters = [0, 1].map(|request| {
            let waits = Arc::clone(&shared);
            thread::spawn(move || assert_eq!(waits.board.wait(|| waits.has_ended(request), None), Ok(())))
        });
        shared.end(1);
        shared.end(0);
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    });
}
