//! Simulated disks: `sim(cheetah9lp)`, `sim(disk.diskspecs)`.

use super::row::{DeviceType, Shape};
use super::{OpenError, Opening, faults, queue};
use crate::spec::{Args, Argument, ArgumentKind, SpecError};
use platter_block::backend::Fact;
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_sim::bus::{self, BusParams, Fabric};
use platter_sim::catalogue::{self, Choices, Kind};
use platter_sim::disk::Policy;
use platter_sim::flash::Start;
use platter_sim::medium::Medium;
use platter_sim::model::Model;
use platter_sim::{Options, SimDisk, import};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const PARAMS: &[Argument] = &[
    Argument {
        name: "disk",
        kind: ArgumentKind::Text,
        default: "",
        help: "a disk of the catalogue, see `platter sim list`, or a parameter file of DiskSim",
    },
    Argument {
        name: "parv",
        kind: ArgumentKind::Text,
        default: "",
        help: "parameter files: the one with the bus, if not beside the disk's",
    },
    Argument {
        name: "queue",
        kind: ArgumentKind::Choice(&["none", "fcfs", "clook", "sstf", "sptf"]),
        default: "",
        help: "mechanical disks: order of the drive's own queue; default: that of the disk",
    },
    Argument {
        name: "write_cache",
        kind: ArgumentKind::Bool,
        default: "",
        help: "whether writes complete in the buffer; default: that of the disk",
    },
    Argument {
        name: "start",
        kind: ArgumentKind::Choice(&["steady", "erased"]),
        default: "",
        help: "flash: steady, which is full and written at random for long, or erased; not given: steady",
    },
    Argument {
        name: "over_provisioning",
        kind: ArgumentKind::Int { min: 1, max: 10_000 },
        default: "",
        help: "flash: flash beyond the size, in thousandths of it, without the SLC cache; default: that of the disk",
    },
    Argument {
        name: "slc_cache",
        kind: ArgumentKind::Size { min: 0, max: 1 << 40 },
        default: "",
        help: "flash: bytes that fast blocks take before slow ones are written; default: that of the disk",
    },
    Argument {
        name: "idle_after",
        kind: ArgumentKind::Time { min: Duration::from_millis(1), max: Duration::MAX },
        default: "",
        help: "flash: idle time after which its cache is emptied and garbage collected ahead; default: that of the disk",
    },
    Argument {
        name: "seed",
        kind: ArgumentKind::Int { min: 0, max: u64::MAX },
        default: "",
        help: "seed of everything random; default: the seed of the run",
    },
    Argument {
        name: "bus",
        kind: ArgumentKind::Text,
        default: "",
        help: "buses from disk to host, which disks that name the same ones share: ultra160:0/pci32_33:0",
    },
    Argument {
        name: "data",
        kind: ArgumentKind::Bool,
        default: "on",
        help: "store contents in memory; off (and `bench io` without --verify): reads leave memory unchanged",
    },
];

/// The row of simulated disks.
pub(super) fn row() -> DeviceType {
    DeviceType {
        name: "sim",
        summary: "a simulated disk, in virtual time",
        shape: Shape::Disk,
        example: "sim(man3367mp, bus=ultra160:0, elevator=deadline)".to_owned(),
        unnamed: &["disk"],
        tables: &[PARAMS, faults::PARAMS, queue::PARAMS],
        devices: 0..=0,
        open: Box::new(open),
    }
}

fn open(args: &mut Args<'_>, opening: &Opening) -> Result<Device, OpenError> {
    let name = args.text("disk")?;
    let path = path(args)?;
    let seed = args.optional("seed", Args::int)?;
    let given = Choices {
        seed: seed.unwrap_or(opening.world.seed()),
        on_bus: !path.is_empty(),
        ..Choices::default()
    };
    let (model, facts) = model(args, &name, given)?;
    let keeps = args.flag("data")? && (args.is_given("data") || !opening.access.forget);
    let medium = keeps.then(Medium::new);
    let faults = faults::read(args, model.geometry().size)?;
    let (settings, elevator) = queue::read(args)?;
    args.check_all_read()?;
    let model = attach(args, opening.world.buses(), &path, model)?;
    let options = Options { medium, faults, supply: None };
    let disk = SimDisk::with(&opening.world, model, options);
    let name = format!("sim({name})");
    Ok(Device::from_disk(disk.attach(&name).with_facts(facts), settings, elevator)?)
}

/// A model, and the facts that results show.
type Made = (Box<dyn Model>, Vec<Fact>);

