//! The logical unit of a device, which all sessions of the server share.

use crate::stream::socket::Socket;
use platter_block::driver::Geometry;
use platter_block::lane::Bell;
use platter_scsi::target::{Nexus, Target};
use platter_scsi::unit::{Identity, Unit};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Longest transfer of a command, for which a client's memory always has room. Page B0h says so, and initiators split what
/// is longer.
const MAX_TRANSFER: u64 = 32 << 20;

/// A logical unit and the sessions that use it.
pub(crate) struct SharedUnit {
    target: Mutex<Target>,
    sessions: Mutex<Vec<(Arc<str>, Arc<Socket>)>>,
    gone: Condvar,
}

impl SharedUnit {
    pub(crate) fn new(serial: &str, geometry: Geometry) -> Arc<SharedUnit> {
        let identity = Identity {
            vendor: "PLATTER".to_owned(),
            product: "BLOCK DEVICE".to_owned(),
            revision: env!("CARGO_PKG_VERSION").to_owned(),
            serial: serial.to_owned(),
        };
        let unit = Unit::new(identity, geometry).with_max_transfer(MAX_TRANSFER);
        Arc::new(SharedUnit {
            target: Mutex::new(Target::new(unit)),
            sessions: Mutex::default(),
            gone: Condvar::new(),
        })
    }

    /// The state of the unit. The lock is held for a call on it, never while waiting.
    pub(super) fn target(&self) -> MutexGuard<'_, Target> {
        self.target.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connects an initiator port. A session that it has already is ended first (session reinstatement): the new one begins
    /// when the device has nothing of the old one any more.
    ///
    /// # Errors
    /// The old session is still there at `until`.
    pub(super) fn connect(
        self: &Arc<SharedUnit>,
        port: &str,
        socket: &Arc<Socket>,
        bell: Arc<dyn Bell>,
        until: Instant,
    ) -> Result<Seat, String> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((_, old)) = sessions.iter().find(|(name, _)| **name == *port) {
            old.disconnect();
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(format!(
                    "an earlier session of {port} has requests that the device does not answer"
                ));
            }
            let waited = self.gone.wait_timeout(sessions, left);
            sessions = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        sessions.push((port.into(), Arc::clone(socket)));
        drop(sessions);
        let nexus = self.target().connect(port, bell);
        Ok(Seat { unit: Arc::clone(self), socket: Arc::clone(socket), nexus })
    }
}

/// The place of a session at a unit. Dropping it disconnects the initiator port; the device must have nothing of it then.
pub(super) struct Seat {
    unit: Arc<SharedUnit>,
    socket: Arc<Socket>,
    nexus: Nexus,
}

impl Seat {
    pub(super) fn nexus(&self) -> Nexus {
        self.nexus
    }

    pub(super) fn target(&self) -> MutexGuard<'_, Target> {
        self.unit.target()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut target = self.unit.target();
        for task in target.disconnect(self.nexus) {
            target.end(task);
        }
        drop(target);
        let mut sessions = self.unit.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|(_, socket)| !Arc::ptr_eq(socket, &self.socket));
        drop(sessions);
        self.unit.gone.notify_all();
    }
}
