//! What only some devices have: an elevator, trace events, a cache.
//!
//! A [`Backend`] that has one of these returns it from [`Backend::tunable`], [`Backend::traced`] or [`Backend::cached`]. Programs
//! and layers use the methods of `dyn Backend`, which ask the device itself or, if it does not have the capability, the
//! devices below it. So a layer without an elevator or a cache needs no code for them.

use crate::backend::{Backend, SinkMaker};
use crate::elevator::Elevator;
use crate::fault::Error;
use crate::handle::{HandleCounters, HandleId};
use crate::hint::Hint;
use crate::lane::Bell;
use crate::params::{Param, ParamError};
use crate::resident::Resident;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// A device with a queue that can have an elevator.
pub trait Tunable {
    /// Switches the elevator while I/O runs; `make` is called once per queue. If it returns `None`, the queue has no
    /// elevator.
    ///
    /// # Errors
    /// A channel of the disk that the elevator needs cannot be opened.
    fn switch_elevator(&self, make: &dyn Fn() -> Option<Box<dyn Elevator>>) -> Result<(), Error>;

    /// The parameters of the elevator and their values.
    fn elevator_params(&self) -> Vec<(Param, i64)>;

    /// Sets a parameter of the elevator.
    ///
    /// # Errors
    /// There is no elevator, the name is unknown or the value out of range. The old value stays.
    fn set_elevator_param(&self, name: &str, value: i64) -> Result<(), ParamError>;
}

/// A device with queues that report trace events.
pub trait Traced {
    /// Sends the trace events of the shared queue and of lanes opened from now on to sinks made by `make` (one per
    /// queue); `None` stops tracing.
    fn trace(&self, make: Option<SinkMaker>);
}

/// A device that keeps data in memory, or has work of its own to do.
pub trait Cached {
    /// A handle was opened; its bios carry this number. To be passed on to the devices below.
    fn handle_opened(&self, id: HandleId) {
        let _ = id;
    }

    /// The last clone of a handle was dropped. Bios with its number may still be in flight. To be passed on to the
    /// devices below.
    fn handle_closed(&self, id: HandleId) {
        let _ = id;
    }

    /// A program says through a handle how it will read the `len` bytes at `pos`.
    ///
    /// # Errors
    /// The hint could not be carried out.
    fn advise(&self, id: HandleId, hint: Hint, pos: u64, len: u64) -> Result<(), Error> {
        let _ = (id, hint, pos, len);
        Ok(())
    }

    /// The counts that are kept for a handle; `None`: the handle is unknown.
    fn handle_counters(&self, id: HandleId) -> Option<HandleCounters> {
        let _ = id;
        None
    }

    /// The counts, summed over all handles, closed ones included.
    fn cache_counters(&self) -> Option<HandleCounters> {
        None
    }

    /// The part of the device that is in memory, from which handles may answer reads without a bio. A layer that
    /// inspects, changes or delays bios must not return the `Resident` of the device below, because such reads would
    /// bypass the layer.
    fn resident(&self) -> Option<Arc<dyn Resident>> {
        None
    }

    /// Registers the bell to ring when the device has work of its own to do (write-back) and no thread may be in a
    /// call. A keeper thread then runs a lane of the device until it is [idle](crate::lane::Lane::is_idle), at its
    /// [wake-ups](crate::lane::Lane::next_wakeup) and when its descriptors become readable. The bell may be rung with any
    /// lock held: it only wakes another thread. To be passed on to the devices below.
    ///
    /// Each handle on this device registers a bell of its own; all of them should be rung. The bell of a closed device
    /// does nothing. The device need not keep the bell alive; its registrant does.
    fn keep(&self, keeper: Arc<dyn Bell>) {
        let _ = keeper;
    }
}

/// The capabilities of a device or of the devices below it.
impl dyn Backend {
    /// Switches the elevator of every disk; see [`Tunable::switch_elevator`].
    ///
    /// # Errors
    /// That of the first disk that fails. The disks before it have the new elevator.
    pub fn switch_elevator(&self, make: &dyn Fn() -> Option<Box<dyn Elevator>>) -> Result<(), Error> {
        match self.tunable() {
            Some(own) => own.switch_elevator(make),
            None => self.below().iter().try_for_each(|below| below.switch_elevator(make)),
        }
    }

