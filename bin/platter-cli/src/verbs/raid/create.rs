//! `platter raid create`.

use super::failed;
use crate::cli::{CliError, Context, Force, spec_arg};
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use platter::raid::{self, Array, CreatedMd, MdArray, Mirror, md_layout};
use platter::registry::Access;
use platter::spec::parse_size;
use platter_md::superblock::{Level, Place, SECTOR};
use platter_stack::array_metadata::{Layout, Uuid};
use serde_json::json;

/// Chunk of Platter's arrays.
const CHUNK: u64 = 64 << 10;

/// Arguments of `platter raid create`.
#[derive(Args, Debug)]
#[command(after_help = "\
Everything is checked before the first write. A device that holds a file system, a partition table or a part \
of another array is refused without --force. After a crash the array exists completely or not at all.

With --format md1.2 (or md1.1, md1.0: where the superblock lies) the array is one of Linux md, for the kernel and for md(…). \
Offsets and sizes are those that mdadm chooses. Superblocks are written last; if one cannot be written, the others are erased. After a crash \
some of them may be missing, and the array is then degraded or incomplete: create it again. Without --assume-clean, mirrors and \
parity are marked as not in sync, and the kernel resynchronizes all of them when it starts the array. Layouts of md: left-symmetric (the \
usual one), left-asymmetric, right-symmetric, right-asymmetric, parity-first, parity-last of raid5 and raid6; near=2 (the usual one), far=N, \
offset=N of raid10; original (the usual one), alternate of raid0 with members of different sizes; mdadm's other names for raid6.

A mirror of Platter (--layout raid1) is opened with raid1(DEVICE, ...); when that is done first, the contents of the first device are \
copied to the others.

Examples:
  platter raid create --name data --chunk 128K 'file(a.img, create=1G)' 'file(b.img, create=1G)'
  platter info 'raid(name=data, b.img, a.img)'
  platter info 'raid(name=data)'
  platter copy disk.img 'raid(name=data, a.img, b.img)'
  platter raid create --layout raid1 'file(a.img, create=1G)' 'file(b.img, create=1G)'
  platter raid create --format md1.2 --level 1 --bitmap --name data /dev/sdb /dev/sdc
  platter raid create --format md1.2 --level 5 --md-layout parity-last --spare /dev/sde /dev/sdb /dev/sdc /dev/sdd

JSON: one object with uuid, name, layout, chunk_bytes, members (in their order). Of md's arrays layout is the level, and it has also \
format, md_layout, spares, array_bytes, data_offset_bytes, component_bytes (used of each member; null for linear and raid0), \
bitmap_chunk_bytes (null without a bitmap) and clean.")]
pub(crate) struct Create {
    /// Name of the array, at most 64 bytes, 32 for md [default: array- and the start of its UUID]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    name: Option<String>,
    /// What describes the array on its members
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Format::Platter)]
    format: Format,
    /// Layout of the data on the members, of Platter's arrays [default: raid0]
    #[arg(long, value_name = "LAYOUT", value_enum)]
    layout: Option<Layouts>,
    /// Level of an array of md
    #[arg(long, value_name = "LEVEL", value_enum)]
    level: Option<Levels>,
    /// Layout of an array of md, as mdadm calls it
    #[arg(long, value_name = "LAYOUT", value_parser = NonEmptyStringValueParser::new())]
    md_layout: Option<String>,
    /// Bytes placed on one member before the next, a power of two [default: 64K, 512K for md]; of a raid1 of Platter, bytes for each
    /// write-intent bit [default: by the size]
    #[arg(long, value_name = "SIZE", value_parser = chunk)]
    chunk: Option<u64>,
    /// Write a bitmap of what is being written, so that a resync after a crash is short (md)
    #[arg(long)]
    bitmap: bool,
    /// Make a raid1 of Platter without write-intent bits: after a power cut all of it is copied
    #[arg(long)]
    no_bitmap: bool,
    /// Take the members as they are for equal, or their parity for right, as those of new files are (md, raid1)
    #[arg(long)]
    assume_clean: bool,
    /// A spare; may be repeated (md)
    #[arg(long = "spare", value_name = "SPEC", value_parser = spec_arg())]
    spares: Vec<String>,
    /// The members, in their order
    #[arg(required = true, value_name = "SPEC", value_parser = spec_arg())]
    members: Vec<String>,
    #[command(flatten)]
    force: Force,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// Records of Platter, for raid(…)
    Platter,
    /// A superblock of md near the end of each member
    #[value(name = "md1.0")]
    Md10,
    /// A superblock of md at the start of each member
    #[value(name = "md1.1")]
    Md11,
    /// A superblock of md 4 KiB from the start of each member
    #[value(name = "md1.2")]
    Md12,
}

