//! Self-describing blocks, so that reading them back proves which data was stored.
//!
//! Each interval of a block (512 bytes or a multiple of it) is self-contained. In little-endian order:
//!
//! | bytes | field |
//! |---|---|
//! | 0..8 | magic |
//! | 8..12 | length of the interval |
//! | 12..16 | CRC32C of everything else in the interval |
//! | 16..24 | byte offset at which the interval was written |
//! | 24..32 | seed of the run |
//! | 32..40 | generation: which write of this block it was |
//! | 40.. | payload drawn from seed, offset and generation; it does not compress |
//!
//! A damaged interval fails its CRC; an intact one at the wrong position, from another run or from an older
//! write is recognised by its header.

use core::fmt;

use crate::stats::mix64;

/// Bytes of the header at the start of each interval.
pub const HEADER_BYTES: usize = 40;

const MAGIC: u64 = u64::from_le_bytes(*b"PLATTERv");
const CRC_AT: usize = 12;
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Fills and checks blocks for one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verifier {
    seed: u64,
    interval: u32,
}

impl Verifier {
    /// A verifier for the run of `seed`, with a header every `interval` bytes. `None` unless `interval` is a
    /// multiple of 512 and not 0.
    pub fn new(seed: u64, interval: u32) -> Option<Self> {
        (interval > 0 && interval.is_multiple_of(512)).then_some(Self { seed, interval })
    }

    /// Bytes per interval.
    pub fn interval(&self) -> u32 {
        self.interval
    }

    /// Fills `block`, which is to be written at byte `offset`, as write number `generation`.
    ///
    /// # Errors
    /// [`VerifyKind::Length`] when the length of `block` is 0 or not a multiple of the interval,
    /// [`VerifyKind::Overflow`] when its end is beyond `u64::MAX`.
    pub fn fill(&self, block: &mut [u8], offset: u64, generation: u64) -> Result<(), VerifyError> {
        self.check_shape(block.len(), offset)?;
        let mut at = offset;
        for interval in block.chunks_exact_mut(self.interval as usize) {
            self.fill_interval(interval, at, generation);
            at += u64::from(self.interval);
        }
        Ok(())
    }

    /// Checks `block`, which was read at byte `offset`, and returns the generation that all of it belongs to.
    ///
    /// # Errors
    /// The error in the first bad interval and its position; also the errors of [`fill`](Self::fill).
    pub fn check(&self, block: &[u8], offset: u64) -> Result<u64, VerifyError> {
        self.check_shape(block.len(), offset)?;
        let mut at = offset;
        let mut first = None;
        for interval in block.chunks_exact(self.interval as usize) {
            let generation = self.check_interval(interval, at)?;
            let expected = *first.get_or_insert(generation);
            expect(VerifyKind::Torn, at, expected, generation)?;
            at += u64::from(self.interval);
        }
        // `check_shape` has ensured that there is an interval.
        Ok(first.unwrap_or_default())
    }

    /// Like [`check`](Self::check), and the block must be the write number `generation`.
    ///
    /// # Errors
    /// As `check`, and [`VerifyKind::Generation`].
    pub fn check_generation(&self, block: &[u8], offset: u64, generation: u64) -> Result<(), VerifyError> {
        let got = self.check(block, offset)?;
        expect(VerifyKind::Generation, offset, generation, got)
    }

    fn check_shape(&self, len: usize, offset: u64) -> Result<(), VerifyError> {
        let interval = u64::from(self.interval);
        let len = len as u64;
        if len == 0 || !len.is_multiple_of(interval) {
            return Err(VerifyError { kind: VerifyKind::Length, offset, expected: interval, got: len });
        }
        if offset.checked_add(len).is_none() {
            let expected = u64::MAX - len;
            return Err(VerifyError { kind: VerifyKind::Overflow, offset, expected, got: offset });
        }
        Ok(())
    }

