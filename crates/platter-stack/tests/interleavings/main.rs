//! Every interleaving of a few lanes at the gate of a layer. The gate is the source of the library, built on the
//! locks and atomics of a model checker.

mod sync;

#[path = "../../src/gate.rs"]
mod gate;

mod models;
mod turns;
