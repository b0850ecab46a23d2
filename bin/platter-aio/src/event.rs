//! Notifications: `struct sigevent`, and how a program is told that a request has ended.

use crate::statistics::STATISTICS;
use libc::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::Ordering;

/// `struct sigevent`, as glibc lays it out on 64-bit machines.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Event {
    /// Passed to the handler or the function.
    pub sigev_value: usize,
    /// The signal.
    pub sigev_signo: c_int,
    /// `SIGEV_SIGNAL`, `SIGEV_THREAD` or `SIGEV_NONE`.
    pub sigev_notify: c_int,
    /// For `SIGEV_THREAD`: the function.
    pub sigev_notify_function: Option<extern "C" fn(usize)>,
    /// For `SIGEV_THREAD`: a `pthread_attr_t` or null.
    pub sigev_notify_attributes: *mut c_void,
    /// Not used.
    pub reserved: [usize; 4],
}

// SAFETY: numbers, a function and an address that only `pthread_create` uses, as the program has asked.
unsafe impl Send for Event {}
// SAFETY: as above; nothing is changed through it.
unsafe impl Sync for Event {}

/// An extension of this library: a notification that adds one to the eventfd in `sigev_signo`, for programs that wait for
/// descriptors. The descriptor stays open, and does not block, until the request has been notified.
pub const SIGEV_EVENTFD: c_int = 0x4546;

/// Largest number of a signal.
const SIGNALS: c_int = 64;

impl Event {
    /// No notification.
    pub const NONE: Event = Event {
        sigev_value: 0,
        sigev_signo: 0,
        sigev_notify: libc::SIGEV_NONE,
        sigev_notify_function: None,
        sigev_notify_attributes: null_mut(),
        reserved: [0; 4],
    };

    /// Whether the program can be notified like this.
    pub(crate) fn is_valid(&self) -> bool {
        match self.sigev_notify {
            libc::SIGEV_NONE => true,
            // A block of zeroes asks for signal 0, which is none.
            libc::SIGEV_SIGNAL => (0..=SIGNALS).contains(&self.sigev_signo),
            libc::SIGEV_THREAD => self.sigev_notify_function.is_some(),
            SIGEV_EVENTFD => self.sigev_signo >= 0,
            _ => false,
        }
    }

    /// Whether anything has to be sent.
    pub(crate) fn is_sent(&self) -> bool {
        match self.sigev_notify {
            libc::SIGEV_SIGNAL => self.sigev_signo != 0,
            libc::SIGEV_THREAD | SIGEV_EVENTFD => true,
            _ => false,
        }
    }

    /// Notifies the program. `false`: the system has no resources for it at the moment.
    pub(crate) fn send(&self) -> bool {
        if self.sigev_notify == SIGEV_EVENTFD {
            self.signal_eventfd();
            return true;
        }
        let (sent, count) = match (self.sigev_notify, self.sigev_notify_function) {
            (libc::SIGEV_SIGNAL, _) => (self.queue_signal(), &STATISTICS.signals),
            (_, Some(function)) => (self.start_thread(function), &STATISTICS.threads),
            _ => return true,
        };
        count.fetch_add(u64::from(sent), Ordering::Relaxed);
        sent
    }

    /// Adds one to the eventfd. It fails only if the descriptor is none, or full and so readable already.
    fn signal_eventfd(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: the memory has eight bytes.
        unsafe { libc::write(self.sigev_signo, one.as_ptr().cast(), one.len()) };
    }

    /// Queues the signal to the process with `SI_ASYNCIO` and the value.
    fn queue_signal(&self) -> bool {
        /// `siginfo_t` of a queued signal, and its length of 128 bytes.
        #[repr(C)]
        struct Info {
            signo: c_int,
            errno: c_int,
            code: c_int,
            pad: c_int,
            pid: libc::pid_t,
            uid: libc::uid_t,
            value: usize,
            rest: [u8; 96],
        }
        const { assert!(size_of::<Info>() == size_of::<libc::siginfo_t>()) };
        // SAFETY: these take no memory and cannot fail.
        let (pid, uid) = unsafe { (libc::getpid(), libc::getuid()) };
        let info = Info {
            signo: self.sigev_signo,
            errno: 0,
            code: SI_ASYNCIO,
            pad: 0,
            pid,
            uid,
            value: self.sigev_value,
            rest: [0; 96],
        };
        // SAFETY: the information lives until the call returns.
        let result =
            unsafe { libc::syscall(libc::SYS_rt_sigqueueinfo, pid, self.sigev_signo, &raw const info) };
        result == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::EAGAIN)
    }

    /// Calls the function on a new thread.
    fn start_thread(&self, function: extern "C" fn(usize)) -> bool {
        let argument = Box::into_raw(Box::new((function, self.sigev_value)));
        let mut own = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
        let given = self.sigev_notify_attributes.cast::<libc::pthread_attr_t>();
        let mut thread = std::mem::MaybeUninit::uninit();
        // SAFETY: the attributes are ours and initialised first, or the program's, which POSIX asks it to keep. The
        // argument is given to exactly one thread, or taken back here.
        unsafe {
            let attributes = if given.is_null() {
                libc::pthread_attr_init(own.as_mut_ptr());
                libc::pthread_attr_setdetachstate(own.as_mut_ptr(), libc::PTHREAD_CREATE_DETACHED);
                own.as_mut_ptr()
            } else {
                given
            };
            let failed = libc::pthread_create(thread.as_mut_ptr(), attributes, call, argument.cast());
            if given.is_null() {
                libc::pthread_attr_destroy(own.as_mut_ptr());
            }
            if failed != 0 {
                drop(Box::from_raw(argument));
            }
            failed == 0
        }
    }
}

/// `si_code` of signals that report the end of asynchronous I/O.
pub const SI_ASYNCIO: c_int = -4;

extern "C" fn call(argument: *mut c_void) -> *mut c_void {
    // SAFETY: the box made by `start_thread`, which belongs to this thread.
    let (function, value) = unsafe { *Box::from_raw(argument.cast::<(extern "C" fn(usize), usize)>()) };
    function(value);
    null_mut()
}
