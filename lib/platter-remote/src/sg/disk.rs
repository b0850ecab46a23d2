//! The disk: what its unit says of itself, and its channels.

use super::asynchronous::Asynchronous;
use super::header::Returned;
use super::node::{Interface, Node};
use super::protocol::Sg;
use super::shared::{Counts, Shared};
use super::verdict::judge;
use super::work::Work;
use super::{SgError, SgOptions};
use crate::buffers::Buffers;
use crate::passed::Channel;
use crate::passed::threads::Threads;
use crate::trouble::{Trouble, failure};
use crate::unflushed::Unflushed;
use platter_block::backend::{Fact, Identity, LaneUse};
use platter_block::command::Transfer;
use platter_block::disk::{Disk, DiskChannel};
use platter_block::driver::Geometry;
use platter_block::fault::{Error, Fault, Kind};
use platter_scsi::host::found::{Found, Inquirer, Refused, Transport};
use platter_scsi::host::verdict::Verdict;
use std::any::Any;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long a unit may take to become ready, in pauses.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSES: u32 = 100;

/// A SCSI disk of the system.
pub struct SgDisk {
    shared: Arc<Shared>,
    name: Arc<str>,
    geometry: Geometry,
    _kept: Option<Box<dyn Any + Send + Sync>>,
}

impl SgDisk {
    /// Opens a node and asks the unit behind it about itself.
    ///
    /// # Errors
    /// The node is of no SCSI device or cannot be opened, or its unit is no disk that can be used.
    pub fn open(path: &Path, options: SgOptions) -> Result<SgDisk, SgError> {
        let node = Node::find(path)?;
        let file = node.open(options.write)?;
        let found = ask(&node, &file)?;
        if options.write && found.write_protected {
            return Err(SgError::Unfit("the disk is write protected; open it read-only".to_owned()));
        }
        let (max_transfer, max_segments) = node.limits();
        let geometry = found.geometry(options.write, Transport { max_transfer, max_segments });
        let name = Arc::from(path.display().to_string());
        let (unflushed, counts) = (Unflushed::new(0), Counts::default());
        let shared = Shared { node, options, found, unflushed, counts, trouble: Trouble::default() };
        Ok(SgDisk { shared: Arc::new(shared), name, geometry, _kept: None })
    }

    /// Keeps a value as long as the disk: what holds off other users of it, for example.
    #[must_use]
    pub fn keeping(self, value: Box<dyn Any + Send + Sync>) -> SgDisk {
        SgDisk { _kept: Some(value), ..self }
    }

    /// The block devices of the kernel for the disk of a node, by which programs may use it too.
    ///
    /// # Errors
    /// The node is of no SCSI device.
    pub fn blocks_behind(path: &Path) -> Result<Vec<PathBuf>, SgError> {
        Ok(Node::find(path)?.blocks())
    }
}

/// Asks a unit all that is to be known.
fn ask(node: &Node, file: &File) -> Result<Found, SgError> {
    let (mut inquirer, mut work, mut pauses) = (Inquirer::of_disk(), Work::new(node.interface), 0);
    while let Some((cdb, len)) = inquirer.next() {
        work.buffers = Buffers::own(vec![0; len]);
        work.set_command(cdb.bytes());
        work.terms.transfer = Transfer::FromDevice;
        work.execute(file).map_err(|source| cannot_ask(node, source))?;
        let Some(returned) = work.returned() else { continue };
        let refused = match take(&mut inquirer, &returned, &work) {
            Ok(()) => continue,
            Err(refused) => refused,
        };
        match refused {
            Refused::NotReady(_) if pauses < PAUSES => {
                pauses += 1;
                std::thread::sleep(PAUSE);
            }
            Refused::NotReady(why) => return Err(SgError::Unfit(format!("the disk is not ready: {why}"))),
            Refused::NoUnit => return Err(SgError::Unfit("there is no logical unit".to_owned())),
            Refused::Unfit(why) => return Err(SgError::Unfit(why)),
        }
    }
    Ok(inquirer.into_found().0)
}

