//! A connection whose data passes through two buffers of the server, as in a server that reads and writes a stream. It
//! exists to measure what these copies cost: `platter bench nbd`.

use crate::stream::copies::Copies;
use crate::stream::socket::{Mode, Socket};
use rustix::io::Errno;
use std::io::{IoSlice, IoSliceMut};

/// Bytes of each of the two buffers.
const BUFFER_BYTES: usize = 256 << 10;

pub(super) struct Staged {
    input: Vec<u8>,
    /// The part of the input that was received and not yet taken.
    unread: std::ops::Range<usize>,
    output: Vec<u8>,
    /// The part of the output that was taken and not yet sent.
    unsent: std::ops::Range<usize>,
    copies: Copies,
}

impl Staged {
    pub(super) fn new() -> Staged {
        Staged {
            input: vec![0; BUFFER_BYTES],
            unread: 0..0,
            output: vec![0; BUFFER_BYTES],
            unsent: 0..0,
            copies: Copies::default(),
        }
    }

    pub(super) fn copied_bytes(&self) -> u64 {
        self.copies.bytes()
    }

    /// Receives into the buffer if it is empty, and copies to `parts` what is there.
    pub(super) fn receive(
        &mut self,
        socket: &Socket,
        parts: &mut [IoSliceMut<'_>],
        mode: Mode,
    ) -> Result<usize, Errno> {
        if self.unread.is_empty() {
            self.unread = 0..socket.receive(&mut [IoSliceMut::new(&mut self.input)], mode)?;
        }
        let mut all = 0;
        for part in parts {
            let count = part.len().min(self.unread.len());
            let from = self.unread.start;
            self.copies.copy(part, &self.input[from..from + count]);
            self.unread.start += count;
            all += count;
        }
        Ok(all)
    }

    /// Copies as much of `parts` as there is room for, and sends what the socket takes.
    pub(super) fn send(
        &mut self,
        socket: &Socket,
        parts: &[IoSlice<'_>],
        mode: Mode,
    ) -> Result<usize, Errno> {
        self.push(socket, mode)?;
        let mut all = 0;
        for part in parts {
            let count = part.len().min(self.output.len() - all);
            self.copies.copy(&mut self.output[all..], &part[..count]);
            all += count;
        }
        self.unsent = 0..all;
        match self.push(socket, mode) {
            Ok(()) | Err(Errno::AGAIN) => Ok(all),
            Err(error) => Err(error),
        }
    }

    pub(super) fn is_behind(&self) -> bool {
        !self.unsent.is_empty()
    }

    pub(super) fn push(&mut self, socket: &Socket, mode: Mode) -> Result<(), Errno> {
        while self.is_behind() {
            let sent = socket.send(&[IoSlice::new(&self.output[self.unsent.clone()])], mode)?;
            self.unsent.start += sent;
        }
        Ok(())
    }
}
