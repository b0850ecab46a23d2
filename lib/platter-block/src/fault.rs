//! What went wrong with a bio, in four bytes, and the error that a program sees, with everything needed to act
//! on it.

use crate::op::Op;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

/// The kinds, and the list of all of them: `Counters::errors` has an entry for each.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident,)*) => {
        /// Kinds of failure. The numbers are not stable; the names are.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[repr(u8)]
        pub enum Kind {
            $($(#[$doc])* $kind,)*
        }

        impl Kind {
            /// All kinds, in the order of their numbers.
            pub const ALL: [Kind; [$(Kind::$kind),*].len()] = [$(Kind::$kind),*];
        }
    };
}

kinds! {
    /// Offset, length or memory does not have the device's alignment.
    Misaligned,
    /// The range reaches past the end of the device.
    OutOfRange,
    /// A transfer of no bytes.
    ZeroLength,
    /// The segments do not add up to the length, or the list is longer than a bio can hold.
    BadSegments,
    /// The device was opened read-only, or does not take changes.
    ReadOnly,
    /// The system does not permit the operation: a filter of system calls, a security module, a missing right.
    Refused,
    /// The device or driver cannot do this operation.
    Unsupported,
    /// The device failed.
    Io,
    /// No space is left on the device under the file.
    NoSpace,
    /// The device is gone.
    Gone,
    /// The device returned fewer bytes than its size promises.
    Short,
    /// The I/O took longer than its timeout.
    TimedOut,
    /// The I/O was cancelled before it reached the device.
    Cancelled,
    /// No request was free and the caller did not want to wait (readahead).
    WouldBlock,
    /// A flush failed earlier on this device and the failure has not been acknowledged.
    FlushFailed,
    /// Not enough memory for a bounce buffer.
    NoMemory,
    /// An elevator or driver broke its contract.
    Contract,
    /// The data read is not the data that was written.
    Corrupt,
    /// An earlier change timed out and may still reach the device, so this I/O could not be ordered behind it, or another lane of
    /// the device did not report its requests for too long. The detail of the error says which.
    Unsettled,
    /// A panic has left a layer in an unknown state; it carries out nothing any more.
    Broken,
}

/// The part of the stack that noticed a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum Stage {
    /// The handle that the program calls.
    Handle,
    /// A layer of the stack.
    Layer,
    /// The request queue.
    Queue,
    /// The driver.
    Driver,
    /// The disk, through its driver.
    Disk,
}

/// Why a bio failed: kind, errno (0 if the system gave none) and the stage that noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fault {
    /// What went wrong.
    pub kind: Kind,
    /// The stage that noticed.
    pub stage: Stage,
    /// The system's errno, or 0.
    pub errno: u16,
}

/// The outcome of a bio.
pub type Status = Result<(), Fault>;

// Linux errno values (asm-generic) that are reported for kinds.
const EPERM: i32 = 1;
const EIO: i32 = 5;
pub(crate) const EAGAIN: i32 = 11;
const ENOMEM: i32 = 12;
const ENODEV: i32 = 19;
const EINVAL: i32 = 22;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
const ENOLINK: i32 = 67;
const EBADMSG: i32 = 74;
const EOPNOTSUPP: i32 = 95;
const ETIMEDOUT: i32 = 110;
const ECANCELED: i32 = 125;

/// The kind of each Linux errno (asm-generic) that does not mean [`Kind::Io`].
///
/// The Linux block layer turns the status of a request into an errno by the table `blk_errors` (`block/blk-core.c`):
/// EOPNOTSUPP, ETIMEDOUT, ENOSPC, ENOLINK (transport), EREMOTEIO (target), EBADE (reservation conflict), ENODATA
/// (medium), EILSEQ (protection information), ENOMEM, EBUSY, EAGAIN, ENODEV, ETIME (duration limit), EREMCHG,
/// ETOOMANYREFS and EOVERFLOW (zone resources), EINVAL and EIO. File systems add those of quotas, of a removed file and
/// of bad checksums. What is not listed here is a failure of the device; its errno says which.
const KINDS: [(i32, Kind); 27] = [
    (EPERM, Kind::Refused), // of a change: see `Fault::of_op`
    (6, Kind::Gone),        // ENXIO
    (9, Kind::Contract),    // EBADF: the driver's descriptor was closed, or is not open for this
    (EAGAIN, Kind::WouldBlock),
    (ENOMEM, Kind::NoMemory),
    (13, Kind::Refused), // EACCES: a security module
    (ENODEV, Kind::Gone),
    (EINVAL, Kind::Misaligned),
    (25, Kind::Unsupported), // ENOTTY
    (27, Kind::NoSpace),     // EFBIG
    (ENOSPC, Kind::NoSpace),
    (EROFS, Kind::ReadOnly),
    (38, Kind::Unsupported),  // ENOSYS
    (62, Kind::TimedOut),     // ETIME
    (EBADMSG, Kind::Corrupt), // a checksum of the file system
    (84, Kind::Corrupt),      // EILSEQ: protection information
    (EOPNOTSUPP, Kind::Unsupported),
    (105, Kind::NoMemory), // ENOBUFS
    (107, Kind::Gone),     // ENOTCONN
    (108, Kind::Gone),     // ESHUTDOWN
    (ETIMEDOUT, Kind::TimedOut),
    (116, Kind::Gone),    // ESTALE: a file that was removed on its server
    (122, Kind::NoSpace), // EDQUOT
    (123, Kind::Gone),    // ENOMEDIUM
    (ECANCELED, Kind::Cancelled),
    (133, Kind::Corrupt),     // EHWPOISON: the memory that held the data
    (524, Kind::Unsupported), // ENOTSUPP: internal to the kernel, but network file systems let it out
];

