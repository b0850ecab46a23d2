//! The ioctls, and the memory that they name.

#![allow(unsafe_code)]

use platter_block::command::{MAX_BYTES, Outcome};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Alignment and unit of the memory that controllers transfer to, in bytes.
const PAGE: usize = 4096;

/// `NVME_IOCTL_ID`: `_IO('N', 0x40)`.
const ID: u64 = number(0, 0, 0x40);

/// `NVME_IOCTL_ADMIN64_CMD` and `NVME_IOCTL_IO64_CMD`, since Linux 5.5: results of 64 bits.
const ADMIN64: u64 = number(3, size_of::<Command64>(), 0x47);
const IO64: u64 = number(3, size_of::<Command64>(), 0x48);

/// `NVME_IOCTL_IO64_CMD_VEC`, since Linux 5.18.
#[cfg(feature = "nvme-disk")]
const IO64_VEC: u64 = number(3, size_of::<Command64>(), 0x49);

/// `NVME_IOCTL_ADMIN_CMD` and `NVME_IOCTL_IO_CMD`: results of 32 bits.
const ADMIN: u64 = number(3, size_of::<Command32>(), 0x41);
const IO: u64 = number(3, size_of::<Command32>(), 0x43);

/// The number of an ioctl of the type 'N' (`asm-generic/ioctl.h`): direction 0 is none, 3 both ways.
const fn number(direction: u64, size: usize, number: u64) -> u64 {
    direction << 30 | (size as u64) << 16 | (b'N' as u64) << 8 | number
}

/// What `struct nvme_passthru_cmd` and `struct nvme_passthru_cmd64` have in common.
#[repr(C)]
#[derive(Clone, Copy)]
struct Head {
    opcode: u8,
    flags: u8,
    reserved: u16,
    nsid: u32,
    cdw2: u32,
    cdw3: u32,
    metadata: u64,
    addr: u64,
    metadata_len: u32,
    data_len: u32,
    cdw10_to_15: [u32; 6],
}

/// `struct nvme_passthru_cmd`.
#[repr(C)]
struct Command32 {
    head: Head,
    timeout_ms: u32,
    result: u32,
}

/// `struct nvme_passthru_cmd64`.
#[repr(C)]
struct Command64 {
    head: Head,
    timeout_ms: u32,
    reserved: u32,
    result: u64,
}

const _: () = assert!(size_of::<Command32>() == 72 && size_of::<Command64>() == 80);

/// Whole pages of memory with at least `len` bytes.
pub(super) struct Pages {
    memory: Vec<u8>,
    from: usize,
    len: usize,
    data_len: usize,
}

impl Pages {
    pub(super) fn new(data_len: usize) -> Pages {
        let len = data_len.next_multiple_of(PAGE);
        let memory = vec![0; if len == 0 { 0 } else { len + PAGE - 1 }];
        let from = if len == 0 { 0 } else { memory.as_ptr().align_offset(PAGE) };
        Pages { memory, from, len, data_len }
    }

    pub(super) fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.from..self.from + self.len]
    }
}

pub(super) fn namespace(file: &File) -> io::Result<u32> {
    // SAFETY: this operation takes no argument and touches no memory.
    let id = unsafe { libc::ioctl(file.as_raw_fd(), ID as _) };
    u32::try_from(id).map_err(|_| io::Error::last_os_error())
}

/// Sends an entry with the data of `pages`, whose direction must be that of the operation code.
pub(super) fn send(
    file: &File,
    is_admin: bool,
    entry: &[u8; MAX_BYTES],
    pages: &mut Pages,
    timeout_ms: u32,
) -> io::Result<Outcome> {
    let head = head(entry, pages);
    let mut wide = Command64 { head, timeout_ms, reserved: 0, result: 0 };
    // SAFETY: the operation reads and writes the 80 bytes of `wide`, and those that it names: `data_len` bytes of `pages`,
    // which is borrowed mutably, so nothing else uses them, until the call returns. By then the controller is done with them.
    let status =
        unsafe { libc::ioctl(file.as_raw_fd(), (if is_admin { ADMIN64 } else { IO64 }) as _, &raw mut wide) };
    if status < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ENOTTY) {
        let mut narrow = Command32 { head, timeout_ms, result: 0 };
        // SAFETY: as above, with the 72 bytes of `narrow`.
        let status = unsafe {
            libc::ioctl(file.as_raw_fd(), (if is_admin { ADMIN } else { IO }) as _, &raw mut narrow)
        };
        return outcome(status, narrow.result.into());
    }
    outcome(status, wide.result)
}

