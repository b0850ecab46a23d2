//! Parameter files of DiskSim 4.0: parameters of measured disks.
//!
//! A disk is described in several files. The `.diskspecs` file describes the controller (`disksim_disk`) and
//! names the `.model` file (`dm_disk`: zones, spares, defects, mechanics), which may name a measured seek
//! curve. The `.parv` file beside it describes a whole system, of which only the bus next to the disk is
//! read. All times in these files are milliseconds.
//!
//! Layouts of type `dm_layout_g1` are supported, with all mapping and sparing schemes, and mechanics of type
//! `dm_mech_g1` with all types of seek curves. Parameters that the models here do not have are ignored; all
//! others are required.

mod control;
mod error;
mod fields;
mod model;
#[cfg(test)]
mod tests;
mod text;

pub use error::ImportError;

use crate::disk::layout::Layout;
use crate::disk::params::{BusParams, DiskParams};
use crate::disk::seek::seek_table;
use std::path::Path;
use text::{Block, Contents, Node};

/// Reads a disk from its `.diskspecs` file, with the bus from the `.parv` file of the same stem if there is
/// one. `path` may also be a `.parv` file that names its disk.
///
/// # Errors
/// Files that are missing or not of this syntax, parameters that are missing, out of range or contradictory,
/// and layouts and mechanics of other types: with file, line, what was expected and what was found.
pub fn load(path: &Path) -> Result<DiskParams, ImportError> {
    let beside = path.with_extension("parv");
    let system = (beside != path && beside.exists()).then_some(beside);
    load_with(path, system.as_deref())
}

/// Reads a disk from its `.diskspecs` with the bus of a given `.parv`; `None`: a bus that costs nothing beside the
/// disk's own transfer time.
///
/// # Errors
/// As [`load`].
pub fn load_with(path: &Path, system: Option<&Path>) -> Result<DiskParams, ImportError> {
    let contents = text::read(path)?;
    let Some(disk) = contents.blocks.iter().find(|block| block.kind == "disksim_disk") else {
        return Err(ImportError::new(path, 0, "a block `disksim_disk`", "none"));
    };
    let model = disk.get("Model")?.block("`source FILE` or a block `dm_disk { … }`")?;
    if model.kind != "dm_disk" {
        return Err(disk.get("Model")?.error("a block of type `dm_disk`"));
    }
    let mut params = DiskParams {
        name: disk.name.clone(),
        layout: model::layout(model)?,
        mechanics: model::mechanics(model)?,
        control: control::control(disk)?,
        cache: control::cache(disk)?,
        bus: BusParams::default(),
    };
    let zones = check(model, &params)?;
    // The label counts; if it claims slightly more than the zones hold, the zones count, as in DiskSim.
    let label = u64::from(model.number("Block count", 1, u32::MAX)?);
    if label > zones.sectors().saturating_add(zones.sectors() / 20) {
        let expected = format!("`Block count` to be at most the {} that the zones hold", zones.sectors());
        return Err(model.get("Block count")?.error(expected));
    }
    params.layout.sectors = (label <= zones.sectors()).then_some(label);
    let own = disk.get("Bulk sector transfer time")?.picoseconds("Bulk sector transfer time")?;
    params.bus = match system {
        Some(system) => bus(&text::read(system)?, &disk.name)?,
        None => bus(&contents, &disk.name)?,
    };
    params.bus.read_sector = params.bus.read_sector.max(own);
    params.bus.write_sector = params.bus.write_sector.max(own);
    Ok(params)
}

/// Checks that are only possible when the whole disk is known.
fn check(model: &Block, params: &DiskParams) -> Result<Layout, ImportError> {
    let wrong = |block: &Block, error: crate::disk::ParamsError| {
        let expected = format!("{} to be {}", error.what, error.expected);
        ImportError::new(&block.file, block.line, expected, error.found)
    };
    let layout = model.get("Layout Model")?.block("a layout")?;
    let zones = Layout::new(&params.layout, params.mechanics.rpm).map_err(|error| wrong(layout, error))?;
    let mechanics = model.get("Mechanical Model")?.block("mechanics")?;
    seek_table(&params.mechanics.seek, params.layout.cylinders).map_err(|error| wrong(mechanics, error))?;
    Ok(zones)
}

/// The bus of the disk; if the topology does not name it, the last one.
fn bus(contents: &Contents, disk: &str) -> Result<BusParams, ImportError> {
    let spec = |instance: &str| {
        let found = contents.instances.iter().find(|(name, _)| name == instance);
        found.map_or(instance, |(_, spec)| spec.as_str()).to_string()
    };
    let is_disk = |node: &Node| node.kind == "disksim_disk" && (disk.is_empty() || spec(&node.name) == disk);
    let near = contents.topology.iter().find_map(|node| bus_above(node, None, &is_disk)).map(spec);
    let mut buses = contents.blocks.iter().filter(|block| block.kind == "disksim_bus");
    let block = match &near {
        Some(name) => buses.find(|block| block.name == *name),
        None => buses.next_back(),
    };
    let Some(block) = block else { return Ok(BusParams::default()) };
    let sector = |key: &str| block.find(key).map_or(Ok(0), |value| value.picoseconds(key));
    let arbitration = "Arbitration time";
    Ok(BusParams {
        read_sector: sector("Read block transfer time")?,
        write_sector: sector("Write block transfer time")?,
        arbitration: block.find(arbitration).map_or(Ok(0), |value| value.nanoseconds(arbitration, 1.0))?,
    })
}

fn bus_above<'a>(node: &'a Node, above: Option<&'a str>, is_disk: &dyn Fn(&Node) -> bool) -> Option<&'a str> {
    if is_disk(node) {
        return above;
    }
    let above = if node.kind == "disksim_bus" { Some(node.name.as_str()) } else { above };
    node.below.iter().find_map(|below| bus_above(below, above, is_disk))
}
