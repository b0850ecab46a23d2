//! What an export is.

use crate::clients::Clients;
use crate::error::ServeError;
use crate::events::Log;
use crate::served::Devices;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A running export.
pub trait Export: Send {
    /// Where clients reach it, such as `127.0.0.1:10809`. A port that the system chose is filled in.
    fn address(&self) -> String;

    /// Takes no more clients, and disconnects those that there are as soon as what they have sent is answered. Returns
    /// at once.
    fn begin_stop(&mut self);

    /// Waits until all clients are gone, after [`begin_stop`](Export::begin_stop).
    ///
    /// # Errors
    /// Some are still there at `until`: a sentence that says which, and what they wait for.
    fn finish_stop(&mut self, until: Instant) -> Result<(), String>;
}

/// What an export is started with.
pub struct Start<'a> {
    /// The address, in the form that the export's [`ExportType`] describes.
    pub address: &'a str,
    /// The devices to serve.
    pub devices: Arc<Devices>,
    /// Where clients are entered.
    pub clients: Arc<Clients>,
    /// What hears of events.
    pub log: Log,
    /// How to serve.
    pub options: &'a Options,
}

/// How an export serves its clients.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Most requests of one connection that are worked on at once.
    pub depth: usize,
    /// Most bytes of data that the requests of one connection hold in memory.
    pub client_memory_bytes: usize,
    /// How long a peer may take until it has chosen a device.
    pub handshake_timeout: Duration,
    /// Whether connections without encryption are accepted from other hosts.
    pub insecure_plaintext: bool,
    /// Whether users other than the server's may use files (FUSE).
    pub allow_other: bool,
    /// Whether the kernel caches what is read from files (FUSE).
    pub kernel_cache: bool,
    /// How connections are encrypted; `None`: they are not.
    #[cfg(feature = "tls")]
    pub tls: Option<crate::tls::Tls>,
    /// Names and authentication of iSCSI targets.
    #[cfg(feature = "iscsi")]
    pub iscsi: IscsiOptions,
    /// Whether a large read of a hole is answered without reading it, if the client understands it.
    pub sparse_reads: bool,
    /// Whether data passes through two more buffers of the server (NBD), as in a server that copies: to measure what
    /// that costs.
    pub staged: bool,
}

impl Options {
    /// Whether every connection is encrypted.
    pub fn encrypts_all(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.as_ref().is_some_and(crate::tls::Tls::is_required);
        #[cfg(not(feature = "tls"))]
        false
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            depth: 128,
            client_memory_bytes: 64 << 20,
            handshake_timeout: Duration::from_secs(10),
            insecure_plaintext: false,
            allow_other: false,
            kernel_cache: false,
            #[cfg(feature = "tls")]
            tls: None,
            #[cfg(feature = "iscsi")]
            iscsi: IscsiOptions::default(),
            sparse_reads: false,
            staged: false,
        }
    }
}

/// Names and authentication of iSCSI targets.
#[cfg(feature = "iscsi")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IscsiOptions {
    /// What the names of targets begin with; the name of the device follows.
    pub prefix: String,
    /// What initiators authenticate themselves with; `None`: they need not.
    pub chap: Option<crate::chap::Chap>,
}

#[cfg(feature = "iscsi")]
impl Default for IscsiOptions {
    fn default() -> IscsiOptions {
        // `localhost` is reserved, so no authority gives the same name to another target.
        IscsiOptions { prefix: "iqn.2026-11.localhost.platter:".to_owned(), chap: None }
    }
}

/// A kind of export.
pub struct ExportType {
    /// Its name, which is also the option of `platter serve`.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// The form of its address, for help.
    pub address: &'static str,
    /// Starts one.
    pub start: fn(&Start<'_>) -> Result<Box<dyn Export>, ServeError>,
}
