//! Work that runs without a caller: futures that no task polls, and the device's own work (a cache's write-back).
//!
//! Both need lanes that the service thread runs; they are opened when they are first needed. The device rings for its
//! own work ([`Bell`]), possibly while it holds locks, so ringing only leaves a note for the service thread, which
//! opens the first lane and runs it until it is idle.
//!
//! Futures of different threads use different lanes, so that threads do not wait for each other's lock. A lane costs a
//! driver channel (descriptors, memory), so there are at most as many as processors; further threads share them.

use crate::callers::open_lane;
use crate::clock::Clock;
use crate::fence::Fence;
use crate::future::AsyncLane;
use crate::service;
use crate::sync::{Mutex, lock};
use crate::thread_number::thread_number;
use crate::wake::Doorbell;
use platter_block::backend::{Backend, LaneUse};
use platter_block::bio::{Flags, Op};
use platter_block::fault::{Error, Fault, Kind, Stage};
use platter_block::lane::Bell;
use platter_block::time::Time;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// Most lanes for the futures of a device, whatever the number of processors.
const MOST: usize = 16;

/// Number of processors that this process may use.
fn processors() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// The lanes of a device that are run without callers. The device keeps this as its bell, so it must not keep the
/// device alive.
pub(crate) struct Background {
    itself: Weak<Background>,
    backend: Weak<dyn Backend>,
    clock: Clock,
    /// The device's late changes.
    pub(crate) fence: Arc<Fence>,
    lanes: Box<[OnceLock<Arc<AsyncLane>>]>,
    /// Held while a lane is opened, so that opening it does not keep alive a device that is being closed.
    closed: Mutex<bool>,
    /// There is a note that the service thread has not seen yet.
    rung: AtomicBool,
    /// Signalled when a lane is opened, once an event loop listens.
    opened_bell: OnceLock<Doorbell>,
}

impl Background {
    pub(crate) fn new(backend: &Arc<dyn Backend>, clock: Clock) -> Arc<Background> {
        let most = backend.max_lanes().map_or(MOST, |most| MOST.min(most as usize));
        let lanes = match clock.simulated() {
            // Results of simulations must not depend on the number of processors.
            Some(_) => 1,
            None => processors().min(most).max(1),
        };
        Arc::new_cyclic(|itself| Background {
            itself: Weak::clone(itself),
            backend: Arc::downgrade(backend),
            clock,
            fence: Fence::new(backend.barrier_timeout()),
            lanes: (0..lanes).map(|_| OnceLock::new()).collect(),
            closed: Mutex::new(false),
            rung: AtomicBool::new(false),
            opened_bell: OnceLock::new(),
        })
    }

    /// The lanes that are open.
    pub(crate) fn opened(&self) -> impl Iterator<Item = &Arc<AsyncLane>> {
        self.lanes.iter().filter_map(OnceLock::get)
    }

    /// The lane for futures that the calling thread starts; opens it if necessary.
    pub(crate) fn lane(&self) -> Result<&Arc<AsyncLane>, Error> {
        self.numbered(thread_number() % self.lanes.len())
    }

    fn numbered(&self, number: usize) -> Result<&Arc<AsyncLane>, Error> {
        match self.lanes[number].get() {
            Some(lane) => Ok(lane),
            None => self.open(number),
        }
    }

    #[cold]
    fn open(&self, number: usize) -> Result<&Arc<AsyncLane>, Error> {
        let closed = lock(&self.closed);
        if let Some(lane) = self.lanes[number].get() {
            return Ok(lane);
        }
        let backend = if *closed { None } else { self.backend.upgrade() };
        let Some(backend) = backend else { return Err(gone()) };
        let opened = open_lane(backend.as_ref(), LaneUse::Shared);
        // Not the last reference: closing the device waits for the lock first.
        drop(backend);
        match (opened, self.opened().next()) {
            (Ok(lane), _) => {
                let lane = self.lanes[number]
                    .get_or_init(|| AsyncLane::new(lane, self.clock.clone(), Arc::clone(&self.fence)));
                self.opened_bell.get().into_iter().for_each(Doorbell::ring);
                Ok(lane)
            }
            // The system has run out of a resource; any lane will do.
            (Err(_), Some(other)) => Ok(other),
            (Err(error), None) => Err(error),
        }
    }

    /// Hands what was started on lanes other than `lane` to the device, before an I/O that must not pass it. Returns
    /// whether there can be other lanes.
    pub(crate) fn hand_over_others(&self, lane: &Arc<AsyncLane>) -> bool {
        self.opened().filter(|other| !Arc::ptr_eq(other, lane)).for_each(|other| other.hand_over());
        self.lanes.len() > 1
    }

    /// The descriptor that is signalled when a lane is opened, for event loops that run all lanes. `None`: none is free.
    pub(crate) fn opened_bell(&self) -> Option<&Doorbell> {
        if self.opened_bell.get().is_none() {
            let _ = self.opened_bell.set(Doorbell::new().ok()?);
        }
        self.opened_bell.get()
    }

    /// Before a call or a channel's bio with these flags: if it is a barrier, polled futures whose I/Os still wait for others have
    /// their place before it.
    #[inline]
    pub(crate) fn place_before(&self, flags: Flags) {
        if flags.intersects(Flags::BARRIERS) {
            self.opened().for_each(|lane| lane.hand_over_deferred());
        }
    }

    /// Whether no I/O of a future is outstanding.
    pub(crate) fn is_idle(&self) -> bool {
        self.opened().all(|lane| lane.is_idle())
    }

    /// For a thread that waits for I/O of the device: runs the lanes if no other thread does, because time is simulated or the service
    /// thread cannot be started. Returns when to do so again.
    #[inline]
    pub(crate) fn help(&self) -> Option<Time> {
        let is_run = self.clock.simulated().is_none() && service::is_started();
        if is_run { None } else { self.run_by_hand() }
    }

    /// Runs all lanes for a program that does everything by hand. Returns when to do so again; `None`: nothing is
    /// outstanding.
    pub(crate) fn run_by_hand(&self) -> Option<Time> {
        self.opened().filter_map(|lane| lane.run_by_hand()).min()
    }

    /// The service thread has seen the note. Returns the lane for the device's own work, unless the thread already
    /// runs it or it cannot be opened.
    pub(crate) fn answer(&self) -> Option<Weak<AsyncLane>> {
        // Before the lane is run, so that a later ring leaves another note.
        self.rung.store(false, Ordering::SeqCst);
        let lane = self.numbered(0).ok()?;
        lane.call();
        (!lane.watched.swap(true, Ordering::SeqCst)).then(|| Arc::downgrade(lane))
    }

    /// The device is being closed: closes the lanes.
    pub(crate) fn close(&self) {
        *lock(&self.closed) = true;
        self.opened().for_each(|lane| lane.close());
    }
}

/// The error of a device that is closed.
fn gone() -> Error {
    let fault = Fault::new(Kind::Gone, Stage::Handle);
    let detail = "it was closed".to_string();
    Error { fault, op: Op::Read, device: Arc::from("device"), offset: 0, len: 0, detail }
}

impl Bell for Background {
    fn ring(&self) {
        if !self.rung.swap(true, Ordering::SeqCst) && !service::note(&self.itself) {
            // The thread cannot be started now; a later ring tries again.
            self.rung.store(false, Ordering::SeqCst);
        }
    }
}
