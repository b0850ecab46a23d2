//! Defects that this project once had, kept so that its test instruments can be tested: with the feature `defects` each
//! can be put back while a test runs, and the soak must find it. Without the feature [`is_on`] is always `false` and costs
//! nothing.

/// A defect that can be put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u8)]
pub enum Defect {
    /// The number of bios in a request wraps at 65,536, and the rest of them never complete.
    MergedCountWraps,
}

impl Defect {
    /// All defects.
    pub const ALL: &[Defect] = &[Defect::MergedCountWraps];

    /// Name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Defect::MergedCountWraps => "merged-count-wraps",
        }
    }

    /// One line about it.
    pub const fn summary(self) -> &'static str {
        match self {
            Defect::MergedCountWraps => {
                "a request of more than 65,535 bios loses count and never completes them"
            }
        }
    }
}

#[cfg(feature = "defects")]
static ON: core::sync::atomic::AtomicU64 = core::sync::atomic::AtomicU64::new(0);

/// Whether the defect is put back. Always `false` without the feature `defects`.
#[inline(always)]
pub fn is_on(defect: Defect) -> bool {
    #[cfg(feature = "defects")]
    return ON.load(core::sync::atomic::Ordering::Relaxed) & 1 << defect as u8 != 0;
    #[cfg(not(feature = "defects"))]
    {
        let _ = defect;
        false
    }
}

/// Whether defects can be put back in this build: with the feature `defects`.
pub const AVAILABLE: bool = cfg!(feature = "defects");

/// Puts a defect back, or takes it out again, for the whole process, if this build can.
pub fn put_back(defect: Defect, on: bool) {
    #[cfg(feature = "defects")]
    set(defect, on);
    #[cfg(not(feature = "defects"))]
    let _ = (defect, on);
}

/// Puts a defect back, or takes it out again, for the whole process. Tests that do so run in a process of their own.
#[cfg(feature = "defects")]
pub fn set(defect: Defect, on: bool) {
    use core::sync::atomic::Ordering;
    let bit = 1 << defect as u8;
    if on {
        ON.fetch_or(bit, Ordering::Relaxed);
    } else {
        ON.fetch_and(!bit, Ordering::Relaxed);
    }
}
