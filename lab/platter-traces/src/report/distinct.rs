//! How many different blocks there are, counted with HyperLogLog (Flajolet, Fusy, Gandouet, Meunier, 2007).

/// A count of different numbers, given as hashes.
#[derive(Clone, Debug)]
pub(super) struct Distinct {
    registers: Vec<u8>,
    bits: u32,
}

impl Distinct {
    /// A count with 2^`bits` registers: the standard error is 1.04 by the root of that.
    pub(super) fn new(bits: u32) -> Distinct {
        Distinct { registers: Vec::new(), bits }
    }

    pub(super) fn add(&mut self, hash: u64) {
        self.registers.resize(1 << self.bits, 0);
        let register = &mut self.registers[(hash >> (64 - self.bits)) as usize];
        let rank = ((hash << self.bits) | 1 << (self.bits - 1)).leading_zeros() + 1;
        *register = (*register).max(rank as u8);
    }

    /// Adds what another has counted.
    pub(super) fn merge(&mut self, other: &Distinct) {
        if other.registers.is_empty() {
            return;
        }
        self.registers.resize(1 << self.bits, 0);
        for (own, other) in self.registers.iter_mut().zip(&other.registers) {
            *own = (*own).max(*other);
        }
    }

    /// How many.
    pub(super) fn count(&self) -> u64 {
        if self.registers.is_empty() {
            return 0;
        }
        let size = self.registers.len() as f64;
        let sum: f64 = self.registers.iter().map(|rank| (-f64::from(*rank)).exp2()).sum();
        let raw = 0.7213 / (1.0 + 1.079 / size) * size * size / sum;
        let empty = self.registers.iter().filter(|rank| **rank == 0).count() as f64;
        // Few numbers are counted by the registers that are still empty.
        let few = raw <= 2.5 * size && empty > 0.0;
        (if few { size * (size / empty).ln() } else { raw }).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::super::access::hash;
    use super::*;

    #[test]
    fn counts_are_near() {
        for n in [0u64, 1, 10, 1000, 30_000, 1_000_000] {
            let mut distinct = Distinct::new(12);
            (0..n).for_each(|block| distinct.add(hash(1, block)));
            (0..n.min(1000)).for_each(|block| distinct.add(hash(1, block)));
            let found = distinct.count() as f64;
            assert!((found - n as f64).abs() <= 0.06 * n as f64, "{n}: {found}");
        }
    }

    #[test]
    fn halves_make_the_whole() {
        let (mut a, mut b) = (Distinct::new(11), Distinct::new(11));
        (0..20_000).for_each(|block| a.add(hash(1, block)));
        (10_000..40_000).for_each(|block| b.add(hash(1, block)));
        a.merge(&b);
        assert!((36_000..44_000).contains(&a.count()), "{}", a.count());
    }
}
