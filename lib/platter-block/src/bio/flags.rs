//! Flags, priority and context of a bio.

use core::fmt;
use core::ops::BitOr;

/// Flags of a bio.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Flags(u16);

impl Flags {
    /// No flag.
    pub const NONE: Flags = Flags(0);
    /// A thread waits for this bio: the device is unplugged at once.
    pub const SYNC: Flags = Flags(1);
    /// The data is durable when the bio completes.
    pub const FUA: Flags = Flags(1 << 1);
    /// Everything that completed before is durable before this bio's data is written.
    pub const PREFLUSH: Flags = Flags(1 << 2);
    /// Readahead, which may fail rather than wait for a request.
    pub const READAHEAD: Flags = Flags(1 << 3);
    /// Never merged.
    pub const NOMERGE: Flags = Flags(1 << 4);
    /// On all lanes of the device, bios submitted before it start before it, and bios submitted later start later. It
    /// waits for no completion, so the device may still carry requests out in another order, or several at once.
    pub const SOFT_BARRIER: Flags = Flags(1 << 5);
    /// Everything before it is durable before it starts, and it is durable before anything after it starts.
    pub const HARD_BARRIER: Flags = Flags(1 << 6);
    /// The memory is borrowed: its submitter waits for this bio until the driver has returned it.
    pub const BORROWED: Flags = Flags(1 << 7);
    /// A write that must be on the device as a whole or not at all after a power cut. Never split or merged; fails if
    /// [`Limits::atomic_write`](crate::limits::Limits::atomic_write) does not allow it.
    pub const ATOMIC: Flags = Flags(1 << 10);
    /// Of a flush: a cache writes its dirty data to its disk and does not flush the disk. For the shards of one cache, whose disk
    /// is flushed afterwards; alone, it makes nothing durable. What is no cache flushes as always.
    pub const DATA_ONLY: Flags = Flags(1 << 14);
    /// Of a flush: a cache flushes its disk, for all shards of that cache, and writes none of its dirty data.
    pub const DISK_ONLY: Flags = Flags(1 << 15);

    /// Barriers: bios that others must not pass.
    pub const BARRIERS: Flags = Flags::SOFT_BARRIER.union(Flags::HARD_BARRIER);
    /// Flags that make data durable.
    pub const DURABLE: Flags = Flags::FUA.union(Flags::PREFLUSH);
    /// Flags of bios that may need a flush or an order among all lanes of a device.
    pub const ORDERED: Flags = Flags::DURABLE.union(Flags::BARRIERS);

    /// A placeholder in a request that has not started, for a bio that was taken out of it.
    pub(crate) const ORPHAN: Flags = Flags(1 << 8);
    /// Retried after its request failed: not merged any more.
    pub(crate) const ALONE: Flags = Flags(1 << 9);
    /// Not retried, whatever the result: it was cancelled, it is overdue, a barrier has counted it as complete, or the device
    /// has failed.
    pub(crate) const LAST: Flags = Flags(1 << 11);
    /// A step of a barrier that is sent as an ordered tag.
    pub(crate) const TAGGED: Flags = Flags(1 << 12);
    /// The device had it when the last ordered tag was sent, so that tag does not hold back a retry of it.
    pub(crate) const BEFORE_TAG: Flags = Flags(1 << 13);

    /// Whether all flags of `other` are set.
    #[inline]
    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any flag of `other` is set.
    #[inline]
    pub const fn intersects(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    /// These flags without those of `other`.
    #[inline]
    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }

    /// The union of both, usable in constants.
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
        const NAMES: [&str; 16] = [
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
            "atomic",
            "last",
            "tagged",
            "before-tag",
            "data-only",
            "disk-only",
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
    /// Served only while no other process uses the disk.
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

    /// The priority for a number of Linux; bits outside class and level are dropped.
    pub const fn from_raw(raw: u16) -> IoPrio {
        IoPrio(raw & (3 << 13 | 7))
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

/// The process on whose behalf an I/O runs. Fair elevators tell submitters apart by it.
///
/// A thread of a process of a group of a user, as numbers that the program chooses or those of the system. They are
/// stored in few bits: a process modulo 2^24 (Linux process numbers fit), a thread modulo 2^16, a group and a user
/// modulo 2^12. Two contexts with equal numbers are scheduled as one; nothing else depends on it.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Context {
    // Two halves, because one 64-bit number would need stricter alignment and make requests larger.
    process_and_user: u32,
    thread_and_group: u32,
}

impl Context {
    /// The first thread of a process, of group 0 and user 0.
    #[inline]
    pub const fn new(process: u32) -> Context {
        Context { process_and_user: process & 0xff_ffff, thread_and_group: 0 }.of_user(0)
    }

    /// Another thread of the same process.
    #[inline]
    pub const fn thread(self, thread: u32) -> Context {
        let group = self.thread_and_group & !0xffff;
        Context { thread_and_group: group | (thread & 0xffff), ..self }
    }

    /// The same context in a process group.
    #[inline]
    pub const fn in_group(self, group: u32) -> Context {
        let thread = self.thread_and_group & 0xffff;
        Context { thread_and_group: thread | (group & 0xfff) << 16, ..self }
    }

    /// The same context of a user.
    #[inline]
    pub const fn of_user(self, user: u32) -> Context {
        let process = self.process_and_user & 0xff_ffff;
        // 8 bits here, 4 bits in the other half.
        let group = self.thread_and_group & 0x0fff_ffff;
        Context {
            process_and_user: process | (user & 0xff) << 24,
            thread_and_group: group | (user >> 8 & 0xf) << 28,
        }
    }

    /// The process.
    #[inline]
    pub const fn process(self) -> u32 {
        self.process_and_user & 0xff_ffff
    }

    /// The group of the process.
    #[inline]
    pub const fn group(self) -> u32 {
        self.thread_and_group >> 16 & 0xfff
    }

    /// The user.
    #[inline]
    pub const fn user(self) -> u32 {
        self.process_and_user >> 24 | self.thread_and_group >> 28 << 8
    }

    /// Thread and process as one number, which identifies what Linux calls an I/O context.
    #[inline]
    pub const fn task(self) -> u64 {
        (self.process() as u64) << 16 | (self.thread_and_group & 0xffff) as u64
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let thread = self.thread_and_group & 0xffff;
        write!(f, "{}.{thread} (group {}, user {})", self.process(), self.group(), self.user())
    }
}

#[cfg(test)]
mod context_tests {
    use super::*;

    #[test]
    fn each_part_is_kept_apart_from_the_others() {
        let c = Context::new(0xabcdef).thread(0x1234).in_group(0x567).of_user(0x89a);
        assert_eq!((c.process(), c.group(), c.user()), (0xabcdef, 0x567, 0x89a));
        assert_eq!(c.task(), 0xab_cdef_1234);
        let again = c.of_user(1).in_group(2).thread(3);
        assert_eq!(
            (again.process(), again.group(), again.user(), again.task()),
            (0xabcdef, 2, 1, 0xab_cdef_0003)
        );
        assert_eq!(Context::new(1 << 24), Context::default());
    }
}
