//! The connection to a front end.

use super::wire::{HEADER, Header, MAX_DESCRIPTORS};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl, readlink};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, Shutdown, recvmsg, sendmsg, shutdown,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long a message to the front end may take: it should have room for one at once.
const SEND: Duration = Duration::from_secs(10);

/// What a wait for the front end has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A message has begun, or the peer has gone.
    Message,
    /// The other descriptor is readable.
    Other,
    /// The time is over, or the wait was interrupted.
    Nothing,
}

/// A message.
pub(super) struct Message {
    pub(super) header: Header,
    pub(super) body: Vec<u8>,
    pub(super) files: Vec<OwnedFd>,
}

/// A connected socket.
pub(super) struct Socket(OwnedFd);

impl Socket {
    /// `limit`: how long a message that has begun may take to arrive.
    pub(super) fn new(fd: OwnedFd, limit: Duration) -> Socket {
        // A system without these options waits longer for a front end that takes or sends nothing.
        let _ = set_socket_timeout(&fd, Timeout::Send, Some(SEND));
        let _ = set_socket_timeout(&fd, Timeout::Recv, Some(limit));
        Socket(fd)
    }

    /// Sleeps until a message has begun or `other` is readable, at most until a time.
    pub(super) fn wait(&self, other: impl AsFd, until: Option<Instant>) -> Found {
        let mut both = [PollFd::new(&self.0, PollFlags::IN), PollFd::new(&other, PollFlags::IN)];
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        // A time that is too long for the system is none.
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        if poll(&mut both, left.as_ref()).is_err() {
            return Found::Nothing;
        }
        match both.map(|one| one.revents().is_empty()) {
            [false, _] => Found::Message,
            [true, false] => Found::Other,
            [true, true] => Found::Nothing,
        }
    }

    /// Receives a message. `None`: the peer has closed the connection, or it was shut down here.
    ///
    /// # Errors
    /// A sentence: it ends inside a message, or is none.
    pub(super) fn receive(&self) -> Result<Option<Message>, String> {
        let mut head = [0; HEADER];
        let mut files = Vec::new();
        if !self.fill(&mut head, Some(&mut files))? {
            return Ok(None);
        }
        let header = Header::parse(&head)?;
        let mut body = vec![0; header.bytes];
        if header.bytes > 0 && !self.fill(&mut body, None)? {
            return Err("the peer closed the connection inside a message".to_owned());
        }
        Ok(Some(Message { header, body, files }))
    }

    /// Receives exactly these bytes. `false`: there is nothing.
    fn fill(&self, bytes: &mut [u8], mut files: Option<&mut Vec<OwnedFd>>) -> Result<bool, String> {
        let mut filled = 0;
        while filled < bytes.len() {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let parts = &mut [IoSliceMut::new(&mut bytes[filled..])];
            let received = match recvmsg(&self.0, parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return Err("a message has begun and does not end".to_owned()),
                Err(errno) => return Err(format!("the connection failed: {errno}")),
                Ok(message) => message.bytes,
            };
            let more = control.drain().filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(files) => Some(files),
                _ => None,
            });
            // Descriptors that are not asked for are closed.
            let more: Vec<OwnedFd> = more.flatten().collect();
            if let Some(files) = &mut files {
                files.extend(more);
            }
            if received == 0 {
                return match filled {
                    0 => Ok(false),
                    _ => Err("the peer closed the connection inside a message".to_owned()),
                };
            }
            filled += received;
        }
        Ok(true)
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The peer takes none.
    pub(super) fn send(&self, message: &[u8], file: Option<BorrowedFd<'_>>) -> Result<(), String> {
        send(&self.0, message, file).map_err(|errno| format!("the peer takes no messages: {errno}"))
    }

    /// Receives nothing more.
    pub(super) fn stop_receiving(&self) {
        // It fails only if the peer has gone.
        let _ = shutdown(&self.0, Shutdown::Read);
    }
}

/// Sends a message over a socket.
pub(super) fn send(socket: impl AsFd, message: &[u8], file: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
    let mut sent = 0;
    while sent < message.len() {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let files = file.as_slice();
        if sent == 0 && !files.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(files));
        }
        match sendmsg(&socket, &[IoSlice::new(&message[sent..])], &mut control, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
            Ok(bytes) => sent += bytes,
        }
    }
    Ok(())
}

/// A descriptor by which front end and back end notify each other.
///
/// # Errors
/// It is none: reading or writing it could block this process.
pub(super) fn event(fd: OwnedFd) -> Result<OwnedFd, String> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let about = readlink(&path, Vec::new()).map_err(|errno| format!("{path} cannot be read: {errno}"))?;
    if !about.as_bytes().starts_with(b"anon_inode:[eventfd") {
        return Err(format!("a descriptor for notifications is no eventfd but {about:?}"));
    }
    let flags = fcntl_getfl(&fd).and_then(|flags| fcntl_setfl(&fd, flags | OFlags::NONBLOCK));
    flags.map_err(|errno| format!("a descriptor for notifications: {errno}"))?;
    Ok(fd)
}
