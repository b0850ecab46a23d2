//! Parts for layers with state: the frame of such a layer, and what the frame and the page cache are made of.
//!
//! | part | gives |
//! |---|---|
//! | [`Layer`], [`Frame`], [`Stateful`] | a layer whose bios are `async` tasks: order, cancelling, waking and the end are the frame's |
//! | [`Below`], [`Task`] | I/O below at any time, for a bio or for the layer's own metadata; tasks of the layer itself; time |
//! | [`Buffer`], [`Shared`], [`xor`] | memory of the layer's own I/Os; [`Task::copy_out`] and [`Task::copy_in`] reach that of bios |
//! | [`unless`], [`Below::wake_at`] | I/O that a task leaves behind; [`all`]: several futures side by side |
//! | [`Ranges`], [`RangeLocks`] | locks on ranges in O(log n), granted in order |
//! | [`Permits`], [`Event`] | bounds on what runs at once, and waiting for what others do, in order |
//! | [`Below::copy`], [`Run`] | copies of data between devices below, for copy on write, merges and resyncs |
//! | [`Pace`], [`Progress`], [`WorkTable`] | work in pieces: the rate of background work, its progress, and a pause, also as status and parameters |
//! | [`Table`], [`write_copies`], [`read_copies`] | metadata on a device below that survives a power cut at any time: entries with checksums, and a record in two copies |
//! | [`LeavesSilent`], [`Watches`] | a layer hears that a device below does not answer |
//! | [`Notices`] | events of the layer, for the watchers of its devices |
//! | [`Host`], [`Turns`], [`HostLane`], [`LaneTasks`] | what the frame itself stands on: lanes that share state behind one lock. The page cache uses it with a state machine in place of tasks |
//! | [`Board`], [`Outlook`] | what threads see of that state without the lock, and the threads that come back for it |
//! | [`Port`] | the layer's own lane below behind a lock of its own, so that no system call is made under the lock on that state |
//! | [`Rings`] | bells that are rung when the lock on that state has been released |
//! | [`lock_times`] | when a thread has such a lock, for models of more processors |
//! | [`IoTable`], [`Lanes`], [`Line`] | the I/Os, the wakers and the lines of waiters of such a layer |
//!
//! `docs/layer-kit.md` explains their use; `snapshot.rs` is an example.

mod again;
pub mod board;
mod copies;
mod copy;
mod core;
mod device;
mod engine;
mod frame;
pub mod host;
pub mod host_lane;
pub mod ios;
mod join;
mod lane;
pub mod lanes;
mod layer;
pub mod lock_times;
mod memory;
mod notices;
mod pace;
pub mod port;
pub mod ranges;
pub mod rings;
mod silent;
pub mod table;
mod wait;

pub use self::core::{Below, Io, Task, Transfer};
pub use board::{Board, Outlook};
pub use copies::{COPIES_BYTES, read_copies, write_copies};
pub use copy::{CopyError, Run};
pub use device::Stateful;
pub use frame::Frame;
pub use host::{EngineLock, Host, Turns};
pub use host_lane::{HostLane, LaneBase, LaneTasks};
pub use ios::IoTable;
pub use join::{all, unless};
pub use lanes::{Lanes, Line};
pub use layer::Layer;
pub use memory::{Buffer, Shared, xor};
pub use notices::Notices;
pub use pace::{Pace, Progress, WorkTable};
pub use port::Port;
pub use ranges::{Mode, RangeLocks};
pub use rings::Rings;
pub use silent::{LeavesSilent, Watches};
pub use table::{Table, TableError};
pub use wait::{Event, Permit, Permits, RangeLock, Ranges};
