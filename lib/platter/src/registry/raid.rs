//! Arrays by the records of their members: `raid(name=data, …)` and Linux' own, `md(…)`.

use super::row::{DeviceType, Shape};
use super::{OpenError, Opening, open_part};
use crate::raid::{self, MdOptions, RaidError};
use crate::spec::{Args, Argument, ArgumentKind, Spec, quote_path};
use platter_disk::device::Device;
use platter_stack::array_metadata::Select;
use std::borrow::Cow;
use std::path::Path;

/// Most members of an array.
const MAX_MEMBERS: usize = 4096;

const PARAMS: &[Argument] = &[
    Argument { name: "name", kind: ArgumentKind::Text, default: "", help: "open the array with this name" },
    Argument { name: "uuid", kind: ArgumentKind::Text, default: "", help: "open the array with this number" },
    Argument {
        name: "search",
        kind: ArgumentKind::Path,
        default: "",
        help: "without members: the directory whose devices and files to look at, instead of all block devices",
    },
];

const MD_PARAMS: &[Argument] = &[
    Argument {
        name: "force",
        kind: ArgumentKind::Bool,
        default: "off",
        help: "use stale members where others are missing, and read what may be wrong after writes that were interrupted",
    },
    Argument {
        name: "layout",
        kind: ArgumentKind::Choice(&["recorded", "original", "alternate"]),
        default: "recorded",
        help: "how unequal members of a raid0 are striped, if its superblocks do not record it",
    },
];

/// The rows of arrays whose members describe them.
pub(super) fn rows() -> [DeviceType; 2] {
    [
        DeviceType {
            name: "raid",
            summary: "an array that was made with `platter raid create`, from its members in any order or, \
                      without members, from those that a search finds",
            shape: Shape::Layer,
            example: "raid(name=data, a.img, b.img)".to_owned(),
            unnamed: &[],
            tables: &[PARAMS],
            devices: 0..=MAX_MEMBERS,
            open: Box::new(open),
        },
        DeviceType {
            name: "md",
            summary: "an array of Linux' md of any level, complete or degraded, to read only, without the kernel's driver",
            shape: Shape::Layer,
            example: "md(/dev/sdb, /dev/sdc)".to_owned(),
            unnamed: &[],
            tables: &[MD_PARAMS],
            devices: 1..=MAX_MEMBERS,
            open: Box::new(open_md),
        },
    ]
}

fn refused(args: &Args<'_>, error: RaidError) -> OpenError {
    match error {
        RaidError::Device(error) => OpenError::Device(error),
        wrong => OpenError::Spec(args.spec().unfit(wrong.to_string())),
    }
}

fn open(args: &mut Args<'_>, opening: &Opening) -> Result<Device, OpenError> {
    let name = args.optional("name", Args::text)?;
    let uuid = args.optional("uuid", Args::text)?;
    let select = match (name, uuid) {
        (Some(_), Some(_)) => {
            return Err(args.reject("uuid", "the array is already selected by name").into());
        }
        (Some(name), None) => Select::Name(name),
        (None, Some(uuid)) => {
            let uuid = uuid.parse().map_err(|wrong: String| args.reject("uuid", wrong))?;
            Select::Uuid(uuid)
        }
        (None, None) => Select::Any,
    };
    let mut members = args.devices();
    let mut told = None;
    if members.is_empty() {
        let directory = args.optional("search", Args::path)?;
        args.check_all_read()?;
        let (found, how) = find(args, &select, directory.as_deref())?;
        members = found.into_iter().map(Cow::Owned).collect();
        told = Some(how);
    }
    args.check_all_read()?;
    // A signature as a member is expected; everything else is checked before the first write.
    let opening = opening.with(super::Access { force: true, ..opening.access });
    let members: Result<Vec<Device>, OpenError> =
        members.iter().map(|member| open_part(member, &opening)).collect();
    let device = raid::assemble(&select, &members?, opening.access.write);
    device.map_err(|error| match (refused(args, error), told) {
        (OpenError::Spec(error), Some(told)) => OpenError::Spec(error.with_help(told)),
        (error, _) => error,
    })
}

/// The members of the selected array, as specs, from a search, and a description of what was searched.
fn find(
    args: &Args<'_>,
    select: &Select,
    directory: Option<&Path>,
) -> Result<(Vec<Spec>, String), OpenError> {
    let which = match select {
        Select::Any => {
            let help = "write raid(name=NAME) or raid(uuid=UUID) to have its members searched for, or \
                        raid(DEVICE, …); `platter raid examine` shows which arrays there are";
            let error = args.spec().reject("raid() does not say which array is meant");
            return Err(error.with_help(help).into());
        }
        Select::Name(name) => format!("called \"{name}\""),
        Select::Uuid(uuid) => format!("with the number {uuid}"),
    };
    let (paths, told) = raid::members(select, directory)?;
    if paths.is_empty() {
        let error = args.spec().unfit(format!("no member of an array {which} was found"));
        let help = "name the members if they are files elsewhere, or give search=DIRECTORY";
        return Err(error.with_help(told).with_help(help).into());
    }
    let specs: Result<Vec<Spec>, _> =
        paths.iter().map(|path| super::parse(&format!("file({})", quote_path(path)))).collect();
    Ok((specs?, told))
}

fn open_md(args: &mut Args<'_>, opening: &Opening) -> Result<Device, OpenError> {
    let members = args.devices();
    let raid0_layout = match args.one_of("layout")? {
        "original" => Some(1),
        "alternate" => Some(2),
        _ => None,
    };
    let options = MdOptions { force: args.flag("force")?, raid0_layout };
    args.check_all_read()?;
    if opening.access.write {
        let error = args.spec().reject("md(…) cannot be written to: arrays of Linux' md are read only here");
        let help = "to write, have the kernel assemble it (mdadm --assemble) and use its /dev/md device";
        return Err(error.with_help(help).into());
    }
    let members: Result<Vec<Device>, OpenError> =
        members.iter().map(|member| open_part(member, opening)).collect();
    raid::assemble_md(&members?, &options).map_err(|error| refused(args, error))
}
