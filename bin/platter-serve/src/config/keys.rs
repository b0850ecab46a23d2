//! The keys of the configuration file.

use super::kind::Kind;

/// A key of a table.
pub struct Key {
    /// Its name.
    pub name: &'static str,
    pub(super) kind: Kind,
    /// The value if the key is missing, as text; empty: none.
    pub default: &'static str,
    /// One line.
    pub help: &'static str,
}

impl Key {
    const fn new(name: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Key {
        Key { name, kind, default, help }
    }

    /// What its value looks like.
    pub fn values(&self) -> String {
        self.kind.to_string()
    }
}

const MOST_COUNT: i64 = 1_000_000_000;
const MOST_BYTES: u64 = 1 << 50;
const HOUR_S: u64 = 3600;
/// A request of the largest size that any export takes.
const LEAST_MEMORY: u64 = 32 << 20;

/// The tables at the top of the file.
pub const TOP: &[Key] = &[
    Key::new("server", Kind::Table, "", "the server as a whole"),
    Key::new("devices", Kind::Tables, "", "a table for each device, named by the key"),
    Key::new("exports", Kind::Tables, "", "a table for each export, named by the key"),
];

/// The table `server`.
pub const SERVER: &[Key] = &[
    Key::new("control", Kind::Text, "", "path of the control socket; none without it"),
    Key::new("metrics", Kind::Text, "", "address of the metrics, such as 127.0.0.1:9100; none without it"),
    Key::new(
        "state",
        Kind::Text,
        "",
        "path of the file that tells the next server if this one is killed; none without it",
    ),
    Key::new("insecure_plaintext", Kind::Switch, "false", "addresses other than loopback without TLS"),
    Key::new("clients_max", Kind::Count(1, 1_000_000), "1024", "most clients at a time"),
    Key::new(
        "memory_max",
        Kind::Size(LEAST_MEMORY, MOST_BYTES),
        "1G",
        "most memory for the data of all clients; beyond it each has one request at a time",
    ),
    Key::new("stop_timeout", Kind::Time(HOUR_S), "30s", "time that clients and flushes have at the end"),
    Key::new("stall_after", Kind::Time(HOUR_S), "30s", "age of an I/O at which the server counts as stalled"),
];

/// A table of `devices`.
pub const DEVICE: &[Key] = &[
    Key::new("spec", Kind::Text, "", "the device, in the language of specs"),
    Key::new("description", Kind::Text, "", "text in lists; by default the name of the device itself"),
    Key::new("read_only", Kind::Switch, "false", "clients may only read, and the device is opened so"),
    Key::new("force", Kind::Switch, "false", "serve a device that is part of an array, past the array"),
    Key::new("allow_in_use", Kind::Switch, "false", "open a device that is mounted or locked"),
    Key::new("limits", Kind::Table, "", "limits of all clients together"),
    Key::new("client_limits", Kind::Table, "", "limits of each client"),
];

/// The table `limits` of a device.
pub const LIMITS: &[Key] = &[
    Key::new("iops", Kind::Count(0, MOST_COUNT), "0", "requests started per second; 0: no limit"),
    Key::new("bandwidth", Kind::Size(0, MOST_BYTES), "0", "bytes per second; 0: no limit"),
    Key::new("burst", Kind::Time(HOUR_S), "10ms", "idle time that may be caught up on"),
    Key::new("depth", Kind::Count(0, 65_536), "0", "requests in the device at a time; 0: no limit"),
];

/// The table `client_limits` of a device.
pub const CLIENT_LIMITS: &[Key] = &[
    Key::new("iops", Kind::Count(0, MOST_COUNT), "0", "requests started per second; 0: no limit"),
    Key::new("bandwidth", Kind::Size(0, MOST_BYTES), "0", "bytes per second; 0: no limit"),
    Key::new("burst", Kind::Time(HOUR_S), "10ms", "idle time that may be caught up on"),
    Key::new("weight", Kind::Count(1, 1000), "1", "part of the device's limits, relative to other clients"),
];

/// A table of `exports`.
pub const EXPORT: &[Key] = &[
    Key::new("kind", Kind::Text, "", "the kind of export: nbd, fuse, ublk, vhost-user-blk or iscsi"),
    Key::new("address", Kind::Text, "", "where clients reach it, in the form of the kind"),
    Key::new("depth", Kind::Count(1, 4096), "128", "requests of one connection that are worked on at once"),
    Key::new(
        "client_memory",
        Kind::Size(32 << 20, 4 << 30),
        "64M",
        "memory for the data of one connection's requests",
    ),
    Key::new(
        "handshake_timeout",
        Kind::Time(86_400),
        "10s",
        "time in which a connection must choose a device",
    ),
    Key::new("allow_other", Kind::Switch, "false", "other users may use the files (fuse)"),
    Key::new("kernel_cache", Kind::Switch, "false", "the kernel caches what is read from the files (fuse)"),
    Key::new(
        "tls_certificate",
        Kind::Text,
        "",
        "path of the certificate, in PEM; without it nothing is encrypted",
    ),
    Key::new("tls_key", Kind::Text, "", "path of the private key of the certificate"),
    Key::new(
        "tls_client_authorities",
        Kind::Text,
        "",
        "path of authorities: clients need a certificate of one",
    ),
    Key::new("tls_optional", Kind::Switch, "false", "clients may also connect without encryption"),
    Key::new(
        "iscsi_prefix",
        Kind::Text,
        "iqn.2026-11.localhost.platter:",
        "what the names of targets begin with (iscsi)",
    ),
    Key::new("chap_user", Kind::Text, "", "name by which initiators authenticate themselves (iscsi)"),
    Key::new("chap_secret", Kind::Text, "", "path of the file with their secret (iscsi)"),
    Key::new("sparse_reads", Kind::Switch, "false", "large reads of holes are answered without reading them"),
];
