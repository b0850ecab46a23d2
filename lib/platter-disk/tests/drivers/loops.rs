//! Loop devices for tests, by system calls. The kernel detaches one when its last descriptor is closed, so none is left
//! behind, whatever ends the test.

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, NoArg, Opcode, Setter, ioctl};
use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const CTL_GET_FREE: Opcode = 0x4c82;
const CONFIGURE: Opcode = 0x4c0a;
const SET_CAPACITY: Opcode = 0x4c07;
const PARTITIONS: Opcode = 0x1269;
const ADD_PARTITION: i32 = 1;
const READ_ONLY: u32 = 1;
const AUTOCLEAR: u32 = 4;
const PARTSCAN: u32 = 8;
const DIRECT: u32 = 16;

/// `struct loop_info64`.
#[repr(C)]
struct Info {
    numbers: [u64; 5],
    small: [u32; 3],
    flags: u32,
    names: [u8; 160],
    init: [u64; 2],
}

/// `struct loop_config`.
#[repr(C)]
struct Config {
    fd: u32,
    block: u32,
    info: Info,
    reserved: [u64; 8],
}

/// `struct blkpg_partition`.
#[repr(C)]
struct Partition {
    start: i64,
    length: i64,
    number: i32,
    names: [u8; 128],
}

/// `struct blkpg_ioctl_arg`.
#[repr(C)]
struct PartitionChange {
    op: i32,
    flags: i32,
    len: i32,
    partition: *mut Partition,
}

/// What a loop device is like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) block: u32,
    pub(crate) direct: bool,
    pub(crate) read_only: bool,
    pub(crate) partitioned: bool,
}

impl Shape {
    pub(crate) const PLAIN: Shape = Shape { block: 512, direct: false, read_only: false, partitioned: false };
}

/// A loop device; detached when it is dropped and nothing else has it open.
pub(crate) struct Loop {
    device: File,
    pub(crate) path: PathBuf,
}

impl Loop {
    /// A device over a file; without one, prints why not.
    pub(crate) fn over(file: &Path, shape: Shape) -> Option<Loop> {
        attach(file, shape).map_err(|error| println!("skipped, no loop device: {error}")).ok()
    }

    /// Makes a part of the device, in bytes, its first partition, which goes with the device. Returns the path.
    #[allow(dead_code, reason = "not all suites have partitions")]
    pub(crate) fn add_partition(&self, start: u64, length: u64) -> io::Result<PathBuf> {
        let mut part = Partition { start: start as i64, length: length as i64, number: 1, names: [0; 128] };
        add_partition(&self.device, &mut part)?;
        let mut path = self.path.clone().into_os_string();
        path.push("p1");
        Ok(path.into())
    }

    /// Takes over the present size of the file.
    #[allow(dead_code, reason = "not all suites resize devices")]
    pub(crate) fn resize(&self) {
        set_capacity(&self.device).unwrap();
    }
}

fn attach(path: &Path, shape: Shape) -> io::Result<Loop> {
    let direct = if shape.direct { OFlags::DIRECT.bits() as i32 } else { 0 };
    let file = OpenOptions::new().read(true).write(!shape.read_only).custom_flags(direct).open(path)?;
    let control = OpenOptions::new().read(true).write(true).open("/dev/loop-control")?;
    let flag = |is_on: bool, flag: u32| if is_on { flag } else { 0 };
    let flags = AUTOCLEAR
        | flag(shape.direct, DIRECT)
        | flag(shape.read_only, READ_ONLY)
        | flag(shape.partitioned, PARTSCAN);
    loop {
        let number = free(&control)?;
        let path = PathBuf::from(format!("/dev/loop{number}"));
        let device = OpenOptions::new().read(true).write(!shape.read_only).open(&path)?;
        let info = Info { numbers: [0; 5], small: [0; 3], flags, names: [0; 160], init: [0; 2] };
        let config = Config { fd: file.as_raw_fd() as u32, block: shape.block, info, reserved: [0; 8] };
        match configure(&device, config) {
            Ok(()) => return Ok(Loop { device, path }),
            // Another process was faster.
            Err(Errno::BUSY) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

mod requests {
    use super::*;

    struct GetFree;

    // SAFETY: the request takes no argument, and its result is a number.
    unsafe impl Ioctl for GetFree {
        type Output = i32;
        const IS_MUTATING: bool = false;

        fn opcode(&self) -> Opcode {
            CTL_GET_FREE
        }

        fn as_ptr(&mut self) -> *mut c_void {
            std::ptr::null_mut()
        }

        // SAFETY: uses no pointer.
        unsafe fn output_from_ptr(out: IoctlOutput, _: *mut c_void) -> rustix::io::Result<i32> {
            Ok(out)
        }
    }

    pub(super) fn free(control: &File) -> rustix::io::Result<i32> {
        // SAFETY: see `GetFree`.
        unsafe { ioctl(control, GetFree) }
    }

    pub(super) fn configure(device: &File, config: Config) -> rustix::io::Result<()> {
        // SAFETY: the request reads a `Config`.
        unsafe { ioctl(device, Setter::<CONFIGURE, Config>::new(config)) }
    }

    pub(super) fn add_partition(device: &File, partition: &mut Partition) -> rustix::io::Result<()> {
        let len = size_of::<Partition>() as i32;
        let change = PartitionChange { op: ADD_PARTITION, flags: 0, len, partition };
        // SAFETY: the request reads a `PartitionChange` and the partition that it points to, which outlives the call.
        unsafe { ioctl(device, Setter::<PARTITIONS, PartitionChange>::new(change)) }
    }

    pub(super) fn set_capacity(device: &File) -> rustix::io::Result<()> {
        // SAFETY: the request takes no argument.
        unsafe { ioctl(device, NoArg::<SET_CAPACITY>::new()) }
    }
}
use requests::{add_partition, configure, free, set_capacity};