    fn fill_interval(&self, interval: &mut [u8], offset: u64, generation: u64) {
        interval[..8].copy_from_slice(&MAGIC.to_le_bytes());
        interval[8..12].copy_from_slice(&self.interval.to_le_bytes());
        interval[16..24].copy_from_slice(&offset.to_le_bytes());
        interval[24..32].copy_from_slice(&self.seed.to_le_bytes());
        interval[32..40].copy_from_slice(&generation.to_le_bytes());
        // SplitMix64 from a state that mixes all three.
        let mut state = mix64(self.seed ^ mix64(offset ^ mix64(generation ^ GOLDEN)));
        for word in interval[HEADER_BYTES..].chunks_exact_mut(8) {
            state = state.wrapping_add(GOLDEN);
            word.copy_from_slice(&mix64(state).to_le_bytes());
        }
        let crc = checksum(interval);
        interval[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
    }

    fn check_interval(&self, interval: &[u8], offset: u64) -> Result<u64, VerifyError> {
        let magic = u64_at(interval, 0);
        if magic == 0 && interval.iter().all(|&byte| byte == 0) {
            return Err(VerifyError { kind: VerifyKind::Zeroes, offset, expected: MAGIC, got: 0 });
        }
        expect(VerifyKind::Magic, offset, MAGIC, magic)?;
        expect(VerifyKind::Interval, offset, u64::from(self.interval), u64::from(u32_at(interval, 8)))?;
        let stored = u32_at(interval, CRC_AT);
        expect(VerifyKind::Checksum, offset, u64::from(stored), u64::from(checksum(interval)))?;
        expect(VerifyKind::Offset, offset, offset, u64_at(interval, 16))?;
        expect(VerifyKind::Seed, offset, self.seed, u64_at(interval, 24))?;
        Ok(u64_at(interval, 32))
    }
}

/// CRC32C of an interval without the field that holds it.
fn checksum(interval: &[u8]) -> u32 {
    let head = crc32c::crc32c(&interval[..CRC_AT]);
    crc32c::crc32c_append(head, &interval[CRC_AT + 4..])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(core::array::from_fn(|i| bytes[at + i]))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(core::array::from_fn(|i| bytes[at + i]))
}

fn expect(kind: VerifyKind, offset: u64, expected: u64, got: u64) -> Result<(), VerifyError> {
    if expected == got { Ok(()) } else { Err(VerifyError { kind, offset, expected, got }) }
}

/// A block whose contents are not those written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifyError {
    /// The kind of mismatch.
    pub kind: VerifyKind,
    /// Byte offset of the interval it was found in.
    pub offset: u64,
    /// The expected value of the field that `kind` names.
    pub expected: u64,
    /// The value found.
    pub got: u64,
}

/// The kinds of errors of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum VerifyKind {
    /// The buffer is not a whole number of intervals (an error of the caller).
    Length,
    /// The end of the buffer is beyond the largest offset (an error of the caller).
    Overflow,
    /// All bytes are zero: never written, discarded, or lost.
    Zeroes,
    /// No interval starts here.
    Magic,
    /// Written with another interval.
    Interval,
    /// Damaged: the CRC32C of the data is not the one stored with it.
    Checksum,
    /// Intact, but written for another offset.
    Offset,
    /// Intact, but left by another run.
    Seed,
    /// Intact, but of another generation than the start of the same block: a torn write.
    Torn,
    /// Intact, but of a different generation than expected: a lost write.
    Generation,
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, offset, expected, got } = *self;
        if kind == VerifyKind::Overflow {
            return write!(f, "offset {offset} is too large for this length: at most {expected}");
        }
        if kind == VerifyKind::Length {
            return write!(
                f,
                "a block of {got} bytes at offset {offset} is not a whole number of intervals of {expected} bytes"
            );
        }
        write!(f, "verification failed at offset {offset}: ")?;
        match kind {
            VerifyKind::Length | VerifyKind::Overflow => Ok(()),
            VerifyKind::Zeroes => f.write_str("all zeroes, as if it had never been written"),
            VerifyKind::Magic => {
                write!(f, "no verification header (magic {got:#018x}, not {expected:#018x})")
            }
            VerifyKind::Interval => write!(f, "written with intervals of {got} bytes, not {expected}"),
            VerifyKind::Checksum => write!(f, "damaged (CRC32C {got:#010x}, stored {expected:#010x})"),
            VerifyKind::Offset => write!(f, "holds data written for offset {got}"),
            VerifyKind::Seed => write!(f, "written by the run of seed {got}, not {expected}"),
            VerifyKind::Torn => write!(f, "torn: generation {got} in a block that begins with {expected}"),
            VerifyKind::Generation => write!(f, "generation {got}, but {expected} was the last one written"),
        }
    }
}

impl core::error::Error for VerifyError {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kind(result: Result<u64, VerifyError>) -> VerifyKind {
        result.unwrap_err().kind
    }

    fn filled(verifier: Verifier, len: usize, offset: u64, generation: u64) -> Vec<u8> {
        let mut block = vec![0xaa; len];
        verifier.fill(&mut block, offset, generation).unwrap();
        block
    }

