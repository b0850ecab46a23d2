//! What the channels of a disk at a target share.

use super::options::IscsiOptions;
use super::url::Url;
use super::watch::Watches;
use crate::reconnect::Common;
use platter_scsi::host::found::Found;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Numbers that reports show.
#[derive(Default)]
pub(super) struct Counts {
    /// Commands that the target had no room for.
    pub(super) busy: AtomicU64,
    pub(super) aborts: AtomicU64,
}

/// What the channels of a disk at a target share.
pub(super) struct Shared {
    pub(super) url: Url,
    pub(super) options: IscsiOptions,
    pub(super) places: Vec<SocketAddr>,
    /// The logical unit when the disk was opened.
    pub(super) found: Found,
    /// What tells sessions of this disk from others of the initiator.
    pub(super) number: u32,
    common: Common,
    pub(super) watches: Watches,
    pub(super) counts: Counts,
    /// Which connections are in use.
    ports: Mutex<Vec<bool>>,
}

impl Deref for Shared {
    type Target = Common;

    fn deref(&self) -> &Common {
        &self.common
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(super) fn new(
        url: Url,
        options: IscsiOptions,
        places: Vec<SocketAddr>,
        found: Found,
        number: u32,
    ) -> Shared {
        Shared {
            common: Common::new(options.bounds(), 0),
            ports: Mutex::new(vec![false; options.connections as usize]),
            watches: Watches::new(options.connections),
            url,
            options,
            places,
            found,
            number,
            counts: Counts::default(),
        }
    }

    /// Takes the number of a connection. `None`: all are in use.
    pub(super) fn take_port(&self) -> Option<u16> {
        let mut ports = lock(&self.ports);
        let free = ports.iter().position(|taken| !taken)?;
        ports[free] = true;
        Some(free as u16)
    }

    pub(super) fn put_port(&self, port: u16) {
        lock(&self.ports)[usize::from(port)] = false;
    }

    /// Connections that are in use.
    pub(super) fn connections(&self) -> usize {
        lock(&self.ports).iter().filter(|taken| **taken).count()
    }
}
