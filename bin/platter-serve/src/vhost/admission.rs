//! The client's share of the device, which its queues ask one at a time, and the bells of the queues.

use crate::qos::{Admit, Share};
use platter_block::lane::Bell;
use platter_block::time::{Span, Time};
use platter_wait::EventFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// How long a queue waits whose turn to ask comes after that of another.
const AFTER_ANOTHER: Span = Span::from_millis(10);

/// The bells of all queues.
#[derive(Default)]
pub(super) struct Bells(Mutex<Vec<Arc<EventFd>>>);

impl Bells {
    pub(super) fn add(&self, wake: &Arc<EventFd>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(wake));
    }

    pub(super) fn remove(&self, wake: &Arc<EventFd>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| !Arc::ptr_eq(other, wake));
    }
}

impl Bell for Bells {
    fn ring(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|wake| wake.ring());
    }
}

/// The share.
pub(super) struct Admission {
    share: Share,
    bells: Arc<Bells>,
    /// A queue has a request that waits to be admitted.
    asks: AtomicBool,
}

/// Whether a request may start.
pub(super) enum Turn {
    Now,
    /// Ask again then, or when the bell rings. `asks`: this queue has the place to wait.
    Later {
        at: Option<Time>,
        asks: bool,
    },
}

impl Admission {
    pub(super) fn new(share: Share, bells: Arc<Bells>) -> Admission {
        Admission { share, bells, asks: AtomicBool::new(false) }
    }

    pub(super) fn bells(&self) -> &Bells {
        &self.bells
    }

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

    /// A request starts without being admitted.
    #[inline]
    pub(super) fn start(&self) {
        self.share.start();
    }

    /// The queue that has the place to wait gives it up, and asks no more for its request.
    pub(super) fn give_up(&self) {
        self.share.withdraw();
        self.leave();
    }

    /// Another queue may have the place to wait.
    fn leave(&self) {
        self.asks.store(false, Ordering::Release);
        self.bells.ring();
    }

    /// A request that was admitted, or has started without that, has its answer.
    #[inline]
    pub(super) fn complete(&self, now: Time) {
        self.share.complete(now);
    }
}
