//! Every interleaving of a few lanes at the gate of a layer, and of threads at the port of its own lane. Both are the
//! library's own source, built on the locks and atomics of a model checker.

mod sync;

#[allow(unreachable_pub, dead_code, reason = "public in the library, and models use a part of it")]
#[path = "../../../platter-wait/src/mailbox.rs"]
mod mailbox;

#[allow(unreachable_pub, reason = "public in the library")]
#[path = "../../src/barrier_gate.rs"]
mod barrier_gate;

#[allow(unreachable_pub, dead_code, reason = "public in the library, and models use a part of it")]
#[path = "../../src/kit/port.rs"]
mod port;

mod models;
mod ports;
mod turns;
