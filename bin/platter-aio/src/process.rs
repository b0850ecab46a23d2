//! The engine of this process: started with the first request, and not inherited by child processes.

use crate::board::Board;
use crate::engine::{AIO_NOTCANCELED, Engine};
use crate::inbox::{Command, Inbox};
use crate::options::{Options, Personality};
use crate::statistics::{ReportForm, STATISTICS};
use crate::sync::Futex;
use libc::c_int;
use platter_disk::drivers::descriptor_opener::{DescriptorOpener, DescriptorOptions};
use std::io;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, mpsc};

/// Where ends are announced.
pub(crate) static BOARD: Board = Board::new(Futex::new(0), AtomicU32::new(0));

/// The engine as the program's threads see it.
pub(crate) struct Running {
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) personality: Personality,
    report: ReportForm,
    driver: &'static str,
}

impl Running {
    /// Hands commands over. If the program has closed the engine's descriptors just now, requests end with `ECANCELED`, as those
    /// whose own descriptor is closed before they have started.
    pub(crate) fn push(&self, commands: impl IntoIterator<Item = Command>) {
        let left = self.inbox.push(commands);
        if left.is_empty() {
            return;
        }
        for command in left {
            match command {
                Command::Start(request) => {
                    self.inbox.release(1);
                    request.give_up(libc::ECANCELED);
                }
                Command::Cancel(cancel) => cancel.reply.give(AIO_NOTCANCELED),
            }
        }
        BOARD.post();
    }

    fn is_reachable(&self) -> bool {
        self.inbox.is_reachable()
    }
}

/// The engine, once it runs. Another one takes its place if the program has closed its descriptors; it goes on with the
/// requests that it has. Never freed, because any thread may use it until the process ends.
static RUNNING: AtomicPtr<Running> = AtomicPtr::new(null_mut());
/// A thread starts the engine. No mutex: the child of a fork resets it, and another
/// thread of its parent may have held it.
static STARTING: AtomicBool = AtomicBool::new(false);
/// Starting has failed for a reason that stays.
static UNUSABLE: AtomicBool = AtomicBool::new(false);
/// Handlers are registered. They are inherited.
static REGISTERED: AtomicBool = AtomicBool::new(false);
/// Counts the forks between the first process and this one.
static GENERATION: AtomicU32 = AtomicU32::new(1);

/// Stack of the engine's thread in bytes.
const STACK_BYTES: usize = 256 << 10;

/// Which process this is, in a line of forks.
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// The engine, if it runs in this process.
pub(crate) fn running() -> Option<&'static Running> {
    // SAFETY: null, or a box that is never freed.
    unsafe { RUNNING.load(Ordering::Acquire).as_ref() }
}

/// The engine; starts one first if none runs that can be woken.
///
/// # Errors
/// `ENOSYS` if the options are wrong or the driver is unavailable, which is explained on standard error once; `EAGAIN`
/// if the system has no resources for it at the moment.
pub(crate) fn engine() -> Result<&'static Running, c_int> {
    if let Some(running) = running().filter(|running| running.is_reachable()) {
        return Ok(running);
    }
    while STARTING.swap(true, Ordering::Acquire) {
        std::thread::yield_now();
    }
    let result = match running().filter(|running| running.is_reachable()) {
        Some(running) => Ok(running),
        None if UNUSABLE.load(Ordering::Relaxed) => Err(libc::ENOSYS),
        None => start(),
    };
    STARTING.store(false, Ordering::Release);
    result
}

/// Explains on standard error why the interface does not work.
fn explain(why: &str) -> c_int {
    UNUSABLE.store(true, Ordering::Relaxed);
    eprintln!("platter aio: {why}; asynchronous I/O fails with ENOSYS");
    libc::ENOSYS
}

