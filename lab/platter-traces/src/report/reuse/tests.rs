use super::super::access::hash;
use super::*;

/// Misses of a cache of this many blocks, counted one by one.
fn counted(accesses: &[u64], size: usize) -> f64 {
    let mut held: Vec<u64> = Vec::new();
    let mut misses = 0;
    for block in accesses {
        match held.iter().position(|other| other == block) {
            Some(at) => drop(held.remove(at)),
            None => misses += 1,
        }
        held.push(*block);
        if held.len() > size {
            held.remove(0);
        }
    }
    100.0 * f64::from(misses) / accesses.len() as f64
}

#[test]
fn without_a_limit_the_misses_are_exact() {
    let accesses: Vec<u64> = (0..4000u64).map(|n| hash(7, n) % 90 * (hash(9, n) % 3)).collect();
    let mut distances = Distances::default();
    accesses.iter().for_each(|block| distances.access(hash(1, *block)));
    assert_eq!(distances.rate(), 1.0);
    for (size, pct) in distances.misses() {
        assert!((pct - counted(&accesses, size as usize)).abs() < 1e-9, "{size}");
    }
}

#[test]
fn a_sample_is_near() {
    // A loop over more blocks than are followed: each is used again after all others.
    let blocks = 200_000u64;
    let mut distances = Distances::default();
    for _ in 0..3 {
        (0..blocks).for_each(|block| distances.access(hash(1, block)));
    }
    assert!(distances.rate() < 0.1 && distances.last.len() <= SAMPLES);
    let misses = distances.misses();
    let at = |size: u64| misses.iter().find(|row| row.0 == size).map(|row| row.1);
    assert!(at(131_072).is_some_and(|pct| pct > 95.0), "{misses:?}");
    let cold = distances.cold_pct().unwrap();
    assert!((cold - 33.3).abs() < 5.0, "{cold}");
    assert_eq!(distances.median(), Some(262_144));
}
