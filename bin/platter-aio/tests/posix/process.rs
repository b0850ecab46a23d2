//! Child processes, and the end of threads.

use crate::common::{Request, file, pipe, put, suspend};

#[test]
fn a_child_has_none_of_the_requests_and_an_engine_of_its_own() {
    let (read_end, write_end) = pipe();
    let mut read = Request::new(&read_end, 0, vec![0; 4]).read();
    let file = file();
    // SAFETY: the child only calls the library and leaves with `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        suspend(&[&read]);
        let mut status = i32::from(read.error() != libc::ECANCELED);
        let mut write = Request::new(&file, 0, b"child".to_vec()).write();
        status |= 2 * i32::from(write.finish() != Ok(5));
        // SAFETY: ends the process without running what belongs to the parent.
        unsafe { libc::_exit(status) };
    }
    let mut status = 0;
    // SAFETY: the status is on this stack.
    while unsafe { libc::waitpid(child, &raw mut status, 0) } != child {}
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status:x}");
    assert_eq!(read.error(), libc::EINPROGRESS);
    put(&write_end, b"data");
    assert_eq!(read.finish(), Ok(4));
    let mut written = Request::new(&file, 0, vec![0; 8]).read();
    assert_eq!((written.finish(), &written.memory[..5]), (Ok(5), &b"child"[..]));
}

#[test]
fn requests_outlive_the_thread_that_started_them() {
    let (read_end, write_end) = pipe();
    let start = || Request::new(&read_end, 0, vec![0; 4]).read();
    let mut read = std::thread::scope(|scope| scope.spawn(start).join().unwrap());
    put(&write_end, b"data");
    assert_eq!(read.finish(), Ok(4));
}
