//! Resource usage of the process: processor time and context switches.

#![allow(unsafe_code)]

/// Resources that all threads of the process have used so far (`getrusage(2)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Processor time in user mode, in ns. The kernel splits the exact sum of both times by samples.
    pub user_ns: u64,
    /// Processor time in the kernel, in ns.
    pub system_ns: u64,
    /// Times that a thread gave the processor up to wait.
    pub voluntary_switches: u64,
    /// Times that a thread had the processor taken away.
    pub involuntary_switches: u64,
}

impl Usage {
    /// The usage until now.
    pub fn now() -> Self {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the pointer is to a `rusage` that lives through the call, and zeroes are one.
        let usage = unsafe {
            libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
            usage.assume_init()
        };
        let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000;
        Self {
            user_ns: ns(usage.ru_utime),
            system_ns: ns(usage.ru_stime),
            voluntary_switches: usage.ru_nvcsw as u64,
            involuntary_switches: usage.ru_nivcsw as u64,
        }
    }

    /// The usage since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
            voluntary_switches: self.voluntary_switches.saturating_sub(earlier.voluntary_switches),
            involuntary_switches: self.involuntary_switches.saturating_sub(earlier.involuntary_switches),
        }
    }

    /// Processor time in both modes, in ns.
    pub fn cpu_ns(&self) -> u64 {
        self.user_ns + self.system_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_seen() {
        let before = Usage::now();
        let mut x = 1u64;
        while Usage::now().since(&before).cpu_ns() < 2_000_000 {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        let used = Usage::now().since(&before);
        assert!(used.cpu_ns() >= 2_000_000);
        assert_eq!(before.since(&before), Usage::default());
    }
}