    #[test]
    fn every_way_to_be_wrong_is_told_apart() {
        let v = Verifier::new(7, 512).unwrap();
        let block = filled(v, 4096, 8192, 3);
        assert_eq!(v.check(&block, 8192), Ok(3));
        assert_eq!(kind(v.check(&block, 4096)), VerifyKind::Offset);
        assert_eq!(kind(v.check(&block[..4000], 8192)), VerifyKind::Length);
        assert_eq!(kind(v.check(&[], 8192)), VerifyKind::Length);
        assert_eq!(kind(v.check(&block, u64::MAX - 100)), VerifyKind::Overflow);
        assert_eq!(kind(v.check(&[0; 4096], 0)), VerifyKind::Zeroes);
        assert_eq!(kind(v.check(&[1; 4096], 0)), VerifyKind::Magic);
        assert_eq!(kind(Verifier::new(8, 512).unwrap().check(&block, 8192)), VerifyKind::Seed);
        assert_eq!(kind(Verifier::new(7, 4096).unwrap().check(&block, 8192)), VerifyKind::Interval);
        assert_eq!(v.check_generation(&block, 8192, 3), Ok(()));
        let lost = v.check_generation(&block, 8192, 4).unwrap_err();
        assert_eq!((lost.kind, lost.expected, lost.got), (VerifyKind::Generation, 4, 3));
    }

    #[test]
    fn torn_writes_and_bad_sectors_are_located() {
        let v = Verifier::new(7, 512).unwrap();
        let mut block = filled(v, 4096, 8192, 3);
        block[1024..].copy_from_slice(&filled(v, 4096, 8192, 2)[1024..]);
        let torn = v.check(&block, 8192).unwrap_err();
        assert_eq!(torn, VerifyError { kind: VerifyKind::Torn, offset: 9216, expected: 3, got: 2 });
        let mut block = filled(v, 4096, 8192, 3);
        block[512 * 5..512 * 6].fill(0);
        let lost = v.check(&block, 8192).unwrap_err();
        assert_eq!((lost.kind, lost.offset), (VerifyKind::Zeroes, 8192 + 512 * 5));
        assert_eq!(
            lost.to_string(),
            "verification failed at offset 10752: all zeroes, as if it had never been written"
        );
    }

    #[test]
    fn intervals_are_multiples_of_512() {
        for interval in [0, 1, 40, 511, 513, 1000] {
            assert_eq!(Verifier::new(0, interval), None);
        }
        assert_eq!(Verifier::new(0, 1536).unwrap().interval(), 1536);
    }

    /// Blocks written by an older release must stay readable.
    #[test]
    fn format_is_pinned() {
        let block = filled(Verifier::new(1, 512).unwrap(), 512, 4096, 2);
        assert_eq!(&block[..12], b"PLATTERv\x00\x02\x00\x00");
        assert_eq!(crc32c::crc32c(&block), PINNED_CRC);
    }

    #[test]
    fn payload_does_not_repeat() {
        let v = Verifier::new(1, 512).unwrap();
        let mut words: Vec<u64> = Vec::new();
        for (offset, generation) in [(0, 0), (0, 1), (4096, 0), (4096, 1)] {
            let block = filled(v, 4096, offset, generation);
            let intervals = block.chunks(512);
            words.extend(intervals.flat_map(|i| i[HEADER_BYTES..].chunks(8)).map(|w| u64_at(w, 0)));
        }
        let all = words.len();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), all);
    }

    proptest! {
        #[test]
        fn what_was_filled_is_accepted(
            seed: u64, generation: u64, offset in 0u64..1 << 60, n in 1usize..5, interval in 1u32..9,
        ) {
            let v = Verifier::new(seed, interval * 512).unwrap();
            let block = filled(v, n * interval as usize * 512, offset, generation);
            prop_assert_eq!(v.check(&block, offset), Ok(generation));
        }

        #[test]
        fn any_flipped_bit_is_found(seed: u64, at in 0usize..2048, bit in 0u32..8) {
            let v = Verifier::new(seed, 1024).unwrap();
            let mut block = filled(v, 2048, 4096, 9);
            block[at] ^= 1 << bit;
            let error = v.check(&block, 4096).unwrap_err();
            prop_assert_eq!(error.offset, 4096 + at as u64 / 1024 * 1024);
            let expected = match at % 1024 {
                0..8 => VerifyKind::Magic,
                8..12 => VerifyKind::Interval,
                _ => VerifyKind::Checksum,
            };
            prop_assert_eq!(error.kind, expected);
        }
    }

    /// Computed apart from this code.
    const PINNED_CRC: u32 = 0xa741_2d10;
}
