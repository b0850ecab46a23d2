//! The table of devices, and opening the device that a spec names.
//!
//! ```
//! use platter::registry::{self, Access};
//!
//! let disk = registry::open("ram(1M, elevator=deadline(read_expire=250ms))", Access::read_write())?;
//! disk.write_at(&[1; 512], 0)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod default_elevator;
mod disks;
mod driver;
mod elevators;
mod error;
#[cfg(feature = "layers")]
mod extents;
#[cfg(feature = "sim")]
mod faults;
#[cfg(any(feature = "nvme", feature = "sg"))]
mod guards;
#[cfg(feature = "iscsi")]
mod iscsi;
#[cfg(feature = "layers")]
mod layer;
#[cfg(feature = "cache")]
mod memory;
#[cfg(feature = "nvme")]
mod nvme;
mod params;
mod queue;
#[cfg(feature = "layers")]
mod raid;
#[cfg(feature = "cache")]
mod readaheads;
mod register;
#[cfg(feature = "nbd")]
mod remote;
mod row;
#[cfg(feature = "scsi")]
mod scsi;
#[cfg(feature = "sg")]
mod sg;
#[cfg(feature = "sim")]
mod simulated;
mod table;

pub use default_elevator::{
    DEFAULT_ELEVATOR_VARIABLE, ElevatorValues, elevator_values, set_default_elevator,
};
pub use driver::{DriverArgs, DriverType, OpenDisk};
pub use elevators::{elevator_names, elevator_params, register_elevator};
pub use error::OpenError;
pub use queue::ORDERS;
#[cfg(feature = "cache")]
pub use readaheads::{parse_readahead, readahead_names, readahead_params};
pub use register::register_driver;
#[cfg(feature = "layers")]
pub use register::register_layer;
pub use row::{DeviceType, Shape};
pub use table::{find, names, table};

use crate::spec::{self, Spec, SpecError};
use platter_disk::device::Device;
use platter_disk::sys::{Direct, SysError};
#[cfg(feature = "sim")]
use platter_sim::World;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
#[cfg(feature = "sim")]
use std::sync::{Arc, LazyLock};

/// The access for which a device is opened, and permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Access {
    /// Write access. A writer has exclusive access to a file or block device, unless its spec says otherwise;
    /// readers share it.
    pub write: bool,
    /// Write even to a file or block device that holds a file system, a partition table or a part of an
    /// array.
    pub force: bool,
    /// The device is served: file systems, partition tables and other contents are its clients', and no reason to refuse
    /// writing. A part of an array still is.
    pub served: bool,
    /// Open devices that are mounted, claimed or locked by others.
    pub allow_in_use: bool,
    /// Create a file of this many bytes if it is missing; an existing file must have this size.
    pub create: Option<u64>,
    /// Simulated disks need not store contents, unless the spec says so.
    pub forget: bool,
    /// Whether to go around the page cache, where the spec does not say.
    pub direct: Option<Direct>,
}

impl Access {
    /// To read only.
    pub fn read() -> Access {
        Access::default()
    }

    /// To read and write.
    pub fn read_write() -> Access {
        Access { write: true, ..Access::default() }
    }
}

/// How a device is opened: its access, and the world of its simulated disks.
#[derive(Clone)]
pub(crate) struct Opening {
    access: Access,
    #[cfg(feature = "sim")]
    world: Arc<World>,
}

impl Opening {
    /// The same for a device that is opened for another access.
    #[cfg(feature = "layers")]
    fn with(&self, access: Access) -> Opening {
        let mut other = self.clone();
        other.access = access;
        other
    }

    /// The device whose name is nearest to a word, if one is near.
    fn closest(&self, word: &str) -> Option<&'static DeviceType> {
        find(spec::closest(word, names())?)
    }
}

/// The world of simulated disks that are opened without one: all of them share its clock, as real disks do
/// theirs.
#[cfg(feature = "sim")]
static WORLD: LazyLock<Arc<World>> = LazyLock::new(|| World::new(0));

