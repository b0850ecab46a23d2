//! The model of the disk itself: `dm_disk` with its layout and its mechanics.

use super::error::ImportError;
use super::text::{Block, Value, beside, load};
use crate::disk::params::{
    Access, Hpl, LayoutParams, Mapping, MechanicsParams, SeekCurve, Skew, Sparing, ThreePoint, ZoneParams,
};

/// Most cylinders between two zones, before the first or after the last: some real disks leave one out. More
/// of them mean that a zone is missing.
const MAX_GAP: u32 = 16;

/// The layout, and the line of each zone.
pub(super) fn layout(disk: &Block) -> Result<LayoutParams, ImportError> {
    let heads = disk.number("Number of data surfaces", 1, 1000)?;
    let cylinders = disk.number("Number of cylinders", 1, 10_000_000)?;
    let block = disk.get("Layout Model")?.block("a layout `dm_layout_g1 { … }`")?;
    if block.kind != "dm_layout_g1" {
        let value = disk.get("Layout Model")?;
        return Err(value.error("a layout of type `dm_layout_g1`, the only one supported"));
    }
    let mapping = match block.number("LBN-to-PBN mapping scheme", 0, 2)? {
        0 => Mapping::Ascending,
        1 => Mapping::SerpentineZone,
        _ => Mapping::SerpentineDisk,
    };
    let sparing = sparing(block)?;
    let unit = block.find("Skew units");
    let zones = block.list("Zones")?;
    if zones.is_empty() {
        return Err(block.get("Zones")?.error("at least one zone in `Zones`"));
    }
    let mut next = 0;
    let mut result = Vec::with_capacity(zones.len());
    for value in zones {
        let zone = zone(value, unit, cylinders, next)?;
        if zone.first_cylinder - next > MAX_GAP {
            let expected = format!("a zone from cylinder {next} on, or at most {MAX_GAP} cylinders further");
            let first = value.block("a zone")?.get("First cylinder number")?;
            return Err(first.error(expected));
        }
        next = zone.last_cylinder + 1;
        result.push(zone);
    }
    // The zones count, as they do against the label.
    let cylinders = cylinders.max(next);
    if cylinders - next > MAX_GAP {
        let expected = format!("zones up to cylinder {}, the last; they end at {}", cylinders - 1, next - 1);
        return Err(block.get("Zones")?.error(expected));
    }
    Ok(LayoutParams { heads, cylinders, mapping, sparing, zones: result, sectors: None })
}

fn sparing(block: &Block) -> Result<Sparing, ImportError> {
    let range = block.number("Rangesize for sparing", 1, 10_000_000)?;
    Ok(match block.number("Sparing scheme used", 0, 10)? {
        0 => Sparing::None,
        1 => Sparing::Tracks,
        2 => Sparing::CylinderEnd,
        3 => Sparing::TrackEnd,
        4 => Sparing::CylinderEndSlipPast,
        5 => Sparing::CylinderFront,
        6 => Sparing::CylinderFrontSlipPast,
        7 => Sparing::DiskEnd,
        8 => Sparing::Range(range),
        9 => Sparing::ZoneEnd,
        _ => Sparing::ZoneEndSlipPast,
    })
}

fn zone(value: &Value, unit: Option<&Value>, cylinders: u32, next: u32) -> Result<ZoneParams, ImportError> {
    let block = value.block("a zone `dm_layout_g1_zone { … }`")?;
    let first = block.number("First cylinder number", next, cylinders - 1)?;
    // Cylinders count from 0, but the zones of some files end with the number of cylinders.
    let last = block.number("Last cylinder number", first, cylinders)?;
    let unit = block.find("Skew units").or(unit);
    let revolutions = match unit.map(|unit| Ok((unit, unit.word("Skew units")?))).transpose()? {
        None | Some((_, "sectors")) => false,
        Some((_, "revolutions")) => true,
        Some((unit, _)) => return Err(unit.error("`sectors` or `revolutions` as `Skew units`")),
    };
    let skew = |key: &str, must: bool| match block.find(key) {
        None if !must => Ok(Skew::Sectors(0)),
        None => Err(block.get(key).err().unwrap_or_else(|| value.error(key))),
        Some(value) if revolutions => {
            let part = value.float().filter(|&part| part >= 0.0);
            let part = part.ok_or_else(|| value.error(format!("a number of at least 0 as `{key}`")))?;
            Ok(Skew::Revolution((part.fract() * 4_294_967_296.0) as u32))
        }
        // Parts of a sector do not count.
        Some(value) => Ok(Skew::Sectors(
            value
                .float()
                .filter(|skew| (0.0..4e9).contains(skew))
                .ok_or_else(|| value.error(format!("a number of at least 0 as `{key}`")))? as u32,
        )),
    };
    Ok(ZoneParams {
        first_cylinder: first,
        last_cylinder: last,
        sectors_per_track: block.number("Blocks per track", 1, 1_000_000)?,
        first_offset: skew("Offset of first block", true)?,
        reserved: block.number("Empty space at zone front", 0, u32::MAX)?,
        track_skew: skew("Skew for track switch", false)?,
        cylinder_skew: skew("Skew for cylinder switch", false)?,
        spares: block.number("Number of spares", 0, u32::MAX)?,
        slips: places(block, "slips")?,
        remaps: remaps(block)?,
    })
}

