//! SIGINT, SIGTERM and SIGHUP ask the running verb to stop; one that comes later ends the process. To a server SIGHUP is
//! a request to read its configuration again.
//!
//! A verb that waits in a system call, to open a device or for a peer, does not see the request. So a thread waits for
//! signals: if the verb has not begun to stop within [`GRACE`], the thread ends the process with the exit status of the
//! signal. A verb that looks at the flag while it works says so ([`attend`]), and has all the time it needs.

#![allow(unsafe_code)]

use super::Exit;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How often to look for a signal if there is no descriptor or no thread to sleep on.
const POLL: Duration = Duration::from_millis(100);
/// How long a thread sleeps that is woken by a signal.
const SLEEP: Duration = Duration::from_secs(3600);

/// A signal to stop that comes this long after the first one, in ns, ends the process. One that comes earlier is the same
/// request: `timeout` signals its child and then the group of the child, a shell may do so too.
const REPEATED: u64 = 500_000_000;

/// How long after the first signal, in ns, a verb that waits may still come to a point where it sees the request.
const GRACE: u64 = 600_000_000;

/// What is written before the process ends by a second signal.
const ENDED: &[u8] = b"platter: signalled again: ended at once, what was not finished is lost\n";

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static HUNG_UP: AtomicBool = AtomicBool::new(false);
/// SIGHUP is a request to read the configuration again.
static RELOADS: AtomicBool = AtomicBool::new(false);
/// The first signal to stop.
static SIGNAL: AtomicI32 = AtomicI32::new(0);
/// When it came, in ns of the monotonic clock; 0 before.
static FIRST: AtomicU64 = AtomicU64::new(0);
/// When a thread began to end the process because of a second signal, in ns of the monotonic clock; 0 before.
static ENDING: AtomicU64 = AtomicU64::new(0);
/// The eventfd that the handlers signal, once there is one. It is never closed.
static WAKE: AtomicI32 = AtomicI32::new(-1);
/// The thread that waits for signals runs.
static WATCHED: AtomicBool = AtomicBool::new(false);
/// The verb looks at the flag from now on.
static ATTENDED: AtomicBool = AtomicBool::new(false);
/// The verb has seen the request.
static SEEN: AtomicBool = AtomicBool::new(false);
/// Waits in progress during which the verb does not look at the flag.
static WAITS: AtomicUsize = AtomicUsize::new(0);
/// Held by that thread to tell others of a signal.
static TOLD: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
/// What is done before the process ends while the verb waits.
static AT_END: Mutex<Option<fn()>> = Mutex::new(None);

