//! Which request may start next: what every export asks before it gives one to the device.
//!
//! A client has one share of the device, with the limits of both, and a share has one request that waits ([`crate::qos`]). So the
//! threads of a client take turns to ask. A request that is refused stays with its thread, which takes no other one, and is asked
//! for again at the time that it was told, or when the bell of the client rings.
//!
//! Example: a client may start 1000 requests per second, its burst is used up, and its threads A and B have a request each. A asks
//! first and is refused until 1 ms. It keeps the turn, so B is refused until 10 ms or the bell. At 1 ms A asks again and is admitted;
//! the turn is free, and because B was refused meanwhile the bell rings. B asks and is refused until 2 ms.

use crate::age::Mark;
use crate::clients::{Client, Connected, Waiting};
use crate::qos::{Admit, Share};
use crate::served::Served;
use platter_block::bio::Bio;
use platter_block::lane::Bell;
use platter_block::time::{Span, Time};
use platter_disk::channel::Channel;
use platter_disk::clock::Clock;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// How long a thread waits at most while another one has the turn to ask.
const AFTER_ANOTHER: Span = Span::from_millis(10);

/// The bells of several threads, which are rung together.
#[derive(Default)]
pub(crate) struct Bells(Mutex<Vec<Arc<dyn Bell>>>);

impl Bells {
    pub(crate) fn add(&self, bell: &Arc<impl Bell + 'static>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(bell) as Arc<dyn Bell>);
    }

    #[cfg(feature = "vhost")]
    pub(crate) fn remove(&self, bell: &Arc<impl Bell>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| !std::ptr::addr_eq(Arc::as_ptr(other), Arc::as_ptr(bell)));
    }
}

impl Bell for Bells {
    fn ring(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|bell| bell.ring());
    }
}

/// States of the turn to ask: no thread has it; one has it; one has it, and another one was refused because of that.
const FREE: u8 = 0;
const TAKEN: u8 = 1;
const WANTED: u8 = 2;

/// A client's share of the device, for all of its threads.
pub(crate) struct ClientShare {
    client: Arc<Client>,
    share: Share,
    bell: Arc<dyn Bell>,
    turn: AtomicU8,
}

impl ClientShare {
    /// Joins the device. The bell wakes all threads of the client.
    pub(crate) fn join(served: &Served, client: &Connected, bell: Arc<dyn Bell>) -> Arc<ClientShare> {
        let share = served.qos().join(client.id, Arc::clone(&bell));
        Arc::new(ClientShare { client: client.shared(), share, bell, turn: AtomicU8::new(FREE) })
    }

    /// Takes the turn, if it is free. If not, the thread that has it rings when it gives it up.
    fn take_turn(&self) -> bool {
        let order = Ordering::AcqRel;
        self.turn.compare_exchange(FREE, TAKEN, order, Ordering::Relaxed).is_ok()
            || self.turn.swap(WANTED, order) == FREE
    }

    fn give_up_turn(&self) {
        if self.turn.swap(FREE, Ordering::AcqRel) == WANTED {
            self.bell.ring();
        }
    }

    /// A request that has started has its answer.
    #[inline]
    pub(crate) fn answered(&self, mark: Mark, now: Time) {
        self.client.end(mark);
        self.share.complete(now);
    }
}

/// The next request of a thread.
pub(crate) struct Admission {
    share: Arc<ClientShare>,
    /// The thread has the turn to ask.
    asks: bool,
    /// The request may start, and waits for a slot or for memory.
    admitted: bool,
    /// It was refused, and when it is to be asked for again.
    refused: Option<Admit>,
    /// If it has been asked for: its age counts from then.
    mark: Option<Mark>,
    /// It is counted while it waits.
    waiting: Waiting,
    /// No more requests come. Those that have arrived are not held back: the server may be stopping.
    last: bool,
}

impl Admission {
    /// For one of the threads of a client.
    pub(crate) fn new(share: Arc<ClientShare>) -> Admission {
        let waiting = share.client.waiting();
        Admission { share, asks: false, admitted: false, refused: None, mark: None, waiting, last: false }
    }

