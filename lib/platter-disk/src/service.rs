//! The service thread: reaps completions for futures that no task polls, and runs the devices' own work.
//! There is one per process, started when it is first needed; it sleeps while nothing is outstanding.
//!
//! It watches lanes: it sleeps on their descriptors and runs those whose descriptors are readable, whose timers are due,
//! or that were called. It keeps watching a few idle lanes, so that the next future on one of them need not wake it.

use crate::background::Background;
use crate::clock::Clock;
use crate::future::{AsyncLane, Next};
use crate::sync::{Mutex, lock};
use crate::wake::{ArmedDoorbell, EventFd, Sleeper};
use platter_block::time::{Span, Time};
use std::cell::Cell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Weak};

/// Idle lanes that the thread keeps watching.
const IDLE: usize = 32;

/// Number of spurious wakeups in a row by an idle lane before the thread lets it go. Lanes of a
/// cache also show I/O that other threads wait for.
const MOST_SPURIOUS: u32 = 8;

/// What other threads tell the service thread.
struct News {
    /// Lanes that have reported outstanding I/O.
    lanes: Vec<Weak<AsyncLane>>,
    /// Devices that have rung since the thread's last round.
    notes: Vec<Weak<Background>>,
}

struct Service {
    news: Mutex<News>,
    /// Whether there are any; set with the lock held.
    has_news: AtomicBool,
    wake: ArmedDoorbell,
    rounds: AtomicU64,
}

/// Whether the thread runs. Changed with the lock of the news held.
static IS_STARTED: AtomicBool = AtomicBool::new(false);

static SERVICE: LazyLock<Service> = LazyLock::new(|| Service {
    news: Mutex::new(News { lanes: Vec::new(), notes: Vec::new() }),
    has_news: AtomicBool::new(false),
    wake: ArmedDoorbell::new(),
    rounds: AtomicU64::new(0),
});

thread_local! {
    static IS_SERVICE: Cell<bool> = const { Cell::new(false) };
}

/// Number of rounds of the service thread in this process so far; it does not change while nothing is
/// outstanding.
pub fn rounds() -> u64 {
    SERVICE.rounds.load(Ordering::Relaxed)
}

/// Tells the thread something; starts it if it does not run yet. `false`: it cannot be started.
fn tell(something: impl FnOnce(&mut News)) -> bool {
    let mut news = lock(&SERVICE.news);
    if !is_started() {
        let builder = std::thread::Builder::new().name("platter-service".to_string());
        IS_STARTED.store(builder.spawn(serve).is_ok(), Ordering::Relaxed);
    }
    if !is_started() {
        return false;
    }
    something(&mut news);
    SERVICE.has_news.store(true, Ordering::SeqCst);
    drop(news);
    ring();
    true
}

/// Reports a lane with outstanding I/O. `false`: the thread cannot be started, and waiting tasks must poll.
pub(crate) fn watch(lane: &Arc<AsyncLane>) -> bool {
    tell(|news| news.lanes.push(Arc::downgrade(lane)))
}

/// Reports a device that has rung. `false`: the thread cannot be started.
pub(crate) fn note(background: &Weak<Background>) -> bool {
    tell(|news| news.notes.push(Weak::clone(background)))
}

/// Wakes the thread: it runs the lanes that were called, and forgets those that are gone.
pub(crate) fn ring() {
    SERVICE.wake.ring();
}

/// The lane of a device that has rung, unless the thread runs it already.
fn answer(note: &Weak<Background>) -> Option<Weak<AsyncLane>> {
    let background = note.upgrade()?;
    // If a device panics while it opens a lane, only that device is not run; others are unaffected.
    catch_unwind(AssertUnwindSafe(|| background.answer())).ok().flatten()
}

/// A lane that the thread watches.
struct Watched {
    lane: Weak<AsyncLane>,
    /// Descriptors that show that the lane must be run.
    handles: Vec<i32>,
    /// Their indices in the list that the thread slept on last.
    slept_on: Range<usize>,
    /// When the lane must be run.
    at: Option<Time>,
    /// Run it in the next round whatever its descriptors show.
    again: bool,
    is_idle: bool,
    /// How often in a row there was nothing to do.
    spurious_wakeups: u32,
}

/// The thread's own lists.
#[derive(Default)]
pub(crate) struct Watch {
    lanes: Vec<Watched>,
    /// Lists of descriptors for later lanes.
    spare: Vec<Vec<i32>>,
    sleeper: Sleeper,
}

impl Watch {
    pub(crate) fn add(&mut self, lane: Weak<AsyncLane>) {
        let handles = self.spare.pop().unwrap_or_default();
        let watched = Watched {
            lane,
            handles,
            slept_on: 0..0,
            at: None,
            again: true,
            is_idle: false,
            spurious_wakeups: 0,
        };
        self.lanes.push(watched);
    }

