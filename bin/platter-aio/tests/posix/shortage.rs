//! A shortage of descriptors passes. In processes of their own, because the limit is that of the process.

use crate::again;
use crate::common::{Request, file, limit_descriptors};
use platter_aio::posix::aio_read;
use platter_disk::drivers::descriptor_opener::{DescriptorOpener, DescriptorOptions};
use platter_disk::drivers::{Choice, FileDriver};
use std::fs::File;
use std::os::fd::AsRawFd;

/// Set in those processes: the number of descriptors that the first request finds.
const FREE: &str = "PLATTER_AIO_TEST_FREE";

#[test]
fn a_request_that_finds_no_descriptors() {
    let Some(free) = std::env::var(FREE).ok().filter(|_| again::is_inner()) else { return };
    let file = file();
    let mut request = Request::new(&file, 0, vec![0; 8]);
    let lowest = File::open("/dev/null").unwrap().as_raw_fd();
    let before = limit_descriptors(u64::try_from(lowest).unwrap() + free.parse::<u64>().unwrap());
    let refused = request.start(aio_read);
    limit_descriptors(before);
    assert_eq!(refused, Err(libc::EAGAIN));
    request.start(aio_read).unwrap();
    assert_eq!(request.finish(), Ok(0), "the file is empty");
}

#[test]
fn a_shortage_of_descriptors_is_not_for_ever() {
    if again::is_inner() {
        return;
    }
    // In this process, which is not short of any.
    let ring = DescriptorOptions { driver: Choice::Only(FileDriver::Uring), depth: 8, threads: 1 };
    let unavailable = DescriptorOpener::new(ring).err();
    // The waker of a ring takes two, and the ring another one; threads need none.
    for (driver, free) in [("auto", "0"), ("uring", "0"), ("uring", "1"), ("uring", "2")] {
        if let Some(error) = unavailable.as_ref().filter(|_| driver == "uring") {
            eprintln!("skipped: {error}");
            continue;
        }
        let variables = [("PLATTER_AIO_DRIVER", driver), (FREE, free)];
        let output = again::run("a_request_that_finds_no_descriptors", &variables);
        let text =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{driver}, {free} free: {text}");
    }
}
