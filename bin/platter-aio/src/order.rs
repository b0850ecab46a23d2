//! Which requests may start: the order that POSIX requires among the requests of one descriptor.
//!
//! Reads and writes at a position start at once, in any order. Writes that append, and transfers on a descriptor
//! without positions, start one after the other. A sync starts when all requests queued before it on its descriptor
//! have ended; requests queued after it do not wait for it.

use std::collections::{HashMap, VecDeque};
use std::os::fd::RawFd;

/// The class of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// May start at once.
    Free,
    /// Starts when the one before it in the same chain of its descriptor has ended.
    Chained(Chain),
    /// Starts when all before it on its descriptor have ended.
    Sync,
}

/// The chains of a descriptor. They do not wait for each other, or a read of a socket that waits for data would keep a
/// write from starting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chain {
    /// Reads; with one request at a time for each file, all requests of a file with positions.
    First,
    /// Writes.
    Second,
}

/// A descriptor with requests.
#[derive(Default)]
struct Descriptor {
    /// Requests that have not ended.
    outstanding: u32,
    /// By chain: a request of it has started and not ended.
    busy: [bool; 2],
    /// By chain: requests that wait.
    chains: [VecDeque<u32>; 2],
    /// Syncs that wait, in order, each with the number of requests that it waits for.
    syncs: Vec<(u32, u32)>,
}

#[derive(Clone, Copy)]
struct Entry {
    fd: RawFd,
    class: Class,
    /// Place in the order of all requests.
    number: u64,
    started: bool,
}

/// The requests that have not ended, by slot.
pub(crate) struct Order {
    entries: Box<[Option<Entry>]>,
    /// Index into `descriptors`.
    by_fd: HashMap<RawFd, usize>,
    descriptors: Vec<Descriptor>,
    /// Indices of descriptors without requests. They keep their memory.
    unused: Vec<usize>,
    next: u64,
}

impl Order {
    /// For slots below `depth`.
    pub(crate) fn new(depth: u32) -> Order {
        Order {
            entries: vec![None; depth as usize].into_boxed_slice(),
            by_fd: HashMap::with_capacity(depth as usize),
            descriptors: Vec::new(),
            unused: Vec::with_capacity(depth as usize),
            next: 0,
        }
    }

    /// Adds a request behind all others. Returns whether it starts now.
    pub(crate) fn add(&mut self, slot: u32, fd: RawFd, class: Class) -> bool {
        let (descriptors, unused) = (&mut self.descriptors, &mut self.unused);
        let index = *self.by_fd.entry(fd).or_insert_with(|| {
            unused.pop().unwrap_or_else(|| {
                descriptors.push(Descriptor::default());
                descriptors.len() - 1
            })
        });
        let descriptor = &mut self.descriptors[index];
        let starts = match class {
            Class::Free => true,
            Class::Chained(chain) => {
                let waits = std::mem::replace(&mut descriptor.busy[chain as usize], true);
                if waits {
                    descriptor.chains[chain as usize].push_back(slot);
                }
                !waits
            }
            Class::Sync if descriptor.outstanding == 0 => true,
            Class::Sync => {
                descriptor.syncs.push((slot, descriptor.outstanding));
                false
            }
        };
        descriptor.outstanding += 1;
        self.entries[slot as usize] = Some(Entry { fd, class, number: self.next, started: starts });
        self.next += 1;
        starts
    }

    /// Whether the request waits for others.
    pub(crate) fn is_held(&self, slot: u32) -> bool {
        self.entries[slot as usize].is_some_and(|entry| !entry.started)
    }

    /// Removes a request, started or not. Appends the requests that start now.
    pub(crate) fn remove(&mut self, slot: u32, starts: &mut Vec<u32>) {
        let Some(gone) = self.entries[slot as usize].take() else { return };
        let Some(&index) = self.by_fd.get(&gone.fd) else { return };
        let Order { entries, descriptors, .. } = self;
        let descriptor = &mut descriptors[index];
        descriptor.outstanding -= 1;
        let first = starts.len();
        match gone.class {
            Class::Free => {}
            Class::Chained(chain) if gone.started => match descriptor.chains[chain as usize].pop_front() {
                Some(next) => starts.push(next),
                None => descriptor.busy[chain as usize] = false,
            },
            Class::Chained(chain) => descriptor.chains[chain as usize].retain(|held| *held != slot),
            Class::Sync => descriptor.syncs.retain(|(held, _)| *held != slot),
        }
        descriptor.syncs.retain_mut(|(sync, waits)| {
            let is_later = entries[*sync as usize].is_some_and(|entry| entry.number > gone.number);
            *waits -= u32::from(is_later);
            if *waits == 0 {
                starts.push(*sync);
            }
            *waits > 0
        });
        for slot in &starts[first..] {
            if let Some(entry) = &mut entries[*slot as usize] {
                entry.started = true;
            }
        }
        if descriptor.outstanding == 0 {
            self.by_fd.remove(&gone.fd);
            self.unused.push(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{RngCore, SeedableRng};

    /// A request of the model: descriptor, class and number.
    struct Known {
        slot: u32,
        fd: RawFd,
        class: Class,
        started: bool,
    }

    /// Whether a request must not have started, by the rules alone: those before it are in front.
    fn must_wait(all: &[Known], at: usize) -> bool {
        let known = &all[at];
        all[..at].iter().any(|before| {
            before.fd == known.fd
                && match known.class {
                    Class::Free => false,
                    Class::Chained(_) => before.class == known.class,
                    Class::Sync => true,
                }
        })
    }

    fn check(all: &[Known], order: &Order) {
        for (at, known) in all.iter().enumerate() {
            assert_eq!(known.started, !must_wait(all, at), "{:?}", known.class);
            assert_eq!(order.is_held(known.slot), !known.started);
        }
    }

    #[test]
    fn requests_start_exactly_when_the_rules_allow_it() {
        const DEPTH: u32 = 16;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(12);
        let mut order = Order::new(DEPTH);
        let (mut all, mut free) = (Vec::<Known>::new(), (0..DEPTH).collect::<Vec<_>>());
        for step in 0..50_000 {
            let draw = random.next_u64();
            // Now and then everything ends, so that descriptors are forgotten.
            let adds = if step % 1000 < 100 { draw % 4 == 0 } else { draw % 2 == 0 };
            if adds && let Some(slot) = free.pop() {
                let fd = ((draw >> 8) % 3) as RawFd;
                let class = match draw >> 16 & 3 {
                    0 => Class::Free,
                    1 => Class::Chained(Chain::First),
                    2 => Class::Chained(Chain::Second),
                    _ => Class::Sync,
                };
                let started = order.add(slot, fd, class);
                all.push(Known { slot, fd, class, started });
            } else if !all.is_empty() {
                // Also those that have not started: they are cancelled.
                let known = all.remove((draw >> 8) as usize % all.len());
                let mut starts = Vec::new();
                order.remove(known.slot, &mut starts);
                for slot in starts {
                    let known = all.iter_mut().find(|known| known.slot == slot).unwrap();
                    assert!(!std::mem::replace(&mut known.started, true), "started once");
                }
                free.push(known.slot);
            }
            check(&all, &order);
        }
        assert!(order.descriptors.len() <= 3);
    }
}
