//! The device's depth, lent to lanes as tokens.

use crate::sync::{AtomicU32, Ordering};

/// Tokens that no lane holds. A lane may always have one request in flight without a token, so that every lane makes
/// progress; further requests need tokens.
pub(crate) struct Tokens {
    depth: u32,
    free: AtomicU32,
    /// Lanes that asked for more tokens than there were.
    hungry: AtomicU32,
    /// Lanes that hold tokens or are short of them.
    contenders: AtomicU32,
    /// Tokens held by lanes that are not short.
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

    /// Returns tokens.
    pub(crate) fn give(&self, tokens: u32) {
        if tokens > 0 {
            self.free.fetch_add(tokens, Ordering::AcqRel);
        }
    }

    /// Records whether a lane is short of tokens.
    pub(crate) fn set_hungry(&self, hungry: bool) {
        count(&self.hungry, hungry);
    }

    /// Records whether a lane holds tokens or is short of them.
    pub(crate) fn set_contending(&self, contending: bool) {
        count(&self.contenders, contending);
    }

    /// Updates the number of tokens that a lane which is not short holds. A lane that is short counts as holding
    /// none.
    pub(crate) fn set_satisfied(&self, before: u32, now: u32) {
        if now >= before {
            self.satisfied.fetch_add(now - before, Ordering::Relaxed);
        } else {
            self.satisfied.fetch_sub(before - now, Ordering::Relaxed);
        }
    }

    /// Whether some lane is short of tokens.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.hungry.load(Ordering::Relaxed) > 0
    }

    /// Most requests that a lane may have in flight now: all that it can get tokens for, or its share while another
    /// lane is short. `hungry`: the lane itself is short. A share is an equal part of all tokens, or, if that is
    /// more, an equal part of those left by lanes that need less. The numbers are read one by one, so a share may be
    /// wrong for a moment.
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
