//! Readahead without the lock of a shard: what a read call asks the policy of its handle, and the windows that the policy wants
//! read, until a turn begins to read them.
//!
//! A page is looked up without the lock, and may come or go before the turn. Two calls may miss the same page before either
//! has it read, so windows on their way count as cached: the policy is asked once.

use super::policy::{Planned, Policy, PolicyState};
use crate::readahead::{Call, Fate, Pages, Window};
use std::ops::Range;
use std::sync::Arc;

/// What can be known of a cache without its lock; all of it may just change.
pub(super) trait Outlook {
    /// Whether a page is cached or being read.
    fn has(&self, page: u64) -> bool;

    /// Number of pages of the device.
    fn end(&self) -> u64;

    /// I/Os of readahead that may begin before there are too many.
    fn ahead_left(&self) -> u32;
}

/// What a call asks the policy.
#[derive(Clone, Copy)]
pub(super) enum Question {
    /// The page is missing.
    Missing(u64),
    /// The page carried the marker; `true`: it is being read.
    Marked(u64, bool),
}

/// The question of a read call, and the windows that were answered.
#[derive(Default)]
pub(super) struct Plan {
    /// The readahead of its handle, once it was asked.
    policy: Option<Policy>,
    /// The policy is told when the call ends.
    ends: bool,
    question: Option<Question>,
    windows: Vec<Window>,
    /// How many of the windows are being read.
    begun: usize,
    /// They are to be read in the next turn, whatever the call waits for.
    is_due: bool,
}

impl Plan {
    /// Names the readahead of the handle; `ends`: it is told when the call ends.
    pub(super) fn attach(&mut self, policy: &Policy, ends: bool) {
        self.policy.get_or_insert_with(|| Arc::clone(policy));
        self.ends = ends;
    }

    /// The readahead of the handle, once it is known.
    pub(super) fn policy(&self) -> Option<&Policy> {
        self.policy.as_ref()
    }

    /// Has a question asked when the lock is released.
    pub(super) fn note(&mut self, question: Question) {
        self.question = Some(question);
    }

    /// Whether a question has not been asked yet.
    pub(super) fn is_asking(&self) -> bool {
        self.question.is_some()
    }

    /// Whether windows are to be read that the call does not wait for.
    pub(super) fn is_due(&self) -> bool {
        self.is_due
    }

    /// Asks the policy what was noted; to be called without the lock. Returns whether a turn is needed.
    pub(super) fn ask(&mut self, cache: &dyn Outlook, call: &mut Call) -> bool {
        let (Some(question), Some(policy)) = (self.question.take(), &self.policy) else { return false };
        let fate = policy.fate();
        let mut state = policy.lock();
        let PolicyState { policy, planned } = &mut *state;
        let demand = call.access.first..call.access.end();
        let mut outline = Outline { cache, fate, demand, planned, windows: &mut self.windows };
        match question {
            Question::Missing(page) => {
                if !outline.is_planned(page) {
                    policy.missing(call, page, &mut outline);
                }
                true
            }
            Question::Marked(page, is_busy) => {
                policy.found(call, page, is_busy, true, &mut outline);
                self.is_due = self.begun < self.windows.len();
                self.is_due
            }
        }
    }

    /// The windows that are not being read yet, which the caller has read.
    pub(super) fn begin(&mut self) -> impl Iterator<Item = Window> {
        let begun = std::mem::replace(&mut self.begun, self.windows.len());
        self.is_due = false;
        self.windows[begun..].iter().copied()
    }

    /// The windows that are being read are no longer planned; to be called without the lock.
    pub(super) fn forget_begun(&mut self) {
        if let (Some(policy), true) = (&self.policy, self.begun > 0) {
            let planned = &mut policy.lock().planned;
            self.windows.drain(..self.begun).for_each(|window| remove(planned, &window));
            self.begun = 0;
        }
    }

    /// The call has ended, perhaps with windows that will not be read.
    pub(super) fn end(&mut self, call: &mut Call) {
        if let Some(policy) = self.policy.take()
            && (self.ends || !self.windows.is_empty())
        {
            let mut state = policy.lock();
            self.windows.drain(..).for_each(|window| remove(&mut state.planned, &window));
            if self.ends {
                state.policy.end(call);
            }
        }
        (self.question, self.begun, self.is_due) = (None, 0, false);
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        self.begun = self.windows.len();
        self.forget_begun();
    }
}

fn pages_of(window: &Window) -> Range<u64> {
    window.first..window.first.saturating_add(u64::from(window.count))
}

fn remove(planned: &mut Vec<Planned>, window: &Window) {
    let range = pages_of(window);
    if let Some(at) = planned.iter().position(|planned| planned.range == range) {
        planned.swap_remove(at);
    }
}

/// The cache as a policy sees it without the lock.
struct Outline<'a> {
    cache: &'a dyn Outlook,
    fate: Fate,
    /// The pages of the call.
    demand: Range<u64>,
    planned: &'a mut Vec<Planned>,
    windows: &'a mut Vec<Window>,
}

impl Outline<'_> {
    fn is_planned(&self, page: u64) -> bool {
        self.planned.iter().any(|planned| planned.range.contains(&page))
    }
}

impl Pages for Outline<'_> {
    fn is_cached(&self, page: u64) -> bool {
        self.cache.has(page) || self.is_planned(page)
    }

    fn end(&self) -> u64 {
        self.cache.end()
    }

    fn is_congested(&self) -> bool {
        let left = self.cache.ahead_left() as usize;
        self.planned.iter().filter(|planned| planned.is_ahead).count() >= left
    }

    fn fate(&self) -> Fate {
        self.fate
    }

    fn read(&mut self, window: Window) -> u32 {
        let range = pages_of(&window);
        let count = (range.start..range.end.min(self.end())).filter(|&page| !self.is_cached(page)).count();
        if count > 0 {
            let is_ahead = range.start < self.demand.start || range.end > self.demand.end;
            self.planned.push(Planned { range, is_ahead });
            self.windows.push(window);
        }
        count as u32
    }
}
