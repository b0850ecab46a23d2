//! The kernel's ioctls on threads: for block devices, for kernels without commands on rings, and for channels whose threads may
//! end before their commands.

#![allow(unsafe_code)]

use super::carrier::{Answer, Carrier, Message};
use crate::nvme::ioctl;
use crate::waiter::Waiter;
use crate::workers::{Call, Workers};
use platter_block::command::MAX_BYTES;
use platter_block::time::Span;
use platter_wait::wait_readable;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// Most commands that threads have, or that wait for one.
const ROOM: usize = 128;

struct Passed {
    file: Arc<File>,
    index: u32,
    entry: [u8; MAX_BYTES],
    is_admin: bool,
    /// Address and length of the data, or of the list of its pieces.
    data: (usize, usize),
    is_list: bool,
    timeout_ms: u32,
    result: i32,
    value: u64,
}

impl Call for Passed {
    fn run(&mut self) {
        let (addr, len) = (self.data.0 as u64, self.data.1 as u32);
        // SAFETY: `Calls::start` was promised that the memory may be used as the command says until the answer was collected,
        // which comes after this call.
        let sent = unsafe {
            ioctl::pass(&self.file, self.is_admin, self.is_list, &self.entry, (addr, len), self.timeout_ms)
        };
        (self.result, self.value) = match sent {
            Ok((status, value)) => (i32::from(status), value),
            Err(error) => (-error.raw_os_error().unwrap_or(libc::EIO), 0),
        };
    }
}

/// Threads that call.
pub(super) struct Calls {
    // Before the waiter, whose bell they ring.
    workers: Workers<Passed>,
    file: Arc<File>,
    waiter: Arc<Waiter>,
    done: Vec<Passed>,
    /// Answers of calls that no thread could be started for.
    refused: Vec<Answer>,
}

impl Calls {
    pub(super) fn new(file: File, threads: u32) -> io::Result<Calls> {
        let waiter = Arc::new(Waiter::new()?);
        let workers = Workers::new(threads.max(1) as usize, Arc::clone(&waiter));
        Ok(Calls { workers, file: Arc::new(file), waiter, done: Vec::new(), refused: Vec::new() })
    }
}

impl Carrier for Calls {
    fn room(&self) -> usize {
        ROOM
    }

    // SAFETY: the caller keeps the memory until it has collected the answer, as the trait says.
    unsafe fn start(&mut self, message: &Message<'_>) -> bool {
        let (data, is_list) = match message.pieces {
            [] => ((0, 0), false),
            [one] => ((one.iov_base.expose_provenance(), one.iov_len), false),
            many => ((many.as_ptr().expose_provenance(), many.len()), true),
        };
        let call = Passed {
            file: Arc::clone(&self.file),
            index: message.index,
            entry: *message.entry,
            is_admin: message.is_admin,
            data,
            is_list,
            timeout_ms: message.timeout_ms,
            result: 0,
            value: 0,
        };
        if let Err(call) = self.workers.start(call) {
            self.refused.push(Answer { index: call.index, result: -libc::EAGAIN, value: 0 });
            self.waiter.bell.ring();
        }
        true
    }

    fn submit(&mut self) {}

    fn collect(&mut self, answers: &mut Vec<Answer>) {
        self.workers.collect(&mut self.done);
        let answer = |call: Passed| Answer { index: call.index, result: call.result, value: call.value };
        answers.extend(self.done.drain(..).map(answer));
        answers.append(&mut self.refused);
    }

    fn wait(&mut self, timeout: Option<Span>) {
        wait_readable(self.waiter.descriptor(), timeout);
    }

    fn descriptor(&self) -> i32 {
        self.waiter.descriptor().as_raw_fd()
    }

    fn ring(&mut self) {
        self.waiter.bell.ring();
    }
}
