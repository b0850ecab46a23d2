//! Devices made of extents: `extents(table="START LENGTH DEVICE OFFSET; …", …)`, and files read from their disk.

use super::row::{DeviceType, Shape};
use super::{OpenError, Opening, open_part};
use crate::spec::{Args, Argument, ArgumentKind};
use platter_block::backend::Identity;
use platter_disk::device::Device;
use platter_disk::fiemap::{FileMap, map_file};
use platter_disk::sys::SysError;
use platter_stack::extents::{self, Mapping};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// Most devices below.
const MAX_MEMBERS: usize = 4096;

/// Most bytes of a table.
const MAX_TABLE: u64 = 64 << 20;

/// Extents of which the first block is compared with the file.
const COMPARED: usize = 16;

const PARAMS: &[Argument] = &[
    Argument {
        name: "table",
        kind: ArgumentKind::Text,
        default: "",
        help: "rows START LENGTH DEVICE OFFSET, separated by `;`: bytes, or with K, M, G, T, or s for sectors",
    },
    Argument {
        name: "from",
        kind: ArgumentKind::Path,
        default: "",
        help: "a file with such a table, one row a line",
    },
    Argument {
        name: "file",
        kind: ArgumentKind::Path,
        default: "",
        help: "a file on the device's file system, to be read straight from the device, to read only",
    },
];

pub(super) fn row() -> DeviceType {
    DeviceType {
        name: "extents",
        summary: "a device made of extents of others, by a table, or a file read straight from its disk",
        shape: Shape::Layer,
        example: "extents(table=\"0 1M 0 0; 1M 512K 1 64K\", a.img, b.img)".to_owned(),
        unnamed: &[],
        tables: &[PARAMS],
        devices: 1..=MAX_MEMBERS,
        open: Box::new(open),
    }
}

fn open(args: &mut Args<'_>, opening: &Opening) -> Result<Device, OpenError> {
    let table = args.optional("table", Args::text)?;
    let from = args.optional("from", Args::path)?;
    let file = args.optional("file", Args::path)?;
    let members = args.devices();
    args.check_all_read()?;
    let rows = match (table, from, &file) {
        (Some(text), None, None) => extents::parse(&text).map_err(|wrong| args.reject("table", wrong))?,
        (None, Some(path), None) => {
            extents::parse(&read_table(&path)?).map_err(|wrong| args.unfit("from", wrong))?
        }
        (None, None, Some(path)) => {
            if opening.access.write {
                let error =
                    args.reject("file", "a file is read from its disk to read only, beside its file system");
                return Err(error.with_help("open it to read, or write to the file itself").into());
            }
            return open_file(path, &members, args, opening);
        }
        _ => {
            let error = args.spec().reject("extents() takes one of table=, from= and file=");
            return Err(error.with_help("such as extents(table=\"0 1M 0 0\", a.img)").into());
        }
    };
    let members: Result<Vec<Device>, OpenError> =
        members.iter().map(|member| open_part(member, opening)).collect();
    build(rows, &members?, args)
}

fn build(rows: Vec<Mapping>, members: &[Device], args: &Args<'_>) -> Result<Device, OpenError> {
    let backends = members.iter().map(|member| Arc::clone(member.backend())).collect();
    let device = extents::new(rows, backends).map_err(|error| args.spec().unfit(error.to_string()))?;
    Ok(Device::new(device))
}

fn read_table(path: &Path) -> Result<String, OpenError> {
    let fail = |error: &std::io::Error| OpenError::Sys(SysError::from_io("read the table in", path, error));
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| fail(&error))?;
    file.take(MAX_TABLE).read_to_string(&mut text).map_err(|error| fail(&error))?;
    Ok(text)
}

/// A file as a table of its extents on the only device.
fn open_file(
    path: &Path,
    members: &[std::borrow::Cow<'_, crate::spec::Spec>],
    args: &Args<'_>,
    opening: &Opening,
) -> Result<Device, OpenError> {
    let [member] = members else {
        let why = format!("file= takes one device, that of the file system, not {}", members.len());
        return Err(args.reject("file", why).into());
    };
    let map = map_file(path).map_err(OpenError::Sys)?;
    let below = open_part(member, opening)?;
    check_device(&map, &below).map_err(|wrong| args.unfit("file", wrong))?;
    let block = u64::from(below.geometry().limits.logical_block);
    // The file's last block is on the device as a whole.
    let end = map.size.next_multiple_of(block);
    let rows: Vec<Mapping> = map
        .extents
        .iter()
        .filter(|extent| extent.logical < end)
        .map(|extent| Mapping {
            start: extent.logical,
            len: extent.len.min(end - extent.logical),
            device: 0,
            offset: extent.physical,
        })
        .collect();
    let device = build(rows, std::slice::from_ref(&below), args)?;
    compare(path, &map, &device).map_err(|wrong| args.unfit("file", wrong))?;
    match map_file(path).map_err(OpenError::Sys)? {
        again if again == map => Ok(device),
        _ => Err(args.unfit("file", "the file changed while it was opened; its extents must stay").into()),
    }
}

/// The file must be on the file system of this device.
fn check_device(map: &FileMap, below: &Device) -> Result<(), String> {
    match &below.backend().disk_ranges()[..] {
        [range] => match range.disk {
            Identity::Node(number) if number != map.device => {
                Err(format!("the file is on device {}, and {} is device {number}", map.device, below.name()))
            }
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

/// The beginning of some extents must be the same in the file and on the device.
fn compare(path: &Path, map: &FileMap, device: &Device) -> Result<(), String> {
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    for extent in map.extents.iter().filter(|extent| extent.logical < map.size).take(COMPARED) {
        let len = extent.len.min(map.size - extent.logical).min(4096) as usize;
        let (mut one, mut other) = (vec![0; len], vec![0; len]);
        file.read_exact_at(&mut one, extent.logical).map_err(|error| error.to_string())?;
        device.read_at(&mut other, extent.logical).map_err(|error| error.to_string())?;
        if one != other {
            let at = extent.logical;
            return Err(format!(
                "the device does not hold the file: it differs at byte {at}; give the device under its \
                                file system"
            ));
        }
    }
    Ok(())
}