fn start() -> Result<&'static Running, c_int> {
    let options = Options::from_environment().map_err(|why| explain(&why))?;
    // Before the thread is started: another thread may fork meanwhile, and its child must not wait for a start that
    // nothing carries on.
    if !REGISTERED.swap(true, Ordering::Relaxed) {
        // SAFETY: functions that live as long as the library, which stays loaded.
        unsafe {
            libc::pthread_atfork(None, None, Some(in_child));
            if options.report != ReportForm::Off {
                libc::atexit(report);
            }
        }
    }
    let (tell, told) = mpsc::channel();
    let builder = std::thread::Builder::new().name("platter-aio".into()).stack_size(STACK_BYTES);
    // Signals are for the program's own threads.
    let mask = block_signals();
    let channel = options.channel;
    let spawned = builder.spawn(move || run(channel, &tell));
    restore_signals(&mask);
    spawned.map_err(|_| libc::EAGAIN)?;
    let Started { inbox, driver } = match told.recv() {
        Ok(Ok(started)) => started,
        Ok(Err(error)) => return Err(refusal(&error)),
        Err(_) => return Err(libc::EAGAIN),
    };
    let Options { personality, report, .. } = options;
    let running = Box::into_raw(Box::new(Running { inbox, personality, report, driver }));
    RUNNING.store(running, Ordering::Release);
    // SAFETY: made just now, and never freed.
    Ok(unsafe { &*running })
}

/// What the engine's thread reports when it is ready.
struct Started {
    inbox: Arc<Inbox>,
    driver: &'static str,
}

/// The engine's thread. It also looks for the driver to use: to close a ring that was opened as a trial, the kernel
/// interrupts the thread that opened it, some time later, and calls such as `sigwaitinfo` or `epoll_wait` would return `EINTR`
/// to a thread of the program.
fn run(options: DescriptorOptions, tell: &mpsc::Sender<io::Result<Started>>) {
    let depth = options.depth;
    let opener = match DescriptorOpener::new(options) {
        Ok(opener) => opener,
        Err(error) => return drop(tell.send(Err(error))),
    };
    let driver = opener.driver().name();
    let inbox = Arc::new(Inbox::new(depth, opener.waker()));
    match opener.open() {
        Ok(channel) => {
            let _ = tell.send(Ok(Started { inbox: Arc::clone(&inbox), driver }));
            // Without its thread all waiting threads would wait for ever.
            let _abort = AbortOnPanic;
            Engine::new(&BOARD, inbox, channel, depth).run();
        }
        Err(error) => drop(tell.send(Err(error))),
    }
}

/// What the program is told if the channel cannot be opened. A shortage passes, so that its next request tries again.
fn refusal(error: &io::Error) -> c_int {
    match error.raw_os_error() {
        Some(libc::ENOMEM | libc::EAGAIN | libc::EMFILE | libc::ENFILE) => libc::EAGAIN,
        Some(_) => explain(&format!("the channel cannot be opened: {error}")),
        // The library's own reason: a driver that is unavailable here.
        None => explain(&error.to_string()),
    }
}

struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        std::process::abort();
    }
}

/// Blocks all signals for this thread; returns the mask before.
fn block_signals() -> libc::sigset_t {
    let mut before = MaybeUninit::uninit();
    // SAFETY: the sets are on this stack and are filled before they are read.
    unsafe {
        let mut all = MaybeUninit::uninit();
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    }
}

fn restore_signals(mask: &libc::sigset_t) {
    // SAFETY: the set lives until the call returns.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, null_mut()) };
}

/// The child of a fork has no engine and none of its parent's requests. Its first request starts an engine of its own.
extern "C" fn in_child() {
    RUNNING.store(null_mut(), Ordering::Relaxed);
    STARTING.store(false, Ordering::Relaxed);
    GENERATION.fetch_add(1, Ordering::Relaxed);
    STATISTICS.reset();
}

extern "C" fn report() {
    if let Some(running) = running() {
        eprint!("{}", STATISTICS.report(running.report, running.driver));
    }
}
