//! The clock of the host, for whoever runs queues on real disks.

use platter_block::time::Time;
use std::time::Instant;

/// A monotonic clock that starts at zero.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock that reads zero now.
    pub fn start() -> Clock {
        Clock { origin: Instant::now() }
    }

    /// The time now.
    #[inline]
    pub fn now(&self) -> Time {
        let elapsed = self.origin.elapsed();
        Time(elapsed.as_secs() * 1_000_000_000 + u64::from(elapsed.subsec_nanos()))
    }
}
