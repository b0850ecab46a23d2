//! SCSI disks of the system by commands: `sg(/dev/sg0)`.

use super::row::{DeviceType, Shape};
use super::{OpenError, Opening, guards, queue};
use crate::spec::{Args, Argument, ArgumentKind};
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskBackend;
use platter_remote::sg::{SgDisk, SgError, SgOptions};
use std::sync::Arc;
use std::time::Duration;

const PARAMS: &[Argument] = &[
    Argument {
        name: "path",
        kind: ArgumentKind::Path,
        default: "",
        help: "/dev/sgN, /dev/bsg/H:C:T:L, or the block device of a SCSI disk",
    },
    Argument {
        name: "threads",
        kind: ArgumentKind::Int { min: 1, max: 64 },
        default: "4",
        help: "most threads of a channel; /dev/sgN open for writing needs none",
    },
    Argument {
        name: "command_timeout",
        kind: ArgumentKind::Time { min: Duration::from_secs(1), max: Duration::from_secs(86_400) },
        default: "60s",
        help: "time after which the kernel aborts a command",
    },
];

/// The row of SCSI disks by commands.
pub(super) fn row() -> DeviceType {
    DeviceType {
        name: "sg",
        summary: "a SCSI disk of the system, by SCSI commands",
        shape: Shape::Disk,
        example: "sg(/dev/sg0)".to_owned(),
        unnamed: &["path"],
        tables: &[PARAMS, queue::PARAMS],
        devices: 0..=0,
        open: Box::new(open),
    }
}

fn open(args: &mut Args<'_>, opening: &Opening) -> Result<Device, OpenError> {
    let path = args.path("path")?;
    let (settings, elevator) = queue::read(args)?;
    let timeout = args.time("command_timeout")?;
    let options = SgOptions::default()
        .with_write(opening.access.write)
        .with_threads(queue::small(args.int("threads")?))
        .with_command_timeout(Span(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX)));
    args.check_all_read()?;
    let failed = |error: SgError| args.unfit("path", error.to_string());
    let blocks = SgDisk::blocks_behind(&path).map_err(failed)?;
    let guards = guards::hold(&blocks, opening)?;
    let disk = SgDisk::open(&path, options).map_err(failed)?.keeping(Box::new(guards));
    Ok(Device::new(Arc::new(DiskBackend::over(Arc::new(disk), settings, elevator)?)))
}
