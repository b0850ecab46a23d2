//! What only some devices have: an elevator, trace events, a cache, work of their own, a status.
//!
//! A [`Backend`](crate::backend::Backend) that has one of these returns it from a method of that name. Programs and layers
//! use the methods of `dyn Backend`, which ask the device itself or, if it does not have the capability, the devices below
//! it. So a layer without an elevator or a cache needs no code for them.

use crate::elevator::Elevator;
use crate::fault::Error;
use crate::handle::{HandleCounters, HandleId};
use crate::hint::Hint;
use crate::lane::Bell;
use crate::params::{self, Param, ParamError};
use crate::queue::Ordered;
use crate::resident::Resident;
use crate::status::Item;
use crate::trace::Sink;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Makes a sink of trace events for one queue.
pub type SinkMaker = Arc<dyn Fn() -> Box<dyn Sink> + Send + Sync>;

/// A device with a queue that can have an elevator.
pub trait Tunable {
    /// Switches the elevator while I/O runs; `make` is called once per queue. If it returns `None`, the queue has no
    /// elevator.
    ///
    /// # Errors
    /// A channel of the disk that the elevator needs cannot be opened.
    fn switch_elevator(&self, make: &dyn Fn() -> Option<Box<dyn Elevator>>) -> Result<(), Error>;

    /// Switches how hard barriers keep their order while I/O runs. What is in flight ends first, and what is submitted
    /// meanwhile waits for that.
    ///
    /// # Errors
    /// The disk takes no ordered tags. The old mode stays.
    fn switch_ordered(&self, ordered: Ordered) -> Result<(), Error>;

    /// How hard barriers keep their order.
    fn ordered(&self) -> Ordered;

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
    /// Sends the trace events of the shared queue, of open lanes from their next batch on, and of lanes opened from now on
    /// to sinks made by `make` (one per queue); `None` stops tracing, also from the next batch on.
    fn trace(&self, make: Option<SinkMaker>);
}

/// A device that keeps data in memory.
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
}

/// A device with work of its own to do while no thread is in a call: write-back, copies.
pub trait Worker {
    /// Registers the bell to ring when the device has work of its own to do and no thread may be in a
    /// call. A keeper thread then runs a lane of the device until it is [idle](crate::lane::Lane::is_idle), at its
    /// [wake-ups](crate::lane::Lane::next_wakeup) and when its descriptors become readable. The bell may be rung with any
    /// lock held: it only wakes another thread. To be passed on to the devices below.
    ///
    /// Each handle on this device registers a bell of its own; all of them should be rung. The bell of a closed device
    /// does nothing. The device need not keep the bell alive; its registrant does.
    fn keep(&self, keeper: Arc<dyn Bell>);
}

/// A layer with a status of its own, and with parameters that can be set while it is open.
pub trait Managed {
    /// The status at this moment, in a fixed order. Taking it may lock the layer for some microseconds; no I/O is done.
    fn status(&self) -> Vec<Item>;

    /// The parameters that can be set, and their values. They are rows of the layer's table of parameters.
    fn params(&self) -> Vec<(Param, i64)> {
        Vec::new()
    }

    /// Sets a parameter. A value that is not allowed is refused, and the old one stays;
    /// [`check`](params::check) tests the range.
    ///
    /// # Errors
    /// The name is unknown or the value is out of range.
    fn set_param(&self, name: &str, value: i64) -> Result<(), ParamError> {
        params::check("the layer", &[], name, value).map(|_| ())
    }
}
