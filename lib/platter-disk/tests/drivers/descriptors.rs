//! Calls on descriptors of any kind, on a ring and on threads.

use platter_block::bio::IoPrio;
use platter_block::driver::Completion;
use platter_block::segment::{RegionId, Segment};
use platter_disk::clock;
use platter_disk::drivers::descriptor_opener::{DescriptorOpener, DescriptorOptions, Waker};
use platter_disk::drivers::descriptors::{CANCELLED, CallOp, DescriptorCall, Descriptors};
use platter_disk::drivers::{Choice, FileDriver};
use std::io::{PipeReader, Read, Write, pipe};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

struct Channel {
    channel: Box<dyn Descriptors>,
    waker: Waker,
    driver: FileDriver,
}

fn channels() -> Vec<Channel> {
    let open = |driver| {
        let options = DescriptorOptions { driver: Choice::Only(driver), depth: 8, threads: 4 };
        match DescriptorOpener::new(options) {
            Ok(opener) => {
                let waker = opener.waker();
                Some(Channel { channel: opener.open().unwrap(), waker, driver })
            }
            Err(why) => {
                eprintln!("skipped: {why}");
                None
            }
        }
    };
    [FileDriver::Uring, FileDriver::Threads].into_iter().filter_map(open).collect()
}

impl Channel {
    fn start(&mut self, tag: u32, fd: &impl AsRawFd, op: CallOp, pos: u64, memory: &mut [u8]) {
        // SAFETY: each test keeps the memory until the call has completed.
        let memory = unsafe { Segment::new(memory.as_mut_ptr(), memory.len() as u32, RegionId::NONE) };
        // SAFETY: as above.
        let call = unsafe { DescriptorCall::new(fd.as_raw_fd(), op, pos, memory, IoPrio::NONE) };
        assert!(self.channel.queue(tag, &call));
        self.channel.submit(clock::now());
    }

    /// Waits for this many completions, in order of their tags.
    fn finish(&mut self, count: usize) -> Vec<(u32, i64)> {
        let mut done = Vec::new();
        while done.len() < count {
            self.channel.wait(clock::now(), None, &|| false);
            self.channel.reap(clock::now(), &mut done);
        }
        done.sort_by_key(|completion: &Completion| completion.tag);
        done.iter().map(|completion| (completion.tag, completion.result)).collect()
    }

    fn one(&mut self, fd: &impl AsRawFd, op: CallOp, pos: u64, memory: &mut [u8]) -> i64 {
        self.start(3, fd, op, pos, memory);
        self.finish(1)[0].1
    }
}

#[test]
fn results_are_those_of_the_system_calls() {
    for mut channel in channels() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(channel.one(&file, CallOp::Write, 10, &mut [7; 100]), 100);
        assert_eq!(file.metadata().unwrap().len(), 110, "writes extend a file");
        let mut memory = [0; 100];
        assert_eq!(channel.one(&file, CallOp::Read, 50, &mut memory), 60, "short at the end");
        assert!(memory[..60].iter().all(|byte| *byte == 7));
        assert_eq!(channel.one(&file, CallOp::Read, 110, &mut memory), 0);
        assert_eq!(channel.one(&file, CallOp::Sync, 0, &mut []), 0);
        assert_eq!(channel.one(&file, CallOp::DataSync, 0, &mut []), 0);
        assert_eq!(channel.one(&-1, CallOp::Read, 0, &mut memory), -i64::from(libc::EBADF));
        let (mut reader, mut writer) = pipe().unwrap();
        assert_eq!(channel.one(&writer, CallOp::Write, 5, &mut b"pipe".to_vec()), 4);
        let mut four = [0; 4];
        reader.read_exact(&mut four).unwrap();
        assert_eq!(&four, b"pipe");
        writer.write_all(b"more").unwrap();
        assert_eq!(channel.one(&reader, CallOp::Read, 5, &mut memory), 4);
        assert_eq!(&memory[..4], b"more");
    }
}

#[test]
fn calls_that_wait_hold_up_no_others_and_can_be_cancelled() {
    for mut channel in channels() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(b"data", 0).unwrap();
        let (reader, mut writer): (PipeReader, _) = pipe().unwrap();
        let (mut held, mut memory) = ([0; 4], [0; 4]);
        channel.start(1, &reader, CallOp::Read, 0, &mut held);
        assert_eq!(channel.one(&file, CallOp::Read, 0, &mut memory), 4);
        assert!(channel.channel.cancel(1));
        channel.channel.submit(clock::now());
        let of = |done: &[(u32, i64)], tag| done.iter().find(|(of, _)| *of == tag).map(|(_, result)| *result);
        let mut done = channel.finish(1);
        while of(&done, 1 | CANCELLED).is_none() {
            done.extend(channel.finish(1));
        }
        if of(&done, 1 | CANCELLED) == Some(-i64::from(libc::EALREADY)) {
            // A thread has begun to read, and nothing stops it.
            assert_eq!(channel.driver, FileDriver::Threads);
            writer.write_all(b"late").unwrap();
            assert_eq!(channel.finish(1), [(1, 4)]);
            continue;
        }
        assert_eq!(of(&done, 1 | CANCELLED), Some(0));
        if of(&done, 1).is_none() {
            done.extend(channel.finish(1));
        }
        assert_eq!(of(&done, 1), Some(-i64::from(libc::ECANCELED)));
    }
}

#[test]
fn a_waker_ends_a_wait_and_work_prevents_it() {
    for mut channel in channels() {
        channel.channel.wait(clock::now(), None, &|| true);
        let (reader, mut writer) = pipe().unwrap();
        let mut memory = [0; 4];
        channel.start(0, &reader, CallOp::Read, 0, &mut memory);
        let waker = channel.waker.clone();
        let (stop, mut rounds) = (std::sync::atomic::AtomicBool::new(false), 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    assert!(waker.wake());
                    std::thread::yield_now();
                }
            });
            while rounds < 100 {
                channel.channel.wait(clock::now(), None, &|| false);
                rounds += 1;
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        writer.write_all(b"data").unwrap();
        assert_eq!(channel.finish(1), [(0, 4)]);
    }
}
