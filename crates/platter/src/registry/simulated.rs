//! Simulated disks: `sim(cheetah9lp)`.

use super::table::{Build, Row, Shape};
use super::{OpenError, Opening, faults, queue};
use crate::spec::{Args, Param, ParamKind};
use platter_bench::sim;
use platter_disk::device::Device;
use platter_sim::medium::Medium;
use platter_sim::{Options, SimDisk, catalogue};

const PARAMS: &[Param] = &[
    Param {
        name: "disk",
        kind: ParamKind::Text,
        default: "",
        help: "a disk of the catalogue, see `platter sim list`",
    },
    Param {
        name: "data",
        kind: ParamKind::Bool,
        default: "on",
        help: "keep what is written, in memory; off: reads leave memory as it was",
    },
];

/// The row of simulated disks.
pub(super) fn row() -> Row {
    Row {
        name: "sim",
        summary: "a simulated disk, in virtual time",
        shape: Shape::Leaf,
        example: "sim(ideal, elevator=deadline)".to_owned(),
        unnamed: &["disk"],
        tables: &[PARAMS, faults::PARAMS, queue::PARAMS],
        devices: 0..=0,
        build: Build::Leaf(open),
    }
}

fn open(args: &mut Args<'_>, opening: &Opening) -> Result<Device, OpenError> {
    let name = args.text("disk")?;
    let Some(row) = catalogue::by_name(&name) else {
        let known: Vec<&str> = catalogue::TABLE.iter().map(|row| row.name).collect();
        let wrong = format!("there is no simulated disk `{name}`; there are {}", known.join(", "));
        return Err(args.reject("disk", wrong).into());
    };
    let medium = args.flag("data")?.then(Medium::new);
    let faults = faults::read(args)?;
    let (settings, elevator) = queue::read(args)?;
    let options = Options { medium, faults, supply: None };
    let disk = SimDisk::with(&opening.world, (row.make)(), options);
    Ok(sim::device(&disk, &format!("sim({name})"), settings, elevator)?)
}
