//! The io-uring crate by itself, and runtimes on io_uring.

use crate::{BLOCK, Job, Positions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;

/// Memory with an aligned block in it, and where that is.
fn memory() -> (Vec<u8>, usize) {
    let memory = vec![0u8; 2 * BLOCK];
    let start = memory.as_ptr().align_offset(BLOCK);
    (memory, start)
}

pub fn ring(job: &Job) {
    let file = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(&job.path)
        .expect("the file");
    let fd = io_uring::types::Fd(file.as_raw_fd());
    let mut ring = io_uring::IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(job.depth.next_power_of_two() as u32)
        .expect("a ring");
    let mut positions = Positions::new(job, 0);
    let mut blocks: Vec<_> = (0..job.depth).map(|_| memory()).collect();
    // At first none is in flight, and all are free.
    let (mut free, mut in_flight): (Vec<usize>, _) = ((0..job.depth).collect(), job.depth);
    loop {
        in_flight -= free.len();
        for index in free.drain(..).filter(|_| job.goes_on()) {
            in_flight += 1;
            let (block, start) = &mut blocks[index];
            let address = block[*start..].as_mut_ptr();
            let read = io_uring::opcode::Read::new(fd, address, BLOCK as u32).offset(positions.next());
            // SAFETY: the block lives until its read has completed, since the loop ends when none is in flight.
            unsafe { ring.submission().push(&read.build().user_data(index as u64)) }.expect("there is room");
        }
        if in_flight == 0 {
            break;
        }
        ring.submit_and_wait(1).expect("a submission");
        free.extend(ring.completion().map(|entry: io_uring::cqueue::Entry| {
            assert_eq!(entry.result(), BLOCK as i32);
            entry.user_data() as usize
        }));
        job.count(free.len() as u64);
    }
}

pub fn tokio_uring(job: &Arc<Job>) {
    tokio_uring::start(async {
        let mut options = tokio_uring::fs::OpenOptions::new();
        let file = options.read(true).custom_flags(libc::O_DIRECT).open(&job.path).await.expect("the file");
        let file = std::rc::Rc::new(file);
        let all: Vec<_> = (0..job.depth)
            .map(|seed| {
                let (job, file) = (Arc::clone(job), std::rc::Rc::clone(&file));
                tokio_uring::spawn(async move {
                    use tokio_uring::buf::BoundedBuf;
                    let mut positions = Positions::new(&job, seed);
                    let ((mut block, start), mut ios) = (memory(), 0);
                    while job.goes_on() {
                        let part = block.slice(start..start + BLOCK);
                        let (result, part) = file.read_at(part, positions.next()).await;
                        assert_eq!(result.expect("a read"), BLOCK);
                        block = part.into_inner();
                        ios += 1;
                    }
                    job.count(ios);
                })
            })
            .collect();
        for one in all {
            one.await.expect("no panic");
        }
    });
}

pub fn compio(job: &Arc<Job>) {
    let runtime = compio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let mut options = compio::fs::OpenOptions::new();
        let file = options.read(true).custom_flags(libc::O_DIRECT).open(&job.path).await.expect("the file");
        let file = std::rc::Rc::new(file);
        let all: Vec<_> = (0..job.depth)
            .map(|seed| {
                let (job, file) = (Arc::clone(job), std::rc::Rc::clone(&file));
                compio::runtime::spawn(async move {
                    use compio::buf::{IntoInner, IoBuf};
                    use compio::io::AsyncReadAt;
                    let mut positions = Positions::new(&job, seed);
                    let ((mut block, start), mut ios) = (memory(), 0);
                    while job.goes_on() {
                        let part = block.slice(start..start + BLOCK);
                        let compio::BufResult(result, part) = file.read_at(part, positions.next()).await;
                        assert_eq!(result.expect("a read"), BLOCK);
                        block = part.into_inner();
                        ios += 1;
                    }
                    job.count(ios);
                })
            })
            .collect();
        for one in all {
            one.await.expect("no panic");
        }
    });
}
