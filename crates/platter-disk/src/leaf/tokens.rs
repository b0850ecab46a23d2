//! The device's depth, lent to lanes in tokens.

use crate::sync::{AtomicU32, Ordering};

/// Tokens that no lane holds. A lane may always have one request out without a token, so that every lane
/// makes progress whatever the others hold; tokens are for what goes beyond.
pub(crate) struct Tokens {
    depth: u32,
    free: AtomicU32,
    /// Lanes that asked for more than there was.
    hungry: AtomicU32,
    /// Lanes that hold tokens or are hungry.
    contenders: AtomicU32,
    /// Tokens that lanes hold which are not hungry.
    satisfied: AtomicU32,
}

impl Tokens {
    pub(crate) fn new(depth: u32) -> Tokens {
        let number = AtomicU32::new;
        Tokens {
            depth,
            free: number(depth.saturating_sub(1)),
            hungry: number(0),
            contenders: number(0),
            satisfied: number(0),
        }
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
        count(&self.hungry, hungry);
    }

    /// A lane begins to hold tokens or to go short of them, or ends both.
    pub(crate) fn set_contending(&self, contending: bool) {
        count(&self.contenders, contending);
    }

    /// A lane that is not hungry holds another number of tokens. One that is hungry counts as holding none.
    pub(crate) fn set_satisfied(&self, before: u32, now: u32) {
        if now >= before {
            self.satisfied.fetch_add(now - before, Ordering::Relaxed);
        } else {
            self.satisfied.fetch_sub(before - now, Ordering::Relaxed);
        }
    }

    /// Whether some lane goes short.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.hungry.load(Ordering::Relaxed) > 0
    }

    /// How many requests a lane may have out now: all that it can get tokens for, or its share while another lane goes
    /// short. `hungry`: it does so itself. A share is an equal part of all tokens, or, if that is more, of what those leave
    /// that need less than an equal part. The numbers are read one by one, so a share may be wrong for a moment.
    pub(crate) fn allowance(&self, hungry: bool) -> u32 {
        let short = self.hungry.load(Ordering::Relaxed);
        if short <= u32::from(hungry) {
            return u32::MAX;
        }
        let all = self.depth.saturating_sub(1);
        let equal = all / self.contenders.load(Ordering::Relaxed).max(1);
        let left = all.saturating_sub(self.satisfied.load(Ordering::Relaxed)) / short;
        1 + equal.max(left)
    }
}

fn count(number: &AtomicU32, up: bool) {
    if up {
        number.fetch_add(1, Ordering::Relaxed);
    } else {
        number.fetch_sub(1, Ordering::Relaxed);
    }
}
