//! Layers over one device, written as filters.
//!
//! A [`Filter`] has only the code that makes the layer different; [`Filtered`] is the layer around it. A filter may
//! look at each bio before it starts and after the device has completed it, let it wait, delay its completion, or
//! fail it, and may change what the device says about itself.
//!
//! The layer does the rest. Barriers hold across all lanes, also while the filter delays or fails bios. A bio that
//! waits in the layer can be taken back. Size and events of the device below are passed on;
//! counters, the elevator and handles are those of the devices below.
//!
//! ```
//! use platter_block::bio::Op;
//! use platter_block::fault::{Fault, Kind, Stage};
//! use platter_block::time::Time;
//! use platter_stack::filter::{BioView, Filter, Filtered};
//! # use platter_block::{backend::Backend, disk::Disk};
//!
//! /// A device that cannot be discarded from.
//! #[derive(Clone)]
//! struct NoDiscard;
//!
//! impl Filter for NoDiscard {
//!     fn start(&mut self, now: Time, _slot: usize, bio: &mut BioView<'_>) -> Result<Time, Fault> {
//!         match bio.op() {
//!             Op::Discard => Err(Fault::new(Kind::Unsupported, Stage::Layer)),
//!             _ => Ok(now),
//!         }
//!     }
//! }
//!
//! # fn layer(device: std::sync::Arc<dyn Backend>) {
//! let layer = Filtered::new("no-discard", "", device, NoDiscard);
//! # }
//! ```

mod device;
mod dues;
mod lane;
mod rule;
mod shape;
mod view;

pub use device::{Filtered, build, only};
pub use rule::CommandRule;
pub use view::BioView;

use platter_block::backend::Fact;
use platter_block::driver::Features;
use platter_block::fault::Fault;
use platter_block::limits::Limits;
use platter_block::time::{Span, Time};

/// The difference between a layer and the device below it. Every method has a default that changes nothing.
///
/// A [`Filtered`] holds one filter as a prototype, which answers for the device. Each lane has a filter of its own,
/// made by [`for_lane`](Filter::for_lane), which sees the bios of that lane. State that lanes share belongs in an
/// `Arc`.
pub trait Filter: Clone + Send + Sync + 'static {
    /// The filter changes only the device, not its I/O: lanes pass bios on as they come, and call none of the methods
    /// from [`admits`](Filter::admits) on. Such a layer needs no gate and has almost no cost.
    const PASSES_IO: bool = false;

    /// The limits of the layer, where the device below has these. They may only be stricter.
    fn limits(&self, below: Limits) -> Limits {
        below
    }

    /// The features of the layer, where the device below has these. With `read_only` the layer refuses changes.
    fn features(&self, below: Features) -> Features {
        below
    }

    /// Which commands of the device below the layer passes on. The default is none, because a layer that does not know what
    /// a command does cannot keep its own promises. A layer over a part of a device passes on at most those that concern no
    /// blocks, whatever this says, because positions in a command are those of the whole device.
    fn commands(&self) -> CommandRule {
        CommandRule::None
    }

    /// Facts for operators, before those of the device below. Called for each report, so that they may change.
    fn facts(&self) -> Vec<Fact> {
        Vec::new()
    }

    /// The filter of a new lane. `number` counts the lanes of the device from 0 in the order in which they are opened.
    #[must_use]
    fn for_lane(&self, number: u64) -> Self {
        let _ = number;
        self.clone()
    }

    /// Whether the filter lets no bio wait before it starts. Lanes then start bios as they come and leave the order of barriers to
    /// the device below, so that a disk may keep it by ordered tags; [`admits`](Filter::admits) and
    /// [`release`](Filter::release) are not called. What follows a barrier may start before the barrier has ended, but a
    /// completion that [`start`](Filter::start) delays does not pass that of a barrier, nor a barrier's an earlier one. Where
    /// `start` fails a barrier, a flush that is a barrier goes to the device in its place, so that the order holds. A lane asks once,
    /// when it is opened; all filters of a device give the same answer.
    fn keeps_places(&self) -> bool {
        false
    }

    /// Whether another bio may start now. After `true` either a bio starts or [`release`](Filter::release) is called.
    /// After `false` the lane asks again when it is run, at the latest when a call of `release` on any lane has
    /// returned `true`.
    fn admits(&mut self) -> bool {
        true
    }

    /// A bio is about to start. Returns the earliest time at which it may complete (`now`: as soon as the device has
    /// completed it), or the fault with which it fails without reaching the device. Bios whose range was never on the
    /// device are refused before. A range that the device has lost since it shrank is shown to the filter, and fails
    /// below unless the device grows again.
    ///
    /// The filter may change flags and priority, but not the operation, the range or the memory ([`BioView`]). `slot` identifies
    /// the bio until [`end`](Filter::end): it is the number of a place among those of the lane's bios in flight, so it
    /// is small and is used again.
    ///
    /// # Errors
    /// The bio fails with the fault that is returned.
    fn start(&mut self, now: Time, slot: usize, bio: &mut BioView<'_>) -> Result<Time, Fault> {
        let _ = (slot, bio);
        Ok(now)
    }

    /// The device has completed a bio that was started; it may have failed. The filter may make it fail
    /// ([`BioView::fail`]).
    fn end(&mut self, slot: usize, bio: &mut BioView<'_>) {
        let _ = (slot, bio);
    }

    /// A bio that was delayed is returned, and its time was `by` ago: the lane was run late.
    fn late(&mut self, by: Span) {
        let _ = by;
    }

    /// A bio that was admitted is returned to its submitter, or is late: its submitter does not wait for it any longer, although
    /// the device below has it. Called once for each bio. Returns whether another lane may be waiting for this; all lanes
    /// are then woken.
    ///
    /// A lane that is dropped drops its filter, with the bios that it has admitted, and wakes all lanes after that.
    fn release(&mut self) -> bool {
        false
    }
}