/// Parses a spec with the names of all devices of the [`table`]. `@PATH` reads the spec from a file, in which
/// paths are relative to the working directory, as on a command line.
///
/// # Errors
/// An error in its syntax or its outermost name; a file that cannot be read
/// ([`Unfit`](spec::SpecErrorKind::Unfit)); a path with white space or a comment around it, which might belong to it.
pub fn parse(text: &str) -> Result<Spec, SpecError> {
    if let Some(path) = text.strip_prefix('@') {
        return parse_file(path);
    }
    let shown = spec::conceal(text);
    let quoted = spec::quote_path(Path::new(&*shown));
    let spec = spec::parse(text, &names()).map_err(|error| match Path::new(text).exists() {
        true => error
            .with_help(format!("a file of this name exists; as a path it is written in quotes: {quoted}")),
        false => error,
    })?;
    match spec.lone_word() {
        // A secret in a URI is a mark in one of the two.
        Some(word) if spec::conceal(word) != shown => {
            let word = spec::conceal(word);
            let error =
                spec.reject(format!("{} stands alone, but something is around it", spec::quote(&word)));
            let help = format!("write the path without it; if it belongs to the path, in quotes: {quoted}");
            Err(error.with_help(help))
        }
        _ => Ok(spec),
    }
}

fn parse_file(path: &str) -> Result<Spec, SpecError> {
    let given = spec::parse(&spec::quote(&format!("@{path}")), &["file"])?;
    if path.is_empty() {
        let error = given.reject("`@` must be followed by the path of a file with the spec");
        return Err(error.with_help("write @PATH, such as @stack.spec; a file of the name @ is written ./@"));
    }
    let mut bytes = Vec::new();
    let most = spec::MAX_LEN as u64 + 1;
    if let Err(error) = File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes)) {
        let mut told = SysError::from_io("read the spec in", path, &error);
        if error.kind() == std::io::ErrorKind::NotFound {
            // Unlike a disk, it is not created.
            told = told.with_help("check the path");
        }
        let help = format!("a file or device of the name @{path} itself is written ./@{path}");
        return Err(given.unfit(told.to_string()).with_help(help));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        given.reject(format!("the spec in {path} is not UTF-8: byte {at} is wrong"))
    })?;
    spec::parse_from(&text, &names(), Some(path))
}

/// Opens the device that `text` names.
///
/// # Errors
/// [`OpenError::Spec`] for an invalid spec, any other for a device that cannot be opened.
pub fn open(text: &str, access: Access) -> Result<Device, OpenError> {
    open_spec(&parse(text)?, access)
}

/// Opens the device that `spec` names.
///
/// # Errors
/// As for [`open`].
pub fn open_spec(spec: &Spec, access: Access) -> Result<Device, OpenError> {
    let opening = Opening {
        access,
        #[cfg(feature = "sim")]
        world: Arc::clone(&WORLD),
    };
    open_part(spec, &opening)
}

/// Opens the device that `spec` names, with its simulated disks in `world`.
///
/// # Errors
/// As for [`open`].
#[cfg(feature = "sim")]
pub fn open_in(world: &Arc<World>, spec: &Spec, access: Access) -> Result<Device, OpenError> {
    open_part(spec, &Opening { access, world: Arc::clone(world) })
}

fn open_part(spec: &Spec, opening: &Opening) -> Result<Device, OpenError> {
    elevators::register_own();
    let Some(row) = find(spec.name()) else {
        return Err(spec.reject(format!("there is no device called `{}`", spec.name())).into());
    };
    let mut args = spec::Args::new(spec, &row.signature())?;
    let device = (row.open)(&mut args, opening)?;
    args.finish()?;
    Ok(device)
}

/// The paths of all files and block devices that `spec` names, in the order of the text, without members of
/// an array that a search finds.
///
/// # Errors
/// As for [`open`] if the spec is invalid.
pub fn paths(spec: &Spec) -> Result<Vec<PathBuf>, SpecError> {
    let Some(row) = find(spec.name()) else { return Ok(Vec::new()) };
    let mut args = spec::Args::new(spec, &row.signature())?;
    if row.params().any(|param| param.name == "path") {
        return Ok(vec![args.path("path")?]);
    }
    let mut all = Vec::new();
    for member in args.devices() {
        all.extend(paths(&member)?);
    }
    Ok(all)
}
