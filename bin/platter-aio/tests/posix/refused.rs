//! What the functions refuse.

use crate::again;
use crate::common::{Request, file, outcome, pipe};
use platter_aio::block::Block;
use platter_aio::event::Event;
use platter_aio::posix::{
    LIO_WAIT, aio_cancel, aio_error, aio_fsync, aio_read, aio_return, aio_suspend, aio_write, lio_listio,
};
use std::fs::OpenOptions;
use std::ptr::{null, null_mut};

#[test]
fn values_out_of_range_are_refused_and_stand_in_the_block() {
    let file = file();
    let request = || Request::new(&file, 0, vec![0; 16]);
    let invalid: [fn(&mut Block); 6] = [
        |block| block.aio_offset = -1,
        |block| block.aio_reqprio = -1,
        |block| block.aio_reqprio = 21,
        |block| block.aio_nbytes = isize::MAX as usize + 1,
        |block| block.aio_sigevent.sigev_notify = 77,
        |block| {
            block.aio_sigevent = Event { sigev_notify: libc::SIGEV_SIGNAL, sigev_signo: 65, ..Event::NONE }
        },
    ];
    for change in invalid {
        let mut request = request();
        change(&mut request.block);
        assert_eq!(request.start(aio_write), Err(libc::EINVAL));
        assert_eq!((request.error(), request.result()), (libc::EINVAL, Err(libc::EINVAL)));
    }
    let mut lowered = request();
    lowered.block.aio_reqprio = 20;
    assert_eq!(lowered.write().finish(), Ok(16));
    let mut request = request();
    // SAFETY: the block is one.
    assert_eq!(outcome(unsafe { aio_fsync(0, &raw mut *request.block) }.into()), Err(libc::EINVAL));
}

#[test]
fn descriptors_that_are_not_open_for_the_operation_are_refused() {
    let named = tempfile::NamedTempFile::new().unwrap();
    let readable = std::fs::File::open(named.path()).unwrap();
    let writable = OpenOptions::new().write(true).open(named.path()).unwrap();
    assert_eq!(Request::new(&readable, 0, vec![0; 8]).start(aio_write), Err(libc::EBADF));
    assert_eq!(Request::new(&writable, 0, vec![0; 8]).start(aio_read), Err(libc::EBADF));
    assert_eq!(Request::new(&-1, 0, vec![0; 8]).start(aio_read), Err(libc::EBADF));
    assert_eq!(Request::new(&-1, 0, vec![0; 8]).start(aio_write), Err(libc::EBADF));
    // SAFETY: no block.
    assert_eq!(outcome(unsafe { aio_cancel(-1, null_mut()) }.into()), Err(libc::EBADF));
}

#[test]
fn results_are_given_once_and_only_for_requests() {
    let mut never = Request::new(&0, 0, vec![]);
    // SAFETY: blocks, or none.
    unsafe {
        assert_eq!(outcome(aio_error(&raw const *never.block).into()), Err(libc::EINVAL));
        assert_eq!(outcome(aio_error(null()).into()), Err(libc::EINVAL));
        assert_eq!(outcome(aio_return(null_mut()) as i64), Err(libc::EINVAL));
        assert_eq!(outcome(aio_read(null_mut()).into()), Err(libc::EINVAL));
    }
    assert_eq!(never.result(), Err(libc::EINVAL));
    let file = file();
    let mut write = Request::new(&file, 0, vec![1; 100]).write();
    assert_eq!(write.finish(), Ok(100));
    assert_eq!((write.result(), write.error()), (Err(libc::EINVAL), 0));
    // A block may be used again.
    write.start(aio_write).unwrap();
    assert_eq!(write.finish(), Ok(100));
}

#[test]
fn a_block_in_progress_is_not_started_again() {
    let (read_end, write_end) = pipe();
    let mut read = Request::new(&read_end, 0, vec![0; 4]).read();
    assert_eq!(read.start(aio_read), Err(libc::EINVAL));
    assert_eq!(read.error(), libc::EINPROGRESS);
    crate::common::put(&write_end, b"once");
    assert_eq!(read.finish(), Ok(4));
}

#[test]
fn lists_and_times_are_checked() {
    let time = |tv_sec, tv_nsec| libc::timespec { tv_sec, tv_nsec };
    // SAFETY: empty lists, or lists of null pointers.
    unsafe {
        assert_eq!(outcome(aio_suspend(null(), -1, null()).into()), Err(libc::EINVAL));
        assert_eq!(outcome(aio_suspend(null(), 0, &time(0, -1)).into()), Err(libc::EINVAL));
        assert_eq!(outcome(aio_suspend([null(); 2].as_ptr(), 2, null()).into()), Ok(0));
        assert_eq!(outcome(lio_listio(9, null(), 0, null()).into()), Err(libc::EINVAL));
        assert_eq!(outcome(lio_listio(LIO_WAIT, null(), -1, null()).into()), Err(libc::EINVAL));
        assert_eq!(outcome(lio_listio(LIO_WAIT, [null_mut(); 2].as_ptr(), 2, null()).into()), Ok(0));
    }
    let (read_end, write_end) = pipe();
    let mut read = Request::new(&read_end, 0, vec![0; 4]).read();
    let list = [&raw const *read.block];
    for passed in [time(0, 0), time(0, 1000)] {
        // SAFETY: one block.
        let waited = outcome(unsafe { aio_suspend(list.as_ptr(), 1, &raw const passed) }.into());
        assert!([Err(libc::EAGAIN), Err(libc::EINTR)].contains(&waited), "{waited:?}");
    }
    crate::common::put(&write_end, b"4567");
    assert_eq!(read.finish(), Ok(4));
}

#[test]
fn requests_beyond_the_depth_are_refused() {
    if !again::is_inner() || std::env::var("PLATTER_AIO_DEPTH").as_deref() != Ok("2") {
        return;
    }
    let (read_end, write_end) = pipe();
    let mut reads: Vec<_> = (0..2).map(|_| Request::new(&read_end, 0, vec![0; 1]).read()).collect();
    assert_eq!(Request::new(&read_end, 0, vec![0; 1]).start(aio_read), Err(libc::EAGAIN));
    crate::common::put(&write_end, b"ab");
    assert!(reads.iter_mut().all(|read| read.finish() == Ok(1)));
    let mut more = Request::new(&read_end, 0, vec![0; 1]);
    // The place of a request is free soon after its end.
    while let Err(errno) = more.start(aio_read) {
        assert_eq!(errno, libc::EAGAIN);
        std::thread::yield_now();
    }
    crate::common::put(&write_end, b"c");
    assert_eq!(more.finish(), Ok(1));
}

#[test]
fn the_depth_bounds_the_requests() {
    if again::is_inner() {
        return;
    }
    let output = again::run("requests_beyond_the_depth", &[("PLATTER_AIO_DEPTH", "2")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn wrong_options_fail_all_requests_with_enosys() {
    if again::is_inner() {
        if std::env::var("PLATTER_AIO_DRIVER").as_deref() == Ok("ring") {
            let file = file();
            assert_eq!(Request::new(&file, 0, vec![0; 8]).start(aio_read), Err(libc::ENOSYS));
            assert_eq!(Request::new(&file, 0, vec![0; 8]).start(aio_write), Err(libc::ENOSYS));
        }
        return;
    }
    let output = again::run("wrong_options", &[("PLATTER_AIO_DRIVER", "ring")]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    let expected = "platter aio: PLATTER_AIO_DRIVER=ring: expected auto, uring or threads; unset it for auto";
    assert_eq!(text.lines().filter(|line| line.starts_with(expected)).count(), 1, "{text}");
}
