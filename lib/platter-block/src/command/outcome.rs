//! The answer of a device to a command.

use core::fmt;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Most bytes of sense data that are kept: the size of the kernel's buffer (`SCSI_SENSE_BUFFERSIZE`).
pub const SENSE_BYTES: usize = 96;

const WORDS: usize = SENSE_BYTES / 8;

/// Sense data of a SCSI command, or nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Sense {
    bytes: [u8; SENSE_BYTES],
    len: u8,
}

impl Sense {
    /// No sense data.
    pub const NONE: Sense = Sense { bytes: [0; SENSE_BYTES], len: 0 };

    /// The first [`SENSE_BYTES`] bytes of sense data.
    pub fn new(bytes: &[u8]) -> Sense {
        let mut sense = Sense::NONE;
        let pairs = sense.bytes.iter_mut().zip(bytes);
        sense.len = pairs.map(|(to, from)| *to = *from).count() as u8;
        sense
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or(&self.bytes)
    }
}

impl fmt::Debug for Sense {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x?}", self.bytes())
    }
}

/// The answer of a device to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The status: the status byte of a SCSI command (0: GOOD), the status field of an NVMe completion without the phase bit
    /// (status code, status code type from bit 8; 0: success).
    pub status: u16,
    /// How the transport fared, in its own numbers (`host_status` of SG_IO); 0: well.
    pub transport: u16,
    /// Bytes of the data that were not transferred.
    pub residual: u32,
    /// Double words 0 and 1 of an NVMe completion; 0 for SCSI.
    pub result: u64,
    /// Sense data.
    pub sense: Sense,
}

impl Outcome {
    /// The command was carried out, with all of its data.
    pub const GOOD: Outcome = Outcome { status: 0, transport: 0, residual: 0, result: 0, sense: Sense::NONE };

    /// Whether the device carried the command out.
    pub const fn is_good(&self) -> bool {
        self.status == 0 && self.transport == 0
    }
}

impl Default for Outcome {
    fn default() -> Outcome {
        Outcome::GOOD
    }
}

/// Set in [`OutcomeCell::head`] when there is an answer.
const ANSWERED: u64 = 1 << 63;

/// An outcome that a driver stores and the submitter reads later, perhaps on another thread. What hands the completed bio over
/// orders the two, so the cell itself needs no order.
#[derive(Debug, Default)]
pub(super) struct OutcomeCell {
    /// [`ANSWERED`], the length of the sense data from bit 32, transport from bit 16, status.
    head: AtomicU64,
    residual: AtomicU32,
    result: AtomicU64,
    sense: [AtomicU64; WORDS],
}

impl OutcomeCell {
    pub(super) fn set(&self, outcome: &Outcome) {
        let (words, _) = outcome.sense.bytes.as_chunks::<8>();
        if outcome.sense.len > 0 {
            let pairs = self.sense.iter().zip(words);
            pairs.for_each(|(word, bytes)| word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed));
        }
        self.residual.store(outcome.residual, Ordering::Relaxed);
        self.result.store(outcome.result, Ordering::Relaxed);
        let head = u64::from(outcome.sense.len) << 32
            | u64::from(outcome.transport) << 16
            | u64::from(outcome.status);
        self.head.store(ANSWERED | head, Ordering::Relaxed);
    }

    pub(super) fn clear(&self) {
        self.head.store(0, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> Option<Outcome> {
        let head = self.head.load(Ordering::Relaxed);
        if head & ANSWERED == 0 {
            return None;
        }
        Some(Outcome {
            status: head as u16,
            transport: (head >> 16) as u16,
            residual: self.residual.load(Ordering::Relaxed),
            result: self.result.load(Ordering::Relaxed),
            sense: self.sense((head >> 32) as u8),
        })
    }

    fn sense(&self, len: u8) -> Sense {
        let mut sense = Sense::NONE;
        if len > 0 {
            let (words, _) = sense.bytes.as_chunks_mut::<8>();
            let pairs = words.iter_mut().zip(&self.sense);
            pairs.for_each(|(bytes, word)| *bytes = word.load(Ordering::Relaxed).to_le_bytes());
            // What an earlier, longer answer left is not part of this one.
            sense.bytes.iter_mut().skip(usize::from(len)).for_each(|byte| *byte = 0);
            sense.len = len;
        }
        sense
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_comes_back_as_it_was_stored() {
        let cell = OutcomeCell::default();
        assert_eq!(cell.get(), None);
        let long: [u8; 120] = core::array::from_fn(|at| at as u8 + 1);
        let answer = |len: usize| Outcome {
            status: 2,
            transport: 7,
            residual: 12,
            result: u64::MAX,
            sense: Sense::new(&long[..len]),
        };
        for len in [0, 1, 18, 95, 96, 120, 18] {
            cell.set(&answer(len));
            assert_eq!(cell.get(), Some(answer(len)), "{len}");
            assert_eq!(cell.get().unwrap().sense.bytes(), &long[..len.min(SENSE_BYTES)]);
        }
        cell.set(&Outcome::GOOD);
        assert_eq!(cell.get(), Some(Outcome::GOOD));
        cell.clear();
        assert_eq!(cell.get(), None);
    }
}