/// Builds the disk, from the catalogue or from a file.
fn model(args: &mut Args<'_>, name: &str, given: Choices) -> Result<Made, SpecError> {
    let wrong = |args: &Args<'_>, error: &dyn std::fmt::Display| args.reject("disk", error.to_string());
    if let Some(row) = catalogue::by_name(name) {
        let choices = match row.kind {
            Kind::Mechanical(_) => arm_choices(args, given)?,
            Kind::Flash(_) => flash_choices(args, given)?,
            Kind::Ideal(_) => Choices { write_cache: write_cache(args)?, ..given },
            Kind::Cloud(_) => given,
        };
        let model = row.make(choices).map_err(|error| match error.what.as_str() {
            "over-provisioning" => args.reject("over_provisioning", error.to_string()),
            "SLC cache" => args.reject("slc_cache", error.to_string()),
            _ => wrong(args, &error),
        })?;
        return Ok((model, row.facts(&choices)));
    }
    if !name.contains(['/', '.']) {
        let known: Vec<&str> = catalogue::TABLE.iter().map(|row| row.name).collect();
        let said = format!(
            "there is no simulated disk `{name}`; there are {}, and parameter files by their path",
            known.join(", ")
        );
        return Err(args.reject("disk", said));
    }
    let system = args.optional("parv", Args::text)?;
    let params = match system {
        Some(system) => import::load_with(Path::new(name), Some(Path::new(&system))),
        None => import::load(Path::new(name)),
    };
    let params = params.map_err(|error| match error.unreadable {
        true => args.unfit("disk", error.to_string()),
        false => wrong(args, &error),
    })?;
    let choices = arm_choices(args, given)?;
    let slow = catalogue::interface(&params, "the bus of the parameter files");
    let facts = slow.into_iter().filter(|_| !choices.on_bus).collect();
    let model = catalogue::mechanical(params, Policy::None, choices).map_err(|error| wrong(args, &error))?;
    Ok((model, facts))
}

fn arm_choices(args: &mut Args<'_>, given: Choices) -> Result<Choices, SpecError> {
    let queue = args.optional("queue", Args::one_of)?.map(|queue| match queue {
        "fcfs" => Policy::Fcfs,
        "clook" => Policy::CLook,
        "sstf" => Policy::Sstf,
        "sptf" => Policy::Sptf,
        _ => Policy::None,
    });
    Ok(Choices { queue, write_cache: write_cache(args)?, ..given })
}

fn flash_choices(args: &mut Args<'_>, given: Choices) -> Result<Choices, SpecError> {
    let thousandths = args.optional("over_provisioning", Args::int)?;
    let idle = args.optional("idle_after", Args::time)?;
    Ok(Choices {
        start: start(args)?,
        write_cache: write_cache(args)?,
        over_provisioning: thousandths.map(|thousandths| thousandths as u32),
        slc_cache: args.optional("slc_cache", Args::size)?,
        idle_after: idle.map(Span::from),
        ..given
    })
}

fn write_cache(args: &mut Args<'_>) -> Result<Option<bool>, SpecError> {
    args.optional("write_cache", Args::flag)
}

fn start(args: &mut Args<'_>) -> Result<Option<Start>, SpecError> {
    let start = args.optional("start", Args::one_of)?;
    Ok(start.map(|start| if start == "erased" { Start::Erased } else { Start::Steady }))
}

/// The buses from the disk to the host, each with its number: `ultra160:0`.
fn path(args: &mut Args<'_>) -> Result<Vec<(String, BusParams)>, SpecError> {
    let Some(text) = args.optional("bus", Args::text)? else { return Ok(Vec::new()) };
    let bus = |text: &str| {
        let (name, number) = text.split_once(':').unwrap_or((text, "0"));
        let number: u32 = number.parse().map_err(|_| {
            args.reject("bus", format!("`{number}` is no number of a bus; expected as in {name}:0"))
        })?;
        let Some(row) = bus::by_name(name) else {
            let known: Vec<&str> = bus::TABLE.iter().map(|row| row.name).collect();
            return Err(
                args.reject("bus", format!("there is no bus `{name}`; there are {}", known.join(", ")))
            );
        };
        Ok((format!("{name}:{number}"), row.params))
    };
    text.split('/').map(bus).collect()
}

fn attach(
    args: &Args<'_>,
    buses: &Arc<Fabric>,
    path: &[(String, BusParams)],
    model: Box<dyn Model>,
) -> Result<Box<dyn Model>, SpecError> {
    if path.is_empty() {
        return Ok(model);
    }
    let path: Vec<(&str, BusParams)> = path.iter().map(|(name, params)| (name.as_str(), *params)).collect();
    let bused = buses.attach(&path, model).map_err(|error| args.reject("bus", error.to_string()))?;
    Ok(Box::new(bused))
}
