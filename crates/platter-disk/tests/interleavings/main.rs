//! Every interleaving of a few threads, for each piece of the library that threads share without one lock
//! around all of it. The pieces are compiled from the library's sources with the locks and atomics of a model
//! checker.

mod sync;
mod wake;

#[allow(dead_code, reason = "what looks at the state from outside is not in the models")]
#[path = "../../src/leaf/doubts.rs"]
mod doubts;
#[allow(dead_code, reason = "as above")]
#[path = "../../src/leaf/gate.rs"]
mod gate;
#[path = "../../src/lane_pool.rs"]
mod lane_pool;
#[path = "../../src/leaf/mailbox.rs"]
mod mailbox;
#[path = "../../src/leaf/parker.rs"]
mod parker;
#[path = "../../src/leaf/poller.rs"]
mod poller;
#[path = "../../src/future/reply.rs"]
mod reply;
#[path = "../../src/leaf/runner.rs"]
mod runner;
#[path = "../../src/drivers/tally.rs"]
mod tally;
#[path = "../../src/leaf/tokens.rs"]
mod tokens;

mod models;
mod polling;
mod pool;
mod replies;
