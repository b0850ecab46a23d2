//! The plan of a copy: opens both devices and checks that the copy is possible, before anything is written.

use super::args::{Copy, Sparse};
use super::map::{Map, Status};
use super::mapfile::{Loaded, MapFile};
use crate::cli::{CliError, Context};
use platter::registry::{self, Access, OpenError};
use platter::spec::{Spec, format_size, quote_path};
use platter_bench::report::units::thousands;
use platter_disk::device::Device;
use platter_disk::sys::{Kind, Probe, SysError};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Two open devices and how to copy one to the other.
pub(super) struct Plan {
    pub(super) source: Device,
    pub(super) destination: Device,
    /// The size of the source.
    pub(super) size: u64,
    /// Where to begin: everything before it was copied earlier.
    pub(super) start: u64,
    /// The map of a rescue, and its contents at the start.
    pub(super) map: Option<MapFile>,
    pub(super) known: Map,
    /// Offsets and lengths of reads and writes are multiples of it.
    pub(super) unit: u64,
    /// The logical block of the source.
    pub(super) source_unit: u64,
    /// Holes of the source are not read.
    pub(super) skips_holes: bool,
    /// The destination is a file that was made for this copy.
    pub(super) created: bool,
    /// Nothing needs to be written where the source has zeroes.
    pub(super) reads_as_zeroes: bool,
    /// Zeroes that were read become write-zeroes.
    pub(super) zero_blocks: bool,
}

impl Plan {
    pub(super) fn new(copy: &Copy, context: &Context) -> Result<Plan, CliError> {
        let parse = |text: &str| registry::parse(text).map_err(OpenError::from);
        let (from, to) = (parse(&copy.source)?, parse(&copy.destination)?);
        let (from_path, to_path) = (file_path(&from)?, file_path(&to)?);
        refuse_same(from_path.as_deref(), to_path.as_deref())?;
        if copy.verify {
            refuse_null(&from)?;
            refuse_null(&to)?;
        }
        let reading = Access { allow_in_use: copy.force.allow_in_use, ..Access::read() };
        let source = registry::open_spec(&from, reading)?;
        let size = source.size();
        if copy.start.bytes > size {
            let (start, name) = (&copy.start, source.name());
            return Err(CliError::refused(format!(
                "--start {start} is beyond the end of {name}: {size} bytes"
            )));
        }
        let map = copy.rescue.as_ref().map(|path| MapFile::new(path, &copy.source, &copy.destination));
        let loaded = map.as_ref().map(|map| map.load(size)).transpose();
        let loaded = loaded.map_err(|error| CliError::refused(error.to_string()))?.flatten();
        let absent = to_path.as_deref().filter(|path| is_absent(path));
        let create = absent.map(|_| size);
        if copy.start.bytes > 0 {
            refuse_absent(copy, &to)?;
        }
        let mut writing = copy.force.access(Access { create, ..Access::read_write() });
        if let Some(loaded) = &loaded {
            check_resumed(copy, loaded, absent)?;
            // The contents of the destination are what an earlier run copied to it.
            writing.force |= loaded.destination.as_deref() == Some(copy.destination.as_str());
        }
        let file = to_path.as_deref().filter(|path| absent.is_none() && path.is_file());
        let (destination, unit) = open_destination(copy, (&to, writing), file, loaded.as_ref(), &source)?;
        // It did not exist when it was read: opening the destination has created it.
        if let Some(map) = map.as_ref().filter(|map| loaded.is_none() && map.path.exists()) {
            if let Some(path) = absent {
                // The first error is the important one.
                let _ = fs::remove_file(path);
            }
            return Err(CliError::refused(format!(
                "the map {} is also the destination; give another path with --rescue",
                quote_path(&map.path)
            )));
        }
        let mut known = loaded.map_or_else(|| Map::new(size), |loaded| loaded.map);
        known.mark(0, copy.start.bytes, Status::Done);
        let plan = Plan {
            size,
            start: copy.start.bytes,
            map,
            known,
            unit,
            source_unit: u64::from(block(&source)),
            skips_holes: copy.sparse != Sparse::Never,
            created: absent.is_some(),
            reads_as_zeroes: copy.sparse != Sparse::Never && absent.is_some_and(has_no_blocks),
            zero_blocks: copy.sparse == Sparse::Always,
            source,
            destination,
        };
        if let Err(error) = plan.check(copy, context, file) {
            if let Some(path) = absent {
                // The first error is the important one.
                let _ = fs::remove_file(path);
            }
            return Err(error);
        }
        Ok(plan)
    }

