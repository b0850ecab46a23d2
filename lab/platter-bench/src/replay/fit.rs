//! Where an I/O of the trace goes on a device of another size.

/// What becomes of I/Os beyond the end of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fitting {
    /// The replay is refused.
    Refuse,
    /// Places go round: behind the end comes the beginning.
    Wrap,
    /// All places are moved closer together, if the device of the trace is larger.
    Scale,
}

impl Fitting {
    /// Its name in reports and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Fitting::Refuse => "refuse",
            Fitting::Wrap => "wrap",
            Fitting::Scale => "scale",
        }
    }
}

/// Pieces that are moved as a whole when places are scaled, so that what is sequential stays so within them.
const PIECE: u64 = 1 << 20;

/// Moves the places of a trace onto a device.
#[derive(Debug, Clone, Copy)]
pub struct Fit {
    how: Fitting,
    /// Bytes of the device, and of its blocks.
    size: u64,
    block: u64,
    /// Bytes of the device of the trace.
    source: u64,
}

impl Fit {
    /// From a device of `source` bytes to one of `size` bytes with blocks of `block` bytes (at least 1).
    pub fn new(how: Fitting, source: u64, size: u64, block: u64) -> Fit {
        Fit { how, size, block: block.max(1), source }
    }

    /// The offset on the device of an I/O of the trace, whose offset is a multiple of the block; `None` if it has no place there.
    /// The result is such a multiple too.
    pub fn place(&self, offset: u64, length: u64) -> Option<u64> {
        let room = self.size.checked_sub(length)?;
        let moved = match self.how {
            Fitting::Refuse => return (offset <= room).then_some(offset),
            Fitting::Wrap if offset <= room => return Some(offset),
            // Whole blocks, so that a device that ends within one does not shift what comes round.
            Fitting::Wrap => offset.checked_rem(self.size - self.size % self.block)?,
            Fitting::Scale => self.scaled(offset),
        };
        Some(moved.min(room - room % self.block))
    }

    fn scaled(&self, offset: u64) -> u64 {
        if self.source <= self.size {
            return offset;
        }
        let piece = if self.size >= 2 * PIECE { PIECE.next_multiple_of(self.block) } else { self.block };
        let (from, to) = (self.source.div_ceil(piece), (self.size / piece).max(1));
        let number = u128::from(offset / piece) * u128::from(to) / u128::from(from);
        // Less than the device has.
        number as u64 * piece + offset % piece
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn places_are_refused_wrapped_and_scaled() {
        const GIB: u64 = 1 << 30;
        let place = |how, offset, length| Fit::new(how, 4 * GIB, GIB, 512).place(offset, length);
        assert_eq!(place(Fitting::Refuse, GIB - 4096, 4096), Some(GIB - 4096));
        assert_eq!(place(Fitting::Refuse, GIB - 4096, 8192), None);
        assert_eq!(place(Fitting::Wrap, 3 * GIB + 8192, 4096), Some(8192));
        // What would end behind the end ends at the end.
        assert_eq!(place(Fitting::Wrap, 2 * GIB - 4096, 8192), Some(GIB - 8192));
        assert_eq!(place(Fitting::Scale, 2 * GIB, 4096), Some(GIB / 2));
        assert_eq!(place(Fitting::Scale, 2 * GIB + 4096, 4096), Some(GIB / 2 + 4096), "a run stays one");
        for how in [Fitting::Refuse, Fitting::Wrap, Fitting::Scale] {
            assert_eq!(place(how, 0, GIB + 512), None);
            assert_eq!(place(how, u64::MAX - 511, 512).is_some(), how != Fitting::Refuse);
        }
        assert_eq!(
            Fit::new(Fitting::Scale, GIB, 4 * GIB, 512).place(GIB / 2, 4096),
            Some(GIB / 2),
            "never farther apart"
        );
    }

    proptest! {
        #[test]
        fn every_place_is_on_the_device_and_at_a_block(
            shift in 9u32..=14,
            size in 0u64..1 << 40,
            source in 0u64..1 << 44,
            offset in 0u64..1 << 44,
            other in 0u64..1 << 44,
            length in 1u64..1 << 12,
            how in prop::sample::select(vec![Fitting::Refuse, Fitting::Wrap, Fitting::Scale]),
        ) {
            let block = 1u64 << shift;
            let (offset, other, length) = (offset / block * block, other / block * block, length * block);
            let fit = Fit::new(how, source, size, block);
            let fits = offset + length <= size;
            match fit.place(offset, length) {
                None => prop_assert!(!fits && (how == Fitting::Refuse || length > size)),
                Some(place) => {
                    prop_assert!(place + length <= size && place % block == 0);
                    prop_assert!(how == Fitting::Scale || !fits || place == offset);
                    // Where nothing is too large, nothing moves.
                    prop_assert!(!(source <= size && fits) || place == offset);
                }
            }
            // The order of places stays.
            if how == Fitting::Scale
                && let (Some(one), Some(two)) = (fit.place(offset.min(other), length), fit.place(offset.max(other), length))
            {
                prop_assert!(one <= two);
            }
        }
    }
}
