//! Bugs that can be enabled to test that the soak finds them.

use platter_block::bio::{Bio, Flags, Op};
use platter_block::elevator::Elevator;
use platter_sim::wrong::Wrong;

mod elevator;

pub(super) use elevator::{Crooked, Crookedness};

/// Where a bug is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the driver or disk.
    Driver(Wrong),
    /// In the elevator.
    Elevator(Crookedness),
    /// Between the program and the queue.
    Gate(Leak),
}

/// What the faulty gate does to bios on their way to the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leak {
    ForgetsPreflush,
    ForgetsFua,
    ForgetsBarrier,
    PassesBarrier,
}

/// A bug of the table.
#[derive(Debug, PartialEq, Eq)]
pub struct Bug {
    /// Name on the command line.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Within how many runs from seed 1 the soak finds it.
    pub runs: u64,
    pub(super) place: Place,
}

const fn driver(name: &'static str, wrong: Wrong, runs: u64, summary: &'static str) -> Bug {
    Bug { name, summary, runs, place: Place::Driver(wrong) }
}

const fn crooked(name: &'static str, wrong: Crookedness, runs: u64, summary: &'static str) -> Bug {
    Bug { name, summary, runs, place: Place::Elevator(wrong) }
}

const fn gate(name: &'static str, leak: Leak, runs: u64, summary: &'static str) -> Bug {
    Bug { name, summary, runs, place: Place::Gate(leak) }
}

/// Every bug that can be built in.
pub static TABLE: &[Bug] = &[
    driver("empty-flush", Wrong::FlushCoversNothing, 20, "the disk ends flushes without doing them"),
    driver("hasty-flush", Wrong::FlushMissesTheLast, 50, "a flush does not cover the last write before it"),
    driver("no-fua", Wrong::IgnoresFua, 200, "the disk ignores FUA"),
    driver("lost-write", Wrong::DropsWrite, 10, "the disk acknowledges some writes without storing them"),
    driver("twice", Wrong::CompletesTwice, 10, "the driver reports some completions twice"),
    driver("swapped", Wrong::SwapsHalves, 10, "the driver swaps the halves of some writes"),
    driver("short-read", Wrong::ShortRead, 10, "some reads fill half of the memory and report all of it"),
    driver("torn-retry", Wrong::TornOnRetry, 200, "a write that is tried again is stored in part"),
    driver("stale-read", Wrong::StaleRead, 10, "some reads give what was there before the last write"),
    driver("no-completion", Wrong::LosesCompletion, 10, "the driver loses some completions"),
    driver("off-by-one", Wrong::OffByOne, 10, "some writes go to the next sector"),
    driver("false-error", Wrong::InventsError, 10, "some reads fail for no reason"),
    crooked("elevator-twice", Crookedness::Twice, 10, "the elevator returns requests twice"),
    crooked("elevator-invents", Crookedness::Invents, 10, "the elevator returns requests that never were"),
    crooked("elevator-loses", Crookedness::Loses, 10, "the elevator forgets requests"),
    crooked("elevator-starves", Crookedness::Starves, 10, "the elevator keeps a request for ever"),
    gate("no-preflush", Leak::ForgetsPreflush, 300, "the gate forgets preflushes"),
    gate("gate-no-fua", Leak::ForgetsFua, 100, "the gate forgets FUA"),
    gate("no-barrier", Leak::ForgetsBarrier, 50, "the gate forgets hard barriers"),
    gate("leaky-gate", Leak::PassesBarrier, 50, "the gate lets a bio pass a hard barrier"),
];

/// Looks a bug up by name.
pub fn by_name(name: &str) -> Option<&'static Bug> {
    TABLE.iter().find(|bug| bug.name == name)
}

impl Bug {
    pub(super) fn wrong(&self) -> Option<Wrong> {
        if let Place::Driver(wrong) = self.place { Some(wrong) } else { None }
    }

    /// Wraps a correct elevator in a faulty one.
    pub(super) fn bend(&self, elevator: Box<dyn Elevator>) -> Box<dyn Elevator> {
        match self.place {
            Place::Elevator(wrong) => Box::new(Crooked::new(wrong, elevator)),
            _ => elevator,
        }
    }

    pub(super) fn needs_elevator(&self) -> bool {
        matches!(self.place, Place::Elevator(_))
    }

    /// The batch as the faulty gate passes it on.
    pub(super) fn leak(&self, batch: &mut [Bio]) {
        let Place::Gate(leak) = self.place else { return };
        for bio in batch.iter_mut() {
            match leak {
                Leak::ForgetsPreflush => bio.remove_flags(Flags::PREFLUSH),
                Leak::ForgetsFua => bio.remove_flags(Flags::FUA),
                Leak::ForgetsBarrier => bio.remove_flags(Flags::HARD_BARRIER),
                Leak::PassesBarrier => {}
            }
        }
        if leak == Leak::PassesBarrier {
            for at in 1..batch.len() {
                if batch[at - 1].flags().contains(Flags::HARD_BARRIER) && batch[at].op() != Op::Flush {
                    batch.swap(at - 1, at);
                }
            }
        }
    }
}
