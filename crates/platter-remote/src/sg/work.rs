//! A command on its way: its bytes, its memory, the structure that names them, and the system calls that take it.

#![allow(unsafe_code)]

use super::header::{Places, Returned, SENSE_ROOM, V3, V4};
use super::node::Interface;
use crate::workers::Call;
use platter_block::command::Transfer;
use platter_block::driver::Started;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// `SG_IO`.
const SG_IO: u64 = 0x2285;

/// A command. It stays where it is, in a box, while the kernel has it.
pub(super) struct Work {
    /// The slot that it belongs to.
    pub(super) index: u32,
    command: [u8; 64],
    command_len: usize,
    sense: [u8; SENSE_ROOM],
    pieces: Vec<libc::iovec>,
    own: Vec<u8>,
    v3: V3,
    v4: V4,
    returned: Option<Returned>,
}

// SAFETY: addresses and lengths. Those of a request are of segments, whose maker promised that their memory may be used from
// any thread until the request has completed; the others are of this value's own bytes.
unsafe impl Send for Work {}

/// How a command is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) transfer: Transfer,
    pub(super) timeout_ms: u32,
    pub(super) at_head: bool,
}

impl Work {
    pub(super) fn new(index: u32) -> Box<Work> {
        Box::new(Work {
            index,
            command: [0; 64],
            command_len: 0,
            sense: [0; SENSE_ROOM],
            pieces: Vec::new(),
            own: Vec::new(),
            v3: V3::default(),
            v4: V4::default(),
            returned: None,
        })
    }

    /// Takes the segments of a request.
    ///
    /// # Safety
    /// Until [`Work::clear`] the request is in flight with the caller, so that its memory may be used as its operation
    /// says: read for a write, written for a read.
    pub(super) unsafe fn lend(&mut self, request: &Started<'_>) {
        self.clear();
        request.for_each_segment(|segment| {
            let (base, len) = (segment.addr().cast(), segment.len() as usize);
            self.pieces.push(libc::iovec { iov_base: base, iov_len: len });
        });
    }

    /// Takes bytes to send, or room for what comes.
    pub(super) fn own(&mut self, bytes: Vec<u8>) {
        self.clear();
        self.own = bytes;
        let (base, len) = (self.own.as_mut_ptr().cast(), self.own.len());
        if len > 0 {
            self.pieces.push(libc::iovec { iov_base: base, iov_len: len });
        }
    }

    pub(super) fn own_bytes(&self) -> &[u8] {
        &self.own
    }

    pub(super) fn clear(&mut self) {
        self.pieces.clear();
        self.own = Vec::new();
    }

    /// Sets the command, of at most 64 bytes.
    pub(super) fn set_command(&mut self, bytes: &[u8]) {
        self.command_len = bytes.len();
        self.command[..bytes.len()].copy_from_slice(bytes);
    }

    /// Writes the structures. The addresses in them are of this box, so it comes last.
    fn fill(self: &mut Box<Work>, terms: Terms) {
        let (data, pieces) = match &mut self.pieces[..] {
            [] => (0, 0),
            [one] => (one.iov_base.expose_provenance(), 0),
            many => (many.as_mut_ptr().expose_provenance(), many.len() as u16),
        };
        let len: usize = self.pieces.iter().map(|piece| piece.iov_len).sum();
        let places = Places {
            command: (self.command.as_mut_ptr().expose_provenance(), self.command_len),
            sense: self.sense.as_mut_ptr().expose_provenance(),
            transfer: if len == 0 { Transfer::None } else { terms.transfer },
            data,
            len: len as u32,
            pieces,
            timeout_ms: terms.timeout_ms,
            at_head: terms.at_head,
            number: self.index as i32,
        };
        (self.v3, self.v4, self.returned) = (V3::new(&places), V4::new(&places), None);
    }

    /// What came back; `None`: nothing yet.
    pub(super) fn returned(&self) -> Option<Returned> {
        self.returned
    }

    pub(super) fn sense(&self) -> &[u8] {
        &self.sense[..self.returned.map_or(0, |returned| returned.sense_len)]
    }

