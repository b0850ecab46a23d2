//! The three results of a cancellation.

use crate::common::{Request, file, get, outcome, pipe, put};
use platter_aio::engine::{AIO_ALLDONE, AIO_CANCELED, AIO_NOTCANCELED};
use platter_aio::posix::aio_cancel;
use std::os::fd::AsRawFd;
use std::ptr::null_mut;

fn cancel(request: &mut Request) -> i32 {
    let fd = request.block.aio_fildes;
    // SAFETY: the block is one.
    unsafe { aio_cancel(fd, &raw mut *request.block) }
}

fn cancel_all(fd: &impl AsRawFd) -> i32 {
    // SAFETY: no block.
    unsafe { aio_cancel(fd.as_raw_fd(), null_mut()) }
}

/// A thread that has begun to read cannot be stopped, so both answers are right for a read that waits for data; the
/// status has to agree.
fn agrees(answer: i32, read: &mut Request) -> bool {
    match answer {
        AIO_CANCELED => {
            assert_eq!(read.finish(), Err(libc::ECANCELED));
            true
        }
        AIO_NOTCANCELED => {
            assert_eq!(read.error(), libc::EINPROGRESS);
            assert_eq!(std::env::var("PLATTER_AIO_DRIVER").as_deref(), Ok("threads"));
            false
        }
        _ => panic!("{answer}"),
    }
}

#[test]
fn a_read_that_waits_for_data_is_cancelled() {
    let (read_end, write_end) = pipe();
    let mut read = Request::new(&read_end, 0, vec![0; 8]).read();
    let answer = cancel(&mut read);
    if agrees(answer, &mut read) {
        put(&write_end, b"kept");
        assert_eq!(get(&read_end, 8), b"kept", "nothing was read");
    } else {
        put(&write_end, b"late");
        assert_eq!(read.finish(), Ok(4));
    }
    assert_eq!((cancel(&mut read), cancel_all(&read_end)), (AIO_ALLDONE, AIO_ALLDONE));
}

#[test]
fn a_request_that_has_ended_is_done() {
    let file = file();
    let mut write = Request::new(&file, 0, vec![0; 8]).write();
    assert_eq!(write.finish(), Ok(8));
    assert_eq!(cancel(&mut write), AIO_ALLDONE);
    assert_eq!(cancel_all(&file), AIO_ALLDONE);
    let other = crate::common::file();
    // SAFETY: the block is one.
    let mismatched = unsafe { aio_cancel(other.as_raw_fd(), &raw mut *write.block) };
    assert_eq!(outcome(mismatched.into()), Err(libc::EINVAL));
}

#[test]
fn requests_that_wait_for_others_are_cancelled_and_the_others_go_on() {
    let (read_end, write_end) = pipe();
    let mut first = Request::new(&read_end, 0, vec![0; 4]).read();
    let mut second = Request::new(&read_end, 0, vec![0; 4]).read();
    let mut third = Request::new(&read_end, 0, vec![0; 4]).read();
    let mut sync = Request::new(&read_end, 0, vec![]).sync(libc::O_SYNC);
    assert_eq!(cancel(&mut second), AIO_CANCELED);
    assert_eq!(second.finish(), Err(libc::ECANCELED));
    assert_eq!((first.error(), third.error()), (libc::EINPROGRESS, libc::EINPROGRESS));
    put(&write_end, b"abcd");
    assert_eq!((first.finish(), &first.memory[..]), (Ok(4), &b"abcd"[..]));
    put(&write_end, b"efgh");
    assert_eq!((third.finish(), &third.memory[..]), (Ok(4), &b"efgh"[..]));
    assert_eq!(sync.finish(), Err(libc::EINVAL), "a pipe cannot be synced, but the sync was tried");
}

#[test]
fn all_requests_of_a_descriptor_are_cancelled_and_no_others() {
    let (read_end, write_end) = pipe();
    let (other_end, other_write) = pipe();
    let mut reads: Vec<_> = (0..8).map(|_| Request::new(&read_end, 0, vec![0; 4]).read()).collect();
    let mut other = Request::new(&other_end, 0, vec![0; 4]).read();
    match cancel_all(&read_end) {
        AIO_CANCELED => assert!(reads.iter_mut().all(|read| read.finish() == Err(libc::ECANCELED))),
        AIO_NOTCANCELED => {
            put(&write_end, b"abcd");
            assert_eq!(reads[0].finish(), Ok(4));
            assert!(reads[1..].iter_mut().all(|read| read.finish() == Err(libc::ECANCELED)));
        }
        answer => panic!("{answer}"),
    }
    assert_eq!(other.error(), libc::EINPROGRESS);
    put(&other_write, b"1234");
    assert_eq!(other.finish(), Ok(4));
}

#[test]
fn threads_that_cancel_the_same_request_all_get_an_answer() {
    let (read_end, write_end) = pipe();
    let mut read = Request::new(&read_end, 0, vec![0; 4]).read();
    let answers: Vec<i32> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| cancel_all(&read_end))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    if answers.contains(&AIO_NOTCANCELED) {
        put(&write_end, b"late");
        assert_eq!(read.finish(), Ok(4));
    } else {
        assert_eq!(answers.iter().filter(|answer| **answer == AIO_CANCELED).count(), 1, "{answers:?}");
        assert_eq!(read.finish(), Err(libc::ECANCELED));
    }
}
