//! Every interleaving of a few lanes at the gate of a layer, and of readers and the store of a cache at a
//! frame. Gate and frame are the library's own sources, built on the locks and atomics of a model checker.

mod sync;

#[path = "../../src/cache/frame.rs"]
mod frame;
#[path = "../../src/gate.rs"]
mod gate;

mod frames;
mod models;
mod turns;