fn places(block: &Block, key: &str) -> Result<Vec<u64>, ImportError> {
    block.list(key)?.iter().map(|value| Ok(u64::from(value.number(key, 0, u32::MAX)?))).collect()
}

fn remaps(block: &Block) -> Result<Vec<(u64, u64)>, ImportError> {
    let defects = places(block, "defects")?;
    let (pairs, rest) = defects.as_chunks::<2>();
    if !rest.is_empty() {
        let value = block.get("defects")?;
        return Err(value.error("pairs of defect and replacement in `defects`"));
    }
    Ok(pairs
        .iter()
        .map(|&[defect, spare]| (defect, spare))
        .filter(|(defect, spare)| defect != spare)
        .collect())
}

/// The mechanics, with the seek curve's file where it has one.
pub(super) fn mechanics(disk: &Block) -> Result<MechanicsParams, ImportError> {
    let value = disk.get("Mechanical Model")?;
    let block = value.block("mechanics `dm_mech_g1 { … }`")?;
    if block.kind != "dm_mech_g1" {
        return Err(value.error("mechanics of type `dm_mech_g1`, the only one supported"));
    }
    let access = match block.word("Access time type")? {
        "trackSwitchPlusRotation" => Access::Positioned,
        "averageRotation" => Access::AverageRotation,
        "constant" => Access::Constant(block.time("Constant access time")?),
        _ => {
            let value = block.get("Access time type")?;
            return Err(value.error("`trackSwitchPlusRotation`, `averageRotation` or `constant`"));
        }
    };
    Ok(MechanicsParams {
        access,
        rpm: block.number("Rotation speed (in rpms)", 1_000, 100_000)?,
        seek: seek(block)?,
        head_switch: block.time("Head switch time")?,
        write_settle: block.signed_time("Add. write settling delay")?,
    })
}

fn seek(block: &Block) -> Result<SeekCurve, ImportError> {
    let three = || {
        Ok(ThreePoint {
            one: block.time("Single cylinder seek time")?,
            average: block.time("Average seek time")?,
            full: block.time("Full strobe seek time")?,
        })
    };
    Ok(match block.word("Seek type")? {
        "constant" => SeekCurve::Constant(block.time("Constant seek time")?),
        "linear" => SeekCurve::Linear(three()?),
        "curve" => SeekCurve::Curve(three()?),
        "hpl" => SeekCurve::Hpl(hpl(block)?),
        "hplplus10" => SeekCurve::FirstTenHpl(first_ten(block)?, hpl(block)?),
        "extracted" => SeekCurve::Table(table(block)?),
        _ => {
            let value = block.get("Seek type")?;
            let types = "`constant`, `linear`, `curve`, `hpl`, `hplplus10` or `extracted` as `Seek type`";
            return Err(value.error(types));
        }
    })
}

fn hpl(block: &Block) -> Result<Hpl, ImportError> {
    let key = "HPL seek equation values";
    let list = block.list(key)?;
    let [divide, root_base, root_factor, line_base, line_factor, one, ..] = list else {
        return Err(block.get(key)?.error(format!("six numbers in `{key}`")));
    };
    let time = |value: &Value| value.picoseconds(key);
    Ok(Hpl {
        divide: divide.number(key, 0, u32::MAX)?,
        root_base: time(root_base)?,
        root_factor: time(root_factor)?,
        line_base: time(line_base)?,
        line_factor: time(line_factor)?,
        one: if one.float() == Some(-1.0) { None } else { Some(one.nanoseconds(key, 1.0)?) },
    })
}

fn first_ten(block: &Block) -> Result<[u64; 10], ImportError> {
    let key = "First ten seek times";
    let list = block.list(key)?;
    let mut times = [0; 10];
    if list.len() < times.len() {
        return Err(block.get(key)?.error(format!("ten times in `{key}`")));
    }
    for (time, value) in times.iter_mut().zip(list) {
        *time = value.nanoseconds(key, 1.0)?;
    }
    Ok(times)
}

/// A measured curve: lines of distance and milliseconds, perhaps a third number, perhaps a title.
fn table(block: &Block) -> Result<Vec<(u32, u64)>, ImportError> {
    let value = block.get("Full seek curve")?;
    let path = beside(&value.file, value.word("Full seek curve")?);
    let text = load(&path, Some((&value.file, value.line)))?;
    let mut points: Vec<(u32, u64)> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() || line.starts_with("Seek distances measured") {
            continue;
        }
        let error = |expected: String| {
            super::ImportError::new(&path, number as u32 + 1, expected, format!("`{line}`"))
        };
        let mut parts = line.split(',').map(str::trim);
        let distance = parts.next().and_then(|part| part.parse::<u32>().ok());
        let time = parts.next().and_then(|part| part.parse::<f64>().ok());
        let (Some(distance), Some(time)) = (distance, time.filter(|time| (0.0..1e6).contains(time))) else {
            return Err(error("a distance in cylinders and a time in milliseconds, `12, 1.5`".into()));
        };
        if let Some(&(before, _)) = points.last()
            && distance <= before
        {
            return Err(error(format!("a distance of more than {before}, that of the line before")));
        }
        if distance > 0 {
            points.push((distance, (time * 1e6).round() as u64));
        }
    }
    if points.is_empty() {
        return Err(super::ImportError::new(&path, 0, "distances and times of seeks", "none"));
    }
    Ok(points)
}