impl Format {
    /// Where superblocks of md lie.
    fn place(self) -> Option<Place> {
        match self {
            Format::Platter => None,
            Format::Md10 => Some(Place::End),
            Format::Md11 => Some(Place::Start),
            Format::Md12 => Some(Place::Offset4K),
        }
    }
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Layouts {
    /// Place consecutive chunks on the members in turn
    Raid0,
    /// Concatenate the members
    Concat,
    /// Keep the same data on every member
    Raid1,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Levels {
    /// Concatenate the members
    Linear,
    /// Stripes
    #[value(name = "0", alias = "raid0")]
    Raid0,
    /// Mirrors
    #[value(name = "1", alias = "raid1")]
    Raid1,
    /// Parity on the last member
    #[value(name = "4", alias = "raid4")]
    Raid4,
    /// Parity on all members in turn
    #[value(name = "5", alias = "raid5")]
    Raid5,
    /// Two parities
    #[value(name = "6", alias = "raid6")]
    Raid6,
    /// Mirrored stripes
    #[value(name = "10", alias = "raid10")]
    Raid10,
}

impl Levels {
    fn level(self) -> Level {
        match self {
            Levels::Linear => Level::Linear,
            Levels::Raid0 => Level::Raid0,
            Levels::Raid1 => Level::Raid1,
            Levels::Raid4 => Level::Raid4,
            Levels::Raid5 => Level::Raid5,
            Levels::Raid6 => Level::Raid6,
            Levels::Raid10 => Level::Raid10,
        }
    }
}

fn chunk(text: &str) -> Result<u64, String> {
    parse_size(text).map_err(|error| error.to_string())
}

impl Create {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        match self.format.place() {
            Some(place) => self.run_md(context, place),
            None => self.run_platter(context),
        }
    }

    fn run_platter(&self, context: &Context) -> Result<(), CliError> {
        let of_md = [
            ("--level", self.level.is_some()),
            ("--md-layout", self.md_layout.is_some()),
            ("--bitmap", self.bitmap),
            ("--assume-clean", self.assume_clean && self.layout != Some(Layouts::Raid1)),
            ("--spare", !self.spares.is_empty()),
        ];
        if let Some((option, _)) = of_md.into_iter().find(|(_, is_given)| *is_given) {
            return Err(CliError::usage(format!("{option} is for arrays of md; say --format md1.2 with it")));
        }
        let layout = match self.layout.unwrap_or(Layouts::Raid0) {
            Layouts::Raid0 => Layout::Raid0,
            Layouts::Concat => Layout::Concat,
            Layouts::Raid1 => return self.run_mirror(context),
        };
        if self.no_bitmap {
            return Err(CliError::usage("--no-bitmap is for --layout raid1"));
        }
        let size = self.chunk.unwrap_or(CHUNK);
        let name = self.name.clone().unwrap_or_default();
        let array = Array { name, layout, chunk: size };
        let devices = raid::open_members(&self.members, self.force.access(Access::read_write()))?;
        let uuid = raid::create(&devices, &array).map_err(failed)?;
        let chunk = (layout == Layout::Raid0).then_some(size);
        self.print_platter(context, uuid, layout.name(), chunk)
    }

    fn run_mirror(&self, context: &Context) -> Result<(), CliError> {
        let access = self.force.access(Access::read_write());
        let mirror = Mirror {
            name: self.name.clone().unwrap_or_default(),
            chunk: self.chunk,
            bitmap: !self.no_bitmap,
            is_clean: self.assume_clean,
            force: access.force,
        };
        let devices = raid::open_members(&self.members, access)?;
        let uuid = raid::create_mirror(&devices, &mirror).map_err(failed)?;
        self.print_platter(context, uuid, "raid1", self.chunk)
    }

    fn print_platter(
        &self,
        context: &Context,
        uuid: Uuid,
        layout: &str,
        chunk: Option<u64>,
    ) -> Result<(), CliError> {
        let name = self.name.clone().unwrap_or_else(|| raid::default_name(uuid));
        if context.json {
            return context.print_json(&json!({
                "uuid": uuid.to_string(),
                "name": name,
                "layout": layout,
                "chunk_bytes": chunk,
                "members": self.members,
            }));
        }
        let members = self.members.len();
        context.print(&format!("{layout} \"{name}\" of {members} members, uuid {uuid}\n"))
    }

    fn run_md(&self, context: &Context, place: Place) -> Result<(), CliError> {
        if self.no_bitmap {
            let what = "--no-bitmap is for --layout raid1; an array of md has a bitmap only with --bitmap";
            return Err(CliError::usage(what));
        }
        if self.layout.is_some() {
            let what = "--layout is for Platter's arrays; those of md have --level and --md-layout";
            return Err(CliError::usage(what));
        }
        let Some(level) = self.level else {
            let what = "an array of md needs --level: linear, 0, 1, 4, 5, 6 or 10";
            return Err(CliError::usage(what));
        };
        let array = MdArray {
            place,
            level: level.level(),
            layout: self.md_layout.clone(),
            chunk: self.chunk,
            name: self.name.clone().unwrap_or_default(),
            has_bitmap: self.bitmap,
            is_clean: self.assume_clean,
        };
        let access = self.force.access(Access::read_write());
        let members = raid::open_members(&self.members, access)?;
        let spares = raid::open_members(&self.spares, access)?;
        let made = raid::create_md(&members, &spares, &array).map_err(failed)?;
        self.print_md(context, &made)
    }

    fn print_md(&self, context: &Context, made: &CreatedMd) -> Result<(), CliError> {
        let Some(first) = made.plan.devices.first().map(|device| &device.superblock) else {
            return Ok(());
        };
        let (uuid, name, level) = (made.uuid, made.name.to_string(), first.level.to_string());
        let chunk = (first.chunk > 0).then_some(first.chunk * SECTOR);
        let format = format!("md{}", first.place.version());
        if context.json {
            return context.print_json(&json!({
                "uuid": uuid.to_string(),
                "name": name,
                "format": format,
                "layout": level,
                "md_layout": md_layout(first),
                "chunk_bytes": chunk,
                "members": self.members,
                "spares": self.spares,
                "array_bytes": made.plan.size(),
                "data_offset_bytes": first.data_offset * SECTOR,
                "component_bytes": (first.component > 0).then_some(first.component * SECTOR),
                "bitmap_chunk_bytes": made.plan.bitmap_chunk,
                "clean": first.is_clean(),
            }));
        }
        let members = self.members.len();
        let spares = match self.spares.len() {
            0 => String::new(),
            spares => format!(" and {spares} spares"),
        };
        let state = if first.is_clean() { "" } else { ", to be resynchronized" };
        context.print(&format!(
            "{format} {level} \"{name}\" of {members} members{spares}, {} bytes{state}, uuid {} ({uuid})\n",
            made.plan.size(),
            uuid.as_mdadm()
        ))
    }
}
