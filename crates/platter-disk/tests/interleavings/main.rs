//! Every interleaving of a few threads, for each piece that threads share without a lock around all of it. The
//! pieces are the sources of the library, built on the locks and atomics of a model checker.

mod sync;
mod wake;

#[path = "../../src/leaf/doubts.rs"]
mod doubts;
#[path = "../../src/leaf/gate.rs"]
mod gate;
#[path = "../../src/lane_pool.rs"]
mod lane_pool;
#[path = "../../src/leaf/mailbox.rs"]
mod mailbox;
#[path = "../../src/leaf/runner.rs"]
mod runner;
#[path = "../../src/drivers/tally.rs"]
mod tally;
#[path = "../../src/leaf/tokens.rs"]
mod tokens;

mod models;
mod pool;
