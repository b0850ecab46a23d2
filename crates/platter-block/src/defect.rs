//! Defects that this project once had, kept to test its test instruments: with the feature `defects` each can be put
//! back while a test runs, and the soak must find it. Without the feature [`is_on`] is always `false` and costs
//! nothing.

/// One row per defect: its effect, variant, name on the command line and summary.
macro_rules! defects {
    ($($(#[$doc:meta])* $variant:ident $name:literal $summary:literal)*) => {
        /// A defect that can be put back.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        #[repr(u8)]
        pub enum Defect {
            $($(#[$doc])* $variant,)*
        }

        impl Defect {
            /// All defects.
            pub const ALL: &[Defect] = &[$(Defect::$variant),*];

            /// Name on the command line.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Defect::$variant => $name,)*
                }
            }

            /// A summary of one line.
            pub const fn summary(self) -> &'static str {
                match self {
                    $(Defect::$variant => $summary,)*
                }
            }
        }
    };
}

defects! {
    /// A request that absorbs another one, all or some of whose bios have left it at their deadline, is started with the
    /// placeholders of those bios, which have no memory.
    AbsorbedAsWhole "absorbed-as-whole" "a write that was over at its deadline is done after all, with other data, when requests merge"
    /// A barrier of a disk waits without a limit for lanes that are not run, and all later I/O waits behind it.
    BarrierNeverFails "barrier-never-fails" "a barrier of a disk waits without end for a lane that is not run"
    /// A barrier waits for requests that have timed out, and all later I/O waits behind it.
    BarrierWaitsForQuarantine "barrier-waits-for-quarantine" "a barrier waits for requests that have timed out"
    /// A bio's deadline is checked only after the driver has taken it.
    DeadlineFromStart "deadline-from-start" "a bio that waits in a queue does not time out"
    /// Ranges that a timed-out request may still change are written, read and flushed without waiting for it.
    DoubtIgnored "doubt-ignored" "nothing waits for a write that has timed out and may still reach the disk"
    /// A queue of a disk without a volatile cache takes FUA and PREFLUSH off the submitter's bio, which is then written
    /// without them to the next disk.
    FuaStripped "fua-stripped" "a bio that is used again has lost FUA and PREFLUSH"
    /// The number of bios in a request wraps at 65,536, and the rest of them never complete.
    MergedCountWraps "merged-count-wraps" "a request of more than 65,535 bios loses count and never completes them"
    /// What was held back while the order of barriers was switched stays there until something else lets it in.
    OrderedSwitchHolds "ordered-switch-holds" "I/O that was submitted while the order of barriers was switched never ends"
    /// A bio that was examined before the device shrank is not examined again under the queue's lock.
    PrebuiltOfOldSize "prebuilt-of-old-size" "a request prepared before a device shrank is started past its new end"
    /// Other lanes, and bios of the same lane that need a flush, pass a soft barrier.
    SoftBarrierPassed "soft-barrier-passed" "other lanes, and flushes and durable writes of the same lane, pass a soft barrier"
    /// Requests that have timed out fill the depth and keep all other requests waiting without a limit.
    StuckDepthIgnored "stuck-depth-ignored" "requests that have timed out and fill the depth stop the device silently"
    /// An interrupted call or a shortage of memory in the system fails the bio, and every later flush.
    TransientFails "transient-fails" "an interrupted request fails its bio and every later flush"
    /// The last woken thread to run does not look for the bios that others have left to it.
    WokenForgetBios "woken-forget-bios" "a bio that a thread left to one that was woken is never handed to the disk"
}

#[cfg(feature = "defects")]
static ON: core::sync::atomic::AtomicU64 = core::sync::atomic::AtomicU64::new(0);

#[cfg(feature = "defects")]
const _: () = assert!(Defect::ALL.len() <= 64);

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

/// Puts a defect back or removes it, for the whole process, if this build can.
pub fn put_back(defect: Defect, on: bool) {
    #[cfg(feature = "defects")]
    set(defect, on);
    #[cfg(not(feature = "defects"))]
    let _ = (defect, on);
}

/// Puts a defect back or removes it, for the whole process. Tests that do so run in a process of their own.
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
