//! The service thread: reaps completions for futures that no task polls, and runs the devices' own work.
//! There is one per process, started when it is first needed; it sleeps while nothing is outstanding.

use crate::background::Background;
use crate::future::{AsyncLane, Next};
use crate::sync::{Mutex, lock};
use crate::wake::{Event, Sleeper};
use platter_block::time::Span;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Weak};

struct Service {
    /// Lanes that have reported outstanding I/O.
    lanes: Mutex<Vec<Weak<AsyncLane>>>,
    /// Devices that have rung since the thread's last round.
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

/// Number of rounds of the service thread in this process so far; it does not change while nothing is
/// outstanding.
pub fn rounds() -> u64 {
    SERVICE.rounds.load(Ordering::Relaxed)
}

/// Starts the thread unless it runs. Returns whether it runs now.
fn is_running() -> bool {
    let mut runs = lock(&SERVICE.thread);
    if !*runs {
        let builder = std::thread::Builder::new().name("platter-service".to_string());
        *runs = builder.spawn(serve).is_ok();
    }
    *runs
}

/// Reports a lane with outstanding I/O. `false`: the thread cannot be started, and waiting tasks must poll.
pub(crate) fn watch(lane: &Arc<AsyncLane>) -> bool {
    let runs = is_running();
    if runs {
        lock(&SERVICE.lanes).push(Arc::downgrade(lane));
        ring();
    }
    runs
}

/// Reports a device that has rung. `false`: the thread cannot be started.
pub(crate) fn note(background: &Weak<Background>) -> bool {
    let runs = is_running();
    if runs {
        lock(&SERVICE.notes).push(Weak::clone(background));
        ring();
    }
    runs
}

/// Makes the thread examine its lanes once more.
pub(crate) fn ring() {
    SERVICE.bell.ring();
}

/// The lane of a device that has rung, unless the thread runs it already.
fn answer(note: &Weak<Background>) -> Option<Weak<AsyncLane>> {
    let background = note.upgrade()?;
    // If a device panics while it opens a lane, only that device is not run; others are unaffected.
    catch_unwind(AssertUnwindSafe(|| background.answer())).ok().flatten()
}

fn serve() {
    let (mut lanes, mut notes) = (Vec::<Weak<AsyncLane>>::new(), Vec::<Weak<Background>>::new());
    let mut sleeper = Sleeper::default();
    loop {
        SERVICE.rounds.fetch_add(1, Ordering::Relaxed);
        // Before the lists are taken: threads that add to them ring afterwards.
        SERVICE.bell.clear();
        lanes.append(&mut lock(&SERVICE.lanes));
        notes.append(&mut lock(&SERVICE.notes));
        lanes.extend(notes.drain(..).filter_map(|note| answer(&note)));
        sleeper.handles.clear();
        let rings = SERVICE.bell.descriptor().map(|fd| sleeper.handles.push(fd)).is_some();
        let (mut timeout, mut again) = (None::<Span>, false);
        lanes.retain(|lane| {
            let Some(lane) = lane.upgrade() else { return false };
            // If a trace sink or an elevator panics, only its own device is dropped.
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
