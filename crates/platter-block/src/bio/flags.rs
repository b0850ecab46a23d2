//! Flags, priority and context of a bio.

use core::fmt;
use core::ops::BitOr;

/// Flags of a bio.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Flags(u16);

impl Flags {
    /// None.
    pub const NONE: Flags = Flags(0);
    /// Somebody waits for it: unplug the device at once.
    pub const SYNC: Flags = Flags(1);
    /// The data is durable when the bio completes.
    pub const FUA: Flags = Flags(1 << 1);
    /// Everything that completed before is durable before this bio's data is written.
    pub const PREFLUSH: Flags = Flags(1 << 2);
    /// A read-ahead that may fail rather than wait for a request.
    pub const READAHEAD: Flags = Flags(1 << 3);
    /// Never merged.
    pub const NOMERGE: Flags = Flags(1 << 4);
    /// Nothing passes it in the queue.
    pub const SOFT_BARRIER: Flags = Flags(1 << 5);
    /// Everything before it is durable before it, and it before everything after it.
    pub const HARD_BARRIER: Flags = Flags(1 << 6);
    /// The memory is borrowed: the bio must not be given up before the driver returned it.
    pub const BORROWED: Flags = Flags(1 << 7);

    /// Given up by its submitter; completes to nobody.
    pub(crate) const ORPHAN: Flags = Flags(1 << 8);
    /// Started again after its request failed: not merged any more.
    pub(crate) const ALONE: Flags = Flags(1 << 9);

    /// Whether all of `other` are set.
    #[inline]
    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any of `other` is set.
    #[inline]
    pub const fn intersects(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    /// These without `other`.
    #[inline]
    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }

    /// Both, usable in constants.
    #[inline]
    pub const fn union(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

impl BitOr for Flags {
    type Output = Flags;
    #[inline]
    fn bitor(self, other: Flags) -> Flags {
        self.union(other)
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 10] = [
            "sync",
            "fua",
            "preflush",
            "readahead",
            "nomerge",
            "soft-barrier",
            "hard-barrier",
            "borrowed",
            "orphan",
            "alone",
        ];
        let mut set = f.debug_set();
        for (bit, name) in NAMES.iter().enumerate() {
            if self.0 & (1 << bit) != 0 {
                set.entry(&format_args!("{name}"));
            }
        }
        set.finish()
    }
}

/// Priority class of an I/O, as Linux' `ioprio_set(2)` numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Class {
    /// None given: best effort.
    None = 0,
    /// Real time.
    RealTime = 1,
    /// Best effort.
    BestEffort = 2,
    /// Only when nobody else wants the disk.
    Idle = 3,
}

/// I/O priority: class and level 0 (highest) to 7, in Linux' encoding (`class << 13 | level`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct IoPrio(u16);

impl IoPrio {
    /// No priority given.
    pub const NONE: IoPrio = IoPrio(0);

    /// A priority; levels above 7 become 7.
    pub const fn new(class: Class, level: u8) -> IoPrio {
        let level = if level > 7 { 7 } else { level };
        IoPrio((class as u16) << 13 | level as u16)
    }

    /// Class.
    pub const fn class(self) -> Class {
        match self.0 >> 13 {
            1 => Class::RealTime,
            2 => Class::BestEffort,
            3 => Class::Idle,
            _ => Class::None,
        }
    }

    /// Level, 0 to 7.
    pub const fn level(self) -> u8 {
        (self.0 & 7) as u8
    }

    /// The number Linux uses.
    #[inline]
    pub const fn raw(self) -> u16 {
        self.0
    }
}

/// On whose behalf an I/O runs: elevators that are fair to processes tell them apart by this number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Context(pub u32);
