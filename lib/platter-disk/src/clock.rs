//! The clock of the host, for queues on real disks.
//!
//! If the kernel itself keeps time by the processor's time-stamp counter, this module reads the counter instead of
//! the system's clock, at less than half the cost; the length of a tick is measured once. The module trusts the
//! kernel rather than the processor's flags, because the kernel compares the counter with other clocks and between
//! processors, and stops using it if it drifts.

#![allow(unsafe_code)]

use platter_block::backend::Backend;
use platter_block::time::{Time, VirtualClock};
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// One origin for all queues, so that any thread can run any of them.
static SOURCE: LazyLock<Source> = LazyLock::new(|| Source::measure(keeps_time_by_counter()));

struct Source {
    origin: Instant,
    /// The counter at that moment.
    first: u64,
    /// Nanoseconds per tick, times 2^32; 0: the system's clock is read.
    scale: AtomicU64,
    /// Offset added to the system's clock, so that time does not go back when the counter is given up.
    ahead: AtomicU64,
}

/// How long ticks are counted to measure their length: with 50 ns of error per reading, 25 parts in a million.
const CALIBRATION: Duration = Duration::from_millis(2);

/// The file that names the kernel's present clock source.
const CLOCKSOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// Whether the kernel keeps time by the counter at the moment; `false` if it does not tell (no sysfs).
fn keeps_time_by_counter() -> bool {
    cfg!(target_arch = "x86_64") && std::fs::read_to_string(CLOCKSOURCE).is_ok_and(|name| is_counter(&name))
}

/// `tsc` is the counter itself. A hypervisor's clock (`kvm-clock`, `hyperv_clocksource_tsc_page`) is derived from it,
/// but guests use these if the rate of the counter may change; guests with a steady counter use `tsc`.
fn is_counter(clocksource: &str) -> bool {
    clocksource.trim() == "tsc"
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn read_counter() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and Linux lets programs use it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn read_counter() -> u64 {
    0
}

impl Source {
    fn measure(by_counter: bool) -> Source {
        let origin = Instant::now();
        let (first, mut scale) = (read_counter(), 0);
        if by_counter {
            let elapsed = loop {
                let elapsed = origin.elapsed();
                if elapsed >= CALIBRATION {
                    break elapsed;
                }
                std::hint::spin_loop();
            };
            let counted = u128::from(read_counter().wrapping_sub(first));
            scale =
                (elapsed.as_nanos() << 32).checked_div(counted).map_or(0, |s| u64::try_from(s).unwrap_or(0));
        }
        Source { origin, first, scale: AtomicU64::new(scale), ahead: AtomicU64::new(0) }
    }

    #[inline]
    fn now(&self) -> Time {
        match self.scale.load(Ordering::Relaxed) {
            0 => self.by_system(),
            scale => self.by_counter(scale),
        }
    }

    #[inline]
    fn by_counter(&self, scale: u64) -> Time {
        let passed = read_counter().saturating_sub(self.first);
        Time(((u128::from(passed) * u128::from(scale)) >> 32) as u64)
    }

    fn by_system(&self) -> Time {
        // After the load of the scale, so that data written before it is visible.
        fence(Ordering::Acquire);
        let elapsed = self.origin.elapsed();
        let nanos = elapsed.as_secs() * 1_000_000_000 + u64::from(elapsed.subsec_nanos());
        Time(nanos + self.ahead.load(Ordering::Relaxed))
    }

    /// Uses the system's clock from now on.
    #[cold]
    fn give_up_counter(&self) {
        let scale = self.scale.load(Ordering::Relaxed);
        if scale == 0 {
            return;
        }
        let behind = self.by_system();
        self.ahead.fetch_max(self.by_counter(scale).since(behind).0, Ordering::Relaxed);
        self.scale.store(0, Ordering::Release);
    }
}

/// The monotonic time since the first call in this process.
#[inline]
pub fn now() -> Time {
    SOURCE.now()
}

/// Checks whether the kernel still keeps time by the counter, if this process uses it. Called when a disk is opened.
pub(crate) fn check() {
    if SOURCE.scale.load(Ordering::Relaxed) != 0 && !keeps_time_by_counter() {
        SOURCE.give_up_counter();
    }
}

/// The clock of a device.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The host's clock: [`now`].
    #[default]
    Host,
    /// The clock of a simulation. A thread that waits for the device advances it to the next event.
    Virtual(Arc<VirtualClock>),
}

impl Clock {
    /// The clock of a device.
    pub fn of(backend: &dyn Backend) -> Clock {
        backend.clock().map_or(Clock::Host, Clock::Virtual)
    }

    /// The current time.
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
        for by_counter in [true, false] {
            let source = Source::measure(by_counter);
            let (before, system) = (source.now(), Instant::now());
            while system.elapsed() < Duration::from_millis(20) {
                std::hint::spin_loop();
            }
            let (passed, true_time) =
                (source.now().since(before).0 as f64, system.elapsed().as_nanos() as f64);
            // Wide limits: the test machine may interrupt the process between the readings.
            assert!(passed > true_time * 0.5 && passed < true_time * 2.0, "{passed} of {true_time}");
        }
    }

    #[test]
    fn only_the_counter_itself_is_the_counter() {
        assert!(is_counter("tsc\n"));
        let others =
            ["kvm-clock\n", "hpet\n", "acpi_pm\n", "hyperv_clocksource_tsc_page\n", "tsc-early\n", ""];
        assert!(others.iter().all(|name| !is_counter(name)));
    }

    #[test]
    fn time_does_not_go_back_when_the_counter_is_given_up() {
        let source = Source::measure(true);
        // As if the counter ran fast: the two clocks differ a lot by now.
        source.scale.fetch_add(source.scale.load(Ordering::Relaxed) / 2, Ordering::Relaxed);
        let before = source.now();
        source.give_up_counter();
        assert_eq!(source.scale.load(Ordering::Relaxed), 0);
        let after = source.now();
        assert!(after >= before, "{after:?} after {before:?}");
        source.give_up_counter();
        assert!(source.now() >= after);
    }
}
