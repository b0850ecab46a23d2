//! A queue as the session knows it: what the front end has said of it, and its thread while it runs.

use super::common::{Call, Common, Line, Stop};
use super::inflight::{Inflight, Journal};
use super::link::Socket;
use super::memory::Memory;
use super::queue::{Queue, Worker};
use super::ring::{Addresses, Ring};
use platter_block::lane::Bell;
use platter_wait::EventFd;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// Where the threads of a session say why it must end.
pub(super) struct Failure {
    why: Mutex<Option<String>>,
    socket: Arc<Socket>,
}

impl Failure {
    pub(super) fn new(socket: &Arc<Socket>) -> Arc<Failure> {
        Arc::new(Failure { why: Mutex::default(), socket: Arc::clone(socket) })
    }

    /// Ends the session; the first reason counts.
    fn set(&self, why: String) {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
        self.socket.stop_receiving();
    }

    pub(super) fn take(&self) -> Option<String> {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[derive(Default)]
pub(super) struct Vring {
    pub(super) size: u16,
    pub(super) at: Option<Addresses>,
    /// Where to go on when it starts.
    pub(super) next: u16,
    pub(super) kick: Option<Arc<OwnedFd>>,
    pub(super) call: Arc<Call>,
    pub(super) error: Arc<Call>,
    pub(super) is_enabled: bool,
    running: Option<Running>,
}

struct Running {
    line: Arc<Line>,
    common: Arc<Common>,
    thread: JoinHandle<u16>,
}

/// What a queue needs to start.
pub(super) struct QueueStart<'a> {
    pub(super) memory: &'a Arc<Memory>,
    pub(super) inflight: Option<&'a Arc<Inflight>>,
    pub(super) common: &'a Arc<Common>,
    pub(super) failure: &'a Arc<Failure>,
    /// `VIRTIO_F_EVENT_IDX` was negotiated.
    pub(super) by_index: bool,
}

impl Vring {
    /// Whether the front end has said all that it takes.
    pub(super) fn is_ready(&self) -> bool {
        self.kick.is_some() && self.at.is_some() && self.size > 0 && self.is_enabled
    }

    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Starts its thread.
    ///
    /// # Errors
    /// A sentence: the queue is not in the memory, or there is no thread or descriptor.
    pub(super) fn start(&mut self, number: u16, start: &QueueStart<'_>) -> Result<(), String> {
        let (Some(at), Some(kick)) = (self.at, self.kick.clone()) else { return Ok(()) };
        let mut ring = Ring::new(Arc::clone(start.memory), self.size, at, start.by_index)
            .map_err(|why| format!("queue {number}: {why}"))?;
        let opened =
            start.inflight.and_then(|region| Journal::open(region, number, self.size, ring.used_index()));
        let (journal, recovered) =
            opened.map_or((None, Vec::new()), |(journal, heads)| (Some(journal), heads));
        // What was taken is what was given back and what is in flight.
        let next = match journal.is_some() {
            true => ring.used_index().wrapping_add(recovered.len() as u16),
            false => self.next,
        };
        ring.start_at(next);
        let wake = EventFd::new()
            .map(Arc::new)
            .map_err(|errno| format!("no descriptor for queue {number}: {errno}"))?;
        let line = Line::new(wake, &self.call);
        let queue = Queue { number, ring, journal, recovered, kick };
        let (failure, error) = (Arc::clone(start.failure), Arc::clone(&self.error));
        let (common, its) = (Arc::clone(start.common), Arc::clone(&line));
        start.common.bells.add(&line.wake);
        let work = move || {
            let number = queue.number;
            let next = queue.ring.next_index();
            let ended = Worker::new(common, its, queue).map(Worker::run);
            let (next, result) = ended.unwrap_or_else(|why| (next, Err(why)));
            if let Err(why) = result {
                error.ring();
                failure.set(format!("queue {number}: {why}"));
            }
            next
        };
        let thread = thread::Builder::new().name("vhost-queue".to_owned()).spawn(work);
        let thread = thread.map_err(|error| format!("no thread for queue {number}: {error}"))?;
        self.running = Some(Running { line, common: Arc::clone(start.common), thread });
        Ok(())
    }

    /// Tells its thread to end.
    pub(super) fn begin_stop(&self, how: Stop) {
        if let Some(running) = &self.running {
            running.line.end(how);
        }
    }

    /// Waits until its thread has ended: no request of it is in work then.
    pub(super) fn finish_stop(&mut self) {
        if let Some(Running { line, common, thread }) = self.running.take() {
            // After a panic the index stays what it was.
            self.next = thread.join().unwrap_or(self.next);
            common.bells.remove(&line.wake);
            line.wake.clear();
        }
    }

    /// Has the thread, if there is one, look again.
    pub(super) fn ring_bell(&self) {
        if let Some(running) = &self.running {
            running.line.wake.ring();
        }
    }
}
