//! The arguments of `platter serve`.

use crate::cli::{Size, Time, spec_arg};
use clap::{Args, ValueEnum};
use platter_serve::export::IscsiOptions;
use std::path::PathBuf;

/// The format of the log.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Lines of text
    Text,
    /// JSON objects, one a line
    Json,
}

/// Arguments of `platter serve`.
#[derive(Args, Debug)]
#[command(after_help = "\
Serves devices until SIGINT, SIGTERM or `platter ctl SOCKET server.drain`. Then it accepts no more connections, answers the requests that clients have \
sent, flushes the devices and exits with status 0; if that takes longer than --stop-timeout, it says what is stuck \
and exits with status 1. A second signal ends it at once.

One line on stdout for each export says where it is, once connections are accepted. Connections and errors are \
reported on stderr. docs/serve.md describes what is promised to clients.

Examples:
  platter serve disk.img --nbd unix:/run/disk.sock
  platter serve 'cache(size=1G, raid0(a.img, b.img))' --nbd 127.0.0.1:10809 --nbd '[::1]:10809'
  platter serve 'raid0(a.img, b.img)' --name array --fuse /mnt/disks
  platter serve 'cache(size=1G, a.img)' --ublk 0
  platter serve disk.img --vhost-user-blk /run/vm1.sock
  platter serve disk.img --name disk --iscsi 127.0.0.1:3260
  platter serve --read-only /dev/sdb --nbd unix:/run/sdb.sock
  platter serve a.img b.img --name a --name b --nbd 127.0.0.1:0 --json
  platter serve --config /etc/platter.toml --pidfile /run/platter.pid --log json

With --config the devices, exports and limits come from a file (docs/configuration.md), which SIGHUP reads again. \
--control opens a socket for `platter ctl`, `platter status` and `platter top`.

