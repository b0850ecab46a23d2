//! `platter raid create`.

use super::failed;
use crate::cli::{CliError, Context, Force, spec_arg};
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use platter::raid::{self, Array};
use platter::registry::Access;
use platter::spec::parse_size;
use platter_stack::array_metadata::Layout;
use serde_json::json;

/// Arguments of `platter raid create`.
#[derive(Args, Debug)]
#[command(after_help = "\
Everything is checked before the first write. A device that holds a file system, a partition table or a part \
of another array is refused without --force. After a crash the array exists completely or not at all.

Examples:
  platter raid create --name data --chunk 128K 'file(a.img, create=1G)' 'file(b.img, create=1G)'
  platter info 'raid(name=data, b.img, a.img)'
  platter info 'raid(name=data)'
  platter copy disk.img 'raid(name=data, a.img, b.img)'

JSON: one object with uuid, name, layout, chunk_bytes, members (in their order).")]
pub(crate) struct Create {
    /// Name of the array, at most 64 bytes [default: array- and the start of its UUID]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    name: Option<String>,
    /// Layout of the data on the members
    #[arg(long, value_name = "LAYOUT", value_enum, default_value_t = Layouts::Raid0)]
    layout: Layouts,
    /// Bytes placed on one member before the next, a power of two
    #[arg(long, value_name = "SIZE", default_value = "64K", value_parser = chunk)]
    chunk: u64,
    /// The members, in their order
    #[arg(required = true, value_name = "SPEC", value_parser = spec_arg())]
    members: Vec<String>,
    #[command(flatten)]
    force: Force,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Layouts {
    /// Place consecutive chunks on the members in turn
    Raid0,
    /// Concatenate the members
    Concat,
}

fn chunk(text: &str) -> Result<u64, String> {
    parse_size(text).map_err(|error| error.to_string())
}

impl Create {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let layout = match self.layout {
            Layouts::Raid0 => Layout::Raid0,
            Layouts::Concat => Layout::Concat,
        };
        let name = self.name.clone().unwrap_or_default();
        let array = Array { name, layout, chunk: self.chunk };
        let devices = raid::open_members(&self.members, self.force.access(Access::read_write()))?;
        let uuid = raid::create(&devices, &array).map_err(failed)?;
        let name = self.name.clone().unwrap_or_else(|| raid::default_name(uuid));
        let chunk = (layout == Layout::Raid0).then_some(self.chunk);
        if context.json {
            return context.print_json(&json!({
                "uuid": uuid.to_string(),
                "name": name,
                "layout": layout.name(),
                "chunk_bytes": chunk,
                "members": self.members,
            }));
        }
        let (members, layout) = (self.members.len(), layout.name());
        context.print(&format!("{layout} \"{name}\" of {members} members, uuid {uuid}\n"))
    }
}
