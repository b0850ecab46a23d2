//! The connections of a disk's sessions, by which a channel sees that the session of another one has ended.
//!
//! A target that dies may lose what it had answered and not made durable, and the flush that a new process answers does not tell
//! of it. All sessions of the dead process end. A channel without I/O does not look at its own, so each channel looks at the
//! others before it believes a flush, and when it has a new session. The loss of a session fails one flush: it is charged once,
//! and again only for an answer that is read after that. As long as one session goes on, the target is the same process.

use crate::unflushed::{Change, Unflushed};
use platter_wait::{PollFlags, is_ready};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The session of a channel.
struct Watch {
    /// Its connection. `None`: the session has ended, or cannot be watched.
    connection: Option<OwnedFd>,
    /// Its loss was charged.
    is_charged: bool,
}

impl Watch {
    fn has_ended(&self) -> bool {
        let Some(connection) = &self.connection else { return true };
        is_ready(connection, PollFlags::RDHUP)
    }

    /// Charges the loss of the session, if it has ended and that was not done.
    fn charge(&mut self, unflushed: &Unflushed) {
        if !self.is_charged && self.has_ended() {
            self.is_charged = true;
            unflushed.lost();
        }
    }
}

/// The sessions of a disk, by the numbers of their channels. Losses are charged under the lock: a session that is found charged
/// has failed a flush, or will.
pub(super) struct Watches(Mutex<Vec<Option<Watch>>>);

impl Watches {
    pub(super) fn new(connections: u32) -> Watches {
        Watches(Mutex::new((0..connections).map(|_| None).collect()))
    }

    fn all(&self) -> MutexGuard<'_, Vec<Option<Watch>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A channel begins, with a session. Without another session nothing has been watched since earlier ones ended.
    pub(super) fn opened(&self, port: u16, connection: Option<OwnedFd>, unflushed: &Unflushed) {
        let mut all = self.all();
        charge_others(&mut all, port, unflushed);
        if !others_work(&all, port) {
            unflushed.lost();
        }
        all[usize::from(port)] = Some(Watch { connection, is_charged: false });
    }

    /// A channel has another session in the place of one that ended. `keeps_cache`: the unit has said that it lost nothing.
    pub(super) fn reopened(
        &self,
        port: u16,
        connection: Option<OwnedFd>,
        keeps_cache: bool,
        unflushed: &Unflushed,
    ) {
        let mut all = self.all();
        charge_others(&mut all, port, unflushed);
        let was_charged = all[usize::from(port)].as_ref().is_some_and(|watch| watch.is_charged);
        // What other channels have written since the loss was charged is covered by their sessions.
        let is_covered = was_charged && others_work(&all, port);
        if !keeps_cache && !is_covered {
            unflushed.lost();
        }
        all[usize::from(port)] = Some(Watch { connection, is_charged: false });
    }

    /// The session of a channel has ended. Whether it is charged is decided by the next one, or by a flush that comes first.
    pub(super) fn ended(&self, port: u16) {
        if let Some(watch) = &mut self.all()[usize::from(port)] {
            watch.connection = None;
        }
    }

    /// The unit has told a channel that it lost its cache.
    pub(super) fn cache_lost(&self, port: u16, unflushed: &Unflushed) {
        let mut all = self.all();
        if let Some(watch) = &mut all[usize::from(port)] {
            watch.is_charged = true;
        }
        unflushed.lost();
    }

    /// A channel ends, and has not yet said so to the target.
    pub(super) fn closed(&self, port: u16, unflushed: &Unflushed) {
        let mut all = self.all();
        if let Some(mut watch) = all[usize::from(port)].take() {
            watch.charge(unflushed);
        }
    }

    /// The target has answered a change over the session of a channel. If the loss of the session is charged already, the answer
    /// came before the end and was read after it: the loss is charged for this change too. `has_ended` tells whether the session
    /// has ended, since one that cannot be watched is charged although it may go on.
    pub(super) fn changed(
        &self,
        port: u16,
        change: &Change<'_>,
        unflushed: &Unflushed,
        has_ended: impl FnOnce() -> bool,
    ) {
        let all = self.all();
        unflushed.changed(change);
        if all[usize::from(port)].as_ref().is_some_and(|watch| watch.is_charged) && has_ended() {
            unflushed.lost();
        }
    }

    /// Before a flush of a channel is believed: charges the losses of other sessions.
    pub(super) fn look_at_others(&self, port: u16, unflushed: &Unflushed) {
        charge_others(&mut self.all(), port, unflushed);
    }
}

fn charge_others(all: &mut [Option<Watch>], port: u16, unflushed: &Unflushed) {
    for (_, watch) in (0..).zip(all).filter(|(other, _)| *other != port) {
        if let Some(watch) = watch {
            watch.charge(unflushed);
        }
    }
}

