//! A namespace of the system as a disk whose reads and writes are NVMe commands: by rings of io_uring on `/dev/ngXnY`
//! (Linux 5.19), or by ioctls on threads, on block devices too.

mod entry;
mod identify;
mod protocol;
mod ring;
mod verdict;

use super::Node;
use crate::passed::Channel;
pub use crate::passed::PassedError as NvmeError;
use crate::passed::threads::Threads;
use crate::trouble::{Trouble, failure};
use identify::Found;
use platter_block::backend::{Fact, Identity, LaneUse};
use platter_block::command::{CommandSet, CommandSets};
use platter_block::disk::{Disk, DiskChannel};
use platter_block::driver::Geometry;
use platter_block::fault::{Error, Fault, Kind};
use protocol::Nvme;
use ring::Ring;
use std::any::Any;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a namespace is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NvmeOptions {
    /// Open it for writing.
    pub write: bool,
    /// Use rings where the kernel has them.
    pub rings: bool,
    /// Most threads of a channel without a ring: 1 and more.
    pub threads: u32,
}

platter_block::setters! {
    NvmeOptions {
        write, with_write: bool;
        rings, with_rings: bool;
        threads, with_threads: u32;
    }
}

impl Default for NvmeOptions {
    fn default() -> NvmeOptions {
        NvmeOptions { write: false, rings: true, threads: 4 }
    }
}

/// What all channels of a disk share.
struct Shared {
    found: Found,
    has_admin: bool,
    /// How the kernel reaches the controller (`pcie`, `tcp`, `rdma`, `fc`), if it says so.
    transport: Option<String>,
    trouble: Trouble,
}

impl Shared {
    /// Whether a reset ends all commands of the controller before the kernel cancels them, as on the bus of the machine.
    /// Behind a network the controller may still carry them out.
    fn resets_end_commands(&self) -> bool {
        self.transport.as_deref() == Some("pcie")
    }
}

/// A namespace of the system.
pub struct NvmeDisk {
    shared: Arc<Shared>,
    name: Arc<str>,
    geometry: Geometry,
    file: File,
    /// The controller; only rings need it.
    controller: Option<File>,
    /// Why there are no rings.
    no_rings: Option<String>,
    threads: u32,
    path: PathBuf,
    _kept: Option<Box<dyn Any + Send + Sync>>,
}

impl NvmeDisk {
    /// Opens a namespace: `/dev/ngXnY` or `/dev/nvmeXnY`.
    ///
    /// # Errors
    /// The node is no namespace or cannot be opened, the kernel refuses commands, or the format of the namespace is one that
    /// cannot be used.
    pub fn open(path: &Path, options: NvmeOptions) -> Result<NvmeDisk, NvmeError> {
        let cannot = |source| NvmeError::Open { path: path.to_owned(), source };
        let node = Node::open(path, options.write).map_err(cannot)?;
        let found = identify::ask(&node, path)?;
        let file = node.into_file();
        let is_block = file.metadata().map_err(cannot)?.file_type().is_block_device();
        let controller = controller_of(path, options.write);
        let no_rings = match (options.rings, is_block) {
            (false, _) => Some("not wanted".to_owned()),
            (_, true) => Some("block devices take commands by ioctls only".to_owned()),
            _ => Ring::new(&file, controller.as_ref()).err().map(|error| error.to_string()),
        };
        // An ioctl on the namespace reaches the controller too.
        let has_admin = no_rings.is_some() || controller.is_some();
        let sets = CommandSets::NONE.with(CommandSet::Nvme);
        let sets = if has_admin { sets.with(CommandSet::NvmeAdmin) } else { sets };
        let mut geometry = found.geometry();
        geometry.features =
            geometry.features.with_commands(sets).with_read_only(!options.write || found.is_protected);
        let transport = transport_of(path);
        let shared = Arc::new(Shared { found, has_admin, transport, trouble: Trouble::default() });
        let (name, path) = (Arc::from(path.display().to_string()), path.to_owned());
        let threads = options.threads;
        Ok(NvmeDisk { shared, name, geometry, file, controller, no_rings, threads, path, _kept: None })
    }

