//! The device's depth, lent to lanes in tokens.

use crate::sync::{AtomicU32, Ordering};

/// Tokens that no lane holds. A lane may always have one request out without a token, so that every lane
/// makes progress whatever the others hold; tokens are for what goes beyond.
pub(crate) struct Tokens {
    free: AtomicU32,
    /// Lanes that asked for more than there was.
    hungry: AtomicU32,
}

impl Tokens {
    pub(crate) fn new(depth: u32) -> Tokens {
        Tokens { free: AtomicU32::new(depth.saturating_sub(1)), hungry: AtomicU32::new(0) }
    }

    /// Takes up to `wanted` tokens.
    pub(crate) fn take(&self, wanted: u32) -> u32 {
        let mut free = self.free.load(Ordering::Relaxed);
        loop {
            let got = wanted.min(free);
            if got == 0 {
                return 0;
            }
            match self.free.compare_exchange_weak(free, free - got, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return got,
                Err(now) => free = now,
            }
        }
    }

    /// Gives tokens back.
    pub(crate) fn give(&self, tokens: u32) {
        if tokens > 0 {
            self.free.fetch_add(tokens, Ordering::AcqRel);
        }
    }

    /// A lane goes short, or no longer does.
    pub(crate) fn set_hungry(&self, hungry: bool) {
        if hungry {
            self.hungry.fetch_add(1, Ordering::Relaxed);
        } else {
            self.hungry.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether lanes should give back what they do not use.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.hungry.load(Ordering::Relaxed) > 0
    }
}
