//! The client that stands for all programs with open files of a device, and its share of the device.

use crate::admission::{Bells, ClientShare};
use crate::clients::{Client, Connected};
use crate::restart::FirstFlush;
use crate::served::Served;
use platter_block::lane::Bell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A client with its share.
pub(super) struct DeviceUser {
    /// Its number, which open files carry.
    pub(super) handle: u64,
    served: Arc<Served>,
    has_ended: AtomicBool,
    client: Connected,
    first_flush: Arc<FirstFlush>,
    pub(super) share: Arc<ClientShare>,
}

impl DeviceUser {
    pub(super) fn new(
        handle: u64,
        client: Connected,
        (served, first_flush): (&Arc<Served>, Arc<FirstFlush>),
        bells: Arc<Bells>,
    ) -> DeviceUser {
        let share = ClientShare::join(served, &client, bells as Arc<dyn Bell>);
        let has_ended = AtomicBool::new(false);
        DeviceUser { handle, served: Arc::clone(served), has_ended, client, first_flush, share }
    }

    pub(super) fn served(&self) -> &Arc<Served> {
        &self.served
    }

    /// Takes no more requests.
    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// What the users of the file are to be told of lost writes.
    pub(super) fn first_flush(&self) -> &FirstFlush {
        &self.first_flush
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }
}
