//! NVMe namespaces of the system by commands: `nvme(/dev/ng0n1)`.

use super::row::{DeviceType, Shape};
use super::{OpenError, Opening, guards, queue};
use crate::spec::{Args, Argument, ArgumentKind};
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskBackend;
use platter_remote::nvme::{NvmeDisk, NvmeOptions};
use std::sync::Arc;

const PARAMS: &[Argument] = &[
    Argument { name: "path", kind: ArgumentKind::Path, default: "", help: "/dev/ngXnY, or /dev/nvmeXnY" },
    Argument {
        name: "rings",
        kind: ArgumentKind::Bool,
        default: "on",
        help: "send commands over io_uring where the kernel can (/dev/ngXnY, Linux 5.19), else by threads",
    },
    Argument {
        name: "threads",
        kind: ArgumentKind::Int { min: 1, max: 64 },
        default: "4",
        help: "most threads of a channel without a ring",
    },
];

/// The row of namespaces by commands.
pub(super) fn row() -> DeviceType {
    DeviceType {
        name: "nvme",
        summary: "an NVMe namespace of the system, by NVMe commands",
        shape: Shape::Disk,
        example: "nvme(/dev/ng0n1)".to_owned(),
        unnamed: &["path"],
        tables: &[PARAMS, queue::PARAMS],
        devices: 0..=0,
        open: Box::new(open),
    }
}

fn open(args: &mut Args<'_>, opening: &Opening) -> Result<Device, OpenError> {
    let path = args.path("path")?;
    let (settings, elevator) = queue::read(args)?;
    let options = NvmeOptions::default()
        .with_write(opening.access.write)
        .with_rings(args.flag("rings")?)
        .with_threads(queue::small(args.int("threads")?));
    args.check_all_read()?;
    let block: Vec<_> = NvmeDisk::block_behind(&path).into_iter().collect();
    let held = guards::hold(&block, opening)?;
    let disk = NvmeDisk::open(&path, options).map_err(|error| args.unfit("path", error.to_string()))?;
    let disk = disk.keeping(Box::new(held));
    Ok(Device::new(Arc::new(DiskBackend::over(Arc::new(disk), settings, elevator)?)))
}
