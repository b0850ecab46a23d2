//! What a layer whose lanes share state gives its lanes: the state behind one lock, and turns of it.

use super::board::{Board, Outlook};
use super::lanes::{LaneEntry, Lanes};
use super::lock_times;
use crate::sync::MutexGuard;
use platter_block::fault::Fault;
use platter_block::lane::Lane;
use platter_block::time::{Span, Time};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Instant;

/// How long a lane or a layer that is dropped waits for devices that complete nothing.
pub const PATIENCE: Span = Span::from_secs(30);

/// The state of a layer that its lanes share, behind one lock: its own lanes below, and what bios wait for. Whichever
/// lane takes the lock carries out what all of them can do.
pub trait Turns: Send {
    /// What a task is told about an I/O that failed.
    type Failure;

    /// The lanes of the layer.
    fn lanes(&self) -> &Lanes<Self::Failure>;

    /// The same.
    fn lanes_mut(&mut self) -> &mut Lanes<Self::Failure>;

    /// Adds a lane. Returns its number.
    fn join(&mut self, entry: &Arc<LaneEntry>) -> u32 {
        self.lanes_mut().join(entry)
    }

    /// Calls `each` with the layer's own lanes below.
    fn each_below(&self, each: &mut dyn FnMut(&dyn Lane));

    /// The work that is left.
    fn outlook(&self, now: Time) -> Outlook;

    /// Whether I/Os are with the layer's own lanes.
    fn is_out(&self) -> bool;

    /// A turn begins: the lock has just been taken.
    fn enter(&mut self);

    /// A turn ends: wakes the lanes whose bios can continue.
    fn leave(&mut self, now: Time);

    /// Takes completions, and does what that allows.
    fn run(&mut self, now: Time);

    /// Whether anything was done in this turn.
    fn has_progress(&self) -> bool;

    /// A thread waits: the own lanes hold nothing back.
    fn unplug(&mut self, now: Time);

    /// Advances simulated time, or sleeps, until an own lane has completions.
    fn wait(&mut self, now: Time, timeout: Option<Span>);
}

/// The lock on the state of a layer. A panic while it is held breaks the state: all lanes are woken, to fail their bios.
pub struct EngineLock<'a, E: Turns> {
    guard: MutexGuard<'a, E>,
    /// Since when, if that is recorded.
    since: Option<Instant>,
}

impl<'a, E: Turns> EngineLock<'a, E> {
    /// From the guard of the lock, which has just been taken.
    pub fn new(guard: MutexGuard<'a, E>) -> EngineLock<'a, E> {
        EngineLock { guard, since: lock_times::begin() }
    }
}

impl<E: Turns> Deref for EngineLock<'_, E> {
    type Target = E;

    fn deref(&self) -> &E {
        &self.guard
    }
}

impl<E: Turns> DerefMut for EngineLock<'_, E> {
    fn deref_mut(&mut self) -> &mut E {
        &mut self.guard
    }
}

impl<E: Turns> Drop for EngineLock<'_, E> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.guard.lanes().kick_all();
        }
        if let Some(since) = self.since {
            lock_times::end(std::ptr::from_ref(&*self.guard).addr(), since);
        }
    }
}

/// What the lanes of a layer share.
pub trait Host: Send + Sync + 'static {
    /// The state behind the lock.
    type Engine: Turns;

    /// Takes the lock, for a short time.
    ///
    /// # Errors
    /// [`Kind::Broken`](platter_block::fault::Kind::Broken) after a panic.
    fn engine(&self) -> Result<EngineLock<'_, Self::Engine>, Fault>;

    /// What is published of the state.
    fn board(&self) -> &Board;

    /// Whether time is virtual.
    fn is_simulated(&self) -> bool;

    /// The time of the devices below.
    fn now(&self) -> Time;

    /// Publishes the work that is left. To be called before the lock is released if that has changed.
    fn publish(&self, now: Time, engine: &Self::Engine) {
        self.board().publish(now, engine.lanes(), engine.outlook(now), self.is_simulated());
    }

    /// Ends a turn: wakes the lanes whose bios can continue, and publishes the work that is left.
    fn leave(&self, now: Time, engine: &mut Self::Engine) {
        engine.leave(now);
        self.publish(now, engine);
    }

    /// Runs the layer on this thread, with the lock held, until `step` returns `true`. Returns `false` if nothing
    /// happened for `patience` before.
    fn run_until(
        &self,
        engine: &mut Self::Engine,
        patience: Span,
        mut step: impl FnMut(&mut Self::Engine, Time) -> bool,
    ) -> bool {
        let mut since = self.now();
        loop {
            let now = self.now();
            engine.enter();
            if step(engine, now) {
                return true;
            }
            engine.unplug(now);
            engine.run(now);
            if engine.has_progress() {
                // What was waited for may have come in this turn, and nothing else may follow that would end a sleep.
                since = now;
                continue;
            }
            if now.since(since) >= patience {
                return false;
            }
            engine.wait(now, Some(patience));
        }
    }
}
