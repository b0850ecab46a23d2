//! The service thread: reaps for futures that nobody polls and runs what devices do by themselves. One per
//! process, started on first need; it sleeps while nothing is out.

use crate::background::Background;
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
    /// Devices that have rung since the thread last looked.
    notes: Mutex<Vec<Weak<Background>>>,
    /// Whether the thread runs.
    thread: Mutex<bool>,
    bell: Event,
    rounds: AtomicU64,
}

static SERVICE: LazyLock<Service> = LazyLock::new(|| Service {
    lanes: Mutex::new(Vec::new()),
    notes: Mutex::new(Vec::new()),
    thread: Mutex::new(false),
    bell: Event::new(),
    rounds: AtomicU64::new(0),
});

/// How often the service thread of this process has looked at its devices so far: it stands still while
/// nothing is out.
pub fn rounds() -> u64 {
    SERVICE.rounds.load(Ordering::Relaxed)
}

/// Whether the thread runs, at least from now on.
fn is_running() -> bool {
    let mut runs = lock(&SERVICE.thread);
    if !*runs {
        let builder = std::thread::Builder::new().name("platter-service".to_string());
        *runs = builder.spawn(serve).is_ok();
    }
    *runs
}

/// Reports a lane with something out. `false`: the thread cannot be had; those who wait must poll.
pub(crate) fn watch(lane: &Arc<AsyncLane>) -> bool {
    let runs = is_running();
    if runs {
        lock(&SERVICE.lanes).push(Arc::downgrade(lane));
        ring();
    }
    runs
}

/// Reports a device that has rung. `false`: the thread cannot be had.
pub(crate) fn note(background: &Weak<Background>) -> bool {
    let runs = is_running();
    if runs {
        lock(&SERVICE.notes).push(Weak::clone(background));
        ring();
    }
    runs
}

/// Has the thread look at its lanes once more.
pub(crate) fn ring() {
    SERVICE.bell.ring();
}

/// The lane of a device that has rung, if it is not served already.
fn answer(note: &Weak<Background>) -> Option<Weak<AsyncLane>> {
    let background = note.upgrade()?;
    // A device that panics when it is to open a lane is not run; no other one is touched by that.
    catch_unwind(AssertUnwindSafe(|| background.answer())).ok().flatten()
}

fn serve() {
    let (mut lanes, mut notes) = (Vec::<Weak<AsyncLane>>::new(), Vec::<Weak<Background>>::new());
    let mut sleeper = Sleeper::default();
    loop {
        SERVICE.rounds.fetch_add(1, Ordering::Relaxed);
        // Before the lists are taken: who adds to them rings afterwards.
        SERVICE.bell.clear();
        lanes.append(&mut lock(&SERVICE.lanes));
        notes.append(&mut lock(&SERVICE.notes));
        lanes.extend(notes.drain(..).filter_map(|note| answer(&note)));
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
