//! Completion queue entries and their status.

mod words;

pub use words::words;

use crate::layout::little::{bits, flag, number};
use crate::structure::{Decoded, Structure};
use core::fmt;

/// A status: the 15 bits of a completion behind its phase tag, as the kernel's ioctls return them and nvme-cli prints them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Status(pub u16);

/// Do not retry: the same command would fail again.
const DNR: u16 = 1 << 14;

impl Status {
    /// Successful Completion.
    pub const SUCCESS: Status = Status(0);
    /// Invalid Command Opcode.
    pub const INVALID_OPCODE: Status = Status::generic(0x01);
    /// Invalid Field in Command.
    pub const INVALID_FIELD: Status = Status::generic(0x02);
    /// Data Transfer Error.
    pub const DATA_TRANSFER_ERROR: Status = Status::generic(0x04);
    /// Internal Error.
    pub const INTERNAL_ERROR: Status = Status(0x06);
    /// Command Abort Requested.
    pub const ABORT_REQUESTED: Status = Status(0x07);
    /// Command Aborted due to Failed Fused Command.
    pub const FAILED_FUSED: Status = Status(0x09);
    /// Command Aborted due to Missing Fused Command.
    pub const MISSING_FUSED: Status = Status::generic(0x0a);
    /// Invalid Namespace or Format.
    pub const INVALID_NAMESPACE: Status = Status::generic(0x0b);
    /// Namespace is Write Protected.
    pub const WRITE_PROTECTED: Status = Status::generic(0x20);
    /// Command Interrupted: it may be sent again.
    pub const INTERRUPTED: Status = Status(0x21);
    /// LBA Out of Range.
    pub const LBA_OUT_OF_RANGE: Status = Status::generic(0x80);
    /// Capacity Exceeded.
    pub const CAPACITY_EXCEEDED: Status = Status(0x81);
    /// Namespace Not Ready.
    pub const NAMESPACE_NOT_READY: Status = Status(0x82);
    /// Asynchronous Event Request Limit Exceeded.
    pub const EVENT_LIMIT: Status = Status::specific(0x05);
    /// Invalid Log Page.
    pub const INVALID_LOG_PAGE: Status = Status::specific(0x09);
    /// Invalid Format.
    pub const INVALID_FORMAT: Status = Status::specific(0x0a);
    /// Feature Identifier Not Saveable.
    pub const NOT_SAVEABLE: Status = Status::specific(0x0d);
    /// Feature Not Changeable.
    pub const NOT_CHANGEABLE: Status = Status::specific(0x0e);
    /// Write Fault.
    pub const WRITE_FAULT: Status = Status(0x280);
    /// Unrecovered Read Error.
    pub const READ_ERROR: Status = Status(0x281);
    /// Compare Failure.
    pub const COMPARE_FAILURE: Status = Status(0x285);

    /// A generic status (type 0) that would be the same again.
    const fn generic(code: u16) -> Status {
        Status(DNR | code)
    }

    /// A command specific status (type 1) that would be the same again.
    const fn specific(code: u16) -> Status {
        Status(DNR | 0x100 | code)
    }

    /// SCT, the status code type: 0 generic, 1 command specific, 2 media and data integrity, 3 path related, 7 of the vendor.
    pub const fn kind(self) -> u8 {
        (self.0 >> 8 & 7) as u8
    }

    /// SC, the status code, of a meaning that its type decides.
    pub const fn code(self) -> u8 {
        self.0 as u8
    }

    /// DNR: the same command would fail again.
    pub const fn is_final(self) -> bool {
        self.0 & DNR != 0
    }

    /// Whether the command was carried out.
    pub const fn is_success(self) -> bool {
        self.kind() == 0 && self.code() == 0
    }

    /// The same status code without the bits CRD, M and DNR.
    pub const fn bare(self) -> Status {
        Status(self.0 & 0x7ff)
    }
}

impl fmt::Display for Status {
    /// The name of the specification, and the number as nvme-cli prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match words(*self) {
            Some(words) => write!(f, "{words} ({:#x})", self.0),
            None => write!(
                f,
                "status code type {:x}h, status code {:02x}h ({:#x})",
                self.kind(),
                self.code(),
                self.0
            ),
        }
    }
}

/// A completion queue entry (Base Specification, Completion Queue Entry).
pub static COMPLETION: Structure = Structure {
    name: "completion queue entry",
    standard: "NVMe Base 2.0",
    fields: &[
        number("dw0", 0, 4),
        number("dw1", 4, 4),
        number("sqhd", 8, 2),
        number("sqid", 10, 2),
        number("cid", 12, 2),
        flag("p", 14, 0),
        bits("sc", 14, 1, 8),
        bits("sct", 15, 1, 3),
        bits("crd", 15, 4, 2),
        flag("m", 15, 6),
        flag("dnr", 15, 7),
    ],
    length: |_| 16,
    items: None,
};

/// The status of a completion queue entry.
pub fn of_completion(completion: &Decoded<'_>) -> Option<Status> {
    completion.bytes().get(14..16).map(|bytes| Status(u16::from_le_bytes([bytes[0], bytes[1]]) >> 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use proptest::prelude::*;

    #[test]
    fn a_status_is_the_number_and_the_words_of_nvme_cli() {
        // As nvme-cli prints what QEMU answers to a read past the end and to a log page that it does not have.
        assert_eq!(Status(0x4080).to_string(), "LBA Out of Range (0x4080)");
        assert_eq!(Status(0x4002).to_string(), "Invalid Field in Command (0x4002)");
        assert_eq!(Status(0x285).to_string(), "Compare Failure (0x285)");
        assert_eq!(Status(0x7c1).to_string(), "status code type 7h, status code c1h (0x7c1)");
        assert!(Status(0x6000).is_success() && !Status::INVALID_LOG_PAGE.is_success());
    }

    proptest! {
        /// The fields of a completion are the parts of its status.
        #[test]
        fn a_completion_has_its_status(bytes in any::<[u8; 16]>()) {
            let completion = COMPLETION.decode(&bytes);
            let status = of_completion(&completion).unwrap();
            let get = |name| completion.get(name).unwrap();
            prop_assert_eq!((u64::from(status.code()), u64::from(status.kind())), (get("sc"), get("sct")));
            prop_assert_eq!(u64::from(status.is_final()), get("dnr"));
            prop_assert!(!status.to_string().is_empty());
        }
    }
}
