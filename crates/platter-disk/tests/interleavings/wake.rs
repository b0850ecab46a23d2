//! Replaces the library's `wake`: a descriptor that threads of the model can sleep on.

#[allow(dead_code, reason = "the models never fail to open a descriptor")]
#[path = "../../src/wake/wake_fd.rs"]
mod wake_fd;

pub(crate) use event_fd::EventFd;
pub(crate) use wake_fd::{Armed, WakeFd};

mod event_fd {
    use loom::sync::{Condvar, Mutex};

    pub(crate) struct EventFd {
        readable: Mutex<bool>,
        changed: Condvar,
    }

    impl EventFd {
        pub(crate) fn new() -> std::io::Result<EventFd> {
            Ok(EventFd { readable: Mutex::new(false), changed: Condvar::new() })
        }

        pub(crate) fn signal(&self) {
            *self.readable.lock().unwrap() = true;
            self.changed.notify_one();
        }

        pub(crate) fn clear(&self) {
            *self.readable.lock().unwrap() = false;
        }

        /// Sleeps until the descriptor is readable. The checker fails a model in which it never becomes so.
        pub(crate) fn sleep(&self) {
            let mut readable = self.readable.lock().unwrap();
            while !*readable {
                readable = self.changed.wait(readable).unwrap();
            }
        }

        pub(crate) fn is_readable(&self) -> bool {
            *self.readable.lock().unwrap()
        }
    }
}
