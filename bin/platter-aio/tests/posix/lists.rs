//! `lio_listio`.

use crate::common::{Request, file, outcome, pipe, put};
use platter_aio::block::Block;
use platter_aio::posix::{LIO_NOP, LIO_NOWAIT, LIO_READ, LIO_WAIT, LIO_WRITE, lio_listio};
use std::os::unix::fs::FileExt;
use std::ptr::{null, null_mut};

fn start(mode: i32, list: &[*mut Block]) -> Result<i64, i32> {
    // SAFETY: the list has that many pointers to blocks that stay in place.
    outcome(unsafe { lio_listio(mode, list.as_ptr(), list.len() as i32, null()) }.into())
}

fn wait(list: &[*mut Block]) -> Result<i64, i32> {
    // A signal of a test in parallel may end the wait.
    match start(LIO_WAIT, list) {
        Err(libc::EINTR) => {
            for block in list.iter().filter(|block| !block.is_null()) {
                // SAFETY: a block.
                while unsafe { platter_aio::posix::aio_error(*block) } == libc::EINPROGRESS {
                    std::thread::yield_now();
                }
            }
            Ok(0)
        }
        result => result,
    }
}

fn entry(request: &mut Request, op: i32) -> *mut Block {
    request.block.aio_lio_opcode = op;
    &raw mut *request.block
}

#[test]
fn a_list_is_waited_for() {
    let file = file();
    file.write_all_at(&[5; 100], 0).unwrap();
    let mut write = Request::new(&file, 200, vec![6; 50]);
    let mut read = Request::new(&file, 0, vec![0; 100]);
    let mut nothing = Request::new(&file, -1, vec![]);
    let list =
        [entry(&mut write, LIO_WRITE), null_mut(), entry(&mut nothing, LIO_NOP), entry(&mut read, LIO_READ)];
    assert_eq!(wait(&list), Ok(0));
    assert_eq!((write.result(), read.result()), (Ok(50), Ok(100)));
    assert_eq!((nothing.error(), nothing.result()), (0, Ok(0)));
    assert_eq!(read.memory, [5; 100]);
}

#[test]
fn a_request_that_has_not_ended_is_left_alone_by_a_list_that_asks_nothing_of_it() {
    let (read_end, write_end) = pipe();
    let mut read = Request::new(&read_end, 0, vec![0; 4]).read();
    assert_eq!(wait(&[entry(&mut read, LIO_NOP)]), Ok(0));
    assert_eq!(read.error(), libc::EINPROGRESS);
    put(&write_end, b"data");
    assert_eq!(read.error_when_ended(), 0);
    assert_eq!(wait(&[entry(&mut read, LIO_NOP)]), Ok(0));
    assert_eq!(read.result(), Ok(4), "and so is its result");
}

#[test]
fn a_list_without_waiting_runs_in_the_background() {
    let (read_end, write_end) = pipe();
    let mut read = Request::new(&read_end, 0, vec![0; 4]);
    assert_eq!(start(LIO_NOWAIT, &[entry(&mut read, LIO_READ)]), Ok(0));
    assert_eq!(read.error(), libc::EINPROGRESS);
    put(&write_end, b"data");
    assert_eq!(read.finish(), Ok(4));
}

#[test]
fn a_failed_request_fails_the_list_and_not_the_others() {
    let file = file();
    let directory = tempfile::tempdir().unwrap();
    let directory = std::fs::File::open(directory.path()).unwrap();
    let mut good = Request::new(&file, 0, vec![1; 64]);
    let mut bad = Request::new(&directory, 0, vec![0; 64]);
    let list = [entry(&mut bad, LIO_READ), entry(&mut good, LIO_WRITE)];
    let result = wait(&list);
    assert!([Err(libc::EIO), Ok(0)].contains(&result), "{result:?}");
    assert_eq!((bad.error(), good.result()), (libc::EISDIR, Ok(64)));
    let mut wrong = Request::new(&file, 0, vec![0; 8]);
    let mut closed = Request::new(&-1, 0, vec![0; 8]);
    let list = [entry(&mut wrong, 9), entry(&mut closed, LIO_READ), entry(&mut good, LIO_WRITE)];
    assert_eq!(start(LIO_NOWAIT, &list), Err(libc::EIO));
    assert_eq!((wrong.error(), closed.error(), good.finish()), (libc::EINVAL, libc::EBADF, Ok(64)));
}