impl Fault {
    /// A fault found by the library itself, without an errno.
    pub const fn new(kind: Kind, stage: Stage) -> Fault {
        Fault { kind, stage, errno: 0 }
    }

    /// The fault for a positive Linux `errno` from a disk.
    pub fn from_errno(errno: i32) -> Fault {
        let kind = KINDS.iter().find(|(known, _)| *known == errno).map_or(Kind::Io, |(_, kind)| *kind);
        Fault { kind, stage: Stage::Disk, errno: u16::try_from(errno).unwrap_or(EIO as u16) }
    }

    /// The fault for a positive Linux `errno` with which a disk answered `op`. It is that of
    /// [`from_errno`](Fault::from_errno), but for `EPERM`: by it Linux refuses to change a block device that is set
    /// read-only and an immutable or sealed file, whereas a read cannot fail for that reason.
    pub fn of_op(op: Op, errno: i32) -> Fault {
        let fault = Fault::from_errno(errno);
        let changes = matches!(op, Op::Write | Op::Discard | Op::WriteZeroes);
        if errno == EPERM && changes { Fault { kind: Kind::ReadOnly, ..fault } } else { fault }
    }

    /// Whether the errno says nothing of the disk, so that the same I/O may succeed later: `EINTR`, `EAGAIN`, `ENOMEM`,
    /// `ECANCELED`.
    pub fn is_transient(&self) -> bool {
        const EINTR: i32 = 4;
        matches!(i32::from(self.errno), EINTR | EAGAIN | ENOMEM | ECANCELED)
    }

    /// Whether the transport between the driver and the disk failed (ENOLINK, which the Linux block layer reports for
    /// `BLK_STS_TRANSPORT`). Whether the operation was carried out is not known.
    pub fn is_of_transport(&self) -> bool {
        i32::from(self.errno) == ENOLINK
    }

    /// The errno to report to programs that use errno values.
    pub fn errno(&self) -> i32 {
        if self.errno != 0 {
            return i32::from(self.errno);
        }
        match self.kind {
            Kind::Misaligned | Kind::ZeroLength | Kind::BadSegments | Kind::OutOfRange => EINVAL,
            Kind::ReadOnly => EROFS,
            Kind::Refused => EPERM,
            Kind::Unsupported => EOPNOTSUPP,
            Kind::NoSpace => ENOSPC,
            Kind::Gone => ENODEV,
            Kind::TimedOut | Kind::Unsettled => ETIMEDOUT,
            Kind::Cancelled => ECANCELED,
            Kind::WouldBlock => EAGAIN,
            Kind::NoMemory => ENOMEM,
            Kind::Corrupt => EBADMSG,
            Kind::Io | Kind::Short | Kind::FlushFailed | Kind::Contract | Kind::Broken => EIO,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Misaligned => "not aligned as the device requires",
            Kind::OutOfRange => "past the end of the device",
            Kind::ZeroLength => "a transfer of zero bytes",
            Kind::BadSegments => "the segments do not add up to the length",
            Kind::ReadOnly => "the device is read-only",
            Kind::Refused => "the operation is not permitted",
            Kind::Unsupported => "not supported by the device",
            Kind::Io => "the device failed",
            Kind::NoSpace => "no space left under the device",
            Kind::Gone => "the device is gone",
            Kind::Short => "the device gave fewer bytes than its size promises",
            Kind::TimedOut => "timed out",
            Kind::Cancelled => "cancelled",
            Kind::WouldBlock => "no request is free",
            Kind::FlushFailed => "an earlier flush failed and was not acknowledged",
            Kind::NoMemory => "out of memory",
            Kind::Contract => "a driver or elevator broke its contract",
            Kind::Corrupt => "what was read is not what was written",
            Kind::Unsettled => {
                "an earlier change may still reach the device, or another lane of it is not run"
            }
            Kind::Broken => {
                "an earlier panic has left the device in an unknown state; close it and open it again"
            }
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)?;
        if self.errno != 0 {
            write!(f, " (errno {})", self.errno)?;
        }
        Ok(())
    }
}

impl core::error::Error for Fault {}

/// An error with everything a program or its user needs: what failed, where and why.
#[derive(Clone, Debug)]
pub struct Error {
    /// The cause.
    pub fault: Fault,
    /// The operation.
    pub op: Op,
    /// The device's name.
    pub device: Arc<str>,
    /// Offset on the device in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// What to know or do about it, such as the required alignment or the device's size; may be empty.
    pub detail: String,
}

impl Error {
    /// Whether an I/O failed, and not the opening of a device or a change of its settings. These have no range.
    fn is_of_io(&self) -> bool {
        self.op == Op::Flush || (self.offset, self.len) != (0, 0)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.device)?;
        if self.is_of_io() {
            write!(f, "{} of {} bytes at {}: ", self.op, self.len, self.offset)?;
        }
        write!(f, "{}", self.fault.kind)?;
        if self.fault.errno != 0 {
            write!(f, " (errno {})", self.fault.errno)?;
        }
        if !self.detail.is_empty() {
            write!(f, "; {}", self.detail)?;
        }
        Ok(())
    }
}

impl core::error::Error for Error {}
