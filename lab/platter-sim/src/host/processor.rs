//! A processor: what runs on it, and what its time went to.

use super::{Stage, Who};
use platter_block::time::{Span, Time};
use std::collections::VecDeque;

/// What the time of processors went to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// By stage.
    pub stages: Vec<Span>,
    /// Spinning for locks.
    pub spin: Span,
    /// Trying again to run bottom halves.
    pub retry: Span,
    /// Doing nothing.
    pub idle: Span,
}

impl Usage {
    pub(super) fn new(stages: usize) -> Usage {
        Usage { stages: vec![Span::ZERO; stages], spin: Span::ZERO, retry: Span::ZERO, idle: Span::ZERO }
    }

    pub(super) fn add(&mut self, other: &Usage) {
        self.stages.iter_mut().zip(&other.stages).for_each(|(sum, each)| sum.0 += each.0);
        self.spin.0 += other.spin.0;
        self.retry.0 += other.retry.0;
        self.idle.0 += other.idle.0;
    }

    /// All of it.
    pub fn total(&self) -> Span {
        let others = self.spin.0 + self.retry.0 + self.idle.0;
        Span(others + self.stages.iter().map(|each| each.0).sum::<u64>())
    }

    /// A part in percent of all.
    pub fn percent(&self, part: Span) -> f64 {
        100.0 * part.0 as f64 / (self.total().0 as f64).max(1.0)
    }
}

/// What a processor is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// Its next step is to be asked for.
    Next,
    /// A step that takes this much longer once it goes on.
    Run(Stage, Span),
    /// Spinning for a lock.
    Spin,
    /// Spinning for a lock that it gets after this time.
    Fetch(Span),
}

/// A thread, an interrupt or the bottom half on a processor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) who: Who,
    pub(super) doing: Doing,
    /// Locks that it has.
    pub(super) locks: u32,
}

impl Frame {
    pub(super) fn new(who: Who) -> Frame {
        Frame { who, doing: Doing::Next, locks: 0 }
    }

    /// Whether an interrupt must wait.
    fn is_closed(&self) -> bool {
        self.locks > 0 || self.doing == Doing::Spin || matches!(self.who, Who::Interrupt(_))
    }
}

/// A processor.
pub(super) struct Processor {
    /// What runs, interrupted first.
    pub(super) frames: Vec<Frame>,
    /// Interrupts that wait.
    pub(super) lines: VecDeque<usize>,
    /// The bottom half is marked here.
    pub(super) bottom: bool,
    /// It has just left an interrupt, on the way out of which it runs the bottom half.
    pub(super) leaves: bool,
    /// Since when it does what it does now.
    pub(super) since: Time,
    /// Counts changes of what it does, so that an end that was announced before is not taken for the present one.
    pub(super) turn: u64,
    pub(super) usage: Usage,
}

impl Processor {
    pub(super) fn new(stages: usize) -> Processor {
        Processor {
            frames: Vec::new(),
            lines: VecDeque::new(),
            bottom: false,
            leaves: false,
            since: Time(0),
            turn: 0,
            usage: Usage::new(stages),
        }
    }

    /// Accounts for the time up to now. What runs goes on.
    pub(super) fn account(&mut self, now: Time) {
        let span = now.since(self.since);
        self.since = now;
        let part = match self.frames.last_mut() {
            None if self.bottom => &mut self.usage.retry,
            None => &mut self.usage.idle,
            Some(Frame { doing: Doing::Spin | Doing::Next, .. }) => &mut self.usage.spin,
            Some(Frame { doing: Doing::Fetch(left), .. }) => {
                *left = Span(left.0.saturating_sub(span.0));
                &mut self.usage.spin
            }
            Some(Frame { doing: Doing::Run(stage, left), .. }) => {
                *left = Span(left.0.saturating_sub(span.0));
                &mut self.usage.stages[usize::from(stage.0)]
            }
        };
        part.0 += span.0;
    }

    pub(super) fn takes_interrupts(&self) -> bool {
        self.frames.last().is_none_or(|frame| !frame.is_closed())
    }

    pub(super) fn runs_bottom(&self) -> bool {
        self.frames.iter().any(|frame| frame.who == Who::Bottom)
    }
}
