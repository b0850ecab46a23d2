//! Leaves: devices with request queues of their own.

use super::row::{DeviceType, Shape};
use super::{Access, OpenError, Opening, queue};
use crate::spec::{Args, Argument, ArgumentKind, SpecError, quote, quote_path};
use platter_disk::device::Device;
use platter_disk::drivers::{Choice, FileOptions};
use platter_disk::open::DiskOptions;
use platter_disk::sys::{Direct, OpenOptions, Sharing, SignaturePolicy, SysError, errno};
use std::io;
use std::path::Path;

/// Every offset and size is a multiple of it.
const SECTOR: u64 = 512;

/// Largest device: offsets are signed in system calls, and sums of two of them fit.
const MAX_SIZE: u64 = 1 << 62;

/// The parameter of disks that are made when they are opened.
pub(super) const SIZE: &[Argument] = &[Argument {
    name: "size",
    kind: ArgumentKind::Size { min: SECTOR, max: MAX_SIZE },
    default: "",
    help: "its size, a multiple of 512",
}];

/// The parameters of files and block devices.
const FILE: &[Argument] = &[
    Argument {
        name: "path",
        kind: ArgumentKind::Path,
        default: "",
        help: "path of the file or block device",
    },
    Argument {
        name: "driver",
        kind: ArgumentKind::Choice(&["auto", "uring", "aio", "threads"]),
        default: "auto",
        help: "which interface of the system to use; auto takes the first that works",
    },
    Argument {
        name: "direct",
        kind: ArgumentKind::Choice(&["off", "prefer", "require"]),
        default: "prefer",
        help: "go around the page cache: not, where that works, or else fail",
    },
    Argument {
        name: "sqpoll",
        kind: ArgumentKind::Bool,
        default: "off",
        help: "uring: a kernel thread submits",
    },
    Argument {
        name: "iopoll",
        kind: ArgumentKind::Bool,
        default: "off",
        help: "uring: poll the device for completions, which it must be set up for",
    },
    Argument {
        name: "threads",
        kind: ArgumentKind::Int { min: 1, max: 1024 },
        default: "16",
        help: "threads: most threads of the disk",
    },
    Argument {
        name: "create",
        kind: ArgumentKind::Size { min: SECTOR, max: MAX_SIZE },
        default: "",
        help: "for writers: create the file with this size if it is missing or empty",
    },
    Argument {
        name: "share",
        kind: ArgumentKind::Choice(&["auto", "on", "off"]),
        default: "auto",
        help: "which other programs may open it: auto (readers share, a writer is alone), on (any), off (none)",
    },
    Argument {
        name: "force",
        kind: ArgumentKind::Bool,
        default: "off",
        help: "write to it even if it holds a file system, a partition table or a part of an array",
    },
    Argument {
        name: "allow_in_use",
        kind: ArgumentKind::Bool,
        default: "off",
        help: "open it even if it is mounted, claimed or locked by another program",
    },
];

/// Every disk.
pub(super) fn rows() -> [DeviceType; 3] {
    [
        DeviceType {
            name: "file",
            summary: "a regular file or a block device",
            shape: Shape::Disk,
            example: "file(/dev/sdb, elevator=deadline, depth=64)".to_owned(),
            unnamed: &["path"],
            tables: &[FILE, queue::PARAMS],
            devices: 0..=0,
            open: Box::new(file),
        },
        DeviceType {
            name: "ram",
            summary: "a disk in memory, filled with zeroes, freed when it is closed",
            shape: Shape::Disk,
            example: "ram(2G)".to_owned(),
            unnamed: &["size"],
            tables: &[SIZE, queue::PARAMS],
            devices: 0..=0,
            open: Box::new(ram),
        },
        DeviceType {
            name: "null",
            summary: "a disk that does nothing: reads leave memory as it was, writes are forgotten",
            shape: Shape::Disk,
            example: "null(1T, elevator=deadline)".to_owned(),
            unnamed: &["size"],
            tables: &[SIZE, queue::PARAMS],
            devices: 0..=0,
            open: Box::new(null),
        },
    ]
}

/// Opens `null(size)`.
fn null(args: &mut Args<'_>, _opening: &Opening) -> Result<Device, OpenError> {
    let size = size(args)?;
    let (settings, elevator) = queue::read(args)?;
    Ok(Device::null_with(size, settings, elevator)?)
}

/// Opens `ram(size)`.
fn ram(args: &mut Args<'_>, _opening: &Opening) -> Result<Device, OpenError> {
    let size = size(args)?;
    let (settings, elevator) = queue::read(args)?;
    Ok(Device::ram_with(size, settings, elevator)?)
}

