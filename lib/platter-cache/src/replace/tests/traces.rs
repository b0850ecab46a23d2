//! Sequences of pages that programs access, generated from a seed and a cache size.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

/// A workload: its name and a function that returns the pages it accesses, given a cache of `size` pages.
pub(super) type Trace = (&'static str, fn(size: u64) -> Vec<u64>);

/// All workloads.
pub(super) static TRACES: &[Trace] = &[
    ("Zipf 1.0 over 10 caches", |size| zipf_only(size, 1.0)),
    ("Zipf 0.8 over 10 caches", |size| zipf_only(size, 0.8)),
    ("Zipf 1.0, scans of 2 caches", zipf_and_scans),
    ("loop of 1.1 caches", looping),
    ("scan", |size| (0..size * 20).collect()),
    ("working set that moves", moving),
    ("Zipf, 4 streams", |size| streams(size, 1)),
    ("Zipf, 4 streams, 4 reads a page", |size| streams(size, 4)),
    ("database", database),
];

/// First of the pages that only scans access.
const FAR: u64 = 1 << 32;

struct Dice(Xoshiro256PlusPlus);

impl Dice {
    fn new() -> Self {
        Dice(Xoshiro256PlusPlus::seed_from_u64(1))
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0.next_u64() % end
    }

    fn part(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Zipf's law by its cumulative distribution: page `i` has weight `1 / (i + 1)^skew`.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(pages: u64, skew: f64) -> Self {
        let mut sum = 0.0;
        let sums = (1..=pages).map(|rank| {
            sum += (rank as f64).powf(-skew);
            sum
        });
        Zipf(sums.collect())
    }

    fn draw(&self, dice: &mut Dice) -> u64 {
        let at = dice.part() * self.0[self.0.len() - 1];
        self.0.partition_point(|&sum| sum < at) as u64
    }
}

fn zipf_only(size: u64, skew: f64) -> Vec<u64> {
    let (zipf, mut dice) = (Zipf::new(size * 10, skew), Dice::new());
    (0..size * 60).map(|_| zipf.draw(&mut dice)).collect()
}

fn zipf_and_scans(size: u64) -> Vec<u64> {
    let (zipf, mut dice) = (Zipf::new(size * 10, 1.0), Dice::new());
    let mut trace = Vec::new();
    for round in 0..8 {
        trace.extend((0..size * 6).map(|_| zipf.draw(&mut dice)));
        trace.extend((0..size * 2).map(|page| FAR + round * size * 2 + page));
    }
    trace
}

fn looping(size: u64) -> Vec<u64> {
    let pages = size * 11 / 10;
    (0..pages * 40).map(|at| at % pages).collect()
}

/// Four fifths of the cache, used evenly; another set after every ten rounds.
fn moving(size: u64) -> Vec<u64> {
    let (set, mut dice) = (size * 4 / 5, Dice::new());
    (0..set * 80).map(|at| at / (set * 10) * set + dice.below(set)).collect()
}

/// Four sequential streams read as many new pages as Zipf's law draws; each page is read `reads` times in a
/// row.
fn streams(size: u64, reads: u64) -> Vec<u64> {
    let (zipf, mut dice) = (Zipf::new(size * 5, 1.0), Dice::new());
    let mut next = [0, 1, 2, 3].map(|stream| (stream + 1) * FAR);
    let mut trace = Vec::new();
    for _ in 0..size * 30 {
        trace.push(zipf.draw(&mut dice));
        let page = &mut next[dice.below(4) as usize];
        trace.extend((0..reads).map(|_| *page));
        *page += 1;
    }
    trace
}

/// Lookups through a tree of three levels with leaves by Zipf's law, a third of them updates that use the
/// leaf again soon; a growing log; and occasional scans of a range of leaves or of a whole table.
fn database(size: u64) -> Vec<u64> {
    let (leaves, fan) = (size * 8, 100);
    let (zipf, mut dice) = (Zipf::new(leaves, 0.9), Dice::new());
    let (root, inner, log, table) = (FAR, FAR * 2, FAR * 3, FAR * 4);
    let (mut trace, mut logged) = (Vec::new(), 0);
    for query in 0..size * 20 {
        // Popular leaves are spread over the tree.
        let leaf = zipf.draw(&mut dice).wrapping_mul(0x9e37_79b9) % leaves;
        trace.extend([root, inner + leaf / fan, leaf]);
        match dice.below(300) {
            0..100 => {
                trace.extend([leaf, log + logged / 8, leaf]);
                logged += 1;
            }
            100..103 => {
                trace.extend((leaf..leaves.min(leaf + 200)).flat_map(|leaf| [inner + leaf / fan, leaf]))
            }
            _ => {}
        }
        if query % (size * 5) == size * 4 {
            trace.extend((0..size * 3).map(|page| table + page));
        }
    }
    trace
}
