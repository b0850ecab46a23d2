//! The branches that a run took, if the compiler was told to count them.
//!
//! With `-C passes=sancov-module -C llvm-args=-sanitizer-coverage-level=3 -C
//! llvm-args=-sanitizer-coverage-inline-8bit-counters` in `RUSTFLAGS` every branch of every crate has a
//! counter of one byte, and each module passes the address of its counters to
//! `__sanitizer_cov_8bit_counters_init` (Clang's manual, "SanitizerCoverage"). Without these flags that
//! function is never called and there are no counters.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// The counters of all modules.
static COUNTERS: Mutex<Vec<&'static [AtomicU8]>> = Mutex::new(Vec::new());

/// Called by each instrumented module before `main`, perhaps more than once, with its counters.
///
/// # Safety
/// `start` to `stop` are counters that live as long as the process.
#[unsafe(no_mangle)]
unsafe extern "C" fn __sanitizer_cov_8bit_counters_init(start: *const AtomicU8, stop: *const AtomicU8) {
    let len = (stop as usize).saturating_sub(start as usize);
    if len == 0 {
        return;
    }
    // SAFETY: the compiler hands over the bounds of a section of the program, which it writes to byte by byte; an atomic
    // byte has the size of a byte.
    let counters = unsafe { std::slice::from_raw_parts(start, len) };
    let mut all = COUNTERS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if !all.iter().any(|known| known.as_ptr() == start) {
        all.push(counters);
    }
}

/// Whether the program was built with counters.
pub fn are_counted() -> bool {
    !COUNTERS.lock().unwrap_or_else(std::sync::PoisonError::into_inner).is_empty()
}

/// A branch and how often it was taken, roughly: the place of its counter, and one of eight classes of counts.
type Edge = u64;

/// Calls `each` with every eight counters of which one is not 0, and the place of the first. Of several hundred thousand
/// counters few are set, and looking at each would take longer than most runs.
fn for_each_set(mut each: impl FnMut(u64, &[AtomicU8])) {
    let mut place = 0;
    for module in COUNTERS.lock().unwrap_or_else(std::sync::PoisonError::into_inner).iter() {
        // SAFETY: eight suitably aligned atomic bytes have the layout of an atomic 64-bit number, and any
        // bits are valid. Only this thread runs the code that is counted.
        let (head, words, tail) = unsafe { module.align_to::<AtomicU64>() };
        each(place, head);
        for (at, word) in words.iter().enumerate() {
            if word.load(Ordering::Relaxed) != 0 {
                let begin = head.len() + 8 * at;
                each(place + begin as u64, &module[begin..begin + 8]);
            }
        }
        each(place + (module.len() - tail.len()) as u64, tail);
        place += module.len() as u64;
    }
}

/// Sets all counters to 0.
pub fn clear() {
    for_each_set(|_, counters| counters.iter().for_each(|counter| counter.store(0, Ordering::Relaxed)));
}

/// The branches that were taken since [`clear`].
pub fn taken() -> Vec<Edge> {
    let mut edges = Vec::new();
    for_each_set(|place, counters| {
        let counts = counters.iter().map(|counter| counter.load(Ordering::Relaxed));
        let class = |count: u8| u64::from(u8::BITS - count.leading_zeros());
        edges.extend(
            (place..).zip(counts).filter(|(_, count)| *count != 0).map(|(at, count)| at << 4 | class(count)),
        );
    });
    edges
}

/// The branches, however often they were taken.
pub fn places(edges: &[Edge]) -> Vec<Edge> {
    edges.iter().map(|edge| edge >> 4).collect()
}

/// The branches that all runs together have taken.
#[derive(Default)]
pub struct Seen(HashSet<Edge>);

impl Seen {
    /// Adds the branches of a run; returns whether any of them is new.
    pub fn add(&mut self, edges: &[Edge]) -> bool {
        let before = self.0.len();
        self.0.extend(edges);
        self.0.len() > before
    }

    /// How many of a run's branches are new.
    pub fn new_in(&self, edges: &[Edge]) -> usize {
        edges.iter().filter(|edge| !self.0.contains(edge)).count()
    }

    /// Branches, with a class of counts, that were taken.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none was taken.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