    /// Runs the lanes that have a reason.
    pub(crate) fn run(&mut self) {
        let Watch { lanes, spare, sleeper } = self;
        let now = Clock::Host.now();
        lanes.retain_mut(|watched| {
            let has_reason = watched.again
                || sleeper.is_readable(watched.slept_on.clone())
                || watched.at.is_some_and(|at| at <= now);
            let stays = watched.lane.upgrade().is_some_and(|lane| {
                // The call is taken back before the lane is run.
                let is_called = lane.take_call();
                let only_late = !(watched.again || is_called);
                !(has_reason || is_called) || watched.serve(&lane, only_late)
            });
            if !stays {
                spare.push(watched.take_list());
            }
            stays
        });
        self.let_idle_ones_go();
    }

    /// Stops watching idle lanes if there are too many, and those whose wakeups are spurious.
    fn let_idle_ones_go(&mut self) {
        let Watch { lanes, spare, .. } = self;
        let idle = lanes.iter().filter(|watched| watched.is_idle).count();
        let mut surplus = idle.saturating_sub(IDLE);
        // Those that have been watched for longest come first.
        lanes.retain_mut(|watched| {
            let tries = watched.is_idle && (surplus > 0 || watched.spurious_wakeups >= MOST_SPURIOUS);
            let goes = tries && watched.lane.upgrade().is_none_or(|lane| lane.is_let_go());
            surplus = surplus.saturating_sub(usize::from(goes));
            if goes {
                spare.push(watched.take_list());
            }
            !goes
        });
    }

    /// Sleeps until some lane has a reason to wake the thread, or `wake` is readable. Without `wake` the thread naps.
    fn sleep(&mut self, wake: Option<&EventFd>) {
        self.sleeper.handles.clear();
        let rings = wake.map(|fd| self.sleeper.handles.push(fd.raw())).is_some();
        let (mut at, mut again) = (None, false);
        for watched in &mut self.lanes {
            let first = self.sleeper.handles.len();
            self.sleeper.handles.extend_from_slice(&watched.handles);
            watched.slept_on = first..self.sleeper.handles.len();
            at = Time::earliest(at, watched.at);
            again |= watched.again;
        }
        let timeout = match again {
            // The descriptors of the other lanes are looked at nevertheless.
            true => Some(Span::default()),
            false => at.map(|at| at.since(Clock::Host.now())),
        };
        self.sleeper.sleep(rings, timeout);
    }
}

impl Watched {
    /// The empty list of descriptors, for another lane.
    fn take_list(&mut self) -> Vec<i32> {
        self.handles.clear();
        std::mem::take(&mut self.handles)
    }

    /// Runs the lane, `only_late`: unless an event loop does. Returns whether it has to be watched further.
    fn serve(&mut self, lane: &AsyncLane, only_late: bool) -> bool {
        self.handles.clear();
        (self.at, self.again, self.is_idle) = (None, false, false);
        // If a trace sink or an elevator panics, only its own device is dropped.
        let Ok(next) = catch_unwind(AssertUnwindSafe(|| lane.serve(&mut self.handles, only_late))) else {
            lane.watched.store(false, Ordering::SeqCst);
            return false;
        };
        match next {
            Next::Idle => return false,
            Next::Rest { is_spurious, at } => {
                (self.is_idle, self.at) = (true, at);
                self.spurious_wakeups = if is_spurious { self.spurious_wakeups + 1 } else { 0 };
            }
            Next::Again => self.again = true,
            Next::Sleep(at) => self.at = at,
        }
        true
    }
}

/// Whether the service thread runs.
#[inline]
pub(crate) fn is_started() -> bool {
    IS_STARTED.load(Ordering::Relaxed)
}

/// Whether this is the service thread, which runs code of the program too: a waker, the destructor of a buffer.
pub(crate) fn is_this_thread() -> bool {
    IS_SERVICE.get()
}

fn serve() {
    IS_SERVICE.set(true);
    let (mut watch, mut notes) = (Watch::default(), Vec::<Weak<Background>>::new());
    let mut lanes = Vec::<Weak<AsyncLane>>::new();
    loop {
        SERVICE.rounds.fetch_add(1, Ordering::Relaxed);
        // Before the news are read: threads that add to them ring afterwards.
        let wake = SERVICE.wake.arm();
        if SERVICE.has_news.swap(false, Ordering::SeqCst) {
            let mut news = lock(&SERVICE.news);
            lanes.append(&mut news.lanes);
            notes.append(&mut news.notes);
        }
        lanes.extend(notes.drain(..).filter_map(|note| answer(&note)));
        lanes.drain(..).for_each(|lane| watch.add(lane));
        watch.run();
        watch.sleep(wake);
    }
}

#[cfg(test)]
mod tests;
