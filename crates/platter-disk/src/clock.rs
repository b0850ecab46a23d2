//! The clock of the host, for whoever runs queues on real disks.
//!
//! Where the processor's time-stamp counter ticks at one rate in every state, it is read instead of the
//! system's clock, at less than half the price; how many nanoseconds a tick takes is measured once.

#![allow(unsafe_code)]

use platter_block::backend::Backend;
use platter_block::time::{Time, VirtualClock};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// One origin for all queues, so that any thread can run any of them.
static SOURCE: LazyLock<Source> = LazyLock::new(Source::measure);

struct Source {
    origin: Instant,
    ticks: Option<Ticks>,
}

#[derive(Clone, Copy)]
struct Ticks {
    origin: u64,
    /// Nanoseconds of a tick, times 2^32.
    scale: u64,
}

/// How long ticks are counted to learn their length: at 50 ns of error per reading, 25 parts in a million.
const CALIBRATION: Duration = Duration::from_millis(2);

#[cfg(target_arch = "x86_64")]
mod counter {
    use core::arch::x86_64::{__cpuid, _rdtsc};

    /// Whether the counter's rate depends on nothing (cpuid 8000_0007h, EDX bit 8).
    pub(super) fn is_invariant() -> bool {
        let highest = __cpuid(0x8000_0000).eax;
        highest >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0
    }

    #[inline]
    pub(super) fn read() -> u64 {
        // SAFETY: every x86-64 processor has the instruction, and Linux lets programs use it.
        unsafe { _rdtsc() }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod counter {
    pub(super) fn is_invariant() -> bool {
        false
    }

    pub(super) fn read() -> u64 {
        0
    }
}

impl Source {
    fn measure() -> Source {
        let origin = Instant::now();
        if !counter::is_invariant() {
            return Source { origin, ticks: None };
        }
        let first = counter::read();
        let elapsed = loop {
            let elapsed = origin.elapsed();
            if elapsed >= CALIBRATION {
                break elapsed;
            }
            std::hint::spin_loop();
        };
        let counted = counter::read().wrapping_sub(first);
        let scale = (elapsed.as_nanos() << 32).checked_div(u128::from(counted)).unwrap_or(0);
        let ticks = u64::try_from(scale).ok().filter(|&s| s > 0).map(|scale| Ticks { origin: first, scale });
        Source { origin, ticks }
    }
}

/// The monotonic time since the process first asked.
#[inline]
pub fn now() -> Time {
    let source = &*SOURCE;
    match source.ticks {
        Some(ticks) => {
            let passed = counter::read().saturating_sub(ticks.origin);
            Time(((u128::from(passed) * u128::from(ticks.scale)) >> 32) as u64)
        }
        None => {
            let elapsed = source.origin.elapsed();
            Time(elapsed.as_secs() * 1_000_000_000 + u64::from(elapsed.subsec_nanos()))
        }
    }
}

/// The clock a device lives by.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The host's: [`now`].
    #[default]
    Host,
    /// That of a simulation. Whoever waits for the device moves it to the next event.
    Virtual(Arc<VirtualClock>),
}

impl Clock {
    /// The clock of a device.
    pub fn of(backend: &dyn Backend) -> Clock {
        backend.clock().map_or(Clock::Host, Clock::Virtual)
    }

    /// What time it is.
    #[inline]
    pub fn now(&self) -> Time {
        match self {
            Clock::Host => now(),
            Clock::Virtual(clock) => clock.now(),
        }
    }

    /// The clock of the simulation, if it is one.
    #[inline]
    pub fn simulated(&self) -> Option<&VirtualClock> {
        match self {
            Clock::Host => None,
            Clock::Virtual(clock) => Some(clock),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_as_it_does_for_the_system() {
        let (before, system) = (now(), Instant::now());
        while system.elapsed() < Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        let (passed, true_time) = (now().since(before).0 as f64, system.elapsed().as_nanos() as f64);
        // Generous: the test machine may take the processor away between the readings.
        assert!(passed > true_time * 0.5 && passed < true_time * 2.0, "{passed} of {true_time}");
    }
}
