//! Opening files and block devices.

use crate::device::Device;
use crate::drivers::{FileDisk, FileOptions};
use crate::leaf::{Leaf, LeafParts, LeafSettings, Measure};
use crate::sys::{Kind, OpenOptions, SysError};
use platter_block::backend::Fact;
use platter_block::bio::Op;
use platter_block::driver::Driver;
use platter_block::elevator::Elevator;
use platter_block::fault::{self, Error, Fault, Stage};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// All options for opening a file or block device.
#[derive(Default)]
pub struct DiskOptions {
    /// Access, direct I/O, sharing, and protection of existing contents.
    pub open: OpenOptions,
    /// Driver.
    pub file: FileOptions,
    /// Queue.
    pub leaf: LeafSettings,
    /// Elevator, if any.
    pub elevator: Option<Box<dyn Elevator>>,
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
        file.depth = options.leaf.queue.depth;
        let identity = opened.identity();
        let disk = Arc::new(FileDisk::new(opened, file)?);
        let name: Arc<str> = Arc::from(path.to_string_lossy());
        let measured = Arc::clone(&disk);
        let reporter = Arc::clone(&disk);
        let parts = LeafParts {
            name: Arc::clone(&name),
            geometry: *disk.geometry(),
            settings: options.leaf,
            elevator: options.elevator,
            facts: facts(&disk),
            make_driver: Box::new(move |lane_use| {
                disk.channel(lane_use).map_err(|error| no_channel(&name, &error))
                    as Result<Box<dyn Driver>, _>
            }),
            clock: None,
        };
        let leaf = Leaf::new(parts).map_err(|error| {
            SysError::new("open", path, error.to_string(), "see the limits of this system")
        })?;
        identity.into_iter().for_each(|identity| leaf.identify(identity));
        leaf.measure_with(Box::new(Measured(measured)));
        leaf.report_with(Box::new(move || reporter.facts()));
        Ok(Device::new(Arc::new(leaf)))
    }
}

/// Measures a file or block device.
struct Measured(Arc<FileDisk>);

impl Measure for Measured {
    fn measure(&self) -> io::Result<Option<u64>> {
        match self.0.current_size() {
            // A block device without its medium has size 0.
            Ok(0) if self.0.disk().probe.kind == Kind::Block => Ok(None),
            Ok(size) => Ok(Some(size)),
            Err(error) => match error.errno {
                Some(libc::ENXIO | libc::ENODEV | libc::ENOMEDIUM) => Ok(None),
                _ => Err(io::Error::other(error.to_string())),
            },
        }
    }

    fn accept(&self, size: u64) -> io::Result<()> {
        self.0.set_size(size).map_err(|error| io::Error::other(error.to_string()))
    }
}

fn no_channel(name: &Arc<str>, error: &SysError) -> Error {
    Error {
        fault: Fault::new(fault::Kind::Gone, Stage::Driver),
        op: Op::Read,
        device: Arc::clone(name),
        offset: 0,
        len: 0,
        detail: error.to_string(),
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
