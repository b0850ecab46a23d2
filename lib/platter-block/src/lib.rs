//! The block layer itself: bios, requests, queues, elevators, plugging, merging and barriers.
//!
//! This crate does no I/O. It makes no system call, starts no thread and reads no clock: it is told what
//! happened and what time it is, and answers with what to dispatch and when it wants to be woken. The same
//! code therefore runs against a real disk in real time and against a simulated one in virtual time.
//!
//! # Words of the code
//!
//! - A **`Bio`** is one I/O as its submitter sees it: operation, position, segments, flags, priority, and the owner of
//!   its memory. It is a handle to a box that is reused.
//! - A **`Request`** is what the driver sees: one range of the device, made of one bio or of several merged ones.
//!   Requests live in a `Table` and are referred to by index; elevators hold a `RequestId`, which is index and
//!   generation.
//! - A **queue** takes bios and gives requests. It is a state machine that does no I/O: a body, `Queue`, over a `Store`
//!   of requests. `DirectQueue` belongs to one lane of a device without an elevator; `SchedQueue` is shared by the lanes
//!   of a device and has the elevator, flushes and barriers.
//! - A **`Disk`** says what it is (name, geometry, facts, clock, identity, present size) and opens channels. `FileDisk`
//!   is a file or block device, `Attached` a simulated disk, `FnDisk` one that a function drives.
//! - A **`Driver`** is one channel to one disk: `Driver::queue`, `Driver::submit`, `Driver::reap`, `Driver::wait`.
//! - A **`Lane`** is one submitter's way to a device. `QueueLane` is a queue with its driver; a layer's lane uses lanes
//!   of the devices below; `DiskLane` is a lane of a disk.
//! - A **`Backend`** is what can be opened: it has a geometry and hands out lanes. `DiskBackend` is a disk with queues,
//!   `Filtered` a layer over one device.
//! - What only some backends have is a trait of its own (`capability.rs`): an elevator (`Tunable`), trace events
//!   (`Traced`), a cache (`Cached`). A layer without them writes nothing: the calls of `dyn Backend` look for them in
//!   the devices below.
//! - A **`Device`** is the handle that programs hold; clones share everything.

#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod allocation;
pub mod backend;
pub mod bio;
#[allow(unsafe_code)]
pub mod buf;
#[allow(unsafe_code)]
pub mod build;
pub mod capability;
mod cell;
pub mod command;
pub mod counters;
#[allow(unsafe_code)]
pub mod deferred;
pub mod disk;
pub mod driver;
pub mod elevator;
pub mod event;
pub mod fault;
mod features;
pub mod handle;
pub mod hint;
pub mod histogram;
pub mod lane;
pub mod limits;
mod op;
#[allow(unsafe_code)]
pub mod owner;
pub mod params;
pub mod queue;
pub mod register;
pub mod request;
#[allow(unsafe_code)]
pub mod resident;
#[allow(unsafe_code)]
pub mod segment;
mod setters;
pub mod statistics;
pub mod status;
pub mod text;
pub mod time;
pub mod trace;
pub mod whole;
