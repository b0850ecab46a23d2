//! Disks at servers: `nbd(nbd://host/export)`, and `served(SOCKET, NAME)` for a device of a running `platter serve`.

use super::row::{DeviceType, Shape};
use super::{OpenError, Opening, queue};
use crate::spec::{Args, Argument, ArgumentKind};
use platter_block::elevator::{Elevator, Noop};
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskBackend;
use platter_remote::control::{PlaceError, place};
use platter_remote::nbd::client::{NbdDisk, NbdOptions};
use platter_remote::nbd::uri::Uri;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);

/// The parameter that tells where a disk is.
const URI: &[Argument] = &[Argument {
    name: "uri",
    kind: ArgumentKind::Text,
    default: "",
    help: "nbd://HOST[:PORT]/EXPORT or nbd+unix:///EXPORT?socket=PATH; nbds and nbds+unix: encrypted",
}];

/// The parameters that tell which device of a running server it is.
const SERVED: &[Argument] = &[
    Argument {
        name: "control",
        kind: ArgumentKind::Text,
        default: "",
        help: "path of the control socket of a running `platter serve`",
    },
    Argument {
        name: "device",
        kind: ArgumentKind::Text,
        default: "",
        help: "the name of one of its devices; without it, the server's only one",
    },
];

/// The parameters of connections.
const CONNECTION: &[Argument] = &[
    Argument {
        name: "connections",
        kind: ArgumentKind::Int { min: 1, max: 64 },
        default: "1",
        help: "most connections at once; more than one needs a server whose flush covers all of them",
    },
    Argument {
        name: "connect_timeout",
        kind: ArgumentKind::Time { min: Duration::from_millis(1), max: Duration::from_secs(3600) },
        default: "10s",
        help: "time for connecting and negotiating",
    },
    Argument {
        name: "peer_timeout",
        kind: ArgumentKind::Time { min: Duration::from_secs(1), max: Duration::from_secs(3600) },
        default: "30s",
        help: "TCP: time after which a connection is broken whose peer does not acknowledge data",
    },
    Argument {
        name: "reconnect",
        kind: ArgumentKind::Time { min: Duration::ZERO, max: DAY },
        default: "60s",
        help: "how long I/O is held while there is no connection; 0: one attempt",
    },
    Argument {
        name: "replay",
        kind: ArgumentKind::Size { min: 0, max: 1 << 40 },
        default: "0",
        help: "memory for writes since the last flush, to repeat them after a lost connection; 0: the next flush fails",
    },
];

/// The rows of disks at servers.
pub(super) fn rows() -> [DeviceType; 2] {
    let nbd = DeviceType {
        name: "nbd",
        summary: "a disk at an NBD server; a URI alone is one too",
        shape: Shape::Disk,
        example: "nbd(nbd://server/disk, connections=4)".to_owned(),
        unnamed: &["uri"],
        tables: &[URI, CONNECTION, queue::PARAMS],
        devices: 0..=0,
        open: Box::new(open_nbd),
    };
    let served = DeviceType {
        name: "served",
        summary: "a device of a running `platter serve`, through its NBD export at a Unix socket",
        shape: Shape::Disk,
        example: "served(/run/platter/control.sock, db)".to_owned(),
        unnamed: &["control", "device"],
        tables: &[SERVED, CONNECTION, queue::PARAMS],
        devices: 0..=0,
        open: Box::new(open_served),
    };
    [nbd, served]
}

fn open_nbd(args: &mut Args<'_>, opening: &Opening) -> Result<Device, OpenError> {
    let uri = Uri::parse(&args.text("uri")?)
        .map_err(|why| args.reject("uri", format!("not a URI of NBD: {why}")))?;
    open(args, opening, "uri", uri)
}

fn open_served(args: &mut Args<'_>, opening: &Opening) -> Result<Device, OpenError> {
    let control = args.text("control")?;
    let device = args.optional("device", Args::text)?;
    let timeout = args.time("connect_timeout")?;
    let uri = place(Path::new(&control), device.as_deref(), timeout).map_err(|error| match error {
        PlaceError::Device(_) if device.is_some() => args.unfit("device", error.to_string()),
        _ => args.unfit("control", error.to_string()),
    })?;
    open(args, opening, "control", uri)
}

/// Connects to `uri`, which the parameter `from` has told.
fn open(args: &mut Args<'_>, opening: &Opening, from: &str, uri: Uri) -> Result<Device, OpenError> {
    let (mut settings, mut elevator) = queue::read(args)?;
    let options = NbdOptions::default()
        .with_write(opening.access.write)
        .with_depth(settings.queue.depth)
        .with_connections(queue::small(args.int("connections")?))
        .with_connect_timeout(span(args.time("connect_timeout")?))
        .with_peer_timeout(span(args.time("peer_timeout")?))
        .with_reconnect(span(args.time("reconnect")?))
        .with_replay(args.size("replay")?);
    if options.connections == 1 && elevator.is_none() {
        if args.is_given("elevator") {
            let why = "without an elevator each thread needs a connection; write connections=2 or more, or elevator=noop";
            return Err(args.reject("elevator", why).into());
        }
        // The queue that all threads share, in front of the only connection.
        let noop: Box<dyn Elevator> = Box::new(Noop::default());
        elevator = Some(noop);
        settings.elevator_from = Some("the single connection");
    }
    args.check_all_read()?;
    let shown = uri.to_string();
    let disk = NbdDisk::open(uri, options).map_err(|error| args.unfit(from, format!("{shown}: {error}")))?;
    Ok(Device::new(Arc::new(DiskBackend::over(Arc::new(disk), settings, elevator)?)))
}

fn span(time: Duration) -> Span {
    Span(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}
