//! Which frame of a page cache to take for another page.
//!
//! The policy is S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi: "FIFO queues are all you need for cache eviction",
//! SOSP 2023). A new page waits in a small queue, a tenth of the frames. If it was used by the time it is the
//! oldest there, it moves to the main queue; if not it goes, and a fingerprint of it stays behind. A page that
//! comes back while its fingerprint is known enters the main queue at once. The main queue gives a page another
//! round for each use, up to three. So a scan passes through the small queue only.
//!
//! From Clock2Q+ (Zhai and others: "Clock2Q+: a simple and efficient replacement algorithm for metadata cache in
//! VMware vSAN", arXiv 2511.21958, 2025) is that uses do not count in the younger half of the small queue. Else a file read
//! or written in pieces smaller than a page would look popular.
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

/// Frames looked at by one [`Replacement::evict`] at most, counting each time that one is.
pub const LOOKS: u32 = 64;

/// What a counter of uses goes up to.
pub const MOST_USES: u8 = 3;

/// One in so many frames is in the small queue.
const SMALL_SHARE: u32 = 10;

/// One in so many frames of the small queue is one whose uses do not count.
const FRESH_SHARE: u32 = 2;

/// Fresh frames that one call lets count from there on. One for each page that comes would do, but
/// many come together when pages were written back.
const SETTLED_AT_ONCE: u32 = 4;

/// What a cache says of a frame that could go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// Its count of uses is 0, and it holds this page.
    Free(u64),
    /// Its count of uses, 1 to [`MOST_USES`], which is now one less.
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
    /// What it keeps for each frame.
    pub const BYTES_PER_FRAME: usize = 16;

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
    /// If there is no such frame, as do all that take one.
    pub fn insert(&mut self, frame: u32, page: u64) {
        let standing = if self.ghosts.take(page) { Standing::Main } else { Standing::Fresh };
        self.queues.remove(frame);
        self.queues.add(frame, standing);
        // Where nothing is evicted, as in a cache that is not full yet, pages are fresh for a while only, too.
        if self.queues.len_of(List::Fresh) > 2 * self.window()
            && let Some(oldest) = self.queues.oldest(List::Fresh)
        {
            self.queues.renew(oldest, Standing::Small);
        }
    }

    /// Chooses a frame to take; it is out of the order then. `None`: nothing that was looked at can go now.
    ///
    /// `probe` says of a candidate how often it was used, and takes one from its count. It is called [`LOOKS`]
    /// times at most. If all that can go were used, one that was used least goes. Frames that were busy are
    /// parked: later calls look at one of them each, and at more when there is nothing else.
    ///
    /// A frame may have been pinned since `probe` was asked about it. A cache that cannot take it inserts it again.
    pub fn evict(&mut self, probe: &mut dyn FnMut(u32) -> Probe) -> Option<u32> {
        let mut parked = self.queues.len_of(List::Parked);
        let mut fallback: Option<(u8, u32)> = None;
        let looks = self.settle(probe);
        for look in looks..LOOKS {
            let Some(frame) = self.candidate(look == looks, &mut parked) else { break };
            let uses = match probe(frame) {
                Probe::Free(page) => {
                    self.go(frame, page);
                    return Some(frame);
                }
                Probe::Used(uses) => uses,
                Probe::Busy => {
                    self.queues.park(frame);
                    continue;
                }
            };
            let cold = self.queues.standing(frame) == Some(Standing::Cold);
            self.queues.renew(frame, if cold { Standing::Small } else { Standing::Main });
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

    /// Frames that the small queue is to have: a share of those that are not parked.
    fn quota(&self) -> u32 {
        let lists = [List::Fresh, List::Small, List::Main];
        lists.map(|list| self.queues.len_of(list)).iter().sum::<u32>() / SMALL_SHARE
    }

    /// Frames of the small queue whose uses are not to count.
    fn window(&self) -> u32 {
        self.quota() / FRESH_SHARE
    }

    /// Makes room for a fresh frame: the uses that the oldest ones had are dropped, and count from here on. Returns how
    /// often it looked.
    fn settle(&mut self, probe: &mut dyn FnMut(u32) -> Probe) -> u32 {
        let mut looks = 0;
        for _ in 0..SETTLED_AT_ONCE {
            if self.queues.len_of(List::Fresh) < self.window() {
                break;
            }
            let Some(frame) = self.queues.oldest(List::Fresh) else { break };
            let mut busy = false;
            for _ in 0..MOST_USES {
                looks += 1;
                match probe(frame) {
                    Probe::Used(2..) => {}
                    Probe::Used(_) | Probe::Free(_) => break,
                    Probe::Busy => {
                        busy = true;
                        break;
                    }
                }
            }
            if busy {
                self.queues.park(frame);
            } else {
                self.queues.renew(frame, Standing::Small);
            }
        }
        looks
    }

    /// The next frame to look at; at first (`recheck`) one that was busy. `parked` is how many of these were
    /// not yet looked at in this call.
    fn candidate(&self, recheck: bool, parked: &mut u32) -> Option<u32> {
        if !recheck || *parked == 0 {
            let small = self.queues.len_of(List::Fresh) + self.queues.len_of(List::Small);
            let (first, second) =
                if small > self.quota() { (List::Small, List::Main) } else { (List::Main, List::Small) };
            let order = [List::Cold, first, second, List::Fresh];
            let next = order.into_iter().find_map(|list| self.queues.oldest(list));
            if next.is_some() {
                return next;
            }
        }
        *parked = parked.checked_sub(1)?;
        self.queues.oldest(List::Parked)
    }

    /// A frame that was not used goes. If it was new, its page is known as one for a while.
    fn go(&mut self, frame: u32, page: u64) {
        if let Some(Standing::Fresh | Standing::Small) = self.queues.standing(frame) {
            self.ghosts.add(page);
        }
        self.queues.remove(frame);
    }
}
