//! The memory that a cache may use.

/// Where the kernel says how much memory the machine can give without swapping.
const MACHINE: &str = "MemAvailable in /proc/meminfo";

/// Where it says how much this process may use.
const CGROUP: &str = "memory.max of the cgroup, less what is used";

/// Bytes that the machine can give without swapping, as Linux reckons, or that the cgroup of this process may still use, if that
/// is less; and where the number is from. `None` where the kernel does not say.
fn available() -> Option<(u64, &'static str)> {
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|meminfo| parse(&meminfo));
    least(machine, platter_cache::memory_left())
}

fn least(machine: Option<u64>, cgroup: Option<u64>) -> Option<(u64, &'static str)> {
    let (machine, cgroup) = (machine.map(|bytes| (bytes, MACHINE)), cgroup.map(|bytes| (bytes, CGROUP)));
    machine.into_iter().chain(cgroup).min_by_key(|(bytes, _)| *bytes)
}

fn parse(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Checks that a cache of `size` bytes fits into available memory: the kernel promises more than it has or than the cgroup
/// allows, and kills a program that uses it later.
///
/// # Errors
/// Why it does not fit, and the largest size that would.
pub(super) fn check(size: u64) -> Result<(), String> {
    available().map_or(Ok(()), |(available, source)| fits(size, available, source))
}

fn fits(size: u64, available: u64, source: &str) -> Result<(), String> {
    // Metadata takes less than a sixty-fourth.
    let most = available / 65 * 64 / 4096 * 4096;
    if size <= most {
        return Ok(());
    }
    Err(format!(
        "size={size} is out of range: up to {most} bytes fit into the memory that is available ({source}); make it smaller"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_what_the_kernel_says_is_available() {
        let text = "MemTotal:       24737124 kB\nMemFree:         100 kB\nMemAvailable:   22913384 kB\n";
        assert_eq!(parse(text), Some(22_913_384 * 1024));
        assert_eq!(parse("MemTotal: 1 kB\n"), None);
        assert_eq!(parse("MemAvailable: many kB\n"), None);
        let available = 65 << 20;
        assert_eq!(fits(64 << 20, available, MACHINE), Ok(()));
        let error = fits((64 << 20) + 4096, available, MACHINE).unwrap_err();
        assert!(error.contains("size=67112960") && error.contains("up to 67108864 bytes"), "{error}");
        assert!(error.contains("MemAvailable"), "{error}");
    }

    #[test]
    fn a_limit_of_the_cgroup_counts_where_it_leaves_less() {
        assert_eq!(least(Some(9), Some(7)), Some((7, CGROUP)));
        assert_eq!(least(Some(7), Some(9)), Some((7, MACHINE)));
        assert_eq!((least(Some(5), None), least(None, Some(5))), (Some((5, MACHINE)), Some((5, CGROUP))));
        assert_eq!(least(None, None), None);
        let error = fits(1 << 20, 4096 * 65, CGROUP).unwrap_err();
        assert!(error.contains("memory.max") && error.contains("up to 262144 bytes"), "{error}");
    }
}
