//! Arrays by what their members carry: `raid(name=data, …)` and Linux' own, `md(…)`.

use super::table::{Build, Row, Shape};
use super::{OpenError, Opening, open_part};
use crate::raid::{self, RaidError};
use crate::spec::{Args, Param, ParamKind};
use platter_disk::device::Device;
use platter_stack::meta::Select;

/// Most members of an array.
const MAX_MEMBERS: usize = 4096;

const PARAMS: &[Param] = &[
    Param { name: "name", kind: ParamKind::Text, default: "", help: "open the array with this name" },
    Param { name: "uuid", kind: ParamKind::Text, default: "", help: "open the array with this number" },
];

/// The rows of arrays that know themselves.
pub(super) fn rows() -> [Row; 2] {
    [
        Row {
            name: "raid",
            summary: "an array that was made with `platter raid create`, from its members in any order",
            shape: Shape::Layer,
            example: "raid(name=data, a.img, b.img)".to_owned(),
            unnamed: &[],
            tables: &[PARAMS],
            devices: 1..=MAX_MEMBERS,
            build: Build::Leaf(open),
        },
        Row {
            name: "md",
            summary: "a raid0 or linear array of Linux' md, without the kernel's driver",
            shape: Shape::Layer,
            example: "md(/dev/sdb, /dev/sdc)".to_owned(),
            unnamed: &[],
            tables: &[&[]],
            devices: 1..=MAX_MEMBERS,
            build: Build::Leaf(open_md),
        },
    ]
}

fn refused(args: &Args<'_>, error: RaidError) -> OpenError {
    match error {
        RaidError::Device(error) => OpenError::Device(error),
        wrong => OpenError::Spec(args.spec().reject(wrong.to_string())),
    }
}

fn open(args: &mut Args<'_>, opening: &Opening) -> Result<Device, OpenError> {
    let name = args.optional("name", Args::text)?;
    let uuid = args.optional("uuid", Args::text)?;
    let select = match (name, uuid) {
        (Some(_), Some(_)) => return Err(args.reject("uuid", "name says which array already").into()),
        (Some(name), None) => Select::Name(name),
        (None, Some(uuid)) => {
            let uuid = uuid.parse().map_err(|wrong: String| args.reject("uuid", wrong))?;
            Select::Uuid(uuid)
        }
        (None, None) => Select::Any,
    };
    let members = args.devices();
    args.check_all_read()?;
    // That its members are members is what is wanted; everything else is checked before the first write.
    let opening =
        Opening { access: super::Access { force: true, ..opening.access }, world: opening.world.clone() };
    let members: Result<Vec<Device>, OpenError> =
        members.iter().map(|member| open_part(member, &opening)).collect();
    raid::assemble(&select, &members?, opening.access.write).map_err(|error| refused(args, error))
}

fn open_md(args: &mut Args<'_>, opening: &Opening) -> Result<Device, OpenError> {
    let members = args.devices();
    args.check_all_read()?;
    let members: Result<Vec<Device>, OpenError> =
        members.iter().map(|member| open_part(member, opening)).collect();
    raid::assemble_md(&members?).map_err(|error| refused(args, error))
}
