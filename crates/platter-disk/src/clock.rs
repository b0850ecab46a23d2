//! The clock of the host, for whoever runs queues on real disks.

use platter_block::time::Time;
use std::sync::LazyLock;
use std::time::Instant;

static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The monotonic time since the process first asked: one origin for all queues, so that any thread can run
/// any of them.
#[inline]
pub fn now() -> Time {
    let elapsed = ORIGIN.elapsed();
    Time(elapsed.as_secs() * 1_000_000_000 + u64::from(elapsed.subsec_nanos()))
}
