//! Looking for members of arrays where none are named.

use super::{Held, examine};
use crate::registry::{self, Access};
use crate::spec::quote_path;
use platter_disk::sys::{SysError, block_devices};
use platter_stack::array_metadata::Select;
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A device or file that was examined.
#[derive(Debug)]
pub struct Found {
    /// Its path.
    pub path: PathBuf,
    /// Devices built on it, such as `dm-0`, to which its contents belong.
    pub holders: Vec<String>,
    /// Its size in bytes; 0 if it cannot be opened.
    pub size: u64,
    /// Its array metadata, or why it could not be read.
    pub held: Result<Held, String>,
}

/// Examines all block devices of this machine that have a size, or, if `directory` is given, all block
/// devices and regular files in it or linked from it, each once. Everything is opened read-only and without a
/// lock.
///
/// # Errors
/// The directory cannot be read. A device that cannot be opened is in the list.
pub fn search(directory: Option<&Path>) -> Result<Vec<Found>, SysError> {
    let places = match directory {
        Some(directory) => in_directory(directory)?,
        None => {
            let devices = block_devices().into_iter().filter(|device| device.size > 0);
            devices.map(|device| (device.path, device.holders)).collect()
        }
    };
    Ok(places.into_iter().map(|(path, holders)| look(path, holders)).collect())
}

fn look(path: PathBuf, holders: Vec<String>) -> Found {
    let access = Access { allow_in_use: true, ..Access::read() };
    let (size, held) = match registry::open(&format!("file({})", quote_path(&path)), access) {
        Ok(device) => (device.size(), examine(&device).map_err(|error| error.to_string())),
        Err(error) => (0, Err(error.to_string())),
    };
    Found { path, holders, size, held }
}

fn in_directory(directory: &Path) -> Result<Vec<(PathBuf, Vec<String>)>, SysError> {
    let wrong = |error: std::io::Error| SysError::from_io("search", directory, &error);
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        // A dangling link is skipped.
        let Ok(what) = fs::metadata(&path) else { continue };
        let (is_block, is_file) = (what.file_type().is_block_device(), what.is_file() && what.len() > 0);
        if is_block || is_file {
            let identity = if is_block { (0, what.rdev()) } else { (what.dev(), what.ino()) };
            found.push((path, identity, is_block));
        }
    }
    found.sort();
    let mut seen = HashSet::new();
    found.retain(|(_, identity, is_block)| seen.insert((*identity, *is_block)));
    let known = block_devices();
    let holders = |rdev: u64| {
        let of = known.iter().find(|device| is_number(device, rdev));
        of.map(|device| device.holders.clone()).unwrap_or_default()
    };
    let with_holders = |(path, (_, rdev), is_block)| {
        let holders = if is_block { holders(rdev) } else { Vec::new() };
        (path, holders)
    };
    Ok(found.into_iter().map(with_holders).collect())
}

fn is_number(device: &platter_disk::sys::BlockDevice, rdev: u64) -> bool {
    device.number == platter_disk::sys::DeviceNumber::from_dev(rdev)
}

/// The paths of the members of the selected array, and a text for the case that it is not found: how many
/// devices were examined, and which could not be opened.
pub(crate) fn members(select: &Select, directory: Option<&Path>) -> Result<(Vec<PathBuf>, String), SysError> {
    let found = search(directory)?;
    let mut paths = Vec::new();
    let mut unopened = Vec::new();
    for one in &found {
        match &one.held {
            // Its contents are also visible on the device that device mapper or md has built on it.
            _ if !one.holders.is_empty() => {}
            Ok(Held::Platter(slots)) if slots.records().any(|record| select.matches(record)) => {
                paths.push(one.path.clone());
            }
            Ok(_) => {}
            Err(error) => unopened.push(error.clone()),
        }
    }
    let place = match directory {
        Some(directory) => format!("in {}", directory.display()),
        None => "among the block devices of this machine".to_owned(),
    };
    let mut told = format!("{} devices and files were examined {place}", found.len());
    if !unopened.is_empty() {
        told += &format!("; {} could not be opened: {}", unopened.len(), unopened.join("; "));
    }
    Ok((paths, told))
}
