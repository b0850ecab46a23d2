//! Data, positions and counts.

use crate::common::{Request, file, pipe, put};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use std::os::unix::fs::FileExt;

#[test]
fn what_is_written_is_read() {
    let file = file();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut bytes = vec![0; 1 << 20];
    random.fill_bytes(&mut bytes);
    let chunks = bytes.chunks(16 << 10).enumerate();
    let start = |(at, chunk): (usize, &[u8])| Request::new(&file, (at << 14) as i64, chunk.to_vec()).write();
    let mut writes: Vec<_> = chunks.map(start).collect();
    assert!(writes.iter_mut().all(|write| write.finish() == Ok(16 << 10)));
    let mut reads: Vec<_> =
        (0..64).map(|at| Request::new(&file, at << 14, vec![0; 16 << 10]).read()).collect();
    for (at, read) in reads.iter_mut().enumerate() {
        assert_eq!(read.finish(), Ok(16 << 10));
        assert!(read.memory == bytes[at << 14..(at + 1) << 14], "{at}");
    }
}

#[test]
fn counts_are_those_of_the_system_calls() {
    let file = file();
    file.write_all_at(b"hello", 0).unwrap();
    let mut short = Request::new(&file, 2, vec![0; 10]).read();
    assert_eq!((short.finish(), &short.memory[..3]), (Ok(3), &b"llo"[..]));
    assert_eq!(Request::new(&file, 5, vec![0; 10]).read().finish(), Ok(0));
    assert_eq!(Request::new(&file, 1 << 40, vec![0; 10]).read().finish(), Ok(0));
    assert_eq!(Request::new(&file, 0, vec![]).read().finish(), Ok(0));
    assert_eq!(Request::new(&file, 100, vec![7; 10]).write().finish(), Ok(10));
    assert_eq!(file.metadata().unwrap().len(), 110, "a write past the end extends the file");
    for op in [libc::O_SYNC, libc::O_DSYNC] {
        assert_eq!(Request::new(&file, 0, vec![]).sync(op).finish(), Ok(0));
    }
}

#[test]
fn descriptors_without_positions_ignore_the_offset() {
    let (read_end, write_end) = pipe();
    let mut read = Request::new(&read_end, 4096, vec![0; 10]).read();
    assert_eq!(read.error(), libc::EINPROGRESS);
    assert_eq!(read.result(), Err(libc::EINPROGRESS));
    put(&write_end, b"data");
    assert_eq!((read.finish(), &read.memory[..4]), (Ok(4), &b"data"[..]));
    let (one, other) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut answer = Request::new(&one, -1, vec![0; 3]).read();
    assert_eq!(Request::new(&one, 0, b"ask".to_vec()).write().finish(), Ok(3), "the read does not hold it");
    let mut asked = Request::new(&other, 0, vec![0; 3]).read();
    assert_eq!((asked.finish(), &asked.memory[..]), (Ok(3), &b"ask"[..]));
    put(&other, b"yes");
    assert_eq!((answer.finish(), &answer.memory[..]), (Ok(3), &b"yes"[..]));
}

#[test]
fn errors_of_the_file_are_results() {
    let directory = tempfile::tempdir().unwrap();
    let directory = std::fs::File::open(directory.path()).unwrap();
    assert_eq!(Request::new(&directory, 0, vec![0; 8]).read().finish(), Err(libc::EISDIR));
    let (read_end, write_end) = pipe();
    assert_eq!(Request::new(&read_end, 0, vec![]).sync(libc::O_SYNC).finish(), Err(libc::EINVAL));
    drop(read_end);
    // Rust programs ignore SIGPIPE.
    let mut write = Request::new(&write_end, 0, vec![0; 8]).write();
    assert_eq!(write.finish(), Err(libc::EPIPE));
}
