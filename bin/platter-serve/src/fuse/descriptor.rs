//! A descriptor of the FUSE driver for each thread, so that threads do not share a queue of requests in work.

#![allow(unsafe_code)]

use super::mount::DEVICE;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{Setter, ioctl, opcode};
use std::os::fd::{AsRawFd, OwnedFd};

/// `FUSE_DEV_IOC_CLONE` of `linux/fuse.h`: makes the descriptor another one of a mounted file system.
const CLONE: rustix::ioctl::Opcode = opcode::read::<u32>(229, 0);

/// Another descriptor for the requests of the same file system.
pub(super) fn clone(of: &OwnedFd) -> Result<OwnedFd, Errno> {
    let fuse = rustix::fs::open(DEVICE, OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())?;
    let number = of.as_raw_fd() as u32;
    // SAFETY: the operation reads the number of a descriptor, which is open, from the four bytes that it is given.
    unsafe { ioctl(&fuse, Setter::<CLONE, u32>::new(number))? };
    Ok(fuse)
}