extern "C" fn on_signal(signal: libc::c_int) {
    if signal == libc::SIGHUP && RELOADS.load(Ordering::SeqCst) {
        HUNG_UP.store(true, Ordering::SeqCst);
    } else {
        let now = now();
        match FIRST.compare_exchange(0, now, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => {
                SIGNAL.store(signal, Ordering::SeqCst);
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

/// Ends the process as the signal does without a handler, with a line on stderr.
fn end(signal: libc::c_int) {
    let now = now();
    match ENDING.compare_exchange(0, now, Ordering::SeqCst, Ordering::SeqCst) {
        Ok(_) => tell_end(),
        // Another thread is about to: if this one ended the process first, the line might not be written.
        Err(began) if now.saturating_sub(began) < REPEATED => return,
        Err(_) => {}
    }
    // SAFETY: signal(2) and raise(3) are safe in a signal handler. The signal is blocked while its handler runs: it is delivered,
    // and ends the process, when that returns.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// The line is left out if stderr is a pipe that is full: the write must not block.
fn tell_end() {
    let mut stderr = libc::pollfd { fd: libc::STDERR_FILENO, events: libc::POLLOUT, revents: 0 };
    // SAFETY: poll(2) and write(2) are safe in a signal handler; the structure is on this stack, and the line is static.
    unsafe {
        if libc::poll(&raw mut stderr, 1, 0) == 1 && stderr.revents & libc::POLLOUT != 0 {
            libc::write(libc::STDERR_FILENO, ENDED.as_ptr().cast(), ENDED.len());
        }
    }
}

/// Waits for signals: tells those who sleep, and ends the process if the verb does not see a request to stop.
fn watch(wake: Option<&OwnedFd>) {
    loop {
        match wake {
            // Read errors are an interruption by another signal.
            Some(fd) => drop(rustix::io::read(fd, &mut [0u8; 8])),
            // Without a free descriptor the flags are looked at from time to time.
            None => std::thread::sleep(POLL),
        }
        {
            let _told = TOLD.0.lock().unwrap_or_else(PoisonError::into_inner);
            TOLD.1.notify_all();
        }
        while INTERRUPTED.load(Ordering::SeqCst) && !SEEN.load(Ordering::SeqCst) {
            let since = now().saturating_sub(FIRST.load(Ordering::SeqCst));
            if since < GRACE {
                std::thread::sleep(Duration::from_nanos(GRACE - since));
            } else if !ATTENDED.load(Ordering::SeqCst) || WAITS.load(Ordering::SeqCst) > 0 {
                give_up();
            } else {
                std::thread::sleep(POLL);
            }
        }
    }
}

/// Ends the process with the exit status of the signal.
fn give_up() -> ! {
    if let Some(last) = AT_END.lock().unwrap_or_else(PoisonError::into_inner).take() {
        last();
    }
    super::exit_now(&super::CliError::new(
        exit(),
        "interrupted while it waited for a device, a file or a peer",
    ))
}

/// Sleeps until a flag is set.
fn wait_for(flag: impl Fn() -> bool) {
    let mut told = TOLD.0.lock().unwrap_or_else(PoisonError::into_inner);
    while !flag() {
        let most = if WATCHED.load(Ordering::SeqCst) { SLEEP } else { POLL };
        told = TOLD.1.wait_timeout(told, most).unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// Sleeps until a signal asks to stop.
pub(super) fn wait_for_stop() {
    wait_for(is_interrupted);
}

/// Sleeps until a signal asks to read the configuration again; each request is told once.
pub(super) fn wait_for_reload() {
    wait_for(|| HUNG_UP.swap(false, Ordering::SeqCst));
}

/// Whether a signal has asked to stop. If it has, the verb knows now, and ends by itself.
pub(super) fn is_interrupted() -> bool {
    let interrupted = INTERRUPTED.load(Ordering::SeqCst);
    if interrupted {
        SEEN.store(true, Ordering::SeqCst);
    }
    interrupted
}

/// The flag that the first signal sets. From now on the verb looks at it.
pub(super) fn attend() -> &'static AtomicBool {
    ATTENDED.store(true, Ordering::SeqCst);
    &INTERRUPTED
}

/// Does what may wait without a look at the flag.
pub(super) fn unattended<T>(run: impl FnOnce() -> T) -> T {
    /// Also of a panic.
    struct Wait;
    impl Drop for Wait {
        fn drop(&mut self) {
            WAITS.fetch_sub(1, Ordering::SeqCst);
        }
    }
    WAITS.fetch_add(1, Ordering::SeqCst);
    let _wait = Wait;
    run()
}

/// Sets what is done before a signal ends the process while the verb waits.
pub(super) fn at_end(last: Option<fn()>) {
    *AT_END.lock().unwrap_or_else(PoisonError::into_inner) = last;
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

/// Whether a signal is ignored, as `nohup` does it for SIGHUP.
fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: an all-zero sigaction is a valid value; the action is only asked for.
    let action = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action);
        action
    };
    action.sa_sigaction == libc::SIG_IGN
}

/// Installs the handlers and starts the thread that waits for signals.
pub(super) fn install() {
    // SAFETY: to ignore a signal has no preconditions. A write beyond the file size limit then fails (`EFBIG`) and does
    // not end the process.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let fd = eventfd(0, EventfdFlags::CLOEXEC).ok();
    WAKE.store(fd.as_ref().map_or(-1, |fd| fd.as_raw_fd()), Ordering::SeqCst);
    // The thread ends with the process: the descriptor stays open.
    let thread = std::thread::Builder::new().name("platter-signals".to_owned());
    let fd: Option<&'static OwnedFd> = fd.map(|fd| &*Box::leak(Box::new(fd)));
    WATCHED.store(thread.spawn(move || watch(fd)).is_ok(), Ordering::SeqCst);
    [libc::SIGINT, libc::SIGTERM].into_iter().for_each(catch);
    if !is_ignored(libc::SIGHUP) {
        catch(libc::SIGHUP);
    }
}

/// From now on SIGHUP is a request to read the configuration again, and no longer one to stop; those to stop are carried out.
pub(super) fn catch_hangup() {
    attend();
    RELOADS.store(true, Ordering::SeqCst);
    catch(libc::SIGHUP);
}

/// The exit status that the signal means.
pub(super) fn exit() -> Exit {
    match SIGNAL.load(Ordering::SeqCst) {
        libc::SIGTERM => Exit::Terminated,
        libc::SIGHUP => Exit::HungUp,
        _ => Exit::Interrupted,
    }
}