    /// The parameters of the elevator and their values. With several disks: those of the first disk that has an
    /// elevator.
    pub fn elevator_params(&self) -> Vec<(Param, i64)> {
        if let Some(own) = self.tunable() {
            return own.elevator_params();
        }
        let mut of_each = self.below().into_iter().map(|below| below.elevator_params());
        of_each.find(|params| !params.is_empty()).unwrap_or_default()
    }

    /// Sets a parameter of the elevator on every disk; see [`Tunable::set_elevator_param`].
    ///
    /// # Errors
    /// That of the first disk that refuses. The disks before it have the new value.
    pub fn set_elevator_param(&self, name: &str, value: i64) -> Result<(), ParamError> {
        match self.tunable() {
            Some(own) => own.set_elevator_param(name, value),
            None => self.below().iter().try_for_each(|below| below.set_elevator_param(name, value)),
        }
    }

    /// Traces every disk; see [`Traced::trace`].
    pub fn trace(&self, make: Option<SinkMaker>) {
        match self.traced() {
            Some(own) => own.trace(make),
            None => self.below().iter().for_each(|below| below.trace(make.clone())),
        }
    }

    /// Tells every cache of an opened handle; see [`Cached::handle_opened`].
    pub fn handle_opened(&self, id: HandleId) {
        match self.cached() {
            Some(own) => own.handle_opened(id),
            None => self.below().iter().for_each(|below| below.handle_opened(id)),
        }
    }

    /// Tells every cache of a closed handle; see [`Cached::handle_closed`].
    pub fn handle_closed(&self, id: HandleId) {
        match self.cached() {
            Some(own) => own.handle_closed(id),
            None => self.below().iter().for_each(|below| below.handle_closed(id)),
        }
    }

    /// Gives a hint to the topmost cache; see [`Cached::advise`]. Through a layer over one device it is passed on with the
    /// range mapped to that device. Without a cache it is ignored.
    ///
    /// # Errors
    /// The cache could not carry out the hint.
    pub fn advise(&self, id: HandleId, hint: Hint, pos: u64, len: u64) -> Result<(), Error> {
        if let Some(own) = self.cached() {
            return own.advise(id, hint, pos, len);
        }
        match (&self.below()[..], self.locate(pos)) {
            ([below], Some((0, moved))) => below.advise(id, hint, moved, len),
            _ => Ok(()),
        }
    }

    /// The counts that the topmost cache keeps for a handle. `None`: there is no cache, or it does not know the handle.
    /// A layer over one device asks that device.
    pub fn handle_counters(&self, id: HandleId) -> Option<HandleCounters> {
        if let Some(own) = self.cached() {
            return own.handle_counters(id);
        }
        match &self.below()[..] {
            [below] => below.handle_counters(id),
            _ => None,
        }
    }

    /// The counts of the topmost caches, summed over all handles, closed ones included. `None`: there is no cache.
    pub fn cache_counters(&self) -> Option<HandleCounters> {
        if let Some(own) = self.cached() {
            return own.cache_counters();
        }
        let mut sum = None::<HandleCounters>;
        for counters in self.below().iter().filter_map(|below| below.cache_counters()) {
            sum.get_or_insert_default().merge(&counters);
        }
        sum
    }

    /// The part of the device itself that is in memory; see [`Cached::resident`]. The devices below are not asked: reads
    /// from their memory would bypass this device.
    pub fn resident(&self) -> Option<Arc<dyn Resident>> {
        self.cached()?.resident()
    }

    /// Registers a bell with every device that has work of its own; see [`Cached::keep`].
    pub fn keep(&self, keeper: Arc<dyn Bell>) {
        match self.cached() {
            Some(own) => own.keep(keeper),
            None => self.below().iter().for_each(|below| below.keep(Arc::clone(&keeper))),
        }
    }
}
