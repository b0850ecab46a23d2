//! The client that stands for all programs with open files of a device, and its share of the device.

use super::post::WorkerWake;
use crate::age::Mark;
use crate::clients::{self, Client, Connected};
use crate::qos::{Admit, Share};
use crate::restart::FirstFlush;
use crate::served::Served;
use platter_block::time::{Span, Time};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// How long a thread waits whose turn to ask comes after that of another.
const AFTER_ANOTHER: Span = Span::from_millis(10);

/// The bells of all threads of an export.
#[derive(Default)]
pub(super) struct Bells(Mutex<Vec<Arc<WorkerWake>>>);

impl Bells {
    pub(super) fn add(&self, bell: &Arc<WorkerWake>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(bell));
    }

    /// Wakes all threads.
    pub(super) fn ring(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|bell| bell.ring());
    }
}

impl platter_block::lane::Bell for Bells {
    fn ring(&self) {
        Bells::ring(self);
    }
}

/// A client with its share. Threads ask for one request at a time, because a share has one place to wait.
pub(super) struct DeviceUser {
    /// Its number, which open files carry.
    pub(super) handle: u64,
    served: Arc<Served>,
    has_ended: AtomicBool,
    client: Connected,
    first_flush: Arc<FirstFlush>,
    share: Share,
    bells: Arc<Bells>,
    /// A thread has a request that waits to be admitted.
    asks: AtomicBool,
}

/// Whether a request may start.
pub(super) enum Turn {
    Now,
    /// Ask again then, or when the bell rings. `asks`: this thread has the place to wait.
    Later {
        at: Option<Time>,
        asks: bool,
    },
}

impl DeviceUser {
    pub(super) fn new(
        handle: u64,
        client: Connected,
        (served, first_flush): (&Arc<Served>, Arc<FirstFlush>),
        bells: Arc<Bells>,
    ) -> DeviceUser {
        let share = served.qos().join(client.id, Arc::clone(&bells) as Arc<dyn platter_block::lane::Bell>);
        let (has_ended, asks) = (AtomicBool::new(false), AtomicBool::new(false));
        DeviceUser { handle, served: Arc::clone(served), has_ended, client, first_flush, share, bells, asks }
    }

    pub(super) fn served(&self) -> &Arc<Served> {
        &self.served
    }

    /// Takes no more requests.
    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// What the users of the file are to be told of lost writes.
    pub(super) fn first_flush(&self) -> &FirstFlush {
        &self.first_flush
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Whether anything is limited.
    #[inline]
    pub(super) fn is_limited(&self) -> bool {
        self.share.is_limited()
    }

    /// Asks for a request of `bytes` bytes. `asks`: what the last answer for this request said.
    pub(super) fn admit(&self, now: Time, bytes: u64, asks: bool) -> Turn {
        if !asks && self.asks.swap(true, Ordering::Acquire) {
            return Turn::Later { at: Some(now + AFTER_ANOTHER), asks: false };
        }
        match self.share.admit(now, bytes) {
            Admit::Now => {
                self.leave();
                Turn::Now
            }
            Admit::At(at) => Turn::Later { at: Some(at), asks: true },
            Admit::OnBell => Turn::Later { at: None, asks: true },
        }
    }

    /// The thread that has the place to wait gives it up, and asks no more for its request.
    fn give_up(&self) {
        self.share.withdraw();
        self.leave();
    }

    /// Another thread may have the place to wait.
    fn leave(&self) {
        self.asks.store(false, Ordering::Release);
        self.bells.ring();
    }

    /// A request starts without being admitted.
    #[inline]
    pub(super) fn start(&self) {
        self.share.start();
    }

    /// A request that was admitted, or has started without that, has been answered.
    #[inline]
    pub(super) fn complete(&self, now: Time) {
        self.share.complete(now);
    }
}

/// A request that waits to be admitted, counted as unanswered.
#[derive(Default)]
pub(super) struct Waiting {
    request: Option<(Arc<DeviceUser>, Mark, clients::Waiting)>,
    /// The thread has the place of the user to wait.
    asks: bool,
}

impl Waiting {
    /// Counts the request from now on, if that has not begun. `asks`: the thread has the place to wait.
    pub(super) fn begin(&mut self, user: &Arc<DeviceUser>, asks: bool) {
        self.asks = asks;
        let begun = || (Arc::clone(user), user.client().begin(), user.client().waiting());
        let (_, _, waiting) = self.request.get_or_insert_with(begun);
        waiting.set(1);
    }

    pub(super) fn asks(&self) -> bool {
        self.asks
    }

    /// The request has been admitted. It may still wait for a place.
    pub(super) fn admitted(&mut self) {
        self.asks = false;
        if let Some((_, _, waiting)) = &mut self.request {
            waiting.set(0);
        }
    }

    /// The request is not asked for again.
    pub(super) fn give_up(&mut self) {
        if std::mem::take(&mut self.asks)
            && let Some((user, ..)) = &self.request
        {
            user.give_up();
        }
    }

    /// The mark of a request that starts: from when it began to wait, or from now on.
    pub(super) fn take(&mut self, user: &Arc<DeviceUser>) -> Mark {
        match self.request.take_if(|(its, ..)| Arc::ptr_eq(its, user)) {
            Some((_, mark, _)) => mark,
            None => user.client().begin(),
        }
    }

    /// The request is over, whether or not it has started.
    pub(super) fn end(&mut self) {
        self.give_up();
        if let Some((user, mark, _)) = self.request.take() {
            user.client().end(mark);
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.end();
    }
}
