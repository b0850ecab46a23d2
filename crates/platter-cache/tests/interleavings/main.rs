//! Every interleaving of readers and the store of a cache at a frame, and of threads that leave work in an inbox and
//! those that take it. Both are the library's own source, built on the atomics of a model checker.

mod sync;

#[path = "../../src/frame.rs"]
mod frame;
#[path = "../../src/inbox.rs"]
mod inbox;

mod frames;
mod inboxes;