pub(super) fn size(args: &mut Args<'_>) -> Result<u64, SpecError> {
    let size = args.size("size")?;
    if !size.is_multiple_of(SECTOR) {
        let typed = args.typed("size").map_or_else(|| size.to_string(), str::to_owned);
        return Err(args.reject("size", format!("the size {typed} is not a multiple of {SECTOR} bytes")));
    }
    Ok(size)
}

/// Opens `file(path)`.
fn file(args: &mut Args<'_>, opening: &Opening) -> Result<Device, OpenError> {
    let path = args.path("path")?;
    let (settings, elevator) = queue::read(args)?;
    let file = driver(args)?;
    let open = how(args, opening.access)?;
    // An argument without effect is an error before anything is opened or created.
    args.check_all_read()?;
    let options = DiskOptions::default()
        .with_open(open)
        .with_file(file)
        .with_settings(settings)
        .with_elevator(elevator);
    let create = args.is_given("create");
    Device::open(&path, options).map_err(|error| suggest(&path, error, opening, create).into())
}

fn driver(args: &mut Args<'_>) -> Result<FileOptions, SpecError> {
    let name = args.one_of("driver")?;
    let choice: Choice = name.parse().map_err(|error: String| args.reject("driver", error))?;
    let may_be = |driver: &str| name == "auto" || name == driver;
    let mut options = FileOptions::default().with_driver(choice);
    if may_be("uring") {
        options.sqpoll = args.flag("sqpoll")?;
        options.iopoll = args.flag("iopoll")?;
    }
    if may_be("threads") {
        options.threads = queue::small(args.int("threads")?);
    }
    Ok(options)
}

fn how(args: &mut Args<'_>, access: Access) -> Result<OpenOptions, SpecError> {
    let said = args.is_given("direct");
    let direct = match (args.one_of("direct")?, access.direct) {
        (_, Some(direct)) if !said => direct,
        ("off", _) => Direct::Off,
        ("require", _) => Direct::Require,
        _ => Direct::Prefer,
    };
    let sharing = match args.one_of("share")? {
        "on" => Sharing::Shared,
        "off" => Sharing::Exclusive,
        _ => Sharing::ByAccess,
    };
    // A spec is the same for readers and writers: arguments for writers have no effect for a reader.
    let create = args.optional("create", Args::size)?.or(access.create);
    let force = args.flag("force")? || access.force;
    Ok(OpenOptions::default()
        .with_write(access.write)
        .with_direct(direct)
        .with_sharing(sharing)
        .with_allow_in_use(args.flag("allow_in_use")? || access.allow_in_use)
        .with_signatures(SignaturePolicy { block_devices: true, files: true, of_users: access.served, force })
        .with_create(create.filter(|_| access.write)))
}

/// Why a file that has a size to be created with was not created.
const READ_ONLY: &str =
    "create= has an effect only where the file is opened for writing, and here it is only read";

/// Adds a suggestion for a path that does not exist. `create`: a size is given for it.
fn suggest(path: &Path, error: SysError, opening: &Opening, create: bool) -> SysError {
    let kind = error.errno.map(|errno| io::Error::from_raw_os_error(errno).kind());
    if kind != Some(io::ErrorKind::NotFound) {
        return error;
    }
    let name = path.to_str().filter(|name| !name.contains('/'));
    if let Some(help) = name.and_then(|name| near(name, opening)) {
        return error.with_help(help);
    }
    // Advice that is not that of every missing file says more.
    if error.errno.and_then(errno::info).is_none_or(|row| error.help != row.advice) {
        return error;
    }
    if path.starts_with("/dev") {
        return error.with_help("check the path".to_owned());
    }
    let spec = format!("file({}, create=64M)", quote_path(path));
    let how = match (create, opening.access.write) {
        (true, true) => return error,
        (true, false) => READ_ONLY.to_owned(),
        (false, true) => format!("to create the file, write {spec}"),
        (false, false) => format!("a command that writes creates the file with {spec}"),
    };
    error.with_help(format!("check the path; {how}"))
}

/// A suggestion for a name that is no file here.
fn near(name: &str, opening: &Opening) -> Option<String> {
    let device = Path::new("/dev").join(name);
    if device.exists() {
        return Some(format!("did you mean {}?", quote(&device.to_string_lossy())));
    }
    let DeviceType { name, example, .. } = opening.closest(name)?;
    Some(format!("did you mean the device `{name}`, as in {example}?"))
}
