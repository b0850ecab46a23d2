//! The arguments of `platter copy`.

use crate::cli::{Force, Size, spec_arg};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Arguments of `platter copy`.
#[derive(Args, Debug)]
#[command(after_help = "\
A destination file that is missing or empty is created with the source's size. Any other destination must be \
at least as large as the source; the rest of it is not changed. A destination that holds a file system, a \
partition table or a part of an array is refused without --force. What has been copied is durable when the \
command ends. A copy that ends early prints the offset from which to continue with --start.

With --rescue the copy continues past unreadable ranges: large reads first, then smaller ones where those \
failed, then single blocks. MAPFILE records which ranges are copied and which are unreadable, in the \
format of GNU ddrescue. Repeat the same command to continue. Unreadable ranges are not written; in a new \
file they read as zeroes. The exit status is then 1.

The first Ctrl-C, SIGTERM or SIGHUP stops the copy. It waits at most 5 s for I/O in flight, and saves the map. \
An interrupted run of ddrescue SRC DST MAPFILE can be continued with --rescue MAPFILE.

Examples:
  platter copy /dev/sdb disk.img
  platter copy --verify disk.img 'file(copy.img, depth=128)'
  platter copy --rescue disk.map /dev/sdb disk.img
  platter copy 'partition(number=1, /dev/sdb)' 'file(part.img, elevator=deadline)'

JSON: one object with source, destination, bytes (the source's size), start_offset, resume_offset (the first byte \
that is not copied), bytes_written, bytes_zeroed (made zero without being written), bytes_skipped (zeroes in a new \
file), bytes_bad and bad (ranges that cannot be read: offset, bytes), map, seconds, mib_per_s, created, flushed, \
complete, interrupted, error, verified (true, or null if not asked for or not reached).")]
pub(crate) struct Copy {
    /// The device to read
    #[arg(value_name = "SRC", value_parser = spec_arg())]
    pub(super) source: String,
    /// The device to write
    #[arg(value_name = "DST", value_parser = spec_arg())]
    pub(super) destination: String,
    /// Size of one read or write
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = block_size)]
    pub(super) bs: Size,
    /// Reads and writes in flight
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(super) depth: u32,
    /// Begin at this offset of a destination to which an earlier run has copied everything before it
    #[arg(long, value_name = "OFFSET", default_value = "0", conflicts_with = "rescue", value_parser = sectors)]
    pub(super) start: Size,
    /// Continue past unreadable ranges, and keep a map of them in MAPFILE
    #[arg(long, value_name = "MAPFILE")]
    pub(super) rescue: Option<PathBuf>,
    /// Number of retries for each unreadable block
    #[arg(long, value_name = "N", default_value_t = 0, requires = "rescue", value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub(super) retries: u32,
    /// Read both back afterwards and compare them
    #[arg(long)]
    pub(super) verify: bool,
    /// Handling of zeroes
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Sparse::Auto)]
    pub(super) sparse: Sparse,
    #[command(flatten)]
    pub(super) force: Force,
}

/// Handling of zeroes and holes of the source.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sparse {
    /// Make holes of the source zero at the destination without copying them; write no zeroes to a new file
    Auto,
    /// Also make blocks of zeroes zero without writing them
    Always,
    /// Write everything
    Never,
}

fn block_size(text: &str) -> Result<Size, String> {
    let size = sectors(text)?;
    match (4096..=64 << 20).contains(&size.bytes) {
        true => Ok(size),
        false => Err("4K to 64M are possible".to_owned()),
    }
}

/// A size of whole sectors: no device has smaller blocks.
fn sectors(text: &str) -> Result<Size, String> {
    let size: Size = text.parse()?;
    match size.bytes.is_multiple_of(512) {
        true => Ok(size),
        false => Err("it must be a multiple of 512".to_owned()),
    }
}
