//! The clients of a FUSE export: one for each device with open files.

use super::device_user::DeviceUser;
use super::wire::KIND;
use crate::admission::Bells;
use crate::buffers::Budget;
use crate::clients::{Client, Clients};
use crate::events::{Event, Log};
use crate::restart::FirstFlush;
use crate::served::{Devices, Served};
use platter_block::lane::Bell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The users of devices with open files. A user ends when the last file is closed or an operator disconnects it; then
/// requests of files that are still open fail, and each thread closes its channel.
pub(super) struct DeviceUsers {
    list: Mutex<Vec<Occupied>>,
    /// For each device that had open files. All programs that use it through this mount are one client, also if at times no
    /// file is open: the kernel does not tell them apart.
    first_flushes: Mutex<Vec<(Weak<Served>, Arc<FirstFlush>)>>,
    next: AtomicU64,
    /// How many have ended.
    ended: AtomicU64,
    /// Those of all threads of the export.
    pub(super) bells: Arc<Bells>,
    devices: Arc<Devices>,
    clients: Arc<Clients>,
    log: Log,
    /// The mounted directory, for reports.
    directory: String,
}

struct Occupied {
    user: Arc<DeviceUser>,
    files: usize,
}

impl DeviceUsers {
    pub(super) fn new(
        devices: Arc<Devices>,
        clients: Arc<Clients>,
        log: Log,
        directory: String,
    ) -> Arc<DeviceUsers> {
        let (next, ended) = (AtomicU64::new(1), AtomicU64::new(0));
        Arc::new(DeviceUsers {
            list: Mutex::default(),
            first_flushes: Mutex::default(),
            next,
            ended,
            bells: Arc::default(),
            devices,
            clients,
            log,
            directory,
        })
    }

    fn list(&self) -> MutexGuard<'_, Vec<Occupied>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the memory for data is a part of.
    pub(super) fn memory(&self) -> &Arc<Budget> {
        self.clients.memory()
    }

    fn first_flush(&self, served: &Arc<Served>) -> Arc<FirstFlush> {
        let mut all = self.first_flushes.lock().unwrap_or_else(PoisonError::into_inner);
        // Those of devices that were removed.
        all.retain(|(known, _)| known.strong_count() > 0);
        let known = all.iter().find(|(known, _)| known.as_ptr() == Arc::as_ptr(served));
        if let Some((_, found)) = known {
            return Arc::clone(found);
        }
        let new = Arc::new(served.newcomer());
        all.push((Arc::downgrade(served), Arc::clone(&new)));
        new
    }

    /// Counts an open file of a device. Returns the number of its user. `None`: there are as many clients as the server
    /// takes, or the device was removed.
    pub(super) fn open(self: &Arc<DeviceUsers>, served: &Arc<Served>) -> Option<u64> {
        let mut list = self.list();
        if let Some(found) = list.iter_mut().find(|found| Arc::ptr_eq(found.user.served(), served)) {
            found.files += 1;
            return Some(found.user.handle);
        }
        let handle = self.next.fetch_add(1, Ordering::Relaxed);
        let users = Arc::downgrade(self);
        let disconnect = move || {
            Weak::upgrade(&users).inspect(|users| users.end(handle, "it was disconnected"));
        };
        let device = (&*self.devices, served);
        let client = match self.clients.connect_to(device, KIND, &self.directory, disconnect) {
            Ok(client) => client,
            Err(why) => {
                drop(list);
                let why = why.to_string();
                (self.log)(&Event::Refused { export: KIND, peer: &self.directory, why: &why });
                return None;
            }
        };
        let user = Arc::new(DeviceUser::new(
            handle,
            client,
            (served, self.first_flush(served)),
            Arc::clone(&self.bells),
        ));
        list.push(Occupied { user: Arc::clone(&user), files: 1 });
        drop(list);
        (self.log)(&Event::Connected(user.client()));
        Some(handle)
    }

    /// A file is closed.
    pub(super) fn close(&self, handle: u64) {
        let is_last = {
            let mut list = self.list();
            let found = list.iter_mut().find(|found| found.user.handle == handle);
            found.is_some_and(|found| {
                found.files -= 1;
                found.files == 0
            })
        };
        if is_last {
            self.end_if(handle, |found| found.files == 0, "all files of it are closed");
        }
    }

    fn end(&self, handle: u64, why: &str) {
        self.end_if(handle, |_| true, why);
    }

    fn end_if(&self, handle: u64, ends: impl Fn(&Occupied) -> bool, why: &str) {
        let mut list = self.list();
        let place = list.iter().position(|found| found.user.handle == handle && ends(found));
        let Some(place) = place else { return };
        let Occupied { user, .. } = list.swap_remove(place);
        drop(list);
        user.end();
        (self.log)(&Event::Disconnected(user.client(), why));
        drop(user);
        self.ended.fetch_add(1, Ordering::Release);
        self.bells.ring();
    }

    /// The user of this number, if it has not ended.
    pub(super) fn find(&self, handle: u64) -> Option<Arc<DeviceUser>> {
        self.list().iter().find(|found| found.user.handle == handle).map(|found| Arc::clone(&found.user))
    }

    /// How many requests that were begun are not answered.
    pub(super) fn unanswered(&self) -> u64 {
        let of_this = |client: &Arc<Client>| client.export == KIND && client.peer == self.directory;
        let count = |client: Arc<Client>| client.counts.in_flight.load(Ordering::Relaxed);
        self.clients.list().into_iter().filter(of_this).map(count).sum()
    }

    /// Changes when users end.
    #[inline]
    pub(super) fn ended(&self) -> u64 {
        self.ended.load(Ordering::Acquire)
    }
}
