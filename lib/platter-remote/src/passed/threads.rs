//! The kernel's ioctls on threads.

#![allow(unsafe_code)]

use super::{Carrier, Protocol};
use crate::waiter::Waiter;
use crate::workers::{Call, Workers};
use platter_block::time::Span;
use platter_wait::wait_readable;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// Most commands that threads have, or that wait for one.
const ROOM: usize = 128;

struct Errand<P: Protocol> {
    file: Arc<File>,
    message: Option<P::Message>,
    answer: Option<P::Answer>,
}

impl<P: Protocol> Call for Errand<P> {
    fn run(&mut self) {
        // SAFETY: `Threads::start` was promised that the memory may be used as the command says until the answer was
        // collected, which comes after this call.
        self.answer = self.message.take().map(|message| unsafe { P::execute(&self.file, message) });
    }
}

/// Threads that call.
pub(crate) struct Threads<P: Protocol> {
    workers: Workers<Errand<P>>,
    file: Arc<File>,
    waiter: Arc<Waiter>,
    done: Vec<Errand<P>>,
    running: usize,
}

impl<P: Protocol> Threads<P> {
    pub(crate) fn new(file: File, most: u32) -> io::Result<Threads<P>> {
        let waiter = Arc::new(Waiter::new()?);
        let workers = Workers::new(most.max(1) as usize, Arc::clone(&waiter));
        Ok(Threads { workers, file: Arc::new(file), waiter, done: Vec::new(), running: 0 })
    }
}

impl<P: Protocol> Carrier<P> for Threads<P> {
    fn room(&self) -> usize {
        ROOM
    }

    fn sent(&self) -> usize {
        self.running
    }

    // SAFETY: the caller keeps the memory until it has collected the answer, as the trait says.
    unsafe fn start(&mut self, message: P::Message) -> Result<(), (P::Message, i32)> {
        let errand = Errand { file: Arc::clone(&self.file), message: Some(message), answer: None };
        self.running += 1;
        let Err(errand) = self.workers.start(errand) else { return Ok(()) };
        self.running -= 1;
        errand.message.map_or(Ok(()), |message| Err((message, libc::EAGAIN)))
    }

    fn collect(&mut self, _is_watched: bool, answers: &mut Vec<P::Answer>) {
        // Rings for what is not the kernel's.
        self.waiter.bell.clear();
        self.workers.collect(&mut self.done);
        self.running -= self.done.len();
        answers.extend(self.done.drain(..).filter_map(|errand| errand.answer));
    }

    fn wait(&mut self, timeout: Option<Span>) {
        wait_readable(self.waiter.descriptor(), timeout);
    }

    fn watch(&self, _is_known: bool) -> i32 {
        self.waiter.descriptor().as_raw_fd()
    }

    fn ring(&mut self) {
        self.waiter.bell.ring_once();
    }
}
