//! Opening files and block devices.

use crate::device::Device;
use crate::disk_backend::DiskSettings;
use crate::drivers::{FileDisk, FileOptions};
use crate::sys::{Kind, OpenOptions, SysError};
use platter_block::allocation::Extent;
use platter_block::backend::{Fact, Identity, LaneUse};
use platter_block::bio::Op;
use platter_block::disk::{BlockingFlush, Disk, DiskChannel};
use platter_block::driver::Geometry;
use platter_block::elevator::Elevator;
use platter_block::fault::{self, Error, Fault, Stage};
use std::ffi::c_int;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;

/// All options for opening a file or block device.
#[derive(Default)]
#[non_exhaustive]
pub struct DiskOptions {
    /// Access, direct I/O, sharing, and protection of existing contents.
    pub open: OpenOptions,
    /// Driver.
    pub file: FileOptions,
    /// Queue.
    pub settings: DiskSettings,
    /// Elevator, if any.
    pub elevator: Option<Box<dyn Elevator>>,
}

platter_block::setters! {
    DiskOptions {
        open, with_open: OpenOptions;
        file, with_file: FileOptions;
        settings, with_settings: DiskSettings;
        elevator, with_elevator: Option<Box<dyn Elevator>>;
    }
}

impl DiskOptions {
    /// Options for reading and writing.
    pub fn read_write() -> DiskOptions {
        DiskOptions { open: OpenOptions::read_write(), ..DiskOptions::default() }
    }
}

impl Device {
    /// Opens a regular file or a block device. With [`DiskOptions::default`]: read-only, bypassing the page
    /// cache if possible, with the best driver of this system.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use platter_disk::{device::Device, open::DiskOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("disk.img");
    /// let mut options = DiskOptions::read_write();
    /// options.open.create = Some(1 << 20);
    /// let disk = Device::open(&path, options)?;
    /// disk.write_at(&[1; 4096], 0)?;
    /// disk.flush()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Any reason why it cannot be opened; the error says what to do.
    pub fn open(path: impl AsRef<Path>, options: DiskOptions) -> Result<Device, SysError> {
        let path = path.as_ref();
        let opened = options.open.open(path)?;
        let mut file = options.file;
        file.depth = options.settings.queue.depth;
        let disk = FileDisk::new(opened, file)?;
        Device::from_disk(disk, options.settings, options.elevator)
            .map_err(|error| SysError::new("open", path, error.to_string(), "see the limits of this system"))
    }
}

impl Disk for FileDisk {
    fn name(&self) -> Arc<str> {
        Arc::from(self.disk().path.to_string_lossy())
    }

    fn geometry(&self) -> Geometry {
        *self.geometry()
    }

    fn open_channel(&self, lane_use: LaneUse) -> Result<DiskChannel, Error> {
        let gone = Fault::new(fault::Kind::Gone, Stage::Driver);
        self.channel(lane_use).map_err(|error| self.error(gone, error.to_string()))
    }

    fn facts(&self) -> Vec<Fact> {
        let mut facts = facts(self);
        facts.extend(FileDisk::facts(self));
        facts
    }

    fn identity(&self) -> Option<Identity> {
        self.disk().identity()
    }

    fn current_size(&self) -> Result<Option<u64>, Error> {
        match FileDisk::current_size(self) {
            // A block device without its medium has size 0.
            Ok(0) if self.disk().probe.kind == Kind::Block => Ok(None),
            Ok(size) => Ok(Some(size)),
            Err(error) if matches!(error.errno, Some(libc::ENXIO | libc::ENODEV | libc::ENOMEDIUM)) => {
                Ok(None)
            }
            Err(error) => {
                let fault = Fault::from_errno(error.errno.unwrap_or(libc::EIO));
                Err(self.error(fault, format!("its size cannot be found out: {error}")))
            }
        }
    }

    fn file_descriptor(&self) -> Option<c_int> {
        let disk = self.disk();
        (disk.probe.kind == Kind::Regular).then(|| disk.fd.as_raw_fd())
    }

    fn blocking_flush(&self) -> Option<BlockingFlush> {
        Some(self.flusher())
    }

    fn allocation(&self, pos: u64, len: u64) -> Result<Extent, Error> {
        if self.disk().probe.kind == Kind::Block {
            return Ok(Extent::data(pos, len));
        }
        self.disk().allocation(pos, len).map_err(|error| {
            let detail = format!("its holes cannot be found out: {error}");
            self.error(Fault::from_errno(error.errno.unwrap_or(libc::EIO)), detail)
        })
    }

    fn explain(&self, fault: Fault) -> Option<String> {
        (fault.kind == fault::Kind::Refused).then(|| {
            "the system refused it: a filter of system calls (seccomp) or a security module forbids it"
                .to_owned()
        })
    }

    fn accept_size(&self, size: u64) -> Result<(), Error> {
        self.set_size(size).map_err(|error| {
            let fault = Fault::from_errno(error.errno.unwrap_or(libc::EIO));
            self.error(fault, format!("it cannot be used up to {size} bytes: {error}"))
        })
    }
}

impl FileDisk {
    fn error(&self, fault: Fault, detail: String) -> Error {
        Error { fault, op: Op::Read, device: self.name(), offset: 0, len: 0, detail }
    }
}

fn facts(disk: &FileDisk) -> Vec<Fact> {
    let opened = disk.disk();
    let chosen = disk.chosen();
    let mut facts: Vec<Fact> = vec![("driver", chosen.kind.to_string())];
    if let Some(why) = &chosen.why_fell_back {
        facts.push(("driver fell back", why.clone()));
    }
    facts.push(("direct", if opened.direct { "yes" } else { "no" }.to_string()));
    if let Some(why) = &opened.why_not_direct {
        facts.push(("not direct", why.clone()));
    }
    facts.push(("alignment from", format!("{:?}", opened.probe.align_source)));
    if let Some(fs) = &opened.probe.filesystem {
        facts.push(("file system", fs.name.clone()));
    }
    for overridden in &opened.overridden {
        facts.push(("overridden", overridden.to_string()));
    }
    facts
}
