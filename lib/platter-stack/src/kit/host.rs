//! What a layer whose lanes share state gives its lanes: the state behind one lock, and turns of it.

use super::board::{Board, Outlook};
use super::lanes::{LaneEntry, Lanes};
use super::lock_times;
use super::port::{Order, Port};
use super::rings::Rings;
use crate::sync::MutexGuard;
use platter_block::deferred::Depth;
use platter_block::fault::Fault;
use platter_block::lane::{Bell, Lane};
use platter_block::time::{Span, Time};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Instant;

/// How long a lane or a layer that is dropped waits for devices that carry out nothing of what it waits for. For layers of a
/// [`Frame`](super::Frame) only an I/O that succeeds, and that a bio or a task which a thread waits for needed, makes it wait for as
/// long again ([`Turns::has_advanced`]). Timers, failures, and I/O that the layer does for itself do not, because these may go
/// on for ever: a path that has failed is checked again and again. A cache waits again for any I/O that ends: it tries each page once.
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

    /// Calls `each` with the layer's own lanes below. One behind a [`Port`] is not among them.
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

    /// Whether that is a reason to wait longer for devices; see [`PATIENCE`].
    fn has_advanced(&self) -> bool {
        self.has_progress()
    }

    /// A panic with the lock held has broken the state: what is answered without the lock ends. The lock is still held.
    fn panicked(&self) {}

    /// A thread waits: the own lanes hold nothing back.
    fn unplug(&mut self, now: Time);

    /// Advances simulated time, or sleeps, until an own lane has completions.
    fn wait(&mut self, now: Time, timeout: Option<Span>);
}

/// The lock on the state of a layer. A panic while it is held breaks the state: all lanes are woken, to fail their bios.
pub struct EngineLock<'a, E: Turns> {
    guard: MutexGuard<'a, E>,
    /// The bells of lanes that were woken. Dropped, and so rung, when the lock has been released.
    rings: Option<Rings>,
    // Dropped last: code of the program that is deferred may wait for a lane that was woken.
    _depth: Depth,
    /// Since when, if that is recorded.
    since: Option<Instant>,
    /// The thread was panicking before, which does not break the state.
    was_panicking: bool,
}

impl<'a, E: Turns> EngineLock<'a, E> {
    /// From the guard of the lock, which has just been taken.
    pub fn new(guard: MutexGuard<'a, E>) -> EngineLock<'a, E> {
        let (since, was_panicking) = (lock_times::begin(), std::thread::panicking());
        EngineLock { guard, rings: None, _depth: Depth::enter(), since, was_panicking }
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
            if !self.was_panicking {
                self.guard.panicked();
            }
        }
        if let Some(since) = self.since {
            lock_times::end(std::ptr::from_ref(&*self.guard).addr(), since);
        }
        self.rings = self.guard.lanes().take_rings();
    }
}

