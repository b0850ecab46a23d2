//! Chooses the one of two requests that is nearer to the disk's last position.

use core::cmp::Reverse;

/// The rule: synchronous before asynchronous, then by distance. A request ahead counts its distance, a
/// request behind counts it `penalty` times, and a request farther behind than `back_max` loses to all
/// others; of two such requests the lower position wins. At equal distance the higher position wins. (Kernels
/// since 2.6.18 also put metadata before data, which requests here do not tell apart.)
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nearest {
    /// Largest distance in bytes behind the last position that counts as a back seek.
    pub(crate) back_max: u64,
    /// Weight of a distance behind.
    pub(crate) penalty: u64,
}

/// Smaller is better.
type Rank = (bool, bool, u64, Reverse<u64>);

impl Nearest {
    /// Makes the rule from `back_seek_max` in KiB and `back_seek_penalty`.
    pub(crate) fn new(back_seek_max: u64, back_seek_penalty: u64) -> Nearest {
        Nearest { back_max: back_seek_max.saturating_mul(1024), penalty: back_seek_penalty }
    }

    #[inline]
    pub(super) fn rank(self, last: u64, (pos, sync): (u64, bool)) -> Rank {
        let (wrapped, cost) = if pos >= last {
            (false, pos - last)
        } else if last - pos <= self.back_max {
            (false, (last - pos).saturating_mul(self.penalty))
        } else {
            (true, pos)
        };
        (!sync, wrapped, cost, Reverse(pos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearer_one_wins() {
        let rule = Nearest { back_max: 100, penalty: 2 };
        let last = 1000;
        // Each line: the winner, then the loser; position and whether it is synchronous.
        for (winner, loser) in [
            ((1010, true), (1011, true)),     // both ahead
            ((1010, true), (990, true)),      // behind counts twice
            ((994, true), (1013, true)),      // even so it can be nearer
            ((1012, true), (994, true)),      // a tie: the higher one
            ((900, true), (1201, true)),      // at the limit
            ((1_000_000, true), (899, true)), // past it
            ((10, true), (20, true)),         // both past it: the lower one
            ((10, true), (1000, false)),      // synchronous first
            ((1000, false), (1001, false)),
        ] {
            assert!(rule.rank(last, winner) < rule.rank(last, loser), "{winner:?} {loser:?}");
        }
    }
}
