//! Every interleaving of a few lanes at the gate of a layer. The gate is the library's own source, built on the locks
//! and atomics of a model checker.

mod sync;

#[allow(unreachable_pub, reason = "public in the library")]
#[path = "../../src/barrier_gate.rs"]
mod barrier_gate;

mod models;
mod turns;
