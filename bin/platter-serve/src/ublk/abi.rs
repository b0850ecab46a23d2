//! The interface of the kernel's ublk driver: `linux/ublk_cmd.h` and `Documentation/block/ublk.rst`, by their layout in
//! bytes.

/// Bytes of a sector, the unit of the driver.
pub(super) const SECTOR: u64 = 512;

/// Largest logical block: a page.
pub(super) const MAX_BLOCK: u32 = 4096;

/// The identity of "any device".
pub(super) const ANY: u32 = u32::MAX;

/// Bytes of `struct ublksrv_ctrl_cmd` and of `struct ublksrv_io_cmd`.
pub(super) const CONTROL_COMMAND: usize = 32;
pub(super) const IO_COMMAND: usize = 16;

const fn ioctl(direction: u32, number: u32, size: usize) -> u32 {
    direction << 30 | (size as u32) << 16 | (b'u' as u32) << 8 | number
}

const fn read(number: u32) -> u32 {
    ioctl(2, number, CONTROL_COMMAND)
}

const fn write(number: u32) -> u32 {
    ioctl(3, number, CONTROL_COMMAND)
}

/// Commands of `/dev/ublk-control`.
pub(super) mod control {
    pub(in super::super) const GET_INFO: u32 = super::read(0x02);
    pub(in super::super) const ADD: u32 = super::write(0x04);
    pub(in super::super) const DELETE: u32 = super::write(0x05);
    pub(in super::super) const START: u32 = super::write(0x06);
    pub(in super::super) const STOP: u32 = super::write(0x07);
    pub(in super::super) const SET_PARAMS: u32 = super::write(0x08);
    pub(in super::super) const GET_PARAMS: u32 = super::read(0x09);
    pub(in super::super) const START_RECOVERY: u32 = super::write(0x10);
    pub(in super::super) const END_RECOVERY: u32 = super::write(0x11);
    pub(in super::super) const GET_FEATURES: u32 = super::read(0x13);
    pub(in super::super) const UPDATE_SIZE: u32 = super::write(0x15);
}

/// Commands of `/dev/ublkcN`.
pub(super) mod io {
    use super::{IO_COMMAND, ioctl};

    pub(in super::super) const FETCH: u32 = ioctl(3, 0x20, IO_COMMAND);
    pub(in super::super) const COMMIT_AND_FETCH: u32 = ioctl(3, 0x21, IO_COMMAND);
}

/// Features of the driver, and flags of a device.
pub(super) mod feature {
    /// I/O waits for another server when the server is gone.
    pub(in super::super) const USER_RECOVERY: u64 = 1 << 3;
    /// Requests that the dead server had are given to the next one.
    pub(in super::super) const RECOVERY_REISSUE: u64 = 1 << 4;
    /// The server copies data itself, by `pread` and `pwrite`.
    pub(in super::super) const USER_COPY: u64 = 1 << 7;
    /// A running device can change its size.
    pub(in super::super) const UPDATE_SIZE: u64 = 1 << 10;
}

/// States of a device.
pub(super) mod state {
    pub(in super::super) const DEAD: u16 = 0;
    pub(in super::super) const LIVE: u16 = 1;
    pub(in super::super) const QUIESCED: u16 = 2;
}

/// Attributes of a device.
pub(super) mod attribute {
    pub(in super::super) const READ_ONLY: u32 = 1;
    pub(in super::super) const VOLATILE_CACHE: u32 = 1 << 2;
    pub(in super::super) const FUA: u32 = 1 << 3;
}

/// Operations of requests, and their flags.
pub(super) mod op {
    pub(in super::super) const READ: u32 = 0;
    pub(in super::super) const WRITE: u32 = 1;
    pub(in super::super) const FLUSH: u32 = 2;
    pub(in super::super) const DISCARD: u32 = 3;
    pub(in super::super) const WRITE_ZEROES: u32 = 5;
    pub(in super::super) const FUA: u32 = 1 << 13;
    pub(in super::super) const NOUNMAP: u32 = 1 << 15;
}

