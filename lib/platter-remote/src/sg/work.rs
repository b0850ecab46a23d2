//! A command on its way: its bytes, its memory, the structure that names them, and the system calls that take it.

#![allow(unsafe_code)]

use super::header::{Places, Returned, SENSE_ROOM, V3, V4};
use super::node::Interface;
use crate::buffers::Buffers;
use platter_block::command::Transfer;
use platter_block::time::Span;
use rustix::event::{PollFd, PollFlags, poll};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// `SG_IO`.
const SG_IO: u64 = 0x2285;
/// `SG_GET_NUM_WAITING`.
const SG_GET_NUM_WAITING: u64 = 0x227d;

/// A command. It stays where it is, in a box, while the kernel has it.
pub(super) struct Work {
    /// The slot that it belongs to.
    pub(super) index: u32,
    command: [u8; 64],
    command_len: usize,
    sense: [u8; SENSE_ROOM],
    pub(super) buffers: Buffers,
    pub(super) terms: Terms,
    v3: V3,
    v4: V4,
    returned: Option<Returned>,
    /// Why nothing came back.
    pub(super) errno: i32,
}

/// How a command is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) interface: Interface,
    pub(super) transfer: Transfer,
    pub(super) timeout_ms: u32,
    pub(super) at_head: bool,
}

impl Work {
    pub(super) fn new(interface: Interface) -> Box<Work> {
        Box::new(Work {
            index: 0,
            command: [0; 64],
            command_len: 0,
            sense: [0; SENSE_ROOM],
            buffers: Buffers::default(),
            terms: Terms { interface, transfer: Transfer::None, timeout_ms: 30_000, at_head: false },
            v3: V3::default(),
            v4: V4::default(),
            returned: None,
            errno: libc::EIO,
        })
    }

    /// Sets the command, of at most 64 bytes.
    pub(super) fn set_command(&mut self, bytes: &[u8]) {
        self.command_len = bytes.len();
        self.command[..bytes.len()].copy_from_slice(bytes);
    }

    /// Writes the structures. The addresses in them are of this box, so it comes last.
    fn fill(self: &mut Box<Work>) {
        let (place, len, terms) = (self.buffers.place(), self.buffers.bytes(), self.terms);
        let places = Places {
            command: (self.command.as_mut_ptr().expose_provenance(), self.command_len),
            sense: self.sense.as_mut_ptr().expose_provenance(),
            transfer: if len == 0 { Transfer::None } else { terms.transfer },
            data: place.addr,
            len: len as u32,
            pieces: if place.is_list { place.len as u16 } else { 0 },
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
    pub(super) fn execute(self: &mut Box<Work>, file: &File) -> io::Result<()> {
        self.fill();
        let interface = self.terms.interface;
        let argument = match interface {
            Interface::Bsg => (&raw mut self.v4).cast::<libc::c_void>(),
            Interface::Generic | Interface::Block => (&raw mut self.v3).cast(),
        };
        // SAFETY: the kernel reads and writes the structure, of the version of this node, and the memory that it names: the
        // command and the sense data, which are in this box, and the pieces, which are this value's own or, by the contract
        // of `Kept::lend`, may be used until the request has completed. When the call returns the kernel is done with all of it.
        if unsafe { libc::ioctl(file.as_raw_fd(), SG_IO as _, argument) } < 0 {
            return Err(io::Error::last_os_error());
        }
        self.returned =
            Some(if interface == Interface::Bsg { self.v4.returned() } else { self.v3.returned() });
        Ok(())
    }

    /// Sends the command to `/dev/sg*`. The box must then be kept until its answer was received.
    pub(super) fn send(self: &mut Box<Work>, exchange: &impl Exchange) -> io::Result<()> {
        self.fill();
        // SAFETY: as in `execute`, with two calls in the place of one: `Asynchronous` keeps the box until the answer was
        // received or the command has ended, and the memory may be used until then.
        unsafe { exchange.send(&self.v3) }
    }

    /// The answer was received.
    pub(super) fn receive(&mut self, header: &V3) {
        self.returned = Some(header.returned());
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

/// An exchange that does as a test says.
#[cfg(test)]
pub(super) mod scripted {
    use super::*;
    use platter_wait::EventFd;
    use std::collections::VecDeque;
    use std::sync::{Arc, Mutex};

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
