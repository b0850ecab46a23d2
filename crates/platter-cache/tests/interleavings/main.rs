//! Every interleaving of readers and the store of a cache at a frame. The frame is the library's own source, built on
//! the atomics of a model checker.

mod sync;

#[path = "../../src/frame.rs"]
mod frame;

mod frames;