    /// Keeps a value as long as the disk: what holds off other users of it, for example.
    #[must_use]
    pub fn keeping(self, value: Box<dyn Any + Send + Sync>) -> NvmeDisk {
        NvmeDisk { _kept: Some(value), ..self }
    }

    /// The block device of the kernel for the namespace of a node, by which programs may use it too.
    pub fn block_behind(path: &Path) -> Option<PathBuf> {
        let name = path.file_name()?.to_str()?;
        let block = match name.strip_prefix("ng") {
            Some(rest) => path.with_file_name(format!("nvme{rest}")),
            None => path.to_owned(),
        };
        fs::metadata(&block).is_ok_and(|metadata| metadata.file_type().is_block_device()).then_some(block)
    }

    fn channel(&self, lane_use: LaneUse) -> io::Result<DiskChannel> {
        let nvme = Nvme(Arc::clone(&self.shared));
        // A command on a ring is completed by the thread that submitted it, so that must not end before.
        Ok(match self.no_rings.is_none() && lane_use != LaneUse::Shared {
            true => DiskChannel::new(Channel::new(nvme, Ring::new(&self.file, self.controller.as_ref())?)),
            false => {
                DiskChannel::new(Channel::new(nvme, Threads::new(self.file.try_clone()?, self.threads)?))
            }
        })
    }
}

/// How the kernel reaches the controller of a namespace.
fn transport_of(path: &Path) -> Option<String> {
    let metadata = fs::metadata(path).ok()?;
    let (major, minor) = (rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()));
    let kind = if metadata.file_type().is_block_device() { "block" } else { "char" };
    let transport = fs::read_to_string(format!("/sys/dev/{kind}/{major}:{minor}/device/transport")).ok()?;
    Some(transport.trim().to_owned())
}

/// The controller of a namespace: of `/dev/ng0n1`, `/dev/nvme0`, if the kernel says that it leads there and it can be opened.
fn controller_of(path: &Path, write: bool) -> Option<File> {
    let metadata = fs::metadata(path).ok()?;
    let (major, minor) = (rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()));
    let device = fs::canonicalize(format!("/sys/dev/char/{major}:{minor}/device")).ok()?;
    let name = device.file_name()?.to_str()?;
    let is_controller = name
        .strip_prefix("nvme")
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()));
    if !is_controller {
        return None;
    }
    File::options().read(true).write(write).open(path.with_file_name(name)).ok()
}

impl Disk for NvmeDisk {
    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn open_channel(&self, lane_use: LaneUse) -> Result<DiskChannel, Error> {
        self.channel(lane_use).map_err(|error| failure(&self.name, Kind::Io, error.to_string()))
    }

    fn facts(&self) -> Vec<Fact> {
        let found = &self.shared.found;
        let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
        let interface = match &self.no_rings {
            None => "io_uring commands".to_owned(),
            Some(why) => format!("ioctls on threads; no rings: {why}"),
        };
        let mut facts = vec![
            ("driver", "nvme".to_owned()),
            ("interface", interface),
            ("transport", self.shared.transport.clone().unwrap_or_else(|| "not told".to_owned())),
            ("model", found.model.clone()),
            ("firmware", found.firmware.clone()),
            ("serial number", found.serial.clone()),
            ("namespace", found.nsid.to_string()),
            ("volatile write cache", yes(found.write_cache)),
            ("deallocate", yes(found.deallocates)),
            ("write zeroes", yes(found.writes_zeroes)),
            ("admin commands", yes(self.shared.has_admin)),
        ];
        self.shared.trouble.tell(&mut facts);
        facts
    }

    fn identity(&self) -> Option<Identity> {
        let block = NvmeDisk::block_behind(&self.path);
        if let Some(metadata) = block.and_then(|path| fs::metadata(path).ok()) {
            return Some(Identity::Node(metadata.rdev()));
        }
        let mut hasher = DefaultHasher::new();
        let found = &self.shared.found;
        (&found.model, &found.serial, found.nsid).hash(&mut hasher);
        Some(Identity::Remote(hasher.finish()))
    }

    fn explain(&self, _fault: Fault) -> Option<String> {
        Some(self.shared.trouble.last()).filter(|trouble| !trouble.is_empty())
    }
}
