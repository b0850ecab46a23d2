//! What is copied where: opens both devices and checks that it can be done, before anything is written.

use super::{Copy, Sparse};
use crate::cli::{CliError, Context};
use platter::registry::{self, Access, OpenError};
use platter::spec::{Spec, format_size};
use platter_bench::report::units::thousands;
use platter_disk::device::Device;
use platter_disk::sys::{Kind, Probe};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Two open devices and how to copy one to the other.
pub(super) struct Plan {
    pub(super) source: Device,
    pub(super) destination: Device,
    /// Bytes to copy: all of the source.
    pub(super) size: u64,
    /// Offsets and lengths of reads and writes are multiples of it.
    pub(super) unit: u64,
    /// The source as a file whose holes can be asked for, where they matter.
    pub(super) holes: Option<File>,
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
        let absent = to_path.as_deref().filter(is_absent);
        let create = absent.map(|_| source.size());
        let writing = copy.force.access(Access { create, ..Access::read_write() });
        let destination = registry::open_spec(&to, writing)?;
        let plan = Plan {
            size: source.size(),
            unit: u64::from(block(&source).max(block(&destination))),
            holes: holes(copy.sparse, from_path.as_deref()),
            created: absent.is_some(),
            reads_as_zeroes: copy.sparse != Sparse::Never && absent.is_some_and(has_no_blocks),
            zero_blocks: copy.sparse == Sparse::Always,
            source,
            destination,
        };
        if let Err(error) = plan.check(copy, context) {
            if let Some(path) = absent {
                // The error is what matters.
                let _ = fs::remove_file(path);
            }
            return Err(error);
        }
        Ok(plan)
    }

    fn check(&self, copy: &Copy, context: &Context) -> Result<(), CliError> {
        let (size, room) = (self.size, self.destination.size());
        let named = |device: &Device| device.name();
        if room < size {
            return Err(CliError::usage(format!(
                "{} is too small: it has {} bytes, {} has {}; nothing was written",
                named(&self.destination),
                thousands(room),
                named(&self.source),
                thousands(size)
            )));
        }
        if room > size {
            let beyond = thousands(room - size);
            context.note(&format!("{} is larger by {beyond} bytes, which stay", named(&self.destination)));
        }
        if !copy.bs.is_multiple_of(self.unit) {
            let unit = format_size(self.unit);
            return Err(CliError::usage(format!(
                "--bs {} is not a multiple of the logical block of the two devices, {unit}",
                copy.bs
            )));
        }
        Ok(())
    }

    /// Bytes that are copied in whole blocks.
    pub(super) fn whole(&self) -> u64 {
        self.size / self.unit * self.unit
    }

    /// Where what is less than a block at the end of the source begins, with a buffer for it.
    pub(super) fn tail(&self) -> Option<(u64, Vec<u8>)> {
        let pos = self.whole();
        (pos < self.size).then(|| (pos, vec![0; (self.size - pos) as usize]))
    }
}

fn block(device: &Device) -> u32 {
    device.geometry().limits.logical_block
}

/// The path of a spec that is a file and nothing else.
fn file_path(spec: &Spec) -> Result<Option<String>, CliError> {
    match spec.name() {
        "file" => Ok(registry::paths(spec).map_err(OpenError::from)?.pop()),
        _ => Ok(None),
    }
}

fn refuse_same(from: Option<&str>, to: Option<&str>) -> Result<(), CliError> {
    let probe = |path: Option<&str>| path.and_then(|path| Probe::of_path(path).ok());
    let (Some(a), Some(b)) = (probe(from), probe(to)) else { return Ok(()) };
    let same = match (a.kind, b.kind) {
        (Kind::Regular, Kind::Regular) => a.inode == b.inode,
        (Kind::Block, Kind::Block) => a.device == b.device,
        _ => false,
    };
    match same {
        true => Err(CliError::usage(format!(
            "{} and {} are the same: give two different devices",
            from.unwrap_or_default(),
            to.unwrap_or_default()
        ))),
        false => Ok(()),
    }
}

fn refuse_null(spec: &Spec) -> Result<(), CliError> {
    match spec.name() {
        "null" => Err(CliError::usage("null keeps nothing, so there is nothing to --verify")),
        _ => Ok(()),
    }
}

/// Whether a file is to be created: nothing is there, or an empty file.
fn is_absent(path: &&str) -> bool {
    match fs::metadata(path) {
        Ok(found) => found.is_file() && found.len() == 0,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Whether a file that was created a moment ago still has nothing in it.
fn has_no_blocks(path: &str) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.blocks() == 0)
}

fn holes(sparse: Sparse, path: Option<&str>) -> Option<File> {
    let path = path.filter(|_| sparse != Sparse::Never).map(Path::new)?;
    path.is_file().then(|| File::open(path).ok()).flatten()
}
