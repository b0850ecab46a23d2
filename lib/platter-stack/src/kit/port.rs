//! A layer's own lane below, behind a lock of its own, so that no system call is made under the lock of the layer.
//!
//! A turn, which holds the lock of the layer, only notes what the lane is to do ([`Port::order`]). Threads that have
//! released that lock run the lane ([`Port::run`]): they give it what was noted, and keep what has come back for the next
//! turn. A thread that finds the lane in use does not wait for it: the thread that uses it looks for new orders after it
//! has released it, and carries them out. A thread that wants its descriptors before it sleeps leaves a bell, sleeps without
//! them, and is rung when the lane is free. `tests/interleavings` checks that no order stays undone and no bell unrung. Every
//! thread over simulated devices waits for the lane, and so does one that has no bell.
//!
//! The downside: a thread carries out orders of others for as long as they come while it uses the lane.

use crate::sync::{
    AtomicU64, Mailbox, Mutex, MutexGuard, Ordering, fence, lock, lock_unbroken, try_lock_unbroken,
};
use platter_block::bio::Bio;
use platter_block::deferred::Depth;
use platter_block::lane::{Bell, Cancel, Lane};
use platter_block::time::{Span, Time};
use std::sync::Arc;

/// What the lane is to do.
pub enum Order {
    /// Take a bio.
    Submit(Bio),
    /// Take bios back.
    Cancel(Cancel),
    /// Hold nothing back: a thread waits.
    Unplug,
}

/// The lane, and what the thread that uses it works on.
struct Driver {
    // Dropped first: this waits for the I/O that its driver has.
    lane: Box<dyn Lane>,
    orders: Vec<Order>,
    came: Vec<Bio>,
    /// Its next wakeup when that was last asked for.
    wakeup: Option<Time>,
}

/// When the lane is to be run even if nothing completes.
struct Wakeup {
    at: Option<Time>,
    /// What the layer knows of that.
    known: Option<Time>,
}

/// See the module.
pub struct Port {
    driver: Mutex<Driver>,
    /// What turns leave for the thread that uses the lane.
    orders: Mailbox<Order>,
    /// What that thread leaves for the next turn.
    came: Mailbox<Bio>,
    wakeup: Mutex<Wakeup>,
    /// Bells of threads that are to ask for the descriptors again when the lane is free.
    bells: Mailbox<Arc<dyn Bell>>,
    in_flight: AtomicU64,
    /// 1: the lane, or the layer, has panicked.
    broken: AtomicU64,
    /// Time is virtual: it passes while any lane is run, so the lane is always asked for its next wakeup.
    simulated: bool,
}

impl Port {
    /// A port to a lane, over devices whose time is virtual if `simulated`.
    pub fn new(lane: Box<dyn Lane>, simulated: bool) -> Port {
        let driver = Driver { lane, orders: Vec::new(), came: Vec::new(), wakeup: None };
        Port {
            driver: Mutex::new(driver),
            orders: Mailbox::default(),
            came: Mailbox::default(),
            wakeup: Mutex::new(Wakeup { at: None, known: None }),
            bells: Mailbox::default(),
            in_flight: AtomicU64::new(0),
            broken: AtomicU64::new(0),
            simulated,
        }
    }

    /// Notes what the lane is to do, in order. The caller, or any other thread, then calls [`Port::run`] without the lock of the
    /// layer.
    pub fn order(&self, orders: impl IntoIterator<Item = Order>) {
        self.orders.post(orders);
    }

    /// Whether there are orders.
    #[inline]
    pub fn has_orders(&self) -> bool {
        !self.orders.is_empty()
    }

    /// Carries orders out and runs the lane, unless another thread is using it. Returns whether the layer has to take
    /// a turn: bios have come back, or the lane is to be run earlier than the layer knows.
    pub fn run(&self, now: Time) -> bool {
        // Code of the program that is deferred runs after all orders have been carried out, of which it may wait for one.
        let _depth = Depth::enter();
        let mut wants_turn = false;
        while !self.is_broken() {
            // A thread notes orders, passes the fence and tries to take the lane. The thread that has it releases it, passes the
            // fence and looks for orders. So one of the two sees what the other has done.
            fence(Ordering::SeqCst);
            let Some(mut driver) = self.try_driver() else { break };
            wants_turn |= self.drive(&mut driver, now);
            drop(driver);
            fence(Ordering::SeqCst);
            if !self.has_orders() {
                self.ring();
                break;
            }
        }
        wants_turn
    }

