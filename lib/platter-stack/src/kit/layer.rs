//! What an author of a stateful layer writes.

use super::core::{Below, Task};
use super::notices::Notices;
use platter_block::bio::Bio;
use platter_block::command::CommandSets;
use platter_block::fault::{Fault, Status};
use platter_block::params::{self, Param, ParamError};
use platter_block::status::Item;
use std::future::Future;
use std::sync::Arc;

/// A layer with state that its lanes share, such as a snapshot or a mirror.
///
/// Each bio becomes a task, an `async` function that does I/O below and waits for locks, permits and events of this kit,
/// and for nothing else. All tasks of a layer run one at a time, on whichever lane is run, so the state of the layer
/// needs no more than a mutex that is never contended. A task must not keep such a mutex locked while it waits.
///
/// The frame around the layer does the rest: barriers and preflushes, positions and lengths, cancelling, lanes that are
/// dropped, waking lanes that sleep, and ending the layer. A bio that is taken back while no device has a part of it ends
/// then; its task goes on, and its next access to the bio fails.
pub trait Layer: Send + Sync + 'static {
    /// Where a bio can be passed on without a task: device and position. The bio has no flags that order it. Asked for
    /// every bio first, so it must be cheap.
    fn route(&self, port: usize, bio: &Bio) -> Option<(usize, u64)> {
        let _ = (port, bio);
        None
    }

    /// The sets of commands of which bios may reach [`run`](Layer::run), which passes them on
    /// ([`Task::pass`](super::Task::pass)). The frame refuses all others. By default it refuses every command, because a
    /// layer with state would have to know what one does.
    fn commands(&self, port: usize) -> CommandSets {
        let _ = port;
        CommandSets::NONE
    }

    /// Carries out a read, write, discard or write-zeroes inside the device, or a command.
    fn run(self: Arc<Self>, task: Task) -> impl Future<Output = Status> + Send;

    /// Makes everything durable that completed before, through this port. Also called before a bio with a preflush or a
    /// hard barrier, and when the layer is dropped.
    fn flush(self: Arc<Self>, below: Below, port: usize) -> impl Future<Output = Status> + Send;

    /// The layer is dropped, after the last flush: what it still has to say to the devices below. Nothing else of it runs
    /// afterwards.
    fn close(self: Arc<Self>) -> impl Future<Output = Status> + Send {
        std::future::ready(Ok(()))
    }

    /// The program accepts that what was written before a failed flush may be lost. The devices below know it already.
    fn acknowledge_flush_failure(&self) {}

    /// Which device below holds a byte, where, and for how many bytes from there on that is so. `None`: none does.
    fn locate(&self, port: usize, pos: u64) -> Option<(usize, u64, u64)>;

    /// Whether writes that have succeeded depend on the memory of this process until a flush.
    fn holds_unflushed(&self, port: usize) -> bool {
        let _ = port;
        false
    }

    /// The status, for operators and programs. The facts of the devices are made of it.
    fn status(&self, port: usize) -> Vec<Item>;

    /// Parameters that can be set while the layer is open, and their values: rows of its table of parameters.
    fn params(&self, port: usize) -> Vec<(Param, i64)> {
        let _ = port;
        Vec::new()
    }

    /// Sets one of these.
    ///
    /// # Errors
    /// The name is unknown or the value out of range. The old value stays.
    fn set_param(&self, port: usize, name: &str, value: i64) -> Result<(), ParamError> {
        let _ = port;
        params::check("the layer", &[], name, value).map(|_| ())
    }

    /// The watchers to tell of events of the layer, if it has any.
    fn notices(&self) -> Option<&Notices> {
        None
    }

    /// Describes the cause of a failure of the layer's own.
    fn explain(&self, port: usize, fault: Fault) -> Option<String> {
        let _ = (port, fault);
        None
    }
}