/// Whether the session of another channel goes on, as far as is known now.
fn others_work(all: &[Option<Watch>], port: u16) -> bool {
    let mut others = (0..).zip(all).filter(|(other, _)| *other != port);
    others.any(|(_, watch)| watch.as_ref().is_some_and(|watch| !watch.has_ended()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_block::bio::Op;
    use std::os::unix::net::UnixStream;

    struct Disk {
        watches: Watches,
        unflushed: Unflushed,
    }

    impl Disk {
        fn new() -> Disk {
            Disk { watches: Watches::new(3), unflushed: Unflushed::new(0) }
        }

        /// Opens a channel; its session ends when what is returned is dropped.
        fn open(&self, port: u16) -> UnixStream {
            let (own, peer) = UnixStream::pair().unwrap();
            self.watches.opened(port, Some(own.into()), &self.unflushed);
            peer
        }

        fn reopen(&self, port: u16, keeps_cache: bool) -> UnixStream {
            let (own, peer) = UnixStream::pair().unwrap();
            self.watches.reopened(port, Some(own.into()), keeps_cache, &self.unflushed);
            peer
        }

        /// The answer to a write is read, over a session that goes on.
        fn write(&self, port: u16) {
            self.answered(port, false);
        }

        fn answered(&self, port: u16, has_ended: bool) {
            let copy = Vec::new;
            let change = Change { op: Op::Write, pos: 0, len: 512, fua: false, copy: &copy };
            self.watches.changed(port, &change, &self.unflushed, || has_ended);
        }

        fn flush(&self, port: u16) -> bool {
            let covers = self.unflushed.begin_flush();
            self.watches.look_at_others(port, &self.unflushed);
            self.unflushed.flushed(covers)
        }
    }

    #[test]
    fn a_lost_session_fails_one_flush_of_another() {
        let disk = Disk::new();
        let first = disk.open(0);
        disk.write(0);
        drop(first);
        let _second = disk.open(1);
        assert!(!disk.flush(1));
        disk.write(1);
        assert!(disk.flush(1), "it was charged");
        disk.write(1);
        disk.watches.ended(0);
        let _first = disk.reopen(0, false);
        assert!(disk.flush(1), "it was charged");
    }

    #[test]
    fn the_loss_of_a_session_is_seen_by_one_that_was_open_before() {
        let disk = Disk::new();
        let (first, _second) = (disk.open(0), disk.open(1));
        disk.write(0);
        assert!(disk.flush(1));
        disk.write(0);
        drop(first);
        assert!(!disk.flush(1));
    }

    #[test]
    fn a_unit_that_keeps_its_cache_is_believed_unless_a_flush_came_first() {
        let disk = Disk::new();
        let (first, _second) = (disk.open(0), disk.open(1));
        disk.write(0);
        drop(first);
        disk.watches.ended(0);
        let first = disk.reopen(0, true);
        assert!(disk.flush(1));
        disk.write(0);
        drop(first);
        disk.watches.ended(0);
        assert!(!disk.flush(1));
    }

    #[test]
    fn without_a_session_that_goes_on_what_was_written_is_suspect() {
        let disk = Disk::new();
        let (first, second) = (disk.open(0), disk.open(1));
        drop(first);
        disk.write(1);
        assert!(!disk.flush(1), "the first session is charged");
        disk.write(1);
        disk.watches.closed(1, &disk.unflushed);
        drop(second);
        let _first = disk.reopen(0, false);
        assert!(!disk.flush(0), "nothing was watched meanwhile");
    }

    #[test]
    fn an_answer_that_is_read_after_the_loss_was_charged_may_be_lost_too() {
        for reopens in [false, true] {
            let disk = Disk::new();
            let (first, second) = (disk.open(0), disk.open(1));
            drop((first, second));
            disk.watches.ended(1);
            let _second = disk.reopen(1, false);
            assert!(disk.flush(1), "nothing was written, and the first session is charged");
            disk.answered(0, true);
            disk.watches.ended(0);
            let _first = reopens.then(|| disk.reopen(0, false));
            assert!(!disk.flush(1), "reopens: {reopens}");
            disk.write(1);
            assert!(disk.flush(1), "only once");
        }
    }

    #[test]
    fn a_session_that_cannot_be_watched_is_charged_once_while_it_goes_on() {
        let disk = Disk::new();
        disk.watches.opened(0, None, &disk.unflushed);
        let _second = disk.open(1);
        disk.write(0);
        assert!(disk.flush(1), "it was charged before");
        disk.answered(0, true);
        assert!(!disk.flush(1));
    }

    #[test]
    fn sessions_that_are_closed_are_not_lost() {
        let disk = Disk::new();
        let (first, _second) = (disk.open(0), disk.open(1));
        disk.write(0);
        disk.watches.closed(0, &disk.unflushed);
        drop(first);
        assert!(disk.flush(1));
        let _third = disk.open(2);
        disk.write(2);
        assert!(disk.flush(2));
    }
}
