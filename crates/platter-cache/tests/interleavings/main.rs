//! Every interleaving of readers and the store of a cache at a frame, of threads that leave work in an inbox and
//! those that take it, and of shards that write to their disk and flush it. All are the library's own source, built on the atomics of a model checker.

mod sync;

#[path = "../../src/disk_writes.rs"]
mod disk_writes;
#[path = "../../src/frame.rs"]
mod frame;
#[path = "../../src/inbox.rs"]
mod inbox;

mod flushes;
mod frames;
mod inboxes;
