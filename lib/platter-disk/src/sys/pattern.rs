//! Incompressible contents for disks, identical for the same seed on every machine.

/// Contents of one disk: 64-bit little-endian words of SplitMix64 (Steele, Lea and Flood, "Fast splittable
/// pseudorandom number generators", OOPSLA 2014), with a different seed for each disk. Any part can be
/// generated, and so checked, without the preceding parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pattern {
    start: u64,
}

/// The increment of SplitMix64: the odd number nearest to 2^64 divided by the golden ratio.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

impl Pattern {
    /// The contents of disk number `disk` under `seed`; each number has different contents.
    pub fn new(seed: u64, disk: u64) -> Self {
        Pattern { start: mix(seed ^ mix(disk.wrapping_mul(GAMMA))) }
    }

    /// The word that holds bytes `8 * index` to `8 * index + 7`.
    fn word(self, index: u64) -> [u8; 8] {
        mix(self.start.wrapping_add(index.wrapping_add(1).wrapping_mul(GAMMA))).to_le_bytes()
    }

    /// Fills `buf` with the contents from byte `offset` on.
    pub fn fill(self, offset: u64, buf: &mut [u8]) {
        let (mut index, skip) = (offset / 8, (offset % 8) as usize);
        let mut rest = buf;
        if skip > 0 {
            let (head, tail) = rest.split_at_mut(rest.len().min(8 - skip));
            head.copy_from_slice(&self.word(index)[skip..skip + head.len()]);
            (rest, index) = (tail, index + 1);
        }
        let (words, tail) = rest.as_chunks_mut::<8>();
        for (i, word) in words.iter_mut().enumerate() {
            *word = self.word(index + i as u64);
        }
        let last = self.word(index + words.len() as u64);
        tail.copy_from_slice(&last[..tail.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_splitmix64() {
        // The first outputs for seed 1234567, as published by other implementations.
        let pattern = Pattern { start: 1_234_567 };
        let words = [0, 1, 2].map(|i| u64::from_le_bytes(pattern.word(i)));
        assert_eq!(words, [6457827717110365317, 3203168211198807973, 9817491932198370423]);
    }

    #[test]
    fn any_part_is_the_same_as_in_the_whole() {
        let pattern = Pattern::new(7, 3);
        let mut whole = [0; 64];
        pattern.fill(0, &mut whole);
        for from in 0..64 {
            for to in from..=64 {
                let mut part = vec![0; to - from];
                pattern.fill(from as u64, &mut part);
                assert_eq!(part, whole[from..to], "{from}..{to}");
            }
        }
    }

    #[test]
    fn seeds_and_disks_differ_and_bytes_are_spread_evenly() {
        let make = |seed, disk| {
            let mut buf = vec![0; 1 << 20];
            Pattern::new(seed, disk).fill(0, &mut buf);
            buf
        };
        let a = make(1, 0);
        assert!(a != make(2, 0) && a != make(1, 1) && a == make(1, 0));
        let mut counts = [0_u32; 256];
        a.iter().for_each(|b| counts[usize::from(*b)] += 1);
        // 4096 of each are expected, plus or minus 64; six times that is far beyond chance.
        assert!(counts.iter().all(|n| n.abs_diff(4096) < 6 * 64), "{counts:?}");
    }
}