    /// For the only thread of a client, which joins the device.
    pub(crate) fn join(served: &Served, client: &Connected, bell: Arc<dyn Bell>) -> Admission {
        Admission::new(ClientShare::join(served, client, bell))
    }

    /// Whether the request is held back.
    pub(crate) fn waits(&self) -> bool {
        self.refused.is_some()
    }

    /// The time at which to ask again at the latest; `None`: when the bell rings.
    pub(crate) fn again_at(&self) -> Option<Time> {
        match self.refused {
            Some(Admit::At(at)) => Some(at),
            _ => None,
        }
    }

    /// Asks whether the request, with `bytes` bytes of data, may start. After `false` the thread keeps the request and asks again.
    #[inline]
    pub(crate) fn admits(&mut self, clock: &Clock, bytes: u64) -> bool {
        self.refused = None;
        if self.admitted || !self.asks && !self.share.share.is_limited() {
            return true;
        }
        self.ask(clock, bytes)
    }

    #[cold]
    fn ask(&mut self, clock: &Clock, bytes: u64) -> bool {
        if self.last {
            return true;
        }
        let (share, now) = (&self.share, clock.now());
        self.mark.get_or_insert_with(|| share.client.begin());
        self.asks = self.asks || share.take_turn();
        let answer = if self.asks { share.share.admit(now, bytes) } else { Admit::At(now + AFTER_ANOTHER) };
        self.admitted = answer == Admit::Now;
        if self.admitted {
            self.asks = false;
            share.give_up_turn();
        } else {
            self.refused = Some(answer);
        }
        self.waiting.set(u32::from(!self.admitted));
        self.admitted
    }

    /// The request goes to the device.
    #[inline]
    pub(crate) fn start(&mut self) -> Mark {
        self.waiting.set(0);
        if !std::mem::take(&mut self.admitted) {
            self.share.share.start();
        }
        self.mark.take().unwrap_or_else(|| self.share.client.begin())
    }

    /// A request that has started has its answer.
    #[inline]
    pub(crate) fn answered(&self, mark: Mark, now: Time) {
        self.share.answered(mark, now);
    }

    /// The request is dropped and not asked for again. A place in the device that it was given is free again.
    pub(crate) fn withdraw(&mut self, now: Time) {
        self.forget();
        if std::mem::take(&mut self.admitted) {
            self.share.share.complete(now);
        }
    }

    fn forget(&mut self) {
        self.refused = None;
        self.waiting.set(0);
        self.stop_asking();
        if let Some(mark) = self.mark.take() {
            self.share.client.end(mark);
        }
    }

    fn stop_asking(&mut self) {
        if std::mem::take(&mut self.asks) {
            self.share.share.withdraw();
            self.share.give_up_turn();
        }
    }

