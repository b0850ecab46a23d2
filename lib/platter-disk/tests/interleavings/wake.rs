//! Replaces the library's `wake`: a descriptor that threads of the model can sleep on.

#[allow(
    dead_code,
    unreachable_pub,
    reason = "public in the library, and the models never fail to open a descriptor"
)]
#[path = "../../../platter-wait/src/doorbell.rs"]
mod doorbell;
#[allow(dead_code, unreachable_pub, reason = "as above")]
#[path = "../../../platter-wait/src/parker.rs"]
mod parker;

pub(crate) use doorbell::{Armed, ArmedDoorbell};
pub(crate) use event_fd::EventFd;
pub(crate) use parker::Parker;

mod event_fd {
    use loom::sync::{Condvar, Mutex};

    pub(crate) struct EventFd {
        signals: Mutex<u64>,
        changed: Condvar,
    }

    impl EventFd {
        pub(crate) fn new() -> std::io::Result<EventFd> {
            Ok(EventFd { signals: Mutex::new(0), changed: Condvar::new() })
        }

        pub(crate) fn signal(&self) {
            *self.signals.lock().unwrap() += 1;
            self.changed.notify_one();
        }

        pub(crate) fn clear(&self) -> u64 {
            std::mem::take(&mut *self.signals.lock().unwrap())
        }

        /// Sleeps until the descriptor is readable. The checker fails a model in which it never becomes so.
        pub(crate) fn sleep(&self) {
            let mut signals = self.signals.lock().unwrap();
            while *signals == 0 {
                signals = self.changed.wait(signals).unwrap();
            }
        }

        pub(crate) fn is_readable(&self) -> bool {
            *self.signals.lock().unwrap() > 0
        }
    }
}
