//! Which frame of a page cache to take for another page.
//!
//! The policy is S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi: "FIFO queues are all you need for cache eviction",
//! SOSP 2023). A new page waits in a small queue, a tenth of the frames. If it was used often enough by the
//! time it is the oldest there, it moves to the main queue; if not it goes, and a fingerprint of it stays
//! behind. A page that comes back while its fingerprint is known enters the main queue at once. The main queue
//! gives a page another round for each use, up to three. So a scan passes through the small queue only.
//!
//! How often a page was used is counted outside, in an atomic counter of each frame: a hit touches nothing here.
//!
//! Two lists are added for a cache that also writes. A frame that cannot go (dirty, pinned, being read) is
//! parked when it is found, so that it is not looked at again for every page that comes. A page whose owner
//! said that it needs it no longer is taken before all others.

mod ghost;
mod queues;
#[cfg(test)]
mod tests;

use ghost::Ghosts;
use queues::{List, Queues, Standing};

/// Frames looked at by one [`Replacement::evict`] at most.
pub const LOOKS: u32 = 64;

/// Uses in the small queue that earn a place in the main one.
const PROMOTE: u8 = 2;

/// One in so many frames is in the small queue.
const SMALL_SHARE: u32 = 10;

/// What a cache says of a frame that could go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// Not used since the count ran out.
    Free,
    /// Its count of uses (1 to 3), which is now one less.
    Used(u8),
    /// It cannot go now; its count is as it was.
    Busy,
}

/// The order in which the frames of a cache go. 16 bytes for each frame, allocated once.
pub struct Replacement {
    queues: Queues,
    ghosts: Ghosts,
}

impl Replacement {
    /// An order of frames `0..frames`, with none in it.
    pub fn new(frames: u32) -> Self {
        Replacement { queues: Queues::new(frames), ghosts: Ghosts::new(frames) }
    }

    /// Page `page` has come into `frame`, whose count of uses is now 0. If the frame was in, what it held is forgotten.
    ///
    /// The use that a page was read for must not be counted, neither on a miss nor when readahead brought it
    /// and it is used for the first time; else each page of a scan would look as if it had been used again.
    ///
    /// # Panics
    /// If there is no such frame.
    pub fn insert(&mut self, frame: u32, page: u64) {
        let hash = ghost::hash(page);
        let standing = if self.ghosts.take(hash) { Standing::Main } else { Standing::Small };
        self.queues.remove(frame);
        self.queues.add(frame, hash, standing);
    }

    /// Chooses a frame to take; it is out of the order then. `None`: nothing that was looked at can go now.
    ///
    /// `probe` says of a candidate how often it was used, and takes one from its count. At most [`LOOKS`]
    /// frames are looked at, and each is moved at most once: if all that can go were used, one that was used
    /// least goes. Frames that were busy are parked: later calls look at one of them each, and at more when
    /// there is nothing else.
    ///
    /// The frame may have been pinned since it was asked about. A cache that cannot take it inserts it again.
    pub fn evict(&mut self, probe: &mut dyn FnMut(u32) -> Probe) -> Option<u32> {
        let mut parked = self.queues.len_of(List::Parked);
        let mut fallback: Option<(u8, u32)> = None;
        for look in 0..LOOKS {
            let Some(frame) = self.candidate(look, &mut parked) else { break };
            let uses = match probe(frame) {
                Probe::Free => 0,
                Probe::Used(uses) => uses,
                Probe::Busy => {
                    self.queues.park(frame);
                    continue;
                }
            };
            if self.goes(frame, uses) {
                return Some(frame);
            }
            if fallback.is_none_or(|(least, _)| uses < least) {
                fallback = Some((uses, frame));
            }
        }
        let (_, frame) = fallback?;
        self.queues.remove(frame);
        Some(frame)
    }

    /// The page in `frame` was dropped. O(1); nothing if the frame is not in.
    pub fn forget(&mut self, frame: u32) {
        self.queues.remove(frame);
    }

    /// The page in `frame` will not be needed again: it goes before all others, unless it is used after all.
    /// Its count of uses is to be set to 0. O(1); nothing if the frame is not in.
    pub fn cold_hint(&mut self, frame: u32) {
        self.queues.change(frame, Standing::Cold);
    }

    /// `frame` was busy and is not any more (its page was written back, say). If it was found busy it is the
    /// next of its queue to be looked at. O(1); nothing if it is not parked. Without this call it is found too, later.
    pub fn ready(&mut self, frame: u32) {
        self.queues.unpark(frame);
    }

    /// Frames in the order, busy ones too.
    pub fn len(&self) -> usize {
        self.queues.len()
    }

    /// Whether there is no frame in the order.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The next frame to look at. `parked` is how many busy ones were not yet looked at in this call.
    fn candidate(&self, look: u32, parked: &mut u32) -> Option<u32> {
        let again = look == 0 && *parked > 0;
        if !again {
            let (small, main) = (self.queues.len_of(List::Small), self.queues.len_of(List::Main));
            let many = small > (small + main) / SMALL_SHARE;
            let (first, second) = if many { (List::Small, List::Main) } else { (List::Main, List::Small) };
            let oldest = |list| self.queues.oldest(list);
            let next = oldest(List::Cold).or_else(|| oldest(first)).or_else(|| oldest(second));
            if next.is_some() {
                return next;
            }
        }
        *parked = parked.checked_sub(1)?;
        self.queues.oldest(List::Parked)
    }

    /// Whether `frame`, which was used so often, goes; if not it has a new place.
    fn goes(&mut self, frame: u32, uses: u8) -> bool {
        let next = match self.queues.standing(frame) {
            Some(Standing::Main) if uses > 0 => Standing::Main,
            Some(Standing::Small) if uses >= PROMOTE => Standing::Main,
            Some(Standing::Cold) if uses > 0 => Standing::Small,
            standing => {
                if standing == Some(Standing::Small) {
                    self.ghosts.add(self.queues.hash(frame));
                }
                self.queues.remove(frame);
                return true;
            }
        };
        self.queues.renew(frame, next);
        false
    }
}