    fn try_driver(&self) -> Option<MutexGuard<'_, Driver>> {
        if self.simulated { lock_unbroken(&self.driver) } else { try_lock_unbroken(&self.driver) }
    }

    fn drive(&self, driver: &mut Driver, now: Time) -> bool {
        // They count as in flight before they no longer count as orders.
        self.orders.take_with(&mut driver.orders, |orders| {
            let in_flight = self.in_flight.load(Ordering::Relaxed);
            self.in_flight.store(in_flight + orders as u64, Ordering::Relaxed);
        });
        let lane = driver.lane.as_mut();
        for order in driver.orders.drain(..) {
            match order {
                Order::Submit(bio) => lane.submit(now, bio),
                Order::Cancel(which) => lane.cancel(now, &which),
                Order::Unplug => lane.unplug(now),
            }
        }
        lane.run(now);
        lane.take_done(&mut driver.came);
        self.in_flight.store(u64::from(lane.in_flight()), Ordering::Relaxed);
        self.keep(driver)
    }

    /// Keeps what has come back, and the next wakeup, for the next turn. Returns whether there is a reason for one.
    fn keep(&self, driver: &mut Driver) -> bool {
        let wakeup = driver.lane.next_wakeup();
        let mut is_early = false;
        if wakeup != driver.wakeup || self.simulated {
            driver.wakeup = wakeup;
            let mut shared = lock(&self.wakeup);
            shared.at = wakeup;
            is_early = wakeup.is_some_and(|at| shared.known.is_none_or(|known| at < known));
        }
        if !driver.came.is_empty() {
            self.came.post(driver.came.drain(..));
            return true;
        }
        is_early
    }

    /// Moves the bios that have come back to the end of `out`.
    pub fn take_done(&self, out: &mut Vec<Bio>) {
        self.came.take(out);
    }

    /// When the lane is to be run even if nothing completes, for a layer that publishes it before its lock is released.
    pub fn next_wakeup(&self) -> Option<Time> {
        let driver = if self.simulated { lock_unbroken(&self.driver) } else { None };
        let mut wakeup = lock(&self.wakeup);
        wakeup.known = driver.map_or(wakeup.at, |driver| driver.lane.next_wakeup());
        wakeup.known
    }

    /// Appends the descriptors of the lane, as [`Lane::wait_handles`] does. Returns what that method does, and whether the layer has
    /// to take a turn, because the lane is to be run earlier than it was when it was run last. The caller then runs the port if it
    /// [has orders](Port::has_orders), which another thread may have left meanwhile.
    ///
    /// If another thread uses the lane, which may be in a system call that takes long, nothing is appended. Then `bell`, which wakes
    /// the caller, is rung when the lane is free, as if a descriptor became readable. That thread takes what has completed before.
    /// Without a bell this waits for it.
    pub fn wait_handles(&self, out: &mut Vec<i32>, bell: Option<&Arc<dyn Bell>>) -> (bool, bool) {
        // Time that is virtual passes while a lane is run, so no system call is long.
        let bell = bell.filter(|_| !self.simulated);
        let driver = match bell {
            Some(bell) => self.try_driver().or_else(|| {
                self.leave(bell);
                // As for orders: this thread finds the lane free, or the one that has it finds the bell after it has released it.
                fence(Ordering::SeqCst);
                let driver = self.try_driver()?;
                self.bells.with(|bells| bells.retain(|other| !Arc::ptr_eq(other, bell)));
                Some(driver)
            }),
            None => lock_unbroken(&self.driver),
        };
        if self.is_broken() {
            return (false, false);
        }
        // After a panic that is not known yet the lane of the layer that the bell belongs to is woken, too.
        let Some(mut driver) = driver else { return (bell.is_some(), false) };
        // A lane tells of what changes its next wakeup from here on.
        let complete = driver.lane.wait_handles(out);
        let wants_turn = self.keep(&mut driver);
        drop(driver);
        fence(Ordering::SeqCst);
        self.ring();
        (complete, wants_turn)
    }

    /// Leaves a bell to the thread that uses the lane.
    #[cold]
    fn leave(&self, bell: &Arc<dyn Bell>) {
        self.bells.with(|bells| {
            if !bells.iter().any(|other| Arc::ptr_eq(other, bell)) {
                bells.push(Arc::clone(bell));
            }
        });
    }

    /// Rings the bells that were left, by a thread that has released the lane, passed the fence and does not use it again.
    #[inline]
    fn ring(&self) {
        if !self.bells.is_empty() {
            self.ring_all();
        }
    }

    #[cold]
    fn ring_all(&self) {
        let mut bells = Vec::new();
        self.bells.take(&mut bells);
        bells.drain(..).for_each(|bell| bell.ring());
        self.bells.with(|list| {
            if list.is_empty() {
                // To reuse its memory.
                *list = bells;
            }
        });
    }

    /// Requests with the drivers below as of the last run, and orders that were not carried out yet; or a few more. None after a
    /// panic: nothing takes them in.
    pub fn in_flight(&self) -> u32 {
        if self.is_broken() {
            return 0;
        }
        let count = self.orders.len() as u64 + self.in_flight.load(Ordering::Relaxed);
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Sleeps until the lane has something to do, as [`Lane::wait`] does. For a layer that is being dropped: other threads
    /// could not run the lane meanwhile.
    pub fn wait(&self, now: Time, timeout: Option<Span>) {
        if let Some(mut driver) = lock_unbroken(&self.driver) {
            driver.lane.wait(now, timeout);
        }
    }

    /// The lane, or the layer, has panicked: the lane is not run again.
    pub fn break_off(&self) {
        self.broken.store(1, Ordering::SeqCst);
    }

    /// Whether it has.
    #[inline]
    pub fn is_broken(&self) -> bool {
        self.broken.load(Ordering::SeqCst) != 0
    }
}
