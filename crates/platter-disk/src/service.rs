//! The service thread: reaps for futures that nobody polls. One per process, started on first need; it
//! sleeps while nothing is out.

use crate::future::{AsyncLane, Next};
use crate::sync::{Mutex, lock};
use crate::wake::{Event, Sleeper};
use platter_block::time::Span;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Weak};

struct Service {
    /// Lanes that have something out, as they were reported.
    lanes: Mutex<Vec<Weak<AsyncLane>>>,
    /// Whether the thread runs.
    thread: Mutex<bool>,
    bell: Event,
    rounds: AtomicU64,
}

static SERVICE: LazyLock<Service> = LazyLock::new(|| Service {
    lanes: Mutex::new(Vec::new()),
    thread: Mutex::new(false),
    bell: Event::new(),
    rounds: AtomicU64::new(0),
});

/// How often the service thread of this process has looked at its devices so far: it stands still while
/// nothing is out.
pub fn rounds() -> u64 {
    SERVICE.rounds.load(Ordering::Relaxed)
}

/// Reports a lane with something out. `false`: the thread cannot be had; those who wait must poll.
pub(crate) fn watch(lane: &Arc<AsyncLane>) -> bool {
    let mut runs = lock(&SERVICE.thread);
    if !*runs {
        let builder = std::thread::Builder::new().name("platter-service".to_string());
        *runs = builder.spawn(serve).is_ok();
    }
    if *runs {
        lock(&SERVICE.lanes).push(Arc::downgrade(lane));
        ring();
    }
    *runs
}

/// Has the thread look at its lanes once more.
pub(crate) fn ring() {
    SERVICE.bell.ring();
}

fn serve() {
    let mut lanes: Vec<Weak<AsyncLane>> = Vec::new();
    let mut sleeper = Sleeper::default();
    loop {
        SERVICE.rounds.fetch_add(1, Ordering::Relaxed);
        // Before the list is taken: who adds to it rings afterwards.
        SERVICE.bell.clear();
        lanes.append(&mut lock(&SERVICE.lanes));
        sleeper.handles.clear();
        let rings = SERVICE.bell.descriptor().map(|fd| sleeper.handles.push(fd)).is_some();
        let (mut timeout, mut again) = (None::<Span>, false);
        lanes.retain(|lane| {
            let Some(lane) = lane.upgrade() else { return false };
            // A trace sink or an elevator that panics takes its own device down, and no other.
            let Ok(next) = catch_unwind(AssertUnwindSafe(|| lane.serve(&mut sleeper.handles))) else {
                lane.watched.store(false, Ordering::SeqCst);
                return false;
            };
            match next {
                Next::Idle => false,
                Next::Again => {
                    again = true;
                    true
                }
                Next::Sleep(span) => {
                    timeout = timeout.into_iter().chain(span).min();
                    true
                }
            }
        });
        if !again {
            sleeper.sleep(rings, timeout);
        }
    }
}
