//! The structures of the ioctl `SG_IO`: `struct sg_io_hdr` (`scsi/sg.h`, version 3) and `struct sg_io_v4` (`linux/bsg.h`).
//! Pointers are addresses.

use platter_block::command::Transfer;

/// Room for sense data: what the kernel keeps (`SCSI_SENSE_BUFFERSIZE`).
pub(super) const SENSE_ROOM: usize = 96;

/// `SG_FLAG_DIRECT_IO`: to the memory itself, where the kernel can and `/proc/scsi/sg/allow_dio` is 1.
const DIRECT_IO: u32 = 1;
/// `SG_FLAG_Q_AT_TAIL` and `SG_FLAG_Q_AT_HEAD`, those of bsg included.
const AT_TAIL: u32 = 0x10;
const AT_HEAD: u32 = 0x20;
/// `SG_INFO_DIRECT_IO_MASK`, `SG_INFO_DIRECT_IO`.
const INFO_DIRECT_MASK: u32 = 6;
const INFO_DIRECT: u32 = 2;

/// `struct sg_io_hdr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct V3 {
    interface_id: i32,
    dxfer_direction: i32,
    cmd_len: u8,
    mx_sb_len: u8,
    iovec_count: u16,
    dxfer_len: u32,
    dxferp: usize,
    cmdp: usize,
    sbp: usize,
    timeout: u32,
    flags: u32,
    pub(super) pack_id: i32,
    usr_ptr: usize,
    status: u8,
    masked_status: u8,
    msg_status: u8,
    sb_len_wr: u8,
    host_status: u16,
    driver_status: u16,
    resid: i32,
    duration: u32,
    info: u32,
}

/// `struct sg_io_v4`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct V4 {
    guard: i32,
    protocol: u32,
    subprotocol: u32,
    request_len: u32,
    request: u64,
    request_tag: u64,
    request_attr: u32,
    request_priority: u32,
    request_extra: u32,
    max_response_len: u32,
    response: u64,
    dout_iovec_count: u32,
    dout_xfer_len: u32,
    din_iovec_count: u32,
    din_xfer_len: u32,
    dout_xferp: u64,
    din_xferp: u64,
    timeout: u32,
    flags: u32,
    usr_ptr: u64,
    spare_in: u32,
    driver_status: u32,
    transport_status: u32,
    device_status: u32,
    retry_delay: u32,
    info: u32,
    duration: u32,
    response_len: u32,
    din_resid: i32,
    dout_resid: i32,
    generated_tag: u64,
    spare_out: u32,
    padding: u32,
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<V3>() == 88);
const _: () = assert!(size_of::<V4>() == 160);

/// What a command needs: where its bytes, its data and the room for sense data are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    /// Address and length of the command.
    pub(super) command: (usize, usize),
    /// Address of the sense data.
    pub(super) sense: usize,
    pub(super) transfer: Transfer,
    /// Address of the data, or of the list of its pieces.
    pub(super) data: usize,
    pub(super) len: u32,
    /// Pieces in the list; 0: there is no list.
    pub(super) pieces: u16,
    pub(super) timeout_ms: u32,
    pub(super) at_head: bool,
    pub(super) number: i32,
}

/// What came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Returned {
    pub(super) status: u8,
    /// The kernel's `host_status`; or, if that is 0, 100h plus a driver status other than "sense data" (08h).
    pub(super) transport: u16,
    pub(super) sense_len: usize,
    pub(super) residual: u32,
    /// The data went straight to or from the memory.
    pub(super) is_direct: bool,
}

/// `DRIVER_SENSE` says only that there is sense data; the upper half of the byte is a suggestion of old kernels.
fn transport(host: u32, driver: u32) -> u16 {
    match driver & 0xf {
        driver @ 1.. if host == 0 && driver != 8 => 0x100 | driver as u16,
        _ => host as u16,
    }
}

impl V3 {
    pub(super) fn new(places: &Places) -> V3 {
        let direction = match places.transfer {
            Transfer::None => -1,
            Transfer::ToDevice => -2,
            Transfer::FromDevice => -3,
        };
        V3 {
            interface_id: i32::from(b'S'),
            dxfer_direction: direction,
            cmd_len: places.command.1 as u8,
            mx_sb_len: SENSE_ROOM as u8,
            iovec_count: places.pieces,
            dxfer_len: places.len,
            dxferp: places.data,
            cmdp: places.command.0,
            sbp: places.sense,
            timeout: places.timeout_ms,
            flags: DIRECT_IO | if places.at_head { AT_HEAD } else { AT_TAIL },
            pack_id: places.number,
            ..V3::default()
        }
    }

    /// For the answer to any command.
    pub(super) fn any_answer() -> V3 {
        V3 { interface_id: i32::from(b'S'), pack_id: -1, ..V3::default() }
    }

    pub(super) fn returned(&self) -> Returned {
        Returned {
            status: self.status,
            transport: transport(self.host_status.into(), self.driver_status.into()),
            sense_len: usize::from(self.sb_len_wr).min(SENSE_ROOM),
            residual: self.resid.clamp(0, self.dxfer_len.min(i32::MAX as u32) as i32) as u32,
            is_direct: self.info & INFO_DIRECT_MASK == INFO_DIRECT,
        }
    }
}

impl V4 {
    /// The data must be one piece: the kernel takes no lists here.
    pub(super) fn new(places: &Places) -> V4 {
        let (data, len) = (places.data as u64, places.len);
        let out = if places.transfer == Transfer::ToDevice { (data, len) } else { (0, 0) };
        let into = if places.transfer == Transfer::FromDevice { (data, len) } else { (0, 0) };
        V4 {
            guard: i32::from(b'Q'),
            request_len: places.command.1 as u32,
            request: places.command.0 as u64,
            max_response_len: SENSE_ROOM as u32,
            response: places.sense as u64,
            dout_xfer_len: out.1,
            din_xfer_len: into.1,
            dout_xferp: out.0,
            din_xferp: into.0,
            timeout: places.timeout_ms,
            flags: if places.at_head { 0 } else { AT_TAIL },
            usr_ptr: places.number as u64,
            ..V4::default()
        }
    }

    pub(super) fn returned(&self) -> Returned {
        let residual = if self.dout_xfer_len > 0 { self.dout_resid } else { self.din_resid };
        let len = self.dout_xfer_len.max(self.din_xfer_len).min(i32::MAX as u32);
        Returned {
            status: self.device_status as u8,
            transport: transport(self.transport_status, self.driver_status),
            sense_len: (self.response_len as usize).min(SENSE_ROOM),
            residual: residual.clamp(0, len as i32) as u32,
            is_direct: false,
        }
    }
}

#[cfg(test)]
mod tests;
