//! Looking for members of arrays where none are named.

use super::{Held, examine};
use crate::registry::{self, Access};
use crate::spec::quote_path;
use platter_disk::sys::{SysError, block_devices};
use platter_stack::meta::Select;
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// What was found on a device or file.
#[derive(Debug)]
pub struct Found {
    /// Its path.
    pub path: PathBuf,
    /// Other devices are built on it, such as `dm-0`: what it holds is theirs.
    pub holders: Vec<String>,
    /// What it holds of an array, or why that cannot be told.
    pub held: Result<Held, String>,
}

/// Looks at all block devices of this machine that have a size, or, where `directory` is given, at all block
/// devices and regular files that are in it or that links in it lead to, each once. Everything is opened to
/// read only, without a claim to have it alone.
///
/// # Errors
/// The directory cannot be read. What cannot be opened is in the list.
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
    let held = registry::open(&format!("file({})", quote_path(&path)), access)
        .map_err(|error| error.to_string())
        .and_then(|device| examine(&device).map_err(|error| error.to_string()));
    Found { path, holders, held }
}

fn in_directory(directory: &Path) -> Result<Vec<(PathBuf, Vec<String>)>, SysError> {
    let wrong = |error: std::io::Error| SysError::from_io("search", directory, &error);
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        // A link that leads nowhere is no place to look at.
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

/// The paths of those that belong to the array that is meant, and what to say if it cannot be found: how many
/// places were looked at, and what could not be opened.
pub(crate) fn members(select: &Select, directory: Option<&Path>) -> Result<(Vec<PathBuf>, String), SysError> {
    let found = search(directory)?;
    let mut paths = Vec::new();
    let mut unopened = Vec::new();
    for one in &found {
        match &one.held {
            // What a device mapper or md has built on it is seen there again.
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
    let mut told = format!("{} devices and files were looked at {place}", found.len());
    if !unopened.is_empty() {
        told += &format!("; {} could not be opened: {}", unopened.len(), unopened.join("; "));
    }
    Ok((paths, told))
}
