//! The order that POSIX requires.

use crate::common::{Request, file, get, pipe, put, suspend};
use std::fs::OpenOptions;
use std::io::Read;

#[test]
fn writes_append_in_the_order_of_the_calls() {
    let named = tempfile::NamedTempFile::new().unwrap();
    let file = OpenOptions::new().append(true).open(named.path()).unwrap();
    let mut writes: Vec<_> =
        (0..200u32).map(|number| Request::new(&file, 0, number.to_le_bytes().to_vec()).write()).collect();
    assert!(writes.iter_mut().all(|write| write.finish() == Ok(4)));
    let mut bytes = Vec::new();
    std::fs::File::open(named.path()).unwrap().read_to_end(&mut bytes).unwrap();
    let expected: Vec<u8> = (0..200u32).flat_map(u32::to_le_bytes).collect();
    assert!(bytes == expected);
}

#[test]
fn transfers_without_positions_keep_their_order() {
    let (read_end, write_end) = pipe();
    let mut reads: Vec<_> = (0..50).map(|_| Request::new(&read_end, 0, vec![0; 1]).read()).collect();
    let mut writes: Vec<_> = (0..50u8).map(|byte| Request::new(&write_end, 0, vec![byte]).write()).collect();
    assert!(writes.iter_mut().all(|write| write.finish() == Ok(1)));
    for (at, read) in reads.iter_mut().enumerate() {
        assert_eq!((read.finish(), &read.memory[..]), (Ok(1), &[at as u8][..]));
    }
}

#[test]
fn a_sync_ends_after_what_was_queued_before_it() {
    let (read_end, write_end) = pipe();
    let mut read = Request::new(&read_end, 0, vec![0; 4]).read();
    let mut sync = Request::new(&read_end, 0, vec![]).sync(libc::O_DSYNC);
    // Of another descriptor: it does not wait.
    let file = file();
    assert_eq!(Request::new(&file, 0, vec![]).sync(libc::O_DSYNC).finish(), Ok(0));
    put(&write_end, b"data");
    suspend(&[&sync]);
    assert_eq!(read.error(), 0, "the read has ended");
    assert_eq!((read.finish(), sync.finish()), (Ok(4), Err(libc::EINVAL)));
}

#[test]
fn writes_and_syncs_of_a_file_all_end() {
    let file = file();
    let mut requests = Vec::new();
    for at in 0..40 {
        requests.push(Request::new(&file, at * 512, vec![at as u8; 512]).write());
        if at % 4 == 0 {
            requests.push(Request::new(&file, 0, vec![]).sync(libc::O_SYNC));
        }
    }
    for request in &mut requests {
        assert_eq!(request.finish(), Ok(request.memory.len()));
    }
}

#[test]
fn a_closed_descriptor_does_not_pass_requests_to_its_successor() {
    let (read_end, write_end) = pipe();
    let mut first = Request::new(&read_end, 0, vec![0; 4]).read();
    let mut held = Request::new(&read_end, 0, vec![0; 4]).read();
    let kept = read_end.try_clone().unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&read_end);
    drop(read_end);
    // Takes the number, unless a test in parallel does.
    let (successor, its_writer) = pipe();
    put(&its_writer, b"mine");
    put(&write_end, b"data");
    let outcome = first.finish();
    // The first one may have started before the descriptor was closed.
    assert!([Ok(4), Err(libc::ECANCELED), Err(libc::EBADF)].contains(&outcome), "{outcome:?}");
    assert_eq!(held.finish(), Err(libc::ECANCELED), "descriptor {number}");
    // A request that is just being started may use the number before it notices (docs/aio.md, Closing).
    if first.memory != b"mine" {
        assert_eq!(get(&successor, 4), b"mine");
    }
    drop(kept);
}
