//! Signals and threads that report the end of requests.

use crate::common::{Request, file, outcome, pipe, put};
use platter_aio::block::Block;
use platter_aio::event::{Event, SI_ASYNCIO};
use platter_aio::posix::{LIO_NOWAIT, LIO_WRITE, aio_suspend, lio_listio};
use std::ptr::null;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};

static SEEN: AtomicUsize = AtomicUsize::new(0);
static CODE: AtomicI32 = AtomicI32::new(0);
static VALUES: AtomicU64 = AtomicU64::new(0);

extern "C" fn handler(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes the information of the signal.
    let (code, value) = unsafe { ((*info).si_code, (*info).si_value().sival_ptr as u64) };
    CODE.store(code, Ordering::SeqCst);
    VALUES.fetch_or(1 << value, Ordering::SeqCst);
    SEEN.fetch_add(1, Ordering::SeqCst);
}

extern "C" fn nothing(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {}

fn handle(signal: i32, function: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void)) {
    // SAFETY: an action of zeroes and a function that a handler may be.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = function as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(signal, &raw const action, std::ptr::null_mut()), 0);
    }
}

fn until(what: impl Fn() -> bool) {
    while !what() {
        std::thread::yield_now();
    }
}

/// If a thread of this process waits for something.
fn sleeps(thread: libc::pid_t) -> bool {
    let state = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
    state.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('S'))
}

#[test]
fn signals_are_queued_with_code_and_value() {
    let signal = libc::SIGRTMIN() + 3;
    handle(signal, handler);
    let file = file();
    let event = |value| Event {
        sigev_notify: libc::SIGEV_SIGNAL,
        sigev_signo: signal,
        sigev_value: value,
        ..Event::NONE
    };
    let start = |value: usize| {
        let mut request = Request::new(&file, value as i64 * 8, vec![1; 8]);
        request.block.aio_sigevent = event(value);
        request.write()
    };
    let mut writes: Vec<_> = (0..10).map(start).collect();
    until(|| SEEN.load(Ordering::SeqCst) == 10);
    assert_eq!((CODE.load(Ordering::SeqCst), VALUES.load(Ordering::SeqCst)), (SI_ASYNCIO, 0x3ff));
    assert!(writes.iter_mut().all(|write| write.error() == 0 && write.result() == Ok(8)), "ended before");
    // A list: one signal at its end.
    let mut more: Vec<_> = (0..4).map(|at| Request::new(&file, at * 8, vec![2; 8])).collect();
    let entry = |request: &mut Request| -> *mut Block {
        request.block.aio_lio_opcode = LIO_WRITE;
        &raw mut *request.block
    };
    let list: Vec<_> = more.iter_mut().map(entry).collect();
    // SAFETY: the list has four blocks that stay in place.
    assert_eq!(unsafe { lio_listio(LIO_NOWAIT, list.as_ptr(), 4, &event(20)) }, 0);
    until(|| SEEN.load(Ordering::SeqCst) == 11);
    assert_eq!(VALUES.load(Ordering::SeqCst), 0x1003ff);
    assert!(more.iter_mut().all(|write| write.error() == 0 && write.result() == Ok(8)));
}

static CALLS: Mutex<Option<mpsc::Sender<usize>>> = Mutex::new(None);

extern "C" fn called(value: usize) {
    CALLS.lock().unwrap().as_ref().unwrap().send(value).unwrap();
}

#[test]
fn functions_are_called_on_a_thread() {
    let (send, calls) = mpsc::channel();
    *CALLS.lock().unwrap() = Some(send);
    let file = file();
    let mut writes = Vec::new();
    for value in 0..5 {
        let mut request = Request::new(&file, 0, vec![0; 8]);
        request.block.aio_sigevent = Event {
            sigev_notify: libc::SIGEV_THREAD,
            sigev_notify_function: Some(called),
            sigev_value: value,
            ..Event::NONE
        };
        writes.push(request.write());
    }
    let mut values: Vec<_> = (0..5).map(|_| calls.recv().unwrap()).collect();
    values.sort_unstable();
    assert_eq!(values, [0, 1, 2, 3, 4]);
    assert!(writes.iter_mut().all(|write| write.finish() == Ok(8)));
}

#[test]
fn a_signal_ends_a_wait() {
    let signal = libc::SIGRTMIN() + 4;
    handle(signal, nothing);
    let (read_end, write_end) = pipe();
    let mut read = Request::new(&read_end, 0, vec![0; 4]).read();
    let over = AtomicBool::new(false);
    // SAFETY: take no memory.
    let (waiter, id) = unsafe { (libc::pthread_self(), libc::gettid()) };
    std::thread::scope(|scope| {
        // Sent only while the thread sleeps: real-time signals are queued, and a thread that gets them faster than its
        // handler returns does nothing else. Repeated, because it may have slept before the wait began.
        scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                if sleeps(id) {
                    // SAFETY: the thread lives longer than this one.
                    unsafe { libc::pthread_kill(waiter, signal) };
                }
                std::thread::yield_now();
            }
        });
        let list = [&raw const *read.block];
        // SAFETY: one block.
        let result = outcome(unsafe { aio_suspend(list.as_ptr(), 1, null()) }.into());
        over.store(true, Ordering::SeqCst);
        assert_eq!(result, Err(libc::EINTR));
    });
    put(&write_end, b"data");
    assert_eq!(read.finish(), Ok(4));
}
