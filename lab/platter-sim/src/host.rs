//! A computer of several processors in virtual time: threads, interrupts, bottom halves and spinning locks.
//!
//! A [`System`] says what is done: each thread, interrupt handler and the bottom half is a sequence of [`Step`]s, and code that
//! is reached between two steps (a queue, an elevator) really runs. The [`Host`] says when: it has the processors, the locks
//! and the clock, and accounts for every nanosecond of each processor by [`Stage`], as spinning or as idle.
//!
//! The rules are those of Linux 2.4 and 2.5:
//!
//! - A processor does the most urgent thing it has: an interrupt, then a bottom half, then a thread. An interrupt waits while
//!   the processor holds a lock, spins for one or handles an interrupt (`spin_lock_irq`). Threads are not preempted.
//! - Interrupts go to the processors in turn. A line is handled by one processor at a time; what arrives meanwhile is
//!   handled by the same handler, or next.
//! - Bottom halves are serial: one processor at a time runs them (`global_bh_lock`), and one at most has them marked, because
//!   they are one tasklet (`TASKLET_STATE_SCHED`, `kernel/softirq.c`, 2.4 to 2.5.23). A processor that has marked them and finds
//!   another at it tries again for as long as it has nothing else to do (`ksoftirqd`), and is busy meanwhile.
//! - A thread that is woken starts at once on an idle processor, otherwise on one that only tries again, otherwise as the last of
//!   those that wait for a processor. Waking costs nothing beyond the steps of the system.
//! - A processor that spins for a lock gets it some time after its release: [`Contention`].
//!
//! Not modelled: other caches and memory, the cost of an interprocessor interrupt, time slices, the timer.

mod lock;
mod processor;
mod run;
#[cfg(test)]
mod tests;

pub use lock::{Contention, Grant, LockId, LockReport, LockUse};
pub use processor::Usage;
pub use run::{Host, Stuck};

use platter_block::time::{Span, Time};

/// A kind of work that processor time is accounted to: an index into the names that the host was made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stage(pub u16);

/// What runs on a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The thread of this number.
    Thread(usize),
    /// The handler of this interrupt line.
    Interrupt(usize),
    /// The bottom half.
    Bottom,
}

/// What it does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Keeps its processor busy.
    Run(Stage, Span),
    /// Takes a lock, spinning while another has it. The stage is the caller in the lock's report.
    Lock(LockId, Stage),
    /// Gives a lock back.
    Unlock(LockId),
    /// A thread sleeps until it is woken. It goes on at once if it was woken since it last slept.
    Sleep,
    /// A thread has ended; an interrupt or a bottom half is done for now.
    End,
}

/// What a step causes elsewhere.
#[derive(Debug, Default)]
pub struct Effects {
    pub(self) woken: Vec<usize>,
    pub(self) lines: Vec<usize>,
    pub(self) raised: bool,
    pub(self) events: Vec<(Time, u64)>,
}

impl Effects {
    /// Wakes a thread.
    pub fn wake(&mut self, thread: usize) {
        self.woken.push(thread);
    }

    /// Raises an interrupt.
    pub fn interrupt(&mut self, line: usize) {
        self.lines.push(line);
    }

    /// Marks the bottom half, which this processor runs when it leaves the interrupt, unless another has it marked. Only an
    /// interrupt may do so.
    pub fn raise_bottom(&mut self) {
        self.raised = true;
    }

    /// Calls [`System::event`] at that time, which is not in the past.
    pub fn at(&mut self, time: Time, event: u64) {
        self.events.push((time, event));
    }
}

/// What runs on a host.
pub trait System {
    /// The next step. Called when the one before is over; what it led to happens in this call.
    fn step(&mut self, who: Who, now: Time, effects: &mut Effects) -> Step;

    /// Something outside the processors has happened ([`Effects::at`]).
    fn event(&mut self, event: u64, now: Time, effects: &mut Effects);
}
