//! Disks of drivers that the program has registered.

use super::params::{convert, value};
use super::row::{DeviceType, Shape};
use super::{OpenError, Opening, disks, queue};
use crate::spec::{Args, Argument, ArgumentKind, SpecError};
use platter_block::disk::Disk;
use platter_block::params;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskBackend;
use platter_disk::drivers::table::Medium;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A driver of the program, for [`register_driver`](super::register_driver).
pub struct DriverType {
    /// Name in device specs.
    pub name: &'static str,
    /// Summary of one line.
    pub summary: &'static str,
    /// Whether its disks are made with a size, as by `ram(1M)`, or opened by a path. The size or path is the first
    /// argument.
    pub medium: Medium,
    /// Parameters of its own.
    pub params: &'static [params::Param],
    /// Opens a disk. The error is shown with the device's spec.
    pub open: OpenDisk,
}

/// Opens a disk.
pub type OpenDisk = fn(&DriverArgs<'_>) -> Result<Arc<dyn Disk>, Box<dyn Error + Send + Sync>>;

/// The arguments of a disk, from its spec.
#[non_exhaustive]
pub struct DriverArgs<'a> {
    /// The size in bytes, a multiple of 512, for [`Medium::Size`]; otherwise 0.
    pub size: u64,
    /// The path, for [`Medium::Path`]; otherwise empty.
    pub path: &'a Path,
    /// The values of all parameters, in the order of the row; those that are not given have their defaults.
    pub values: &'a [i64],
    /// Whether the device is opened for writing. Otherwise the disk should refuse writes
    /// ([`Features::read_only`](platter_block::driver::Features::read_only)).
    pub write: bool,
}

const PATH: &[Argument] =
    &[Argument { name: "path", kind: ArgumentKind::Path, default: "", help: "path of the disk" }];

/// A driver as a row of the table of devices.
pub(super) fn row(driver: &'static DriverType) -> DeviceType {
    let (place, example, unnamed): (_, _, &[&str]) = match driver.medium {
        Medium::Size => (disks::SIZE, "1G", &["size"]),
        Medium::Path => (PATH, "disk.img", &["path"]),
    };
    let own = convert(driver.params).iter().copied();
    let tables: Vec<&[Argument]> = [place].into_iter().chain(own).chain([queue::PARAMS]).collect();
    DeviceType {
        name: driver.name,
        summary: driver.summary,
        shape: Shape::Disk,
        example: format!("{}({example})", driver.name),
        unnamed,
        tables: tables.leak(),
        devices: 0..=0,
        open: Box::new(move |args, opening| open(driver, args, opening)),
    }
}

/// Opens a disk of a driver.
pub(super) fn open(driver: &DriverType, args: &mut Args<'_>, opening: &Opening) -> Result<Device, OpenError> {
    let (size, path) = match driver.medium {
        Medium::Size => (disks::size(args)?, PathBuf::new()),
        Medium::Path => (0, args.path("path")?),
    };
    let values: Result<Vec<i64>, SpecError> = driver.params.iter().map(|param| value(args, param)).collect();
    let (settings, elevator) = queue::read(args)?;
    args.check_all_read()?;
    let given = DriverArgs { size, path: &path, values: &values?, write: opening.access.write };
    let disk = (driver.open)(&given)
        .map_err(|error| args.spec().unfit(format!("{} cannot be opened: {error}", driver.name)))?;
    Ok(Device::new(Arc::new(DiskBackend::over(disk, settings, elevator)?)))
}
