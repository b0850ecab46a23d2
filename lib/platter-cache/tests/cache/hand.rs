//! Running a lane by hand.

use crate::script::Hand;
use platter_block::bio::Bio;
use platter_block::fault::Kind;

/// Submits a bio and runs the lane until one has ended. Returns the kind of its fault.
pub(crate) fn run(hand: &mut Hand, now: u64, bio: Bio) -> Option<Kind> {
    hand.submit(now, bio);
    end(hand, now).expect("the bio ends")
}

/// Runs the lane until a bio has ended. Returns the kind of its fault; `None`: none ends.
pub(crate) fn end(hand: &mut Hand, now: u64) -> Option<Option<Kind>> {
    (0..64).find_map(|_| hand.kinds(now).pop()).map(|(_, kind)| kind)
}
