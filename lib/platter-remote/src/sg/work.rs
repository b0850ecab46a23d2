//! A command on its way: its bytes, its memory, the structure that names them, and the system calls that take it.

#![allow(unsafe_code)]

use super::header::{Places, Returned, SENSE_ROOM, V3, V4};
use super::node::Interface;
use crate::workers::Call;
use platter_block::command::Transfer;
use platter_block::driver::Started;
use platter_block::time::Span;
use rustix::event::{PollFd, PollFlags, poll};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

/// `SG_IO`.
const SG_IO: u64 = 0x2285;
/// `SG_GET_NUM_WAITING`.
const SG_GET_NUM_WAITING: u64 = 0x227d;

/// How long a thread waits before it looks again for answers that a descriptor does not announce.
pub(super) const NAP: Span = Span::from_millis(10);

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

    /// Sends the command to `/dev/sg*`. The box must then be kept until its answer was received.
    fn send(self: &mut Box<Work>, exchange: &dyn Exchange, terms: Terms) -> io::Result<()> {
        self.fill(terms);
        // SAFETY: as in `execute`, with two calls in the place of one: `Asynchronous` keeps the box until the answer was
        // received or the command has ended, and the memory may be used until then.
        unsafe { exchange.send(&self.v3) }
    }
}

/// The calls that exchange commands and answers on a descriptor of `/dev/sg*`. Tests have others.
pub(super) trait Exchange: Send {
    /// Sends the command that a structure describes.
    ///
    /// # Safety
    /// The memory that the structure names may be used as it says until the answer was received or the device has ended
    /// the command.
    unsafe fn send(&self, header: &V3) -> io::Result<()>;

    /// Receives an answer, whose sense data and data are then in the memory of its command. Never blocks.
    fn receive(&self) -> io::Result<V3>;

    /// How many commands have ended whose answers were not received.
    fn ended(&self) -> io::Result<usize>;

    /// Waits for an answer, for at most this time. Returns whether the device is gone and there is no answer: such a wait
    /// returns at once from then on.
    fn wait(&self, timeout: Option<Span>) -> bool;

    /// Readable while there are answers.
    fn descriptor(&self) -> BorrowedFd<'_>;
}

