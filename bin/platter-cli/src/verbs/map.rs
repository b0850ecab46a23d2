//! `platter map`: which ranges of a device hold data, and which are holes.

use crate::cli::{CliError, Context, spec_arg};
use clap::Args;
use platter::registry::{self, Access};
use platter_bench::report::{Column, Table, units::thousands};
use platter_block::allocation::Extent;
use platter_disk::device::Device;
use serde_json::{Value, json};

/// Arguments of `platter map`.
#[derive(Args, Debug)]
#[command(after_help = "\
Holes take no space and read as zeroes. They are known of files, of disks in memory and of simulated disks, also \
below layers; everything else is data. What is only in the memory of a cache counts as data.

Examples:
  platter map disk.img
  platter map 'raid0(chunk=64K, a.img, b.img)' --json

JSON: an object with device, size, data_bytes, hole_bytes and extents, a list of {offset, bytes, type}, where type is \
\"data\" or \"hole\".")]
pub(crate) struct Map {
    /// The device
    #[arg(value_name = "SPEC", value_parser = spec_arg())]
    spec: String,
    /// Open devices that are mounted, or locked by other programs
    #[arg(long)]
    allow_in_use: bool,
}

impl Map {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let access = Access { allow_in_use: self.allow_in_use, ..Access::read() };
        let device = registry::open(&self.spec, access)?;
        let extents = extents(&device, context)?;
        let holes: u64 = extents.iter().filter(|extent| extent.is_hole()).map(|extent| extent.len).sum();
        if context.json {
            return context.print_json(&json!({
                "device": *device.name(),
                "size": device.size(),
                "data_bytes": device.size() - holes,
                "hole_bytes": holes,
                "extents": extents.iter().map(to_json).collect::<Vec<_>>(),
            }));
        }
        let mut table = Table::new([
            Column::number("offset", "bytes"),
            Column::number("length", "bytes"),
            Column::text("type"),
        ])
        .group_thousands();
        for extent in &extents {
            table.row([extent.pos.to_string(), extent.len.to_string(), kind(extent).to_owned()]);
        }
        context.print(&table.to_text(context.terminal))?;
        let (data, all) = (thousands(device.size() - holes), thousands(device.size()));
        context.print(&format!("{data} of {all} bytes are data\n"))
    }
}

/// All extents of a device; adjacent ones of the same status are joined.
fn extents(device: &Device, context: &Context) -> Result<Vec<Extent>, CliError> {
    let (mut at, mut all) = (0, Vec::<Extent>::new());
    while at < device.size() {
        if context.is_interrupted() {
            return Err(context.interruption(format!("stopped at offset {at}")));
        }
        let extent = device.allocation(at, device.size() - at)?;
        match all.last_mut() {
            Some(last) if last.allocation == extent.allocation => last.len += extent.len,
            _ => all.push(extent),
        }
        at = extent.end();
    }
    Ok(all)
}

fn kind(extent: &Extent) -> &'static str {
    if extent.is_hole() { "hole" } else { "data" }
}

fn to_json(extent: &Extent) -> Value {
    json!({ "offset": extent.pos, "bytes": extent.len, "type": kind(extent) })
}