fn cannot_ask(node: &Node, source: io::Error) -> SgError {
    match source.raw_os_error() {
        Some(libc::ENOTTY) => {
            let why = "no SCSI device: its driver in the kernel does not know SG_IO; a SCSI device is /dev/sdX, /dev/sgN or /dev/bsg/H:C:T:L";
            SgError::Unfit(why.to_owned())
        }
        _ => SgError::Open { path: node.path.clone(), source },
    }
}

fn take(inquirer: &mut Inquirer, returned: &Returned, work: &Work) -> Result<(), Refused> {
    const CHECK_CONDITION: u8 = 2;
    if returned.transport == 0 && returned.status == CHECK_CONDITION {
        return inquirer.take(Err(work.sense()));
    }
    let judged = judge(returned, work.sense());
    match judged.verdict {
        Verdict::Good => {
            let data = work.buffers.own_bytes();
            let len = data.len().saturating_sub(returned.residual as usize);
            inquirer.take(Ok(&data[..len]))
        }
        Verdict::Busy | Verdict::Again | Verdict::Reset { .. } => Err(Refused::NotReady(judged.why)),
        Verdict::Failed(_) | Verdict::Lost => Err(Refused::Unfit(judged.why)),
    }
}

impl Disk for SgDisk {
    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn open_channel(&self, _lane_use: LaneUse) -> Result<DiskChannel, Error> {
        let error = |detail: String| failure(&self.name, Kind::Gone, detail);
        let shared = &self.shared;
        // Each channel has a descriptor of its own: the answers of /dev/sg* belong to one.
        let file = shared.node.open(shared.options.write).map_err(|why| error(why.to_string()))?;
        let channel = |sg: Sg| -> io::Result<DiskChannel> {
            Ok(match shared.node.interface == Interface::Generic && shared.options.write {
                true => DiskChannel::new(Channel::new(sg, Asynchronous::new(Arc::clone(shared), file)?)),
                false => DiskChannel::new(Channel::new(sg, Threads::new(file, shared.options.threads)?)),
            })
        };
        channel(Sg(Arc::clone(shared))).map_err(|why| error(why.to_string()))
    }

    fn facts(&self) -> Vec<Fact> {
        let (shared, found) = (&self.shared, &self.shared.found);
        let interface = match (shared.node.interface, shared.options.write) {
            (Interface::Generic, true) => "sg, asynchronous",
            (Interface::Generic | Interface::Block, _) => "SG_IO on threads",
            (Interface::Bsg, _) => "bsg on threads",
        };
        let cache = match found.write_cache {
            Some(true) => "on",
            Some(false) => "off",
            None => "not told",
        };
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed).to_string();
        let mut facts = vec![
            ("driver", "sg".to_owned()),
            ("interface", interface.to_owned()),
            ("vendor", found.vendor.clone()),
            ("product", format!("{} {}", found.product, found.revision).trim().to_owned()),
            ("serial number", found.serial.clone()),
            ("write cache of the unit", cache.to_owned()),
            ("unmap", if found.has_unmap() { "yes" } else { "no" }.to_owned()),
            ("write same", if found.write_same { "yes" } else { "no" }.to_owned()),
            ("transfers without a copy", count(&shared.counts.direct)),
            ("repeated commands", count(&shared.counts.repeated)),
            ("busy answers", count(&shared.counts.busy)),
        ];
        shared.trouble.tell(&mut facts);
        facts
    }

    fn identity(&self) -> Option<Identity> {
        let block = self.shared.node.blocks().into_iter().next();
        if let Some(metadata) = block.and_then(|path| std::fs::metadata(path).ok()) {
            return Some(Identity::Node(metadata.rdev()));
        }
        let mut hasher = DefaultHasher::new();
        match self.shared.found.designation.is_empty() {
            false => self.shared.found.designation.hash(&mut hasher),
            true => self.shared.node.path.hash(&mut hasher),
        }
        Some(Identity::Remote(hasher.finish()))
    }

    fn explain(&self, _fault: Fault) -> Option<String> {
        Some(self.shared.trouble.last()).filter(|trouble| !trouble.is_empty())
    }
}
