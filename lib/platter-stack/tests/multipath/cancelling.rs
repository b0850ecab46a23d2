//! I/O that a path has not started is cancelled while another lane listens to the paths.

use platter_block::backend::{Backend, LaneUse};
use platter_block::bio::Bio;
use platter_block::disk::FnDisk;
use platter_block::driver::{Completion, Driver, Geometry, Started};
use platter_block::fault::Kind;
use platter_block::limits::Limits;
use platter_block::queue::Settings;
use platter_block::time::{Span, Time};
use platter_disk::device::Device;
use platter_disk::disk_backend::{DiskBackend, DiskSettings};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Keeps what it is given while it does not answer. Its descriptor never becomes readable.
struct Mute {
    answers: Arc<AtomicBool>,
    sockets: Arc<(UnixStream, UnixStream)>,
    held: Vec<Completion>,
}

impl Driver for Mute {
    fn queue(&mut self, _now: Time, request: &Started<'_>) -> bool {
        self.held.push(Completion { tag: request.tag, result: request.len as i64 });
        true
    }

    fn submit(&mut self, _now: Time) {}

    fn reap(&mut self, _now: Time, done: &mut Vec<Completion>) {
        if self.answers.load(Ordering::SeqCst) {
            done.append(&mut self.held);
        }
    }

    fn wait(&mut self, _now: Time, _timeout: Option<Span>) {}

    fn wait_handle(&self) -> Option<i32> {
        Some(self.sockets.0.as_raw_fd())
    }
}

/// A `multipath` device over one disk that carries out one request at a time.
fn over(answers: &Arc<AtomicBool>) -> Device {
    let (answers, sockets) = (Arc::clone(answers), Arc::new(UnixStream::pair().unwrap()));
    let open = move |_| {
        let (answers, sockets) = (Arc::clone(&answers), Arc::clone(&sockets));
        Ok(Box::new(Mute { answers, sockets, held: Vec::new() }) as Box<dyn Driver>)
    };
    let disk = FnDisk::new("mute", Geometry::new(1 << 20, Limits::unlimited(512)), open);
    let settings = DiskSettings::default().with_queue(Settings { depth: 1, ..Settings::default() });
    let path: Arc<dyn Backend> = Arc::new(DiskBackend::new(disk, settings, None).unwrap());
    Device::new(platter_stack::by_name("multipath").unwrap().make(&[], vec![path]).unwrap())
}

fn read(pos: u64, token: u64) -> Bio {
    let mut bio = Bio::read(pos, vec![0; 512]).unwrap();
    bio.set_token(token);
    bio
}

#[test]
fn what_no_disk_has_comes_back_at_once() {
    // The device is opened by reads.
    let answers = Arc::new(AtomicBool::new(true));
    let device = over(&answers);
    answers.store(false, Ordering::SeqCst);
    let mut listener = device.backend().open_lane(LaneUse::Synchronous).unwrap();
    let now = device.backend().now();
    listener.submit(now, read(0, 1));
    // It is listed as the lane that listens until it is run again.
    listener.sleep(now, Some(Span(0)), &[]);
    let (mut channel, mut done) = (device.channel(1).unwrap(), Vec::new());
    channel.submit(read(65536, 7)).unwrap();
    assert_eq!(channel.poll(&mut done), 0, "the disk has another request");
    channel.cancel(7);
    let came = channel.poll(&mut done);
    // If what follows fails, what is dropped then does not wait for the disk.
    answers.store(true, Ordering::SeqCst);
    assert_eq!(came, 1);
    let status = done[0].status().map_err(|fault| fault.kind);
    assert_eq!((done[0].token(), status), (7, Err(Kind::Cancelled)));
    done.clear();
    while done.is_empty() {
        listener.turn(device.backend().now(), &mut done);
    }
    assert_eq!((done[0].token(), done[0].status()), (1, Ok(())));
}
