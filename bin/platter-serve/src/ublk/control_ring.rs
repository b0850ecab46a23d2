//! Commands to `/dev/ublk-control`, over a ring with entries of 128 bytes.

#![allow(unsafe_code)]

use super::abi::{ANY, DeviceInfo, Params, control};
use super::attach::{Command, Control};
use crate::error::ServeError;
use io_uring::squeue::Entry128;
use io_uring::{IoUring, cqueue, opcode, types};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{NoArg, ioctl};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

const DEVICE: &str = "/dev/ublk-control";

/// `BLKFLSBUF` of `linux/fs.h`.
const FLUSH_BUFFERS: rustix::ioctl::Opcode = rustix::ioctl::opcode::none(0x12, 97);

/// Bytes of the largest structure that a command reads or writes.
const MEMORY: usize = 64;

type Ring = IoUring<Entry128, cqueue::Entry>;

/// The driver's control device.
pub(super) struct ControlRing {
    device: OwnedFd,
    ring: Ring,
    memory: Box<[u8; MEMORY]>,
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

impl ControlRing {
    /// Opens it.
    ///
    /// # Errors
    /// The driver is not there, or may not be used.
    pub(super) fn open() -> Result<ControlRing, ServeError> {
        let device =
            rustix::fs::open(DEVICE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(|error| {
                let advice = match error {
                    Errno::NOENT | Errno::NODEV | Errno::NXIO => {
                        "load the driver with \"modprobe ublk_drv\"; it is a part of Linux since 6.0, and 6.4 or \
                         later is needed"
                    }
                    Errno::PERM | Errno::ACCESS => "block devices of the kernel need root (CAP_SYS_ADMIN)",
                    _ => "the driver ublk_drv cannot be used",
                };
                ServeError::system(format!("{DEVICE}: {error}; {advice}"))
            })?;
        let ring = Ring::builder().build(4).map_err(|error| {
            ServeError::system(format!("ublk needs io_uring with entries of 128 bytes: {error}"))
        })?;
        Ok(ControlRing { device, ring, memory: Box::new([0; MEMORY]) })
    }

    /// Runs a command with `len` bytes of the memory, and waits for its end.
    fn run(&mut self, op: u32, id: u32, len: usize, value: u64) -> Result<(), Errno> {
        let mut bytes = [0; 80];
        bytes[..4].copy_from_slice(&id.to_ne_bytes());
        // No queue.
        bytes[4..6].copy_from_slice(&u16::MAX.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(len as u16).to_ne_bytes());
        let address = if len > 0 { self.memory.as_mut_ptr() as u64 } else { 0 };
        bytes[8..16].copy_from_slice(&address.to_ne_bytes());
        bytes[16..24].copy_from_slice(&value.to_ne_bytes());
        let entry = opcode::UringCmd80::new(types::Fd(self.device.as_raw_fd()), op).cmd(bytes).build();
        // SAFETY: the descriptor and the memory belong to this structure. The memory is not used before the completion
        // below has been seen, and never freed if it is not seen.
        if unsafe { self.ring.submission().push(&entry).is_err() } {
            return Err(Errno::BUSY);
        }
        loop {
            let result = self.ring.submit_and_wait(1).map_err(|error| errno(&error));
            if let Some(done) = self.ring.completion().next() {
                return match done.result() {
                    error if error < 0 => Err(Errno::from_raw_os_error(-error)),
                    _ => Ok(()),
                };
            }
            match result {
                Ok(_) | Err(Errno::INTR | Errno::AGAIN | Errno::BUSY) => {}
                Err(error) => {
                    std::mem::forget(std::mem::replace(&mut self.memory, Box::new([0; MEMORY])));
                    return Err(error);
                }
            }
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        self.memory[..bytes.len()].copy_from_slice(bytes);
    }

    fn device_info(&self) -> DeviceInfo {
        DeviceInfo::parse(&self.memory)
    }
}

impl Control for ControlRing {
    fn features(&mut self) -> Result<u64, Errno> {
        const BYTES: usize = 8;
        self.run(control::GET_FEATURES, ANY, BYTES, 0)?;
        let mut bytes = [0; BYTES];
        bytes.copy_from_slice(&self.memory[..BYTES]);
        Ok(u64::from_ne_bytes(bytes))
    }

    fn add(&mut self, wanted: &DeviceInfo) -> Result<DeviceInfo, Errno> {
        self.put(&wanted.to_bytes());
        self.run(control::ADD, wanted.id, DeviceInfo::BYTES, 0)?;
        Ok(self.device_info())
    }

    fn info(&mut self, id: u32) -> Result<DeviceInfo, Errno> {
        self.run(control::GET_INFO, id, DeviceInfo::BYTES, 0)?;
        Ok(self.device_info())
    }

    fn set_params(&mut self, id: u32, params: &Params) -> Result<(), Errno> {
        self.put(&params.to_bytes());
        self.run(control::SET_PARAMS, id, Params::BYTES, 0)
    }

    fn params(&mut self, id: u32) -> Result<Params, Errno> {
        // The driver reads the length from the structure.
        self.put(&Params::default().to_bytes());
        self.run(control::GET_PARAMS, id, Params::BYTES, 0)?;
        let mut bytes = [0; Params::BYTES];
        bytes.copy_from_slice(&self.memory[..Params::BYTES]);
        Ok(Params::parse(&bytes))
    }

    fn command(&mut self, command: Command, id: u32, value: u64) -> Result<(), Errno> {
        let op = match command {
            Command::Start => control::START,
            Command::Stop => control::STOP,
            Command::Delete => control::DELETE,
            Command::StartRecovery => control::START_RECOVERY,
            Command::EndRecovery => control::END_RECOVERY,
            Command::UpdateSize => control::UPDATE_SIZE,
        };
        self.run(op, id, 0, value)
    }
}

/// Writes back what the kernel caches of a block device, with the file system on it.
pub(super) fn flush_buffers(device: impl AsFd) -> Result<(), Errno> {
    // SAFETY: the operation has no argument.
    unsafe { ioctl(device, NoArg::<FLUSH_BUFFERS>::new()) }
}
