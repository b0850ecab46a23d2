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
pub(super) const MAX_TRANSFER: u64 = 32 << 20;

/// Whether a Logical Unit Number is 0, by the peripheral or by the flat space method (SAM-5).
pub(super) fn is_unit_0(lun: u64) -> bool {
    matches!(lun, 0 | 0x4000_0000_0000_0000)
}

/// A session.
struct Entry {
    port: Arc<str>,
    tsih: u16,
    socket: Arc<Socket>,
}

/// A logical unit and the sessions that use it.
pub(crate) struct SharedUnit {
    target: Mutex<Target>,
    sessions: Mutex<Vec<Entry>>,
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

    /// Whether an initiator port has a session of this handle.
    pub(super) fn has_session(&self, port: &str, tsih: u16) -> bool {
        self.sessions().iter().any(|entry| *entry.port == *port && entry.tsih == tsih)
    }

    fn sessions(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims an initiator port for a session. Another session of the port is ended first (session reinstatement): the
    /// new one begins when nothing of the old one is left, on the device or among the clients.
    ///
    /// # Errors
    /// The old session is still there at `until`.
    pub(super) fn claim(
        self: &Arc<SharedUnit>,
        (port, tsih): (&str, u16),
        socket: &Arc<Socket>,
        until: Instant,
    ) -> Result<Claim, String> {
        let mut sessions = self.sessions();
        while let Some(old) = sessions.iter().find(|entry| *entry.port == *port) {
            old.socket.disconnect();
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(format!(
                    "an earlier session of {port} has requests that the device does not answer"
                ));
            }
            let waited = self.gone.wait_timeout(sessions, left);
            sessions = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        sessions.push(Entry { port: port.into(), tsih, socket: Arc::clone(socket) });
        drop(sessions);
        Ok(Claim { unit: Arc::clone(self), socket: Arc::clone(socket) })
    }

    /// Connects an initiator port, which the caller has claimed.
    pub(super) fn connect(self: &Arc<SharedUnit>, port: &str, bell: Arc<dyn Bell>) -> Attached {
        let nexus = self.target().connect(port, bell);
        Attached { unit: Arc::clone(self), nexus }
    }
}

/// An initiator port that a session has for itself, until this is dropped.
pub(super) struct Claim {
    unit: Arc<SharedUnit>,
    socket: Arc<Socket>,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.unit.sessions().retain(|entry| !Arc::ptr_eq(&entry.socket, &self.socket));
        self.unit.gone.notify_all();
    }
}

/// The place of a session at a unit. Dropping it disconnects the initiator port; the device must have nothing of it then.
pub(super) struct Attached {
    unit: Arc<SharedUnit>,
    nexus: Nexus,
}

impl Attached {
    pub(super) fn nexus(&self) -> Nexus {
        self.nexus
    }

    pub(super) fn target(&self) -> MutexGuard<'_, Target> {
        self.unit.target()
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let mut target = self.unit.target();
        for task in target.disconnect(self.nexus) {
            target.end(task);
        }
    }
}
