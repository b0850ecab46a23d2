//! Notices that another program has changed the size of a file below a device.
//!
//! inotify(7) reports changes of a file, and each write of the server is one as well. So a watch ends with the first
//! event and is set again after a pause: a device that is written to is measured twice a second, an idle one never.

use platter_block::backend::Backend;
use platter_disk::device::Device;
use platter_wait::EventFd;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// From an event until the files are watched again.
const PAUSE: Duration = Duration::from_secs(1);

/// A thread that measures a device when its files change. Dropping it ends the thread.
pub(crate) struct SizeWatch {
    end: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
}

impl SizeWatch {
    /// Watches the files below a device. `None`: there are none, or the system has no watch for them; the device is
    /// measured at flushes and after errors then.
    pub(crate) fn begin(device: &Device) -> Option<SizeWatch> {
        SizeWatch::with_pause(device, PAUSE)
    }

    fn with_pause(device: &Device, pause: Duration) -> Option<SizeWatch> {
        let backend = Arc::clone(device.backend());
        if backend.file_descriptors().is_empty() {
            return None;
        }
        let changes = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
        let end = Arc::new(EventFd::new().ok()?);
        let watched = Watched { backend, changes, end: Arc::clone(&end), pause };
        watched.set().ok()?;
        let thread = thread::Builder::new().name("platter-sizes".to_owned()).spawn(move || watched.run());
        Some(SizeWatch { end, thread: Some(thread.ok()?) })
    }
}

impl Drop for SizeWatch {
    fn drop(&mut self) {
        self.end.signal();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported when it happened.
            let _ = thread.join();
        }
    }
}

/// What the thread owns.
struct Watched {
    backend: Arc<dyn Backend>,
    changes: OwnedFd,
    end: Arc<EventFd>,
    pause: Duration,
}

impl Watched {
    fn run(self) {
        loop {
            // If the size cannot be found out, the device keeps the last one, as after an error.
            let _ = self.backend.measure();
            if self.ends(&[&self.changes], None) {
                return;
            }
            while rustix::io::read(&self.changes, &mut [0u8; 4096]).is_ok() {}
            let _ = self.backend.measure();
            if self.ends(&[], Timespec::try_from(self.pause).ok()) {
                return;
            }
            // Changes from here on are events; the loop begins with those before.
            if self.set().is_err() {
                return;
            }
        }
    }

    /// Watches the files until the first event of each.
    fn set(&self) -> Result<(), Errno> {
        self.backend.file_descriptors().iter().try_for_each(|fd| {
            let path = format!("/proc/self/fd/{fd}");
            inotify::add_watch(&self.changes, path, WatchFlags::MODIFY | WatchFlags::ONESHOT).map(|_| ())
        })
    }

    /// Sleeps until one of `others` is readable or the time is over. Returns whether the thread is to end.
    fn ends(&self, others: &[&OwnedFd], limit: Option<Timespec>) -> bool {
        let mut all = vec![PollFd::new(&*self.end, PollFlags::IN)];
        all.extend(others.iter().map(|fd| PollFd::new(*fd, PollFlags::IN)));
        while poll(&mut all, limit.as_ref()) == Err(Errno::INTR) {}
        !all[0].revents().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_block::event::{DeviceEvent, Watcher};
    use platter_disk::open::DiskOptions;
    use std::sync::{Weak, mpsc};

    const LONG: Duration = Duration::from_secs(60);

    struct Sizes(mpsc::Sender<u64>);

    impl Watcher for Sizes {
        fn event(&self, event: &DeviceEvent) {
            if let DeviceEvent::Resized { to, .. } = event {
                let _ = self.0.send(*to);
            }
        }
    }

    #[test]
    fn each_new_size_of_an_idle_device_is_noticed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let device = Device::open(file.path(), DiskOptions::read_write()).unwrap();
        let (send, sizes) = mpsc::channel();
        let watcher: Arc<dyn Watcher> = Arc::new(Sizes(send));
        device.watch(Arc::downgrade(&watcher) as Weak<dyn Watcher>);
        let watch = SizeWatch::with_pause(&device, Duration::from_millis(1));
        for mib in [2, 3, 4, 5] {
            file.as_file().set_len(mib << 20).unwrap();
            assert_eq!(sizes.recv_timeout(LONG), Ok(mib << 20));
            assert_eq!(device.size(), mib << 20);
        }
        drop(watch);
        file.as_file().set_len(9 << 20).unwrap();
        assert!(sizes.try_recv().is_err(), "the thread has ended");
    }

    #[test]
    fn a_device_without_files_has_no_watch() {
        assert!(SizeWatch::begin(&Device::ram(1 << 20).unwrap()).is_none());
    }
}
