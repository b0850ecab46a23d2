//! Positions: moving, sharing, the end, errors.

use crate::cached::{Cached, SIZE, is_at};
use platter_block::fault::{Error, Kind};
use platter_disk::device::Device;
use platter_disk::handle::Handle;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::thread;

#[test]
fn clones_share_a_position_and_handles_do_not() {
    let (_cached, device) = Cached::open();
    let (mut one, mut other) = (device.handle(), device.handle());
    let mut same = one.clone();
    let mut block = [0; 1024];
    one.read_exact(&mut block).unwrap();
    same.read_exact(&mut block).unwrap();
    assert!(is_at(&block, 1024));
    other.read_exact(&mut block).unwrap();
    assert!(is_at(&block, 0));
    assert_eq!((one.position(), same.position(), other.position()), (2048, 2048, 1024));
    one.read_at(&mut block, 8192).unwrap();
    assert!(is_at(&block, 8192));
    assert_eq!(one.position(), 2048);
    assert_eq!(same.seek(SeekFrom::Current(-2000)).unwrap(), 48);
    assert_eq!(one.stream_position().unwrap(), 48);
}

#[test]
fn the_end_is_short_then_nothing_resident_or_not() {
    for fill in [false, true] {
        let (cached, device) = Cached::open();
        if fill {
            cached.fill();
        }
        let mut handle = device.handle();
        assert_eq!(handle.seek(SeekFrom::End(-700)).unwrap(), SIZE - 700);
        let mut buffer = [0; 1000];
        assert_eq!(handle.read(&mut buffer).unwrap(), 700);
        assert!(is_at(&buffer[..700], SIZE - 700));
        assert_eq!(handle.read(&mut buffer).unwrap(), 0);
        assert_eq!(handle.write(&buffer).unwrap(), 0);
        assert_eq!(handle.write_all(&buffer).unwrap_err().kind(), ErrorKind::WriteZero);
        assert_eq!(handle.seek(SeekFrom::Start(u64::MAX)).unwrap(), u64::MAX);
        assert_eq!(handle.read(&mut buffer).unwrap(), 0);
        assert_eq!(handle.read_vectored(&mut [IoSliceMut::new(&mut buffer)]).unwrap(), 0);
        for (pos, len) in [(SIZE - 700, 1000), (SIZE, 512), (u64::MAX, 1)] {
            let error = handle.read_at(&mut vec![0; len], pos).unwrap_err();
            assert_eq!((error.fault.kind, error.offset, error.len), (Kind::OutOfRange, pos, len as u64));
        }
        assert!(handle.read_at(&mut [], 0).is_err());
    }
}

#[test]
fn a_seek_to_nowhere_moves_nothing() {
    let mut handle = Device::ram(SIZE).unwrap().handle();
    handle.seek(SeekFrom::Start(100)).unwrap();
    for to in [SeekFrom::Current(-101), SeekFrom::End(i64::MIN)] {
        let error = handle.seek(to).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("before the start"), "{error}");
    }
    handle.seek(SeekFrom::Start(u64::MAX)).unwrap();
    assert!(handle.seek(SeekFrom::Current(1)).is_err());
    assert_eq!(handle.position(), u64::MAX);
}

#[test]
fn vectored_calls_take_all_that_fits_and_else_the_first() {
    let (_cached, device) = Cached::open();
    let mut handle = device.handle();
    let (mut a, mut b) = ([0; 512], [0; 1024]);
    assert_eq!(handle.read_vectored(&mut [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)]).unwrap(), 1536);
    assert!(is_at(&a, 0) && is_at(&b, 512));
    handle.seek(SeekFrom::Start(SIZE - 1024)).unwrap();
    assert_eq!(handle.read_vectored(&mut [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)]).unwrap(), 512);
    assert_eq!(handle.write_vectored(&[IoSlice::new(&[]), IoSlice::new(&[7; 600])]).unwrap(), 512);
    assert_eq!(handle.write_vectored(&[IoSlice::new(&[7])]).unwrap(), 0);
    device.read_at(&mut a, SIZE - 512).unwrap();
    assert_eq!(a, [7; 512]);
    assert!(handle.write_vectored_at(&[IoSlice::new(&b), IoSlice::new(&a)], 4096).is_ok());
    assert!(handle.read_vectored_at(&mut [IoSliceMut::new(&mut a)], SIZE).is_err());
}

/// One descriptor, many threads: every block is read by exactly one thread.
#[test]
fn threads_on_one_handle_share_the_device_out() {
    for fill in [false, true] {
        let (cached, device) = Cached::open();
        if fill {
            cached.fill();
        }
        let handle = device.handle();
        let read = |mut handle: &Handle| {
            let (mut block, mut firsts) = ([0; 512], Vec::new());
            while handle.read(&mut block).unwrap() > 0 {
                firsts.push((0..SIZE / 512).find(|at| is_at(&block, at * 512)).unwrap());
            }
            firsts
        };
        let mut all: Vec<u64> = thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| read(&handle))).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        all.sort_unstable();
        assert_eq!(all, (0..SIZE / 512).collect::<Vec<_>>());
        assert_eq!(handle.position(), SIZE);
    }
}

#[test]
fn a_call_that_fails_leaves_the_position() {
    let (cached, device) = Cached::open();
    let mut handle = device.handle();
    handle.seek(SeekFrom::Start(1024)).unwrap();
    let calls: [fn(&mut Handle) -> io::Result<usize>; 4] = [
        |handle| handle.read(&mut [0; 512]),
        |handle| handle.read_vectored(&mut [IoSliceMut::new(&mut [0; 512])]),
        |handle| handle.write(&[0; 512]),
        |handle| handle.write_vectored(&[IoSlice::new(&[0; 512])]),
    ];
    for call in calls {
        cached.fail_next(1024, 512);
        let error = call(&mut handle).unwrap_err();
        let source = error.get_ref().and_then(|source| source.downcast_ref::<Error>()).unwrap();
        assert_eq!((source.fault.kind, source.offset, source.len), (Kind::Io, 1024, 512));
        assert_eq!(handle.position(), 1024);
    }
    assert_eq!(handle.read(&mut [0; 512]).unwrap(), 512);
    assert_eq!(handle.position(), 1536);
}

#[test]
fn writes_go_to_the_position_and_a_flush_makes_them_durable() -> io::Result<()> {
    let disk = Device::ram(SIZE).unwrap();
    let mut handle = disk.handle();
    handle.seek(SeekFrom::Start(4096))?;
    io::copy(&mut &[3; 10_000][..], &mut handle)?;
    Write::flush(&mut handle)?;
    let mut found = vec![0; 12_000];
    disk.read_at(&mut found, 4000).unwrap();
    assert!(found.iter().enumerate().all(|(at, &b)| (b == 3) == (96..10_096).contains(&at)));
    let mut text = Vec::new();
    handle.seek(SeekFrom::Start(SIZE - 5))?;
    assert_eq!(handle.read_to_end(&mut text)?, 5);
    Ok(())
}