/// Where in `/dev/ublkcN` the descriptors of a queue's requests begin, with `depth` of them.
pub(super) fn descriptors_at(queue: u16) -> u64 {
    const MAX_DEPTH: u64 = 4096;
    u64::from(queue) * (MAX_DEPTH * DESCRIPTOR as u64).next_multiple_of(4096)
}

/// Where in `/dev/ublkcN` the data of a request is.
pub(super) fn data_at(queue: u16, tag: u16) -> u64 {
    0x8000_0000 + (u64::from(queue) << 41 | u64::from(tag) << 25)
}

/// The value at `at` in a structure.
macro_rules! field {
    ($type:ty, $bytes:expr, $at:expr) => {{
        let mut value = [0; size_of::<$type>()];
        value.copy_from_slice(&$bytes[$at..$at + size_of::<$type>()]);
        <$type>::from_ne_bytes(value)
    }};
}

fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&value);
}

/// `struct ublksrv_ctrl_dev_info`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DeviceInfo {
    pub(super) queues: u16,
    pub(super) depth: u16,
    pub(super) state: u16,
    pub(super) max_io_bytes: u32,
    pub(super) id: u32,
    /// The process of its server.
    pub(super) pid: i32,
    pub(super) flags: u64,
    /// A value that the driver keeps for the server.
    pub(super) own: u64,
}

impl DeviceInfo {
    pub(super) const BYTES: usize = 64;

    pub(super) fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        put(&mut bytes, 0, self.queues.to_ne_bytes());
        put(&mut bytes, 2, self.depth.to_ne_bytes());
        put(&mut bytes, 4, self.state.to_ne_bytes());
        put(&mut bytes, 8, self.max_io_bytes.to_ne_bytes());
        put(&mut bytes, 12, self.id.to_ne_bytes());
        put(&mut bytes, 16, self.pid.to_ne_bytes());
        put(&mut bytes, 24, self.flags.to_ne_bytes());
        put(&mut bytes, 32, self.own.to_ne_bytes());
        bytes
    }

    pub(super) fn parse(bytes: &[u8; Self::BYTES]) -> DeviceInfo {
        DeviceInfo {
            queues: field!(u16, bytes, 0),
            depth: field!(u16, bytes, 2),
            state: field!(u16, bytes, 4),
            max_io_bytes: field!(u32, bytes, 8),
            id: field!(u32, bytes, 12),
            pid: field!(i32, bytes, 16),
            flags: field!(u64, bytes, 24),
            own: field!(u64, bytes, 32),
        }
    }
}

/// `struct ublk_params` with the parts `basic` and `discard`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Params {
    pub(super) attributes: u32,
    pub(super) logical_shift: u8,
    pub(super) physical_shift: u8,
    pub(super) optimal_shift: u8,
    pub(super) minimum_shift: u8,
    pub(super) max_sectors: u32,
    pub(super) sectors: u64,
    /// 0: discards are not supported.
    pub(super) discard_granularity: u32,
    pub(super) max_discard_sectors: u32,
    pub(super) max_zeroes_sectors: u32,
}

impl Params {
    pub(super) const BYTES: usize = 60;
    const BASIC: u32 = 1;
    const DISCARD: u32 = 2;