/// Sends an entry with the data at an address, or with the pieces that a list at an address names (Linux 5.18), in memory that
/// the program has lent. Status and result.
///
/// # Safety
/// The memory, of the length or as many pieces as given, may be used as the command says until the call returns.
#[cfg(feature = "nvme-disk")]
pub(super) unsafe fn pass(
    file: &File,
    is_admin: bool,
    is_list: bool,
    entry: &[u8; MAX_BYTES],
    (addr, data_len): (u64, u32),
    timeout_ms: u32,
) -> io::Result<(u16, u64)> {
    let head = Head { addr, data_len, ..head(entry, &mut Pages::new(0)) };
    let mut wide = Command64 { head, timeout_ms, reserved: 0, result: 0 };
    let number = match (is_admin, is_list) {
        (true, false) => ADMIN64,
        (false, false) => IO64,
        (false, true) => IO64_VEC,
        // The kernel has no such call.
        (true, true) => return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
    };
    // SAFETY: the operation reads and writes the 80 bytes of `wide`, and the memory that it names, by this function's contract.
    let status = unsafe { libc::ioctl(file.as_raw_fd(), number as _, &raw mut wide) };
    let outcome = outcome(status, wide.result)?;
    Ok((outcome.status, outcome.result))
}

/// A negative number is an error of the kernel, a positive one the status of the controller.
fn outcome(status: libc::c_int, result: u64) -> io::Result<Outcome> {
    let status = u16::try_from(status).map_err(|_| io::Error::last_os_error())?;
    Ok(Outcome { status, result, ..Outcome::GOOD })
}

fn head(entry: &[u8; MAX_BYTES], pages: &mut Pages) -> Head {
    let dword =
        |n: usize| u32::from_le_bytes([entry[4 * n], entry[4 * n + 1], entry[4 * n + 2], entry[4 * n + 3]]);
    let data_len = pages.data_len as u32;
    let addr = if data_len == 0 { 0 } else { pages.bytes().as_mut_ptr().expose_provenance() as u64 };
    Head {
        opcode: entry[0],
        flags: entry[1],
        reserved: 0,
        nsid: dword(1),
        cdw2: dword(2),
        cdw3: dword(3),
        metadata: 0,
        addr,
        metadata_len: 0,
        data_len,
        cdw10_to_15: core::array::from_fn(|n| dword(10 + n)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers that the C compiler makes of the macros in `linux/nvme_ioctl.h`.
    #[test]
    fn numbers_are_those_of_the_kernel() {
        assert_eq!((ID, ADMIN, IO), (0x4e40, 0xc048_4e41, 0xc048_4e43));
        assert_eq!((ADMIN64, IO64), (0xc050_4e47, 0xc050_4e48));
    }

    #[test]
    fn the_parts_of_an_entry_go_to_their_members() {
        let entry: [u8; MAX_BYTES] = core::array::from_fn(|n| n as u8);
        let mut pages = Pages::new(5000);
        assert_eq!((pages.bytes().len(), pages.bytes().as_ptr() as usize % PAGE), (8192, 0));
        let head = head(&entry, &mut pages);
        assert_eq!((head.opcode, head.flags, head.nsid, head.cdw3), (0, 1, 0x0706_0504, 0x0f0e_0d0c));
        assert_eq!((head.cdw10_to_15[0], head.cdw10_to_15[5]), (0x2b2a_2928, 0x3f3e_3d3c));
        assert_eq!((head.data_len, head.metadata), (5000, 0));
    }
}
