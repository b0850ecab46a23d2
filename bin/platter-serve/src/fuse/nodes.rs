//! The files: one for each device.

use super::wire::{Attributes, ROOT, push_entry};
use crate::served::{Devices, Served};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;

/// The name of the file of a device without a name.
const UNNAMED: &str = "disk";

/// The files. A device keeps its number when others come and go.
pub(super) struct Nodes {
    devices: Arc<Devices>,
    /// By number. A device that is removed is closed when the files of it are.
    known: Mutex<Vec<Weak<Served>>>,
    owner: (u32, u32),
    /// For all users, not only the owner.
    for_all: bool,
    time: u64,
}

/// The name of the file of a device; `None`: its name cannot be one of a file.
fn file_name(served: &Served) -> Option<&str> {
    match served.name() {
        "" => Some(UNNAMED),
        "." | ".." => None,
        name if name.contains('/') || name.len() > 255 => None,
        name => Some(name),
    }
}

impl Nodes {
    pub(super) fn new(devices: Arc<Devices>, for_all: bool) -> Nodes {
        let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Nodes { devices, known: Mutex::default(), owner, for_all, time }
    }

    /// The devices whose names cannot be names of files.
    pub(super) fn unfit(&self) -> Option<Arc<Served>> {
        self.devices.list().into_iter().find(|served| file_name(served).is_none())
    }

    /// The number of a device.
    fn number(&self, served: &Arc<Served>) -> u64 {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let place =
            known.iter().position(|other| other.as_ptr() == Arc::as_ptr(served)).unwrap_or_else(|| {
                known.push(Arc::downgrade(served));
                known.len() - 1
            });
        ROOT + 1 + place as u64
    }

    /// The device of a number. `None`: it has been removed.
    pub(super) fn device(&self, node: u64) -> Option<Arc<Served>> {
        let place = usize::try_from(node.checked_sub(ROOT + 1)?).ok()?;
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(place)?.upgrade()
    }

    pub(super) fn find(&self, name: &str) -> Option<Attributes> {
        let all = self.devices.list();
        let served = all.iter().find(|served| file_name(served) == Some(name))?;
        Some(self.of(self.number(served), served))
    }

    pub(super) fn attributes(&self, node: u64) -> Option<Attributes> {
        if node == ROOT {
            return Some(self.root());
        }
        Some(self.of(node, &*self.device(node)?))
    }

    fn root(&self) -> Attributes {
        let mode = DIRECTORY | if self.for_all { 0o555 } else { 0o500 };
        Attributes { node: ROOT, size: 0, mode, links: 2, owner: self.owner, block: 4096, time: self.time }
    }

    fn of(&self, node: u64, served: &Served) -> Attributes {
        let bits = match (served.is_read_only(), self.for_all) {
            (true, true) => 0o444,
            (true, false) => 0o400,
            (false, true) => 0o666,
            (false, false) => 0o600,
        };
        let limits = served.device().geometry().limits;
        Attributes {
            node,
            size: served.device().size(),
            mode: REGULAR | bits,
            links: 1,
            owner: self.owner,
            block: limits.optimal_io.max(4096),
            time: self.time,
        }
    }

    /// The entries of the directory from the `from`th on, in at most `most` bytes.
    pub(super) fn list(&self, from: u64, most: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let dots = [(ROOT, DIRECTORY, ".".to_owned()), (ROOT, DIRECTORY, "..".to_owned())];
        let all = self.devices.list();
        let files = all.iter().filter_map(|served| {
            file_name(served).map(|name| (self.number(served), REGULAR, name.to_owned()))
        });
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        for (at, (node, mode, name)) in dots.into_iter().chain(files).enumerate().skip(from) {
            if !push_entry(&mut out, most, node, at as u64 + 1, mode >> 12, &name) {
                break;
            }
        }
        out
    }

    /// The size of all devices, for `STATFS`.
    pub(super) fn total(&self) -> u64 {
        self.devices.list().iter().map(|served| served.device().size()).sum()
    }
}
