//! Whether the next request may start: the connection's share of the device.

use crate::age::Mark;
use crate::clients::{Client, Waiting};
use crate::qos::{Admit, Share};
use crate::served::Served;
use platter_block::lane::Bell;
use platter_block::time::{Span, Time};
use platter_disk::clock::Clock;
use platter_wait::{Epoll, EventFd, EventFlags, PollFlags, is_ready};
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;

/// A connection's share, and the request that waits for it.
pub(crate) struct Admission {
    share: Share,
    wake: Arc<EventFd>,
    /// Readable once the peer sends no more requests.
    hangup: Epoll,
    /// The next request was admitted, and waits for a slot or for memory; or it has started.
    admitted: bool,
    /// Of the next request, if it has waited: its age counts from then.
    mark: Option<Mark>,
    /// The next request, counted while it waits.
    waiting: Waiting,
    waits: Option<Admit>,
    /// No more requests come. Those that have arrived are not held back: the server may be stopping.
    last: bool,
}

impl Admission {
    /// Joins the device.
    ///
    /// # Errors
    /// There is no free descriptor.
    pub(crate) fn join(served: &Served, client: &Client, socket: impl AsFd) -> io::Result<Admission> {
        let wake = Arc::new(EventFd::new()?);
        let hangup = Epoll::new()?;
        hangup.add(socket, EventFlags::RDHUP)?;
        let share = served.qos().join(client.id, Arc::clone(&wake) as Arc<dyn Bell>);
        let waiting = client.waiting();
        Ok(Admission { share, wake, hangup, admitted: false, mark: None, waiting, waits: None, last: false })
    }

    /// Whether the next request is held back.
    pub(crate) fn waits(&self) -> bool {
        self.waits.is_some()
    }

    /// Ends a sleep that waits for it.
    #[cfg(feature = "iscsi")]
    pub(crate) fn bell(&self) -> Arc<dyn Bell> {
        Arc::clone(&self.wake) as Arc<dyn Bell>
    }

    /// The descriptors that end a wait.
    pub(crate) fn descriptors(&self) -> [RawFd; 2] {
        [self.wake.raw(), self.hangup.as_raw_fd()]
    }

    /// How long to wait at most.
    pub(crate) fn timeout(&self, now: Time) -> Option<Span> {
        match self.waits {
            Some(Admit::At(at)) => Some(at.since(now)),
            _ => None,
        }
    }

    /// The time at which to ask again.
    pub(crate) fn again_at(&self) -> Option<Time> {
        match self.waits {
            Some(Admit::At(at)) => Some(at),
            _ => None,
        }
    }

    /// Answers the bell, and looks whether the peer sends no more.
    pub(crate) fn woken(&mut self) {
        self.wake.clear();
        if !self.last && is_ready(&self.hangup, PollFlags::IN) {
            self.last = true;
            // The request that waits starts without being admitted.
            self.share.withdraw();
        }
    }

    /// Whether the next request, of so many bytes of data, may start. If not, it is asked for again after a wait.
    #[inline]
    pub(crate) fn admits(&mut self, client: &Client, clock: &Clock, bytes: u64) -> bool {
        self.waits = None;
        if self.admitted || !self.share.is_limited() {
            return true;
        }
        self.ask(client, clock, bytes)
    }

    #[cold]
    fn ask(&mut self, client: &Client, clock: &Clock, bytes: u64) -> bool {
        if self.last {
            return true;
        }
        self.mark.get_or_insert_with(|| client.begin());
        match self.share.admit(clock.now(), bytes) {
            Admit::Now => self.admitted = true,
            later => self.waits = Some(later),
        }
        self.waiting.set(u32::from(!self.admitted));
        self.admitted
    }

    /// Counts the next request, which has a slot to go to.
    #[inline]
    pub(crate) fn counted(&mut self, client: &Client) -> Mark {
        self.waiting.set(0);
        if !std::mem::replace(&mut self.admitted, true) {
            self.share.start();
        }
        self.mark.take().unwrap_or_else(|| client.begin())
    }

    /// The next request has been taken.
    #[inline]
    pub(crate) fn taken(&mut self) {
        self.admitted = false;
    }

    /// The next request is dropped and not asked for again. A place in the device that it was given is free again.
    #[cfg(feature = "iscsi")]
    pub(crate) fn withdraw(&mut self, client: &Client, now: Time) {
        self.waits = None;
        self.waiting.set(0);
        if let Some(mark) = self.mark.take() {
            client.end(mark);
        }
        match std::mem::take(&mut self.admitted) {
            true => self.share.complete(now),
            false => self.share.withdraw(),
        }
    }

    /// A request that was taken has its answer.
    #[inline]
    pub(crate) fn answered(&mut self, client: &Client, mark: Mark, now: Time) {
        client.end(mark);
        self.share.complete(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::{Clients, Connected};
    use crate::qos::DeviceLimits;
    use platter_disk::device::Device;
    use std::os::unix::net::UnixStream;

    /// A connection whose requests the test asks for.
    struct Line {
        client: Connected,
        admission: Admission,
        clock: Clock,
        _ends: (UnixStream, UnixStream),
    }

    /// Two connections to a device that takes one request at a time.
    fn lines() -> [Line; 2] {
        let served = Served::new("disk", Device::ram(1 << 20).unwrap()).unwrap();
        served.qos().set_device(DeviceLimits { depth: 1, ..DeviceLimits::default() }).unwrap();
        let clients = Clients::new(2);
        [(); 2].map(|()| {
            let client = clients.connect("nbd", "disk", "peer", || {}).unwrap();
            let ends = UnixStream::pair().unwrap();
            let admission = Admission::join(&served, &client, &ends.0).unwrap();
            Line { client, admission, clock: served.device().clock(), _ends: ends }
        })
    }

    impl Line {
        fn asks(&mut self) -> bool {
            self.admission.admits(&self.client, &self.clock, 4096)
        }

        fn take(&mut self) -> Mark {
            let mark = self.admission.counted(&self.client);
            self.admission.taken();
            mark
        }

        fn answer(&mut self, mark: Mark) {
            self.admission.answered(&self.client, mark, self.clock.now());
        }

        #[cfg(feature = "iscsi")]
        fn drop_next(&mut self) {
            self.admission.withdraw(&self.client, self.clock.now());
            assert!(!self.admission.waits());
            assert_eq!(self.client.oldest(std::time::Instant::now()), None, "it is not counted");
        }
    }

    #[cfg(feature = "iscsi")]
    #[test]
    fn a_request_that_is_dropped_neither_waits_nor_keeps_a_place() {
        let [mut dropping, mut other] = lines();
        assert!(other.asks());
        let mark = other.take();
        assert!(!dropping.asks());
        other.answer(mark);
        assert!(!other.asks(), "the first one that has waited gets the place");
        dropping.drop_next();
        assert!(other.asks());
        let mark = other.take();
        assert!(!dropping.asks());
        dropping.drop_next();
        other.answer(mark);
        assert!(dropping.asks(), "nothing is in the device");
        dropping.drop_next();
        assert!(other.asks(), "what was admitted and dropped is not in the device");
    }
}
