//! A shortage of descriptors passes: what failed for want of one works when there are some again. Each test runs in a
//! process of its own, because the limit is that of the process.

use crate::slow::slow_disk;
use platter_disk::drivers::descriptor_opener::{DescriptorOpener, DescriptorOptions};
use platter_disk::drivers::{Choice, FileDriver};
use platter_disk::service;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::future::Future;
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Set in the child processes.
const CHILD: &str = "PLATTER_TEST_SHORTAGE";

/// Whether this process is the child. Otherwise runs the test in one, which must pass.
fn is_child(test: &str) -> bool {
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let mut child = Command::new(std::env::current_exe().expect("a test is a program"));
    child.args(["--exact", &format!("shortage::{test}"), "--nocapture"]);
    let output = child.env(CHILD, "1").output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    false
}

/// Lets the process open this many descriptors more. Returns the limit from before.
fn leave(free: u64) -> Rlimit {
    let before = getrlimit(Resource::Nofile);
    // The lowest number that is not in use. Below a limit of that number nothing is free.
    let lowest = std::fs::File::open("/dev/null").expect("a descriptor is free").as_raw_fd();
    let current = Some(u64::try_from(lowest).expect("a number") + free);
    setrlimit(Resource::Nofile, Rlimit { current, maximum: before.maximum }).expect("a limit may be lowered");
    before
}

fn opened(driver: FileDriver) -> std::io::Result<DescriptorOpener> {
    DescriptorOpener::new(DescriptorOptions { driver: Choice::Only(driver), depth: 8, threads: 1 })
}

#[test]
fn a_driver_that_found_no_descriptor_is_tried_again() {
    if !is_child("a_driver_that_found_no_descriptor_is_tried_again") {
        return;
    }
    let driver = FileDriver::Uring;
    // The waker takes two, and a ring needs another one.
    for free in 0..3 {
        let before = leave(free);
        let refused = opened(driver).and_then(DescriptorOpener::open).err();
        setrlimit(Resource::Nofile, before).expect("back to the limit from before");
        let error = refused.expect("no descriptor is left");
        if error.raw_os_error().is_none() {
            eprintln!("skipped: {error}");
            return;
        }
        assert_eq!(error.raw_os_error(), Some(libc::EMFILE), "{free} free");
        assert!(opened(driver).expect("there are descriptors").open().is_ok(), "{free} free");
    }
}

#[test]
fn threads_need_no_descriptor() {
    if !is_child("threads_need_no_descriptor") {
        return;
    }
    let before = leave(0);
    let opened = opened(FileDriver::Threads).and_then(DescriptorOpener::open);
    setrlimit(Resource::Nofile, before).expect("back to the limit from before");
    assert!(opened.is_ok(), "{:?}", opened.err());
}

fn until(what: &str, mut so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !so() {
        assert!(begin.elapsed() < Duration::from_secs(60), "never: {what}");
        std::thread::yield_now();
    }
}

fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn the_service_thread_rests_once_there_is_a_descriptor_for_it() {
    if !is_child("the_service_thread_rests_once_there_is_a_descriptor_for_it") {
        return;
    }
    let let_go = Arc::new(AtomicBool::new(false));
    let device = slow_disk(&let_go);
    let before = leave(0);
    let mut future = device.write(0, vec![1; 512]);
    assert!(poll_once(&mut future).is_pending());
    until("the thread has looked for a descriptor", || service::rounds() > 1);
    setrlimit(Resource::Nofile, before).expect("back to the limit from before");
    let_go.store(true, Ordering::SeqCst);
    until("the write ends", || poll_once(&mut future).is_ready());
    // A period without a round of the thread.
    let (_tell, told) = mpsc::channel::<()>();
    until("the thread rests", || {
        let rounds = service::rounds();
        assert!(told.recv_timeout(Duration::from_millis(100)).is_err());
        service::rounds() == rounds
    });
}