    fn check(&self, copy: &Copy, context: &Context, file: Option<&Path>) -> Result<(), CliError> {
        let (size, room) = (self.size, self.destination.size());
        let named = |device: &Device| device.name();
        if room < size {
            let out = file.map_or(String::new(), |path| {
                let path = quote_path(path);
                format!(
                    "; if an earlier run that ended early has made it, enlarge it: truncate -s {size} {path}"
                )
            });
            return Err(CliError::refused(format!(
                "{} is too small: it has {} bytes, {} has {}; nothing was written{out}",
                named(&self.destination),
                thousands(room),
                named(&self.source),
                thousands(size)
            )));
        }
        if room > size {
            let beyond = thousands(room - size);
            context.note(&format!(
                "{} is {beyond} bytes larger than the source; those bytes are not changed",
                named(&self.destination)
            ));
        }
        check_multiples(copy, self.unit)?;
        // Fail now rather than after hours of copying if the map cannot be written.
        let saved = self.map.as_ref().map(|map| map.save(&self.known)).transpose();
        saved.map(|_| ()).map_err(|error| CliError::refused(error.to_string()))
    }

    /// Bytes that are copied in whole blocks.
    pub(super) fn whole(&self) -> u64 {
        self.size / self.unit * self.unit
    }
}

/// Opens the destination. Returns the larger block of the two devices too.
fn open_destination(
    copy: &Copy,
    (to, writing): (&Spec, Access),
    file: Option<&Path>,
    loaded: Option<&Loaded>,
    source: &Device,
) -> Result<(Device, u64), CliError> {
    let (destination, size) = (registry::open_spec(to, writing)?, source.size());
    let unit = u64::from(block(source).max(block(&destination)));
    let (Some(path), Some(loaded)) = (file, loaded) else { return Ok((destination, unit)) };
    if destination.size() >= size || loaded.map.copied_until() > destination.size() {
        return Ok((destination, unit));
    }
    check_multiples(copy, unit)?;
    // Programs that make the file as large as what they have copied leave such a destination.
    drop(destination);
    let grown = fs::File::options().write(true).open(path).and_then(|file| file.set_len(size));
    grown.map_err(|error| SysError::from_io("enlarge", path, &error))?;
    Ok((registry::open_spec(to, writing)?, unit))
}

fn check_multiples(copy: &Copy, unit: u64) -> Result<(), CliError> {
    for (option, value) in [("--bs", &copy.bs), ("--start", &copy.start)] {
        if !value.bytes.is_multiple_of(unit) {
            let unit = format_size(unit);
            return Err(CliError::refused(format!(
                "{option} {value} is not a multiple of the logical block of the two devices, {unit}"
            )));
        }
    }
    Ok(())
}

/// Refuses to continue a copy with `--start` at a destination that has nothing of it: what is before the start would be
/// zeroes, and the result would look complete.
fn refuse_absent(copy: &Copy, to: &Spec) -> Result<(), CliError> {
    let paths = registry::paths(to).map_err(OpenError::from)?;
    match paths.iter().find(|path| is_absent(path)) {
        Some(path) => Err(CliError::refused(format!(
            "--start {}: an earlier run has copied what is before it, but {} is missing or empty; leave --start out, or \
             name the destination of the earlier run",
            copy.start,
            quote_path(path)
        ))),
        None => Ok(()),
    }
}

fn block(device: &Device) -> u32 {
    device.geometry().limits.logical_block
}

/// The path of a spec that is a file and nothing else.
fn file_path(spec: &Spec) -> Result<Option<PathBuf>, CliError> {
    match spec.name() {
        "file" => Ok(registry::paths(spec).map_err(OpenError::from)?.pop()),
        _ => Ok(None),
    }
}

/// Refuses to continue a copy whose destination no longer exists.
fn check_resumed(copy: &Copy, loaded: &Loaded, absent: Option<&Path>) -> Result<(), CliError> {
    let copied = loaded.map.bytes(Status::Done);
    if copied == 0 || absent.is_none() {
        return Ok(());
    }
    let map = copy.rescue.clone().unwrap_or_default();
    Err(CliError::refused(format!(
        "the map {} has {} bytes as copied, but {} is missing or empty; name the destination of the earlier run, or \
         remove the map to begin again",
        quote_path(&map),
        thousands(copied),
        copy.destination
    )))
}

fn refuse_same(from: Option<&Path>, to: Option<&Path>) -> Result<(), CliError> {
    let probe = |path: Option<&Path>| path.and_then(|path| Probe::of_path(path).ok());
    let (Some(a), Some(b)) = (probe(from), probe(to)) else { return Ok(()) };
    let same = match (a.kind, b.kind) {
        (Kind::Regular, Kind::Regular) => a.inode == b.inode,
        (Kind::Block, Kind::Block) => a.device == b.device,
        _ => false,
    };
    match same {
        true => Err(CliError::refused(format!(
            "{} and {} are the same: give two different devices",
            from.unwrap_or(Path::new("")).display(),
            to.unwrap_or(Path::new("")).display()
        ))),
        false => Ok(()),
    }
}

fn refuse_null(spec: &Spec) -> Result<(), CliError> {
    match spec.name() {
        "null" => {
            Err(CliError::usage("null keeps no data, so --verify has nothing to compare; leave it out"))
        }
        _ => Ok(()),
    }
}

/// Whether a file is to be created: there is none, or an empty one.
fn is_absent(path: &Path) -> bool {
    match fs::metadata(path) {
        Ok(found) => found.is_file() && found.len() == 0,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Whether a file that was created a moment ago still has nothing in it.
fn has_no_blocks(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.blocks() == 0)
}
