//! Shared parts of the tests of devices.

use platter_block::bio::{Bio, Flags};
use platter_disk::channel::Channel;
use platter_disk::device::Device;
use platter_disk::sync_io::IoOptions;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::mpsc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

/// Long enough for any machine; a test that takes longer hangs.
const LONG: Duration = Duration::from_secs(30);

/// A task that might hang, on a thread of its own.
pub(crate) struct Task<T> {
    thread: JoinHandle<()>,
    result: mpsc::Receiver<T>,
}

pub(crate) fn spawn<T: Send + 'static>(task: impl FnOnce() -> T + Send + 'static) -> Task<T> {
    let (tell, result) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        // The receiver may be gone.
        let _ = tell.send(task());
    });
    Task { thread, result }
}

impl<T> Task<T> {
    /// Its result; panics when it hangs (or panicked).
    pub(crate) fn result(self, what: &str) -> T {
        self.result.recv_timeout(LONG).unwrap_or_else(|error| panic!("{what}: {error}"))
    }

    /// Whether it has ended, with or without an error.
    pub(crate) fn is_done(&self) -> bool {
        self.thread.is_finished()
    }
}

/// Whether the device does I/O of its own: a snapshot copies chunks, also in the background, and a mirror what is written.
pub(crate) fn makes_copies(device: &Device) -> bool {
    device.facts().iter().any(|(name, _)| matches!(*name, "snapshot" | "mirror"))
}

/// Repeats until the condition holds; panics if that takes too long.
pub(crate) fn until(what: &str, mut so: impl FnMut() -> bool) {
    let begin = std::time::Instant::now();
    while !so() {
        assert!(begin.elapsed() < LONG, "never: {what}");
        std::thread::yield_now();
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut context) {
            return result;
        }
        std::thread::park();
    }
}

/// Polls once with a waker that does nothing.
pub(crate) fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// A write of 512 bytes.
pub(crate) fn write(pos: u64, byte: u8, flags: Flags) -> Bio {
    let mut bio = Bio::write(pos, vec![byte; 512]).unwrap();
    bio.add_flags(flags | Flags::NOMERGE);
    bio.set_token(pos);
    bio
}

pub(crate) fn submit(channel: &mut Channel, bio: Bio) {
    assert!(channel.submit(bio).is_ok());
}

/// A barrier written by the synchronous call.
pub(crate) fn barrier(device: &Device, pos: u64) -> Task<bool> {
    let device = device.clone();
    spawn(move || {
        device.write_at_with(&[9; 512], pos, IoOptions::flags(Flags::HARD_BARRIER)).unwrap();
        true
    })
}
