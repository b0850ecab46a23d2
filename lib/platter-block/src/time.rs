//! Time as an argument: nanoseconds since an origin that the caller chooses.

use alloc::sync::Arc;
use core::fmt;
use core::ops::{Add, AddAssign, Sub};
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

/// A point in time, in nanoseconds since the origin of the clock that supplies it (the host's, or a simulator's
/// virtual clock). The layer only compares and subtracts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

/// A span of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub u64);

impl Span {
    /// A span of no time.
    pub const ZERO: Span = Span(0);

    /// A span of whole microseconds.
    pub const fn from_micros(us: u64) -> Span {
        Span(us.saturating_mul(1_000))
    }

    /// A span of whole milliseconds.
    pub const fn from_millis(ms: u64) -> Span {
        Span(ms.saturating_mul(1_000_000))
    }

    /// A span of whole seconds.
    pub const fn from_secs(s: u64) -> Span {
        Span(s.saturating_mul(1_000_000_000))
    }

    /// Whole milliseconds, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
}

/// A span that is longer than 584 years becomes the longest there is.
///
/// ```
/// use core::time::Duration;
/// use platter_block::time::Span;
/// assert_eq!(Span::from(Duration::from_millis(5)), Span::from_millis(5));
/// assert_eq!(Duration::from(Span::from_millis(5)), Duration::from_millis(5));
/// assert_eq!(Span::from(Duration::MAX), Span(u64::MAX));
/// ```
impl From<Duration> for Span {
    fn from(duration: Duration) -> Span {
        Span(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Span> for Duration {
    fn from(span: Span) -> Duration {
        Duration::from_nanos(span.0)
    }
}

impl Time {
    /// The time that has passed since `earlier`; zero when `earlier` lies in the future.
    pub const fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// The earlier of two optional times.
    #[inline]
    pub fn earliest(a: Option<Time>, b: Option<Time>) -> Option<Time> {
        match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

/// Receives each reading of a clock.
pub trait Watch: fmt::Debug + Send + Sync {
    /// The clock was read, and returned `now`.
    fn looked(&self, now: Time);
}

/// The clock of a simulation: it stands still until a waiting program advances it.
#[derive(Debug, Default)]
pub struct VirtualClock {
    nanos: AtomicU64,
    watch: Option<Arc<dyn Watch>>,
}

impl VirtualClock {
    /// A clock at its origin.
    pub const fn new() -> VirtualClock {
        VirtualClock { nanos: AtomicU64::new(0), watch: None }
    }

    /// The clock of a simulation in which one thread does everything: no other thread runs its devices, and a future
    /// makes progress only while it is polled. Every run of such a simulation is the same. `watch` sees each reading
    /// of the clock, so it can tell when the thread waits for something that never happens.
    pub fn by_hand(watch: Arc<dyn Watch>) -> VirtualClock {
        VirtualClock { watch: Some(watch), ..VirtualClock::new() }
    }

    /// Whether one thread does everything in this simulation, see [`by_hand`](VirtualClock::by_hand).
    pub fn is_by_hand(&self) -> bool {
        self.watch.is_some()
    }

    /// The current time.
    #[inline]
    pub fn now(&self) -> Time {
        let now = Time(self.nanos.load(Ordering::Acquire));
        if let Some(watch) = &self.watch {
            watch.looked(now);
        }
        now
    }

    /// Advances the clock to `at`, unless it is already at or past `at`.
    #[inline]
    pub fn advance_to(&self, at: Time) {
        self.nanos.fetch_max(at.0, Ordering::AcqRel);
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Time {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Sub<Time> for Time {
    type Output = Span;
    fn sub(self, earlier: Time) -> Span {
        self.since(earlier)
    }
}