impl Exchange for File {
    // SAFETY: the kernel uses the memory as the caller promises that it may.
    unsafe fn send(&self, header: &V3) -> io::Result<()> {
        // SAFETY: the structure has this size, and names memory that the kernel may use.
        let sent =
            unsafe { libc::write(self.as_raw_fd(), std::ptr::from_ref(header).cast(), size_of::<V3>()) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    fn receive(&self) -> io::Result<V3> {
        let mut header = V3::any_answer();
        // SAFETY: the kernel writes the structure, and the memory that the structure named which was sent.
        let got = unsafe { libc::read(self.as_raw_fd(), (&raw mut header).cast(), size_of::<V3>()) };
        if got < 0 { Err(io::Error::last_os_error()) } else { Ok(header) }
    }

    fn ended(&self) -> io::Result<usize> {
        let mut count: libc::c_int = 0;
        // SAFETY: the kernel writes the number, which is on this stack.
        let asked = unsafe { libc::ioctl(self.as_raw_fd(), SG_GET_NUM_WAITING as _, &raw mut count) };
        if asked < 0 { Err(io::Error::last_os_error()) } else { Ok(usize::try_from(count).unwrap_or(0)) }
    }

    fn wait(&self, timeout: Option<Span>) -> bool {
        let limit = timeout.map(platter_wait::timespec);
        let mut fds = [PollFd::new(self, PollFlags::IN)];
        // A signal ends the wait early, as it may.
        let _ = poll(&mut fds, limit.as_ref());
        let seen = fds[0].revents();
        seen.contains(PollFlags::HUP) && !seen.contains(PollFlags::IN)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
}

/// Waits for at most this time, and not longer than [`NAP`].
pub(super) fn nap(timeout: Option<Span>) {
    platter_wait::nap(timeout.unwrap_or(NAP).min(NAP));
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

/// What a look for an answer has found.
pub(super) enum Collected {
    /// The command that was answered.
    Answer(Box<Work>),
    /// There is no answer.
    Nothing,
    /// The kernel does not hand out answers at the moment, or not to this thread. It still has all commands.
    Refused(io::Error),
}

/// Commands by `write` and `read` on a descriptor of `/dev/sg*` that nothing else uses and that does not block.
pub(super) struct Asynchronous {
    exchange: Box<dyn Exchange>,
    sent: Vec<Option<Box<Work>>>,
    count: usize,
}

impl Asynchronous {
    pub(super) fn new(exchange: Box<dyn Exchange>) -> Asynchronous {
        Asynchronous { exchange, sent: Vec::new(), count: 0 }
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.exchange.descriptor()
    }

    /// [`Exchange::wait`].
    pub(super) fn wait(&self, timeout: Option<Span>) -> bool {
        self.exchange.wait(timeout)
    }

    /// Whether the device is gone and there is no answer.
    pub(super) fn has_hung_up(&self) -> bool {
        self.exchange.wait(Some(Span::default()))
    }

    pub(super) fn start(&mut self, mut work: Box<Work>, terms: Terms) -> Result<(), (Box<Work>, io::Error)> {
        if let Err(error) = work.send(&*self.exchange, terms) {
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

    /// Looks for the next command that was answered.
    pub(super) fn collect(&mut self) -> Collected {
        while self.count > 0 {
            let header = match self.exchange.receive() {
                Ok(header) => header,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Collected::Nothing,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Collected::Refused(error),
            };
            let place = usize::try_from(header.pack_id).ok().and_then(|index| self.sent.get_mut(index));
            // An answer to a command that was not sent is of no use.
            let Some(mut work) = place.and_then(Option::take) else { continue };
            self.count -= 1;
            work.returned = Some(header.returned());
            return Collected::Answer(work);
        }
        Collected::Nothing
    }

    /// Whether the device has ended all commands, so that none of them changes anything or uses memory any more, although
    /// their answers were not received.
    pub(super) fn has_ended_all(&self) -> bool {
        self.exchange.ended().is_ok_and(|ended| ended >= self.count)
    }

    /// Takes back the commands when all of them have ended, and their answers cannot be received.
    pub(super) fn abandon(&mut self) -> impl Iterator<Item = Box<Work>> + use<> {
        self.count = 0;
        std::mem::take(&mut self.sent).into_iter().flatten()
    }
}

impl Drop for Asynchronous {
    /// Waits until all commands have ended, because the kernel writes to memory that belongs to the program. The kernel
    /// ends each of them after its timeout.
    fn drop(&mut self) {
        while self.count > 0 {
            match self.collect() {
                Collected::Answer(_) => {}
                Collected::Nothing if !self.exchange.wait(None) => {}
                Collected::Refused(_) if self.has_ended_all() => return,
                // The descriptor does not tell when they end.
                Collected::Nothing | Collected::Refused(_) => nap(None),
            }
        }
    }
}

/// An exchange that does as a test says.
#[cfg(test)]
pub(super) mod scripted {
    use super::*;
    use platter_wait::EventFd;
    use std::collections::VecDeque;
    use std::sync::Mutex;

    #[derive(Default)]
    pub(in crate::sg) struct Script {
        /// What reads give: the number of an answered command, or an errno. EAGAIN when there is nothing left.
        pub(in crate::sg) reads: VecDeque<Result<i32, i32>>,
        pub(in crate::sg) ended: usize,
        pub(in crate::sg) has_hung_up: bool,
        /// Commands that were sent.
        pub(in crate::sg) sent: usize,
    }

    /// Its descriptor is always readable, as one that has hung up.
    pub(in crate::sg) struct Scripted {
        script: Arc<Mutex<Script>>,
        readable: EventFd,
    }

    impl Scripted {
        pub(in crate::sg) fn new(script: Arc<Mutex<Script>>) -> Scripted {
            let readable = EventFd::new().unwrap();
            readable.signal();
            Scripted { script, readable }
        }
    }

    impl Exchange for Scripted {
        // SAFETY: uses no memory of a command.
        unsafe fn send(&self, _header: &V3) -> io::Result<()> {
            self.script.lock().unwrap().sent += 1;
            Ok(())
        }

        fn receive(&self) -> io::Result<V3> {
            let next = self.script.lock().unwrap().reads.pop_front().unwrap_or(Err(libc::EAGAIN));
            let mut header = V3::any_answer();
            header.pack_id = next.map_err(io::Error::from_raw_os_error)?;
            Ok(header)
        }

        fn ended(&self) -> io::Result<usize> {
            Ok(self.script.lock().unwrap().ended)
        }

        fn wait(&self, _timeout: Option<Span>) -> bool {
            self.script.lock().unwrap().has_hung_up
        }

        fn descriptor(&self) -> BorrowedFd<'_> {
            self.readable.as_fd()
        }
    }
}
