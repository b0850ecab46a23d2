//! The memory that a cache may use.

/// Bytes that the machine can give without swapping, as Linux reckons; `None` where it does not say.
fn available() -> Option<u64> {
    parse(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

fn parse(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Checks that a cache of `size` bytes fits into available memory: the kernel may promise more than it has,
/// and kill a program that uses it later.
///
/// # Errors
/// Why it does not fit, and the largest size that would.
pub(super) fn check(size: u64) -> Result<(), String> {
    available().map_or(Ok(()), |available| fits(size, available))
}

fn fits(size: u64, available: u64) -> Result<(), String> {
    // Metadata takes less than a sixty-fourth.
    let most = available / 65 * 64 / 4096 * 4096;
    if size <= most {
        return Ok(());
    }
    Err(format!(
        "size={size} is out of range: up to {most} bytes fit into the memory that is available \
         (MemAvailable in /proc/meminfo); make it smaller"
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
        assert_eq!(fits(64 << 20, available), Ok(()));
        let error = fits((64 << 20) + 4096, available).unwrap_err();
        assert!(error.contains("size=67112960") && error.contains("up to 67108864 bytes"), "{error}");
    }
}
