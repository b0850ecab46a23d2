//! Processor time of the machine.

use rustix::time::{ClockId, clock_gettime};

/// Processor time of this process so far, in ns: user and system, all threads.
pub(crate) fn process_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    part(time.tv_sec) * 1_000_000_000 + part(time.tv_nsec)
}

/// Ticks of all processors since the machine started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticks {
    idle: u64,
    all: u64,
}

impl Ticks {
    /// `None` if the system does not report it.
    pub(crate) fn now() -> Option<Ticks> {
        Ticks::parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    /// The first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal. The values
    /// after that are part of the first two. A processor that waits for I/O is idle.
    fn parse(stat: &str) -> Option<Ticks> {
        let mut words = stat.lines().next()?.split_ascii_whitespace();
        if words.next()? != "cpu" {
            return None;
        }
        let ticks: Vec<u64> = words.take(8).map_while(|word| word.parse().ok()).collect();
        let idle = ticks.get(3)? + ticks.get(4).unwrap_or(&0);
        Some(Ticks { idle, all: ticks.iter().sum() })
    }

    /// Percent of the processors' time since `earlier` in which they had nothing to do; `None` when no tick
    /// has passed.
    pub(crate) fn idle_pct_since(self, earlier: Ticks) -> Option<f64> {
        let all = self.all.checked_sub(earlier.all).filter(|all| *all > 0)?;
        Some((self.idle.saturating_sub(earlier.idle) as f64 / all as f64 * 100.0).min(100.0))
    }
}

/// Name of the kernel and its version, and of the processor with how many there are.
pub(crate) fn facts() -> Vec<(&'static str, String)> {
    let name = rustix::system::uname();
    let kernel = format!("{} {}", name.sysname().to_string_lossy(), name.release().to_string_lossy());
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|(_, model)| model.trim()));
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let model = model.unwrap_or(std::env::consts::ARCH);
    vec![("kernel", kernel), ("processors", format!("{processors} × {model}"))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_is_idle_and_waiting_for_io() {
        let before = Ticks::parse("cpu  10 0 10 100 20 0 0 5 7 0\ncpu0 1").unwrap();
        let after = Ticks::parse("cpu  20 0 20 150 30 10 5 5 9 0").unwrap();
        assert_eq!(after, Ticks { idle: 180, all: 240 });
        assert_eq!(after.idle_pct_since(before), Some(60.0 / 95.0 * 100.0));
        assert_eq!(before.idle_pct_since(before), None);
        assert_eq!(Ticks::parse("intr 5"), None);
        assert_eq!(Ticks::parse(""), None);
    }

    #[test]
    fn the_processors_time_of_work_is_seen() {
        let before = process_cpu_ns();
        let mut sum = 0u64;
        while process_cpu_ns() - before < 2_000_000 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(sum > 0);
    }
}