    pub(super) fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let types = if self.discard_granularity > 0 { Self::BASIC | Self::DISCARD } else { Self::BASIC };
        put(&mut bytes, 0, (Self::BYTES as u32).to_ne_bytes());
        put(&mut bytes, 4, types.to_ne_bytes());
        put(&mut bytes, 8, self.attributes.to_ne_bytes());
        put(
            &mut bytes,
            12,
            [self.logical_shift, self.physical_shift, self.optimal_shift, self.minimum_shift],
        );
        put(&mut bytes, 16, self.max_sectors.to_ne_bytes());
        put(&mut bytes, 24, self.sectors.to_ne_bytes());
        put(&mut bytes, 44, self.discard_granularity.to_ne_bytes());
        put(&mut bytes, 48, self.max_discard_sectors.to_ne_bytes());
        put(&mut bytes, 52, self.max_zeroes_sectors.to_ne_bytes());
        put(&mut bytes, 56, u16::from(self.max_discard_sectors > 0).to_ne_bytes());
        bytes
    }

    pub(super) fn parse(bytes: &[u8; Self::BYTES]) -> Params {
        Params {
            attributes: field!(u32, bytes, 8),
            logical_shift: bytes[12],
            physical_shift: bytes[13],
            optimal_shift: bytes[14],
            minimum_shift: bytes[15],
            max_sectors: field!(u32, bytes, 16),
            sectors: field!(u64, bytes, 24),
            discard_granularity: field!(u32, bytes, 44),
            max_discard_sectors: field!(u32, bytes, 48),
            max_zeroes_sectors: field!(u32, bytes, 52),
        }
    }
}

/// Bytes of `struct ublksrv_io_desc`.
pub(super) const DESCRIPTOR: usize = 24;

/// A request of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Request {
    op_and_flags: u32,
    sectors: u32,
    start_sector: u64,
}

impl Request {
    pub(super) fn new(op_and_flags: u32, sectors: u32, start_sector: u64) -> Request {
        Request { op_and_flags, sectors, start_sector }
    }

    pub(super) fn op(&self) -> u32 {
        self.op_and_flags & 0xff
    }

    pub(super) fn has(&self, flag: u32) -> bool {
        self.op_and_flags & flag != 0
    }

    /// Its position in bytes; `None`: no disk reaches so far.
    pub(super) fn pos(&self) -> Option<u64> {
        self.start_sector.checked_mul(SECTOR)
    }

    /// Its length in bytes.
    pub(super) fn len(&self) -> u64 {
        u64::from(self.sectors) * SECTOR
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_header() {
        // As a C compiler evaluates them.
        assert_eq!((control::ADD, control::GET_INFO), (0xc020_7504, 0x8020_7502));
        assert_eq!((control::GET_FEATURES, control::UPDATE_SIZE), (0x8020_7513, 0xc020_7515));
        assert_eq!((io::FETCH, io::COMMIT_AND_FETCH), (0xc010_7520, 0xc010_7521));
        assert_eq!((descriptors_at(0), descriptors_at(2)), (0, 2 * 98_304));
        assert_eq!(data_at(0, 0), 0x8000_0000);
        assert_eq!(data_at(1, 3) - 0x8000_0000, (1 << 41) + (3 << 25));
    }

    #[test]
    fn structures_come_back_as_they_were() {
        let info = DeviceInfo {
            queues: 2,
            depth: 64,
            state: state::LIVE,
            max_io_bytes: 1 << 20,
            id: 7,
            pid: 4711,
            flags: feature::USER_COPY,
            own: u64::MAX - 5,
        };
        assert_eq!(DeviceInfo::parse(&info.to_bytes()), info);
        let params = Params {
            attributes: attribute::FUA,
            logical_shift: 9,
            physical_shift: 12,
            optimal_shift: 16,
            minimum_shift: 12,
            max_sectors: 2048,
            sectors: 1 << 33,
            discard_granularity: 4096,
            max_discard_sectors: 1 << 21,
            max_zeroes_sectors: 1 << 20,
        };
        let bytes = params.to_bytes();
        assert_eq!(Params::parse(&bytes), params);
        assert_eq!((bytes[0], bytes[4], bytes[56]), (60, 3, 1), "length, kinds and segments of a discard");
        let none = Params { discard_granularity: 0, max_discard_sectors: 0, ..params };
        assert_eq!((none.to_bytes()[4], none.to_bytes()[56]), (1, 0));
    }
}
