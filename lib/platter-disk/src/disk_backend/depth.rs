//! How a lane with its own queue shares the device's depth with the others.
//!
//! A lane borrows what it can use. While another lane is short of depth, each lane has at most its share
//! (`Tokens::allowance`): a lane with more requests in flight starts nothing until it is down to its share, and
//! returns the tokens that become free. The other lanes may use the part of its share that it does not need.
//!
//! Example with depth 32: lane A, alone, has 31 tokens and 32 requests in flight. Lane B comes with 8 requests: one starts at once, since each
//! lane may have one without a token, and B is short. Each may have 16 now (half of 31 tokens, and one), so A starts nothing, and returns the
//! tokens of what ends. With the seventh B is not short any more, and A may have all that is left: 25.

use super::Shared;
use platter_block::queue::DirectQueue;

/// A lane's part of the device's depth.
pub(super) struct Depth {
    /// Tokens that the lane holds.
    pub(super) tokens: u32,
    /// Most requests that its queue may have in flight, at least one.
    pub(super) depth: u32,
    hungry: bool,
    contending: bool,
    /// Tokens that the device counts for this lane as a lane that is not short.
    satisfied: u32,
}

impl Default for Depth {
    fn default() -> Depth {
        Depth { tokens: 0, depth: 1, hungry: false, contending: false, satisfied: 0 }
    }
}

impl Depth {
    /// Borrows tokens for a queue that could have `demand` requests in flight, more than its depth.
    #[cold]
    pub(super) fn borrow(&mut self, shared: &Shared, queue: &mut DirectQueue, demand: u32) {
        let allowance = shared.tokens.allowance(self.hungry);
        let wanted = demand.min(allowance).saturating_sub(self.tokens + 1);
        if wanted > 0 {
            self.tokens += shared.tokens.take(wanted);
        }
        self.note(shared, demand > self.tokens + 1);
        self.set_depth(queue, allowance);
    }

    /// Returns tokens that other lanes want and that this lane does not use or has beyond its share.
    #[cold]
    pub(super) fn give_back(&mut self, shared: &Shared, queue: &mut DirectQueue) {
        let allowance = shared.tokens.allowance(self.hungry);
        let used = queue.in_flight().saturating_sub(1);
        if self.tokens > used && (allowance != u32::MAX || !queue.has_work()) {
            let kept = match queue.in_flight() {
                0 => 0,
                // Programs mostly submit again as soon as I/O completes; until then another lane would take the
                // token.
                _ => (used + (self.tokens - used).div_ceil(2)).min(allowance - 1).max(used),
            };
            shared.tokens.give(self.tokens - kept);
            self.tokens = kept;
        }
        self.note(shared, self.hungry && queue.has_work());
        self.set_depth(queue, allowance);
    }

    fn set_depth(&mut self, queue: &mut DirectQueue, allowance: u32) {
        self.depth = allowance.min(self.tokens + 1);
        queue.set_depth(self.depth);
    }

    fn note(&mut self, shared: &Shared, hungry: bool) {
        if hungry != self.hungry {
            self.hungry = hungry;
            shared.tokens.set_hungry(hungry);
        }
        let satisfied = if hungry { 0 } else { self.tokens };
        if satisfied != self.satisfied {
            shared.tokens.set_satisfied(self.satisfied, satisfied);
            self.satisfied = satisfied;
        }
        let contending = hungry || self.tokens > 0;
        if contending != self.contending {
            self.contending = contending;
            shared.tokens.set_contending(contending);
        }
    }

    /// The lane is being closed, and its queue with it.
    pub(super) fn close(&mut self, shared: &Shared) {
        shared.tokens.give(std::mem::take(&mut self.tokens));
        self.note(shared, false);
    }
}
