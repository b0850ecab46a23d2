//! Protocol data units: the basic header segment, whose fields have the names of RFC 7143, section 11.
//!
//! All fields are big-endian. Which ones a unit has follows from its operation code; those of other units share the same
//! bytes.

/// Length of the basic header segment in bytes.
pub const HEADER_BYTES: usize = 48;

/// Length of a digest in bytes.
pub const DIGEST_BYTES: usize = 4;

/// The task tag that names no task.
pub const NO_TAG: u32 = 0xffff_ffff;

/// Operation codes.
pub mod opcode {
    /// NOP-Out.
    pub const NOP_OUT: u8 = 0x00;
    /// SCSI Command.
    pub const COMMAND: u8 = 0x01;
    /// Task Management Function Request.
    pub const MANAGEMENT: u8 = 0x02;
    /// Login Request.
    pub const LOGIN: u8 = 0x03;
    /// Text Request.
    pub const TEXT: u8 = 0x04;
    /// SCSI Data-Out.
    pub const DATA_OUT: u8 = 0x05;
    /// Logout Request.
    pub const LOGOUT: u8 = 0x06;
    /// SNACK Request.
    pub const SNACK: u8 = 0x10;
    /// NOP-In.
    pub const NOP_IN: u8 = 0x20;
    /// SCSI Response.
    pub const RESPONSE: u8 = 0x21;
    /// Task Management Function Response.
    pub const MANAGEMENT_RESPONSE: u8 = 0x22;
    /// Login Response.
    pub const LOGIN_RESPONSE: u8 = 0x23;
    /// Text Response.
    pub const TEXT_RESPONSE: u8 = 0x24;
    /// SCSI Data-In.
    pub const DATA_IN: u8 = 0x25;
    /// Logout Response.
    pub const LOGOUT_RESPONSE: u8 = 0x26;
    /// Ready To Transfer.
    pub const R2T: u8 = 0x31;
    /// Reject.
    pub const REJECT: u8 = 0x3f;
}

/// Bits of byte 1.
pub mod flag {
    /// F, or T of a login: the last unit of a sequence, or a change of the stage.
    pub const FINAL: u8 = 0x80;
    /// R of a SCSI Command, C of logins and texts: data is expected from the target; the text goes on in the next unit.
    pub const READ: u8 = 0x40;
    /// C of logins and texts: the text goes on in the next unit.
    pub const CONTINUE: u8 = 0x40;
    /// W of a SCSI Command: data is sent to the target.
    pub const WRITE: u8 = 0x20;
    /// O of responses and Data-In: the expected length was too small.
    pub const OVERFLOW: u8 = 0x04;
    /// U of responses and Data-In: less was transferred than expected.
    pub const UNDERFLOW: u8 = 0x02;
    /// S of Data-In: the unit has the status of the command.
    pub const STATUS: u8 = 0x01;
}

/// Reasons of a Reject.
pub mod reject {
    /// The unit breaks the protocol.
    pub const PROTOCOL: u8 = 0x04;
    /// There are too many commands for another immediate one.
    pub const TOO_MANY_IMMEDIATE: u8 = 0x06;
    /// The operation code is not supported.
    pub const NOT_SUPPORTED: u8 = 0x05;
}

/// Where fields of four bytes lie. Several units have different ones at the same place.
pub mod at {
    /// Initiator Task Tag.
    pub const TASK_TAG: usize = 16;
    /// Target Transfer Tag.
    pub const TRANSFER_TAG: usize = 20;
    /// Expected Data Transfer Length, of a SCSI Command.
    pub const EXPECTED_LENGTH: usize = 20;
    /// Referenced Task Tag, of a Task Management Function Request.
    pub const REFERENCED_TAG: usize = 20;
    /// CmdSN, of requests.
    pub const CMD_SN: usize = 24;
    /// StatSN, of responses.
    pub const STAT_SN: usize = 24;
    /// ExpCmdSN, of responses.
    pub const EXP_CMD_SN: usize = 28;
    /// MaxCmdSN, of responses.
    pub const MAX_CMD_SN: usize = 32;
    /// DataSN, or R2TSN.
    pub const DATA_SN: usize = 36;
    /// Buffer Offset, of data and R2T.
    pub const BUFFER_OFFSET: usize = 40;
    /// Residual Count, of responses and Data-In.
    pub const RESIDUAL: usize = 44;
    /// Desired Data Transfer Length, of R2T.
    pub const DESIRED_LENGTH: usize = 44;
}

