//! Several commands at once on a descriptor of `/dev/sg*`, by `write` and `read`.

#![allow(unsafe_code)]

use super::protocol::Sg;
use super::shared::Shared;
use super::work::{Exchange, Work};
use crate::passed::{Carrier, NAP, Protocol};
use crate::waiter::Waiter;
use platter_block::time::Span;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The commands that a descriptor of `/dev/sg*` has at once (`SG_MAX_QUEUE`).
const MAX_SENT: usize = 16;

/// Waits for at most this time, and not longer than [`NAP`].
fn nap(timeout: Option<Span>) {
    platter_wait::nap(timeout.unwrap_or(NAP).min(NAP));
}

/// What a look for an answer has found.
enum Collected {
    /// The command that was answered.
    Answer(Box<Work>),
    /// There is no answer.
    Nothing,
    /// The kernel does not hand out answers at the moment, or not to this thread. It still has all commands.
    Refused(io::Error),
}

/// Commands by `write` and `read` on a descriptor of `/dev/sg*` that nothing else uses and that does not block.
pub(super) struct Asynchronous<E: Exchange> {
    shared: Arc<Shared>,
    exchange: E,
    waiter: Waiter,
    sent: Vec<Option<Box<Work>>>,
    count: usize,
    /// Nothing more is sent.
    is_dead: AtomicBool,
    /// The descriptor does not tell when commands end.
    naps: bool,
}

impl<E: Exchange> Asynchronous<E> {
    pub(super) fn new(shared: Arc<Shared>, exchange: E) -> io::Result<Asynchronous<E>> {
        let waiter = Waiter::new()?;
        let is_dead = AtomicBool::new(false);
        Ok(Asynchronous { shared, exchange, waiter, sent: Vec::new(), count: 0, is_dead, naps: false })
    }

    fn dead(&self) -> bool {
        self.is_dead.load(Ordering::Relaxed)
    }

    /// Whether the device is gone and there is no answer.
    fn has_hung_up(&self) -> bool {
        self.exchange.wait(Some(Span::default()))
    }

    /// Looks for the next command that was answered.
    fn receive(&mut self) -> Collected {
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
            work.receive(&header);
            return Collected::Answer(work);
        }
        Collected::Nothing
    }

    /// Whether the device has ended all commands, so that none of them changes anything or uses memory any more, although
    /// their answers were not received.
    fn has_ended_all(&self) -> bool {
        self.exchange.ended().is_ok_and(|ended| ended >= self.count)
    }

    /// The device is gone. The kernel ends the commands that are out, but the descriptor does not tell when.
    fn hang_up(&mut self) {
        self.is_dead.store(true, Ordering::Relaxed);
        self.shared.trouble.report(&format!("{}: the device is gone", self.shared.node.path.display()));
        self.stop_listening();
    }

    /// The kernel does not hand out answers: the device is gone and none is there (ENODEV, Linux before 6.1), there is no
    /// memory, or this thread does not have the credentials of the thread that opened the descriptor (EPERM). The commands go on.
    fn refused(&mut self, error: &io::Error, answers: &mut Vec<<Sg as Protocol>::Answer>) {
        self.shared.trouble.report(&format!("{}: {error}", self.shared.node.path.display()));
        self.stop_listening();
        match error.raw_os_error() {
            Some(libc::ENODEV | libc::ENXIO) => self.is_dead.store(true, Ordering::Relaxed),
            Some(libc::EPERM) if self.has_ended_all() => {
                // What became of the commands is not known.
                self.is_dead.store(true, Ordering::Relaxed);
                self.count = 0;
                for mut work in std::mem::take(&mut self.sent).into_iter().flatten() {
                    work.errno = libc::ENOLINK;
                    answers.push(work);
                }
            }
            _ => {}
        }
    }

    fn stop_listening(&mut self) {
        self.naps = true;
        self.waiter.forget(self.exchange.descriptor());
    }

    /// An answer was received: the descriptor tells of the next ones, unless the device is gone.
    fn listen_again(&mut self, is_watched: bool) {
        if !self.naps || self.dead() {
            return;
        }
        self.naps = false;
        if is_watched {
            self.waiter.listen(self.exchange.descriptor(), false);
        }
    }
}

impl<E: Exchange> Carrier<Sg> for Asynchronous<E> {
    fn room(&self) -> usize {
        MAX_SENT
    }

    fn sent(&self) -> usize {
        self.count
    }

    // SAFETY: the command is kept until its answer was received or it has ended; its memory is as the trait says.
    unsafe fn start(&mut self, mut work: Box<Work>) -> Result<(), (Box<Work>, i32)> {
        if let Err(error) = work.send(&self.exchange) {
            return Err((work, error.raw_os_error().unwrap_or(libc::EIO)));
        }
        let index = work.index as usize;
        if self.sent.len() <= index {
            self.sent.resize_with(index + 1, || None);
        }
        self.sent[index] = Some(work);
        self.count += 1;
        Ok(())
    }

    fn collect(&mut self, is_watched: bool, answers: &mut Vec<Box<Work>>) {
        self.waiter.bell.clear();
        while self.count > 0 {
            match self.receive() {
                Collected::Answer(work) => {
                    self.listen_again(is_watched);
                    answers.push(work);
                }
                Collected::Nothing => {
                    // Otherwise a descriptor that has hung up ends each sleep of a thread that polls it.
                    let is_spurious = answers.is_empty() && !self.naps && is_watched;
                    if is_spurious && self.has_hung_up() {
                        self.hang_up();
                    }
                    return;
                }
                Collected::Refused(error) => return self.refused(&error, answers),
            }
        }
    }

    fn wait(&mut self, timeout: Option<Span>) {
        if self.naps {
            nap(timeout);
        } else if self.exchange.wait(timeout) {
            self.hang_up();
        }
    }

    fn watch(&self, is_known: bool) -> i32 {
        if !self.naps && !self.dead() {
            // Without commands nothing is received, so that a device which is gone is noticed here.
            if self.count == 0 && self.has_hung_up() {
                self.is_dead.store(true, Ordering::Relaxed);
                self.waiter.forget(self.exchange.descriptor());
            } else if !is_known {
                self.waiter.listen(self.exchange.descriptor(), false);
            }
        }
        self.waiter.descriptor().as_raw_fd()
    }

    fn ring(&mut self) {
        self.waiter.bell.ring_once();
    }

    fn is_dead(&self) -> bool {
        self.dead()
    }

    fn naps(&self) -> bool {
        self.naps
    }
}

impl<E: Exchange> Drop for Asynchronous<E> {
    /// Waits until all commands have ended, because the kernel writes to memory that belongs to the program. The kernel
    /// ends each of them after its timeout.
    fn drop(&mut self) {
        while self.count > 0 {
            match self.receive() {
                Collected::Answer(_) => {}
                Collected::Nothing if !self.exchange.wait(None) => {}
                Collected::Refused(_) if self.has_ended_all() => return,
                // The descriptor does not tell when they end.
                Collected::Nothing | Collected::Refused(_) => nap(None),
            }
        }
    }
}

#[cfg(test)]
mod tests;
