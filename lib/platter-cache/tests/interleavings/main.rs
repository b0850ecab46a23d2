//! Every interleaving of readers and the store of a cache at a frame, of threads that leave work in an inbox and
//! those that take it, and of shards that write to their disk and flush it. All are the library's own source, built on the atomics of a model checker.

mod sync;

#[path = "../../src/disk_writes.rs"]
mod disk_writes;
#[path = "../../src/frame.rs"]
mod frame;
#[path = "../../src/inbox.rs"]
mod inbox;
#[allow(unreachable_pub, dead_code, reason = "public in the library, and models use a part of it")]
#[path = "../../../platter-wait/src/mailbox.rs"]
mod mailbox;

mod flushes;
mod frames;
mod inboxes;