/// A basic header segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header(pub [u8; HEADER_BYTES]);

impl Header {
    /// A header of this operation code and byte 1; all else is zero.
    pub const fn new(opcode: u8, flags: u8) -> Header {
        let mut bytes = [0; HEADER_BYTES];
        (bytes[0], bytes[1]) = (opcode, flags);
        Header(bytes)
    }

    /// The operation code.
    pub const fn opcode(&self) -> u8 {
        self.0[0] & 0x3f
    }

    /// I: the request has no place of its own in the order of commands.
    pub const fn is_immediate(&self) -> bool {
        self.0[0] & 0x40 != 0
    }

    /// Byte 1.
    pub const fn flags(&self) -> u8 {
        self.0[1]
    }

    /// F or T.
    pub const fn is_final(&self) -> bool {
        self.0[1] & flag::FINAL != 0
    }

    /// TotalAHSLength, in bytes.
    pub const fn ahs_bytes(&self) -> usize {
        self.0[4] as usize * 4
    }

    /// DataSegmentLength.
    pub const fn data_bytes(&self) -> usize {
        (self.0[5] as usize) << 16 | (self.0[6] as usize) << 8 | self.0[7] as usize
    }

    /// Sets DataSegmentLength, which has 24 bits.
    #[must_use]
    pub fn with_data_bytes(mut self, bytes: usize) -> Header {
        self.0[5..8].copy_from_slice(&(bytes as u32).to_be_bytes()[1..]);
        self
    }

    /// The number of four bytes at this place.
    pub fn get(&self, at: usize) -> u32 {
        self.0[at..at + 4].iter().fold(0, |value, byte| value << 8 | u32::from(*byte))
    }

    /// Sets a number of four bytes.
    #[must_use]
    pub fn with(mut self, at: usize, value: u32) -> Header {
        self.0[at..at + 4].copy_from_slice(&value.to_be_bytes());
        self
    }

    /// Sets one byte.
    #[must_use]
    pub const fn with_byte(mut self, at: usize, value: u8) -> Header {
        self.0[at] = value;
        self
    }

    /// The Logical Unit Number, as its eight bytes.
    pub fn lun(&self) -> u64 {
        u64::from(self.get(8)) << 32 | u64::from(self.get(12))
    }

    /// The Initiator Task Tag.
    pub fn task_tag(&self) -> u32 {
        self.get(at::TASK_TAG)
    }
}

/// Bytes that fill data up to a multiple of four.
pub const fn padding(bytes: usize) -> usize {
    bytes.wrapping_neg() & 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_where_the_standard_has_them() {
        // SCSI Command of RFC 7143, 11.3: READ (10), LUN 0, task tag 7, 4096 bytes expected, CmdSN 5.
        let header = Header::new(opcode::COMMAND, flag::FINAL | flag::READ | 1)
            .with(at::TASK_TAG, 7)
            .with(at::EXPECTED_LENGTH, 4096)
            .with(at::CMD_SN, 5);
        let mut bytes = [0; 48];
        (bytes[0], bytes[1], bytes[19], bytes[22], bytes[27]) = (1, 0xc1, 7, 16, 5);
        assert_eq!(header.0, bytes);
        assert_eq!((header.task_tag(), header.get(at::EXPECTED_LENGTH), header.lun()), (7, 4096, 0));
        let header = header.with_data_bytes(0x12_3456);
        assert_eq!((header.data_bytes(), &header.0[4..8]), (0x12_3456, &[0, 0x12, 0x34, 0x56][..]));
        assert_eq!([0, 1, 2, 3, 4].map(padding), [0, 3, 2, 1, 0]);
    }
}