    /// Holds nothing back any more: the thread takes no more requests, and those that it has start without being admitted.
    pub(crate) fn end(&mut self) {
        if !std::mem::replace(&mut self.last, true) {
            self.stop_asking();
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.last
    }

    /// Of several requests that have arrived, this one is next: its age counts from then.
    #[cfg(feature = "ublk")]
    pub(crate) fn set_next(&mut self, mark: Mark) {
        self.mark = Some(mark);
    }

    /// Sets the number of requests that wait: the next one, which was refused, and those behind it.
    #[cfg(feature = "ublk")]
    pub(crate) fn count_waiting(&mut self, count: usize) {
        self.waiting.set(count as u32);
    }

    /// Sleeps until a bio has completed, a descriptor is readable or the request is to be asked for again.
    pub(crate) fn sleep(&self, channel: &mut Channel, done: &mut Vec<Bio>, descriptors: &[RawFd]) {
        let (clock, again_at) = (channel.clock().clone(), self.again_at());
        match (clock.simulated(), again_at) {
            // Virtual time passes only when a program that waits lets it.
            (Some(clock), Some(at)) if channel.outstanding() == 0 => clock.advance_to(at),
            _ => {
                let timeout = again_at.map(|at| at.since(clock.now()));
                channel.wait_or_readable(done, descriptors, timeout);
            }
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.forget();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::Clients;
    use crate::qos::DeviceLimits;
    use platter_disk::device::Device;
    use std::sync::atomic::AtomicUsize;

    /// A bell that counts its rings.
    #[derive(Default)]
    struct Rings(AtomicUsize);

    impl Bell for Rings {
        fn ring(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Rings {
        fn taken(&self) -> usize {
            self.0.swap(0, Ordering::Relaxed)
        }
    }

    /// A client with two threads whose requests the test asks for.
    struct Line {
        threads: [Admission; 2],
        bell: Arc<Rings>,
        clock: Clock,
        client: Connected,
    }

    /// Two clients of a device that takes one request at a time.
    fn lines() -> [Line; 2] {
        let served = Served::new("disk", Device::ram(1 << 20).unwrap()).unwrap();
        served.qos().set_device(DeviceLimits { depth: 1, ..DeviceLimits::default() }).unwrap();
        let clients = Clients::new(2);
        [(); 2].map(|()| {
            let client = clients.connect("nbd", "disk", "peer", || {}).unwrap();
            let bell = Arc::new(Rings::default());
            let share = ClientShare::join(&served, &client, Arc::clone(&bell) as Arc<dyn Bell>);
            let threads = [(); 2].map(|()| Admission::new(Arc::clone(&share)));
            Line { threads, bell, clock: served.device().clock(), client }
        })
    }

    impl Line {
        fn asks(&mut self, thread: usize) -> bool {
            self.threads[thread].admits(&self.clock, 4096)
        }

        fn answer(&mut self, mark: Mark) {
            self.threads[0].answered(mark, self.clock.now());
        }

        fn drop_next(&mut self) {
            self.threads[0].withdraw(self.clock.now());
            assert!(!self.threads[0].waits());
            assert_eq!(self.client.oldest(std::time::Instant::now()), None, "it is not counted");
        }
    }

    #[test]
    fn a_request_that_is_dropped_neither_waits_nor_keeps_a_place() {
        let [mut dropping, mut other] = lines();
        assert!(other.asks(0));
        let mark = other.threads[0].start();
        assert!(!dropping.asks(0));
        other.answer(mark);
        assert!(!other.asks(0), "the first one that has waited gets the place");
        dropping.drop_next();
        assert!(other.asks(0));
        let mark = other.threads[0].start();
        assert!(!dropping.asks(0));
        dropping.drop_next();
        other.answer(mark);
        assert!(dropping.asks(0), "nothing is in the device");
        dropping.drop_next();
        assert!(other.asks(0), "what was admitted and dropped is not in the device");
    }

    #[test]
    fn a_thread_that_was_refused_for_the_turn_of_another_is_woken_when_that_is_over() {
        let [mut line, mut other] = lines();
        assert!(other.asks(0));
        let mark = other.threads[0].start();
        assert!(!line.asks(0));
        assert_eq!(line.threads[0].again_at(), None, "when the bell rings");
        assert!(!line.asks(1));
        assert!(line.threads[1].again_at().is_some() && line.client.admitted() == 0);
        line.bell.taken();
        other.answer(mark);
        assert_eq!(line.bell.taken(), 1, "the place is free");
        assert!(!line.asks(1), "it is still the turn of the first");
        assert!(line.asks(0));
        assert_eq!((line.bell.taken(), line.client.admitted()), (1, 1));
        let mark = line.threads[0].start();
        assert!(!line.asks(1));
        line.answer(mark);
        line.bell.taken();
        assert!(line.asks(1));
        assert_eq!(line.bell.taken(), 0, "no other thread was refused");
    }

    #[test]
    fn a_thread_that_ends_gives_up_its_turn() {
        for drops in [false, true] {
            let [mut line, mut other] = lines();
            assert!(other.asks(0));
            let mark = other.threads[0].start();
            assert!(!line.asks(0) && !line.asks(1));
            line.bell.taken();
            if drops {
                line.threads[0] = Admission::new(Arc::clone(&line.threads[1].share));
            } else {
                line.threads[0].end();
                assert!(line.asks(0), "what it has starts without being admitted");
            }
            assert_eq!(line.bell.taken(), 1);
            other.answer(mark);
            assert!(line.asks(1));
        }
    }
}
