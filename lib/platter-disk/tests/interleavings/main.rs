//! Every interleaving of a few threads, for each piece of the library that threads share without one lock
//! around all of it. The pieces are compiled from the library's sources with the locks and atomics of a model
//! checker.

mod sync;
mod wake;

#[allow(dead_code, reason = "what looks at the state from outside is not in the models")]
#[path = "../../src/disk_backend/flushes.rs"]
mod flushes;
#[allow(dead_code, reason = "as above")]
#[path = "../../src/disk_backend/gate.rs"]
mod gate;
#[path = "../../src/lane_pool.rs"]
mod lane_pool;
#[path = "../../src/disk_backend/mailbox.rs"]
mod mailbox;
#[path = "../../src/disk_backend/parker.rs"]
mod parker;
#[path = "../../src/disk_backend/poller.rs"]
mod poller;
#[path = "../../src/future/reply.rs"]
mod reply;
#[path = "../../src/disk_backend/runner.rs"]
mod runner;
#[path = "../../src/drivers/tally.rs"]
mod tally;
#[path = "../../src/disk_backend/tokens.rs"]
mod tokens;
#[path = "../../src/disk_backend/unplugs.rs"]
mod unplugs;
#[path = "../../src/disk_backend/woken.rs"]
mod woken;

/// Checks all interleavings with up to three involuntary switches of threads.
pub(crate) fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// More rounds of a runner than models need in which it never leaves.
pub(crate) const ROUNDS: u32 = 100;

pub(crate) fn never_leaves() {
    unreachable!("there are fewer kicks than rounds");
}

mod flushing;
mod models;
mod plugging;
mod polling;
mod pool;
mod replies;
mod running;