    /// Sends the command and waits for the answer.
    pub(super) fn execute(
        self: &mut Box<Work>,
        file: &File,
        interface: Interface,
        terms: Terms,
    ) -> io::Result<()> {
        self.fill(terms);
        let argument = match interface {
            Interface::Bsg => (&raw mut self.v4).cast::<libc::c_void>(),
            Interface::Generic | Interface::Block => (&raw mut self.v3).cast(),
        };
        // SAFETY: the kernel reads and writes the structure, of the version of this node, and the memory that it names: the
        // command and the sense data, which are in this box, and the pieces, which are this value's own or, by the contract
        // of `lend`, may be used until the request has completed. When the call returns the kernel is done with all of it.
        if unsafe { libc::ioctl(file.as_raw_fd(), SG_IO as _, argument) } < 0 {
            return Err(io::Error::last_os_error());
        }
        self.returned =
            Some(if interface == Interface::Bsg { self.v4.returned() } else { self.v3.returned() });
        Ok(())
    }

    /// Sends the command to `/dev/sg*`. The box must then be kept until [`receive`] has named it.
    fn send(self: &mut Box<Work>, file: &File, terms: Terms) -> io::Result<()> {
        self.fill(terms);
        // SAFETY: as in `execute`, with two calls in the place of one: the memory is used until the answer was read, and
        // `Asynchronous` keeps the box until then.
        let sent = unsafe { libc::write(file.as_raw_fd(), (&raw const self.v3).cast(), size_of::<V3>()) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// Receives an answer from `/dev/sg*`, whose sense data and data are then in the memory of its command.
fn receive(file: &File) -> io::Result<V3> {
    let mut header = V3::any_answer();
    // SAFETY: the kernel writes the structure, and the memory that the structure named which was sent.
    let got = unsafe { libc::read(file.as_raw_fd(), (&raw mut header).cast(), size_of::<V3>()) };
    if got < 0 { Err(io::Error::last_os_error()) } else { Ok(header) }
}

/// A command for a thread.
pub(super) struct Synchronous {
    pub(super) work: Box<Work>,
    pub(super) file: Arc<File>,
    pub(super) interface: Interface,
    pub(super) terms: Terms,
    pub(super) result: io::Result<()>,
}

impl Call for Synchronous {
    fn run(&mut self) {
        self.result = self.work.execute(&self.file, self.interface, self.terms);
    }
}

/// The commands that a descriptor of `/dev/sg*` has at once (`SG_MAX_QUEUE`).
pub(super) const MAX_SENT: usize = 16;

/// Commands by `write` and `read` on a descriptor of `/dev/sg*` that nothing else uses and that does not block.
pub(super) struct Asynchronous {
    file: File,
    sent: Vec<Option<Box<Work>>>,
    count: usize,
}

impl Asynchronous {
    pub(super) fn new(file: File) -> Asynchronous {
        Asynchronous { file, sent: Vec::new(), count: 0 }
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    pub(super) fn start(&mut self, mut work: Box<Work>, terms: Terms) -> Result<(), (Box<Work>, io::Error)> {
        if let Err(error) = work.send(&self.file, terms) {
            return Err((work, error));
        }
        let index = work.index as usize;
        if self.sent.len() <= index {
            self.sent.resize_with(index + 1, || None);
        }
        self.sent[index] = Some(work);
        self.count += 1;
        Ok(())
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The next command that was answered; `None`: none is.
    ///
    /// # Errors
    /// The device is gone.
    pub(super) fn collect(&mut self) -> io::Result<Option<Box<Work>>> {
        if self.count == 0 {
            return Ok(None);
        }
        let header = loop {
            match receive(&self.file) {
                Ok(header) => break header,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        };
        let place = usize::try_from(header.pack_id).ok().and_then(|index| self.sent.get_mut(index));
        let Some(mut work) = place.and_then(Option::take) else {
            return Err(io::Error::other("an answer to a command that was not sent"));
        };
        self.count -= 1;
        work.returned = Some(header.returned());
        Ok(Some(work))
    }

    /// Takes back what will not be answered, after the device has gone.
    pub(super) fn abandon(&mut self) -> impl Iterator<Item = Box<Work>> + use<> {
        self.count = 0;
        std::mem::take(&mut self.sent).into_iter().flatten()
    }
}

impl Drop for Asynchronous {
    /// Waits for all answers, because the kernel writes to memory that belongs to the program.
    fn drop(&mut self) {
        while self.count > 0 {
            match self.collect() {
                Ok(Some(_)) => {}
                Ok(None) => {
                    let mut wait = [rustix::event::PollFd::new(&self.file, rustix::event::PollFlags::IN)];
                    let _ = rustix::event::poll(&mut wait, None);
                }
                Err(_) => return,
            }
        }
    }
}
