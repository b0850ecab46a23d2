//! What the channels of a remote disk share.

use super::options::NbdOptions;
use super::socket::{Place, Socket};
use crate::nbd::handshake::Export;
use crate::nbd::uri::Uri;
use crate::nbd::wire::transmission_flag;
use crate::reconnect::Common;
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The flags that promise something that is used: a server that returns must still have them.
const NEEDED: u16 = transmission_flag::SEND_FLUSH
    | transmission_flag::SEND_FUA
    | transmission_flag::SEND_TRIM
    | transmission_flag::SEND_WRITE_ZEROES
    | transmission_flag::CAN_MULTI_CONN;

/// What the channels of a remote disk share.
pub(super) struct Shared {
    pub(super) uri: Uri,
    pub(super) options: NbdOptions,
    pub(super) places: Vec<Place>,
    /// The export when the disk was opened.
    pub(super) export: Export,
    common: Common,
    /// The connections of channels that work, as far as is known.
    sockets: Mutex<Vec<Arc<Socket>>>,
    pub(super) channels: AtomicU32,
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
    pub(super) fn new(uri: Uri, options: NbdOptions, places: Vec<Place>, export: Export) -> Shared {
        Shared {
            uri,
            options,
            places,
            export,
            common: Common::new(options.bounds(), options.replay),
            sockets: Mutex::default(),
            channels: AtomicU32::new(0),
        }
    }

    /// A connection works.
    pub(super) fn add(&self, socket: &Arc<Socket>) {
        lock(&self.sockets).push(Arc::clone(socket));
    }

    /// A connection has ended. What was lost with it counts once.
    pub(super) fn end(&self, socket: &Arc<Socket>) {
        let mut sockets = lock(&self.sockets);
        sockets.retain(|other| !Arc::ptr_eq(other, socket));
        // With the lock held: a flush of another channel sees the connection or the loss.
        if socket.note_end() {
            self.unflushed.lost();
        }
    }

    /// A channel has ended its connection.
    pub(super) fn remove(&self, socket: &Arc<Socket>) {
        lock(&self.sockets).retain(|other| !Arc::ptr_eq(other, socket));
    }

    /// Connections that work, as far as is known.
    pub(super) fn connections(&self) -> usize {
        lock(&self.sockets).len()
    }

    /// Before a flush is believed: if another connection has been lost, the server may be another process than the one
    /// that took its writes.
    pub(super) fn look_at_others(&self) {
        if self.connections() > 1 {
            self.look_at_all();
        }
    }

    /// Notices connections that have been lost while their channels are idle. Each counts once, although its channel finds
    /// out much later: otherwise every flush would fail until then.
    pub(super) fn look_at_all(&self) {
        let mut sockets = lock(&self.sockets);
        let mut any = false;
        sockets.retain(|socket| {
            let is_lost = socket.is_hung_up();
            any |= is_lost && socket.note_end();
            !is_lost
        });
        if any {
            self.unflushed.lost();
        }
    }

    /// Whether an export that was found again is the one that was opened.
    pub(super) fn check(&self, now: &Export) -> Result<(), String> {
        let before = &self.export;
        let missing = before.flags & NEEDED & !now.flags;
        let changed = |what: &str, from: String, to: String| {
            Err(format!("the server came back with another disk: {what} was {from} and is {to}"))
        };
        if now.size != before.size {
            return changed("its size", format!("{} bytes", before.size), format!("{} bytes", now.size));
        }
        if now.has(transmission_flag::READ_ONLY) && !before.has(transmission_flag::READ_ONLY) {
            return changed("the export", "writable".to_owned(), "read-only".to_owned());
        }
        if missing != 0 {
            return changed("its flags", format!("{:#x}", before.flags), format!("{:#x}", now.flags));
        }
        if now.blocks != before.blocks {
            return changed("its block sizes", format!("{:?}", before.blocks), format!("{:?}", now.blocks));
        }
        Ok(())
    }

    /// Takes the place of one more channel. `false`: there is none.
    pub(super) fn take_channel(&self) -> bool {
        let most = self.options.connections;
        let take = |count| (count < most).then_some(count + 1);
        self.channels.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok()
    }
}
