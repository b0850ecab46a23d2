//! SIGINT and SIGTERM ask the running verb to stop; one that comes later ends the process. SIGHUP asks a server to read
//! its configuration again.

#![allow(unsafe_code)]

use super::Exit;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

/// How often to look for a signal if there is no descriptor to sleep on.
const POLL: Duration = Duration::from_millis(100);

/// A signal to stop that comes this long after the first one, in ns, ends the process. One that comes earlier is the same
/// request: `timeout` signals its child and then the group of the child, a shell may do so too.
const REPEATED: u64 = 500_000_000;

/// What is written before the process ends by a signal.
const ENDED: &[u8] = b"platter: signalled again: ended at once, what was not finished is lost\n";

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static HUNG_UP: AtomicBool = AtomicBool::new(false);
/// The first signal to stop.
static SIGNAL: AtomicI32 = AtomicI32::new(0);
/// When it came, in ns of the monotonic clock; 0 before.
static FIRST: AtomicU64 = AtomicU64::new(0);
/// The eventfd that the handlers signal, once there is one. It is never closed.
static WAKE: AtomicI32 = AtomicI32::new(-1);
static SLEEP_ON: OnceLock<Option<OwnedFd>> = OnceLock::new();

/// What the user has asked for by a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// To stop.
    Stop,
    /// To read the configuration again.
    Reload,
}

extern "C" fn on_signal(signal: libc::c_int) {
    if signal == libc::SIGHUP {
        HUNG_UP.store(true, Ordering::SeqCst);
    } else {
        let now = now();
        match FIRST.compare_exchange(0, now, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => {
                SIGNAL.store(signal, Ordering::Relaxed);
                INTERRUPTED.store(true, Ordering::SeqCst);
            }
            Err(first) if now.saturating_sub(first) >= REPEATED => end(signal),
            Err(_) => {}
        }
    }
    let wake = WAKE.load(Ordering::SeqCst);
    if wake >= 0 {
        let one = 1u64;
        // SAFETY: write(2) is safe in a signal handler, the descriptor is never closed, and the eight bytes are on this
        // stack. The handler must not change the errno of the thread that it interrupted.
        unsafe {
            let errno = *libc::__errno_location();
            libc::write(wake, (&raw const one).cast(), size_of::<u64>());
            *libc::__errno_location() = errno;
        }
    }
}

/// The time of the monotonic clock in ns, not 0.
fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: clock_gettime(2) is safe in a signal handler, and the time is on this stack.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64).max(1)
}

/// Ends the process as the signal does without a handler.
fn end(signal: libc::c_int) {
    let mut stderr = libc::pollfd { fd: libc::STDERR_FILENO, events: libc::POLLOUT, revents: 0 };
    // SAFETY: poll(2), write(2), signal(2) and raise(3) are safe in a signal handler. The signal is blocked while its handler
    // runs: it is delivered, and ends the process, when that returns. So nothing here may block: the line is left out if stderr
    // is a pipe that is full.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        if libc::poll(&raw mut stderr, 1, 0) == 1 && stderr.revents & libc::POLLOUT != 0 {
            libc::write(libc::STDERR_FILENO, ENDED.as_ptr().cast(), ENDED.len());
        }
        libc::raise(signal);
    }
}

/// Sleeps until there is a signal. A request to stop stays, one to read the configuration again is told once.
pub(super) fn wait() -> Request {
    let eventfd = SLEEP_ON.get_or_init(|| {
        let fd = eventfd(0, EventfdFlags::CLOEXEC).ok()?;
        WAKE.store(fd.as_raw_fd(), Ordering::SeqCst);
        Some(fd)
    });
    loop {
        if INTERRUPTED.load(Ordering::SeqCst) {
            return Request::Stop;
        }
        if HUNG_UP.swap(false, Ordering::SeqCst) {
            return Request::Reload;
        }
        match eventfd {
            // Read errors are an interruption by another signal.
            Some(fd) => drop(rustix::io::read(fd, &mut [0u8; 8])),
            // Without a free descriptor the flags are looked at from time to time.
            None => std::thread::sleep(POLL),
        }
    }
}

fn catch(signal: libc::c_int) {
    // SAFETY: an all-zero sigaction is a valid value.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the handler only stores to atomics and makes system calls that are safe at any time; the old action is
    // not requested. This fails only for signals that cannot be caught.
    unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
}

/// Installs the handler; the flag it returns is set by the first signal.
pub(super) fn install() -> &'static AtomicBool {
    [libc::SIGINT, libc::SIGTERM].into_iter().for_each(catch);
    &INTERRUPTED
}

/// From now on SIGHUP is a request, and no longer ends the process.
pub(super) fn catch_hangup() {
    catch(libc::SIGHUP);
}

/// The exit status that the signal means.
pub(super) fn exit() -> Exit {
    if SIGNAL.load(Ordering::Relaxed) == libc::SIGTERM { Exit::Terminated } else { Exit::Interrupted }
}