/// What the lanes of a layer share.
pub trait Host: Send + Sync + 'static {
    /// The state behind the lock.
    type Engine: Turns;

    /// Takes the lock, for a short time. After a panic it [clears the board](Board::clear), because nothing is published any more.
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

    /// The layer's own lane below, if that has a lock of its own.
    fn port(&self) -> Option<&Port> {
        None
    }

    /// Before a turn: takes what has come back, without the lock of the state.
    fn collect(&self, now: Time) {
        if let Some(port) = self.port()
            && self.board().is_out()
        {
            use_port(self, port, |port| port.run(now));
        }
    }

    /// After a turn: submits what it has ordered, without the lock of the state. What comes back at once is handled in a turn
    /// of its own, which submits nothing, so that this ends.
    fn deliver(&self, now: Time) {
        if let Some(port) = self.port()
            && port.has_orders()
            && use_port(self, port, |port| port.run(now))
        {
            self.take_in(now);
        }
    }

    /// A turn of no lane.
    fn take_turn(&self, now: Time) {
        self.collect(now);
        self.take_in(now);
        self.deliver(now);
    }

    /// A turn in which nothing is submitted.
    fn take_in(&self, now: Time) {
        if let Ok(mut engine) = self.engine() {
            engine.enter();
            engine.run(now);
            self.leave(now, &mut engine);
        }
    }

    /// Appends the descriptors of all of the layer's own lanes, as [`Lane::wait_handles`] does. Every one is asked: a lane
    /// signals only lanes that have asked. If another thread uses the lane behind the port, `bell` takes the place of its
    /// descriptors ([`Port::wait_handles`]).
    fn list_handles(&self, handles: &mut Vec<i32>, bell: Option<&Arc<dyn Bell>>) -> bool {
        let Some(port) = self.port() else {
            let mut complete = true;
            return self.engine().is_ok_and(|engine| {
                engine.each_below(&mut |lane| complete &= lane.wait_handles(handles));
                complete
            });
        };
        let (complete, wants_turn) = use_port(self, port, |port| port.wait_handles(handles, bell));
        if wants_turn {
            self.take_in(self.now());
        }
        if port.has_orders() {
            self.deliver(self.now());
        }
        complete
    }

    /// Requests of the layer's own lanes with the drivers below.
    fn in_flight(&self) -> u32 {
        if let Some(port) = self.port() {
            return port.in_flight();
        }
        let mut sum = 0;
        if let Ok(engine) = self.engine() {
            engine.each_below(&mut |lane| sum += lane.in_flight());
        }
        sum
    }

    /// A thread waits: the layer's own lanes hold nothing back.
    fn unplug(&self, now: Time) {
        match self.port() {
            Some(port) if self.board().is_out() => {
                port.order([Order::Unplug]);
                self.deliver(now);
            }
            Some(_) => {}
            None => {
                if let Ok(mut engine) = self.engine() {
                    engine.unplug(now);
                }
            }
        }
    }

    /// Publishes the work that is left. To be called before the lock is released if that has changed.
    fn publish(&self, now: Time, engine: &mut Self::Engine) {
        let outlook = engine.outlook(now);
        self.board().publish(now, engine.lanes_mut(), outlook, self.is_simulated());
    }

    /// Ends a turn: wakes the lanes whose bios can continue, and publishes the work that is left.
    fn leave(&self, now: Time, engine: &mut Self::Engine) {
        engine.leave(now);
        self.publish(now, engine);
    }

    /// Runs the layer on this thread, with the lock held, until `step` returns `true`. Returns `false` if it
    /// [did not advance](Turns::has_advanced) for `patience` before.
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
            if engine.has_advanced() {
                since = now;
            }
            let waited = now.since(since);
            // What was waited for may have come in this turn, and nothing else may follow that would end a sleep.
            if waited >= patience {
                return engine.has_progress() && step(engine, now);
            }
            if engine.has_progress() {
                continue;
            }
            drop(engine.lanes().take_rings());
            engine.wait(now, Some(Span(patience.0 - waited.0)));
        }
    }
}

/// Uses a port. If its lane panics the state is broken: all lanes are woken, to fail their bios.
fn use_port<H: Host + ?Sized, T>(host: &H, port: &Port, work: impl FnOnce(&Port) -> T) -> T {
    let breaks = Breaks { host, port };
    let result = work(port);
    std::mem::forget(breaks);
    result
}

/// Dropped while its thread panics: breaks the port.
struct Breaks<'a, H: Host + ?Sized> {
    host: &'a H,
    port: &'a Port,
}

impl<H: Host + ?Sized> Drop for Breaks<'_, H> {
    fn drop(&mut self) {
        let engine = self.host.engine();
        self.port.break_off();
        // Released by a thread that panics, so all lanes are woken.
        drop(engine);
        // The layer notices it now: a program may use only what it answers without its state.
        drop(self.host.engine());
    }
}