JSON: one object on one line for each event: event (serving, connected, disconnected, refused, failed, impaired, \
owed, flush-failed, left-out, control, lost, stopping, stopped, reloaded), export, address, device, client, peer, why, problems, changed, refused.")]
pub(crate) struct Serve {
    /// The devices to serve
    #[arg(required_unless_present = "config", value_name = "SPEC", value_parser = spec_arg())]
    pub(super) specs: Vec<String>,
    /// Read devices, exports and limits from a file
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["specs", "names", "nbd", "fuse", "fuse_cache", "fuse_allow_other", "ublk", "vhost_user_blk", "iscsi", "iscsi_prefix", "chap_user", "chap_secret", "read_only", "force", "allow_in_use", "max_clients", "max_memory", "depth",
            "client_memory", "handshake_timeout", "stop_timeout", "insecure_plaintext", "sparse_reads",
            "tls_cert", "tls_key", "tls_client_ca", "tls"]
    )]
    pub(super) config: Option<PathBuf>,
    /// Open a control socket, for the server's user and root only
    #[arg(long, value_name = "PATH")]
    pub(super) control: Option<PathBuf>,
    /// Serve metrics for Prometheus over HTTP
    #[arg(long, value_name = "IP:PORT")]
    pub(super) metrics: Option<String>,
    /// Write the process number to a file, which is locked while the server runs
    #[arg(long, value_name = "PATH")]
    pub(super) pidfile: Option<PathBuf>,
    /// Tell the next server by this file if this one is killed: then the first flush of each client fails, if answered
    /// writes may be lost with it
    #[arg(long, value_name = "FILE")]
    pub(super) state: Option<PathBuf>,
    /// Log to stderr with time and level, as lines of text or JSON objects
    #[arg(long, value_name = "FORMAT")]
    pub(super) log: Option<Format>,
    /// The name by which clients ask for a device, one for each SPEC; a single device needs none. Clients that give
    /// no name get the first device
    #[arg(long = "name", value_name = "NAME")]
    pub(super) names: Vec<String>,
    /// Serve the Network Block Device protocol at HOST:PORT (port 0: any), unix:PATH, or systemd:NAME, a socket
    /// inherited from a service manager (systemd alone: the only one)
    #[arg(long, value_name = "ADDR")]
    pub(super) nbd: Vec<String>,
    /// Serve each device as a file in DIR, an empty directory
    #[arg(long, value_name = "DIR")]
    pub(super) fuse: Vec<String>,
    /// Have the kernel cache what is read from those files
    #[arg(long, requires = "fuse")]
    pub(super) fuse_cache: bool,
    /// Let other users use those files
    #[arg(long, requires = "fuse")]
    pub(super) fuse_allow_other: bool,
    /// Make a device the block device /dev/ublkbID of this kernel, or any free one (auto). After the number: device=NAME
    /// if there are several, queues=N, keep (leave it to the next server at the end), recover (take it over from another
    /// spec), buffers (no user copy)
    #[arg(long, value_name = "ID|auto[,...]")]
    pub(super) ublk: Vec<String>,
    /// Serve a disk to a virtual machine by vhost-user-blk at a Unix socket: the first device, or the one of the name in
    /// NAME=PATH
    #[arg(long, value_name = "PATH")]
    pub(super) vhost_user_blk: Vec<String>,
    /// Serve each device as an iSCSI target at HOST:PORT (usually port 3260), or systemd:NAME, an inherited socket
    #[arg(long, value_name = "ADDR")]
    pub(super) iscsi: Vec<String>,
    /// What the names of iSCSI targets begin with; the name of the device follows
    #[arg(long, value_name = "PREFIX", default_value_t = IscsiOptions::default().prefix)]
    pub(super) iscsi_prefix: String,
    /// Accept only iSCSI initiators that authenticate themselves by CHAP with this name
    #[arg(long, value_name = "NAME", requires = "chap_secret")]
    pub(super) chap_user: Option<String>,
    /// The file with their secret, of 12 bytes or more
    #[arg(long, value_name = "FILE", requires = "chap_user")]
    pub(super) chap_secret: Option<PathBuf>,
    /// Open the devices read-only, so clients can only read
    #[arg(long)]
    pub(super) read_only: bool,
    /// Serve devices that are part of an array, past the array
    #[arg(long)]
    pub(super) force: bool,
    /// Open devices that are mounted, or locked by other programs
    #[arg(long)]
    pub(super) allow_in_use: bool,
    /// Most clients at once
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(super) max_clients: u32,
    /// Most memory for the data of all clients, 32M and more; beyond it each client has one request at a time
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = all_memory)]
    pub(super) max_memory: Size,
    /// Most requests of one connection that are worked on at once
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(super) depth: u32,
    /// Most memory for the data of one connection's requests, 32M to 4G
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = client_memory)]
    pub(super) client_memory: Size,
    /// How long a connection may take to choose a device
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = seconds)]
    pub(super) handshake_timeout: Time,
    /// How long to wait for clients and devices when stopping
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = seconds)]
    pub(super) stop_timeout: Time,
    /// Encrypt connections with this certificate, followed by those that lead to its authority, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(super) tls_cert: Option<PathBuf>,
    /// The private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(super) tls_key: Option<PathBuf>,
    /// Accept only clients with a certificate of one of the authorities in this file, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(super) tls_client_ca: Option<PathBuf>,
    /// Whether clients must encrypt
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Encrypt::Require, requires = "tls_cert")]
    pub(super) tls: Encrypt,
    /// Accept connections without encryption from other hosts: anyone who can reach the port can read and write
    #[arg(long)]
    pub(super) insecure_plaintext: bool,
    /// Answer large reads of holes without reading them, if the client understands it
    #[arg(long)]
    pub(super) sparse_reads: bool,
}

/// Whether clients must encrypt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Encrypt {
    /// Clients must encrypt
    Require,
    /// Clients may encrypt
    Allow,
}

fn all_memory(text: &str) -> Result<Size, String> {
    let size: Size = text.parse()?;
    match size.bytes {
        bytes if (32 << 20..=1 << 50).contains(&bytes) => Ok(size),
        _ => Err("it must be 32M, the longest request, to 1P".to_owned()),
    }
}

fn client_memory(text: &str) -> Result<Size, String> {
    let size: Size = text.parse()?;
    match size.bytes {
        bytes if (32 << 20..=4 << 30).contains(&bytes) => Ok(size),
        _ => Err("it must be 32M, the longest request, to 4G".to_owned()),
    }
}

fn seconds(text: &str) -> Result<Time, String> {
    let time = Time::parse(text, "s")?;
    match time.value.as_millis() {
        1..=86_400_000 => Ok(time),
        _ => Err("it must be 1ms to 86400s".to_owned()),
    }
}
