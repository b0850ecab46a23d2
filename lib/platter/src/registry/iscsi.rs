//! Disks at iSCSI targets: `iscsi(iscsi://host/target/0)`.

use super::row::{DeviceType, Shape};
use super::{OpenError, Opening, queue};
use crate::spec::{Args, Argument, ArgumentKind};
use platter_block::elevator::{Elevator, Noop};
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskBackend;
use platter_remote::iscsi::client::{Account, IscsiDisk, IscsiError, IscsiOptions, Url};
use std::sync::Arc;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);

/// Most bytes of a file with a secret.
const MAX_SECRET: usize = 255;

/// Where a disk is, and how to log in.
const PLACE: &[Argument] = &[
    Argument {
        name: "url",
        kind: ArgumentKind::Text,
        default: "",
        help: "iscsi://[USER[%SECRET]@]HOST[:PORT]/TARGET/LUN",
    },
    Argument {
        name: "secret",
        kind: ArgumentKind::Text,
        default: "",
        help: "a file whose first line is the secret of the user; LIBISCSI_CHAP_PASSWORD also has it",
    },
    Argument {
        name: "target_secret",
        kind: ArgumentKind::Text,
        default: "",
        help: "a file whose first line is the secret by which the target shows who it is (?target_user=NAME in the URL)",
    },
    Argument {
        name: "initiator",
        kind: ArgumentKind::Text,
        default: "iqn.2026-11.localhost.platter:initiator",
        help: "the name by which to log in",
    },
];

/// The parameters of connections.
const CONNECTION: &[Argument] = &[
    Argument {
        name: "connections",
        kind: ArgumentKind::Int { min: 1, max: 64 },
        default: "1",
        help: "most connections at once, each a session of its own",
    },
    Argument {
        name: "connect_timeout",
        kind: ArgumentKind::Time { min: Duration::from_millis(1), max: Duration::from_secs(3600) },
        default: "10s",
        help: "time for connecting and logging in",
    },
    Argument {
        name: "peer_timeout",
        kind: ArgumentKind::Time { min: Duration::from_secs(1), max: Duration::from_secs(3600) },
        default: "30s",
        help: "time after which a connection is broken whose target does not acknowledge data or answer an abort",
    },
    Argument {
        name: "reconnect",
        kind: ArgumentKind::Time { min: Duration::ZERO, max: DAY },
        default: "60s",
        help: "how long I/O is held while there is no connection; 0: one attempt",
    },
];

/// The row of disks at iSCSI targets.
pub(super) fn row() -> DeviceType {
    DeviceType {
        name: "iscsi",
        summary: "a disk at an iSCSI target, by the library libiscsi; a URL alone is one too",
        shape: Shape::Disk,
        example: "iscsi(iscsi://server/iqn.2026-11.example:disk/0)".to_owned(),
        unnamed: &["url"],
        tables: &[PLACE, CONNECTION, queue::PARAMS],
        devices: 0..=0,
        open: Box::new(open),
    }
}

/// The first line of a file.
fn secret(args: &mut Args<'_>, name: &str) -> Result<Option<String>, OpenError> {
    let Some(path) = args.optional(name, Args::text)? else { return Ok(None) };
    let text = std::fs::read_to_string(&path)
        .map_err(|error| args.unfit(name, format!("the secret cannot be read: {error}")))?;
    let line = text.lines().next().unwrap_or_default();
    if line.is_empty() || line.len() > MAX_SECRET {
        let why = format!("the first line of {path} has 1 to {MAX_SECRET} bytes, not {}", line.len());
        return Err(args.unfit(name, why).into());
    }
    Ok(Some(line.to_owned()))
}

fn open(args: &mut Args<'_>, opening: &Opening) -> Result<Device, OpenError> {
    let text = args.text("url")?;
    let variable = |name: &str| std::env::var(name).ok();
    let mut url = Url::parse(&text, variable)
        .map_err(|why| args.reject("url", format!("not a URL of iSCSI: {why}")))?;
    add_secret(args, "secret", &mut url.user, "USER@ in the URL")?;
    add_secret(args, "target_secret", &mut url.target_user, "?target_user=NAME in the URL")?;
    let (mut settings, mut elevator) = queue::read(args)?;
    let span = |time: Duration| Span(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    let mut options = IscsiOptions::default()
        .with_write(opening.access.write)
        .with_depth(settings.queue.depth)
        .with_connections(queue::small(args.int("connections")?))
        .with_connect_timeout(span(args.time("connect_timeout")?))
        .with_peer_timeout(span(args.time("peer_timeout")?))
        .with_reconnect(span(args.time("reconnect")?));
    if let Some(name) = args.optional("initiator", Args::text)? {
        options = options.with_initiator(name);
    }
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
    let shown = url.to_string();
    let opened = IscsiDisk::open(url, options);
    let disk = opened.map_err(|error: IscsiError| args.unfit("url", format!("{shown}: {error}")))?;
    Ok(Device::new(Arc::new(DiskBackend::over(Arc::new(disk), settings, elevator)?)))
}

/// Gives the user of the URL the secret of a file.
fn add_secret(
    args: &mut Args<'_>,
    name: &str,
    account: &mut Option<Account>,
    how: &str,
) -> Result<(), OpenError> {
    let Some(secret) = secret(args, name)? else { return Ok(()) };
    match account {
        Some(account) => account.secret = secret,
        None => return Err(args.reject(name, format!("a secret without a user; name it as {how}")).into()),
    }
    Ok(())
}
