//! Chooses which frame of a page cache to reuse.
//!
//! The policy is S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi: "FIFO queues are all you need for cache eviction",
//! SOSP 2023). A new page enters a small queue, which has a tenth of the frames. If it has been used by the
//! time it is the oldest there, it moves to the main queue; if not, it is evicted and its fingerprint is
//! kept. A page that comes back while its fingerprint is known enters the main queue at once. The main queue
//! gives a page another round for each use, up to three. So a scan passes through the small queue only.
//!
//! From Clock2Q+ (Zhai and others: "Clock2Q+: a simple and efficient replacement algorithm for metadata cache
//! in VMware vSAN", arXiv 2511.21958, 2025) comes the rule that uses do not count in the younger half of the
//! small queue. Otherwise a file read or written in pieces smaller than a page would look popular.
//!
//! Uses are counted outside this module, in an atomic counter per frame: a hit changes nothing here.
//!
//! Two lists are added for a cache that also writes. A frame that cannot be evicted (dirty, pinned, being
//! read) is parked when it is found, so that it is not checked again for every new page. A page that its
//! owner no longer needs is evicted before all others.

mod ghost;
mod queues;
#[cfg(test)]
mod tests;

use ghost::Ghosts;
use queues::{List, Queues, Standing};

/// Most frames that one [`Replacement::evict`] checks; a frame checked twice counts twice.
pub const LOOKS: u32 = 64;

/// Upper limit of a use counter.
pub const MOST_USES: u8 = 3;

/// The small queue has one in this many frames.
const SMALL_SHARE: u32 = 10;

/// Uses do not count for one in this many frames of the small queue.
const FRESH_SHARE: u32 = 2;

/// Fresh frames whose uses start to count in one call. One per new page would do, but many come at once when
/// pages were written back.
const SETTLED_AT_ONCE: u32 = 4;

/// The state of a frame that is a candidate for eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// Its use count is 0, and it holds this page.
    Free(u64),
    /// Its use count, 1 to [`MOST_USES`], was decremented from this value.
    Used(u8),
    /// It cannot be evicted now; its count is unchanged.
    Busy,
}

/// The order in which the frames of a cache are evicted. It takes 16 bytes per frame, as frames come into use: 12 for those up to
/// the last one that was in the order, and 4 by the hashes of evicted pages.
pub struct Replacement {
    queues: Queues,
    ghosts: Ghosts,
}

impl Replacement {
    /// Bytes of state per frame.
    pub const BYTES_PER_FRAME: usize = 16;

    /// An empty order for frames `0..frames`.
    ///
    /// # Panics
    /// If the system refuses the addresses.
    pub fn new(frames: u32) -> Self {
        Replacement::try_new(frames).expect("the system refuses the addresses for the order of frames")
    }

    /// An empty order for frames `0..frames`. `None`: the system refuses the addresses.
    pub fn try_new(frames: u32) -> Option<Self> {
        Some(Replacement { queues: Queues::new(frames)?, ghosts: Ghosts::new(frames)? })
    }

    /// Adds `frame`, which now holds page `page` and has a use count of 0. A frame that was in the order is
    /// moved.
    ///
    /// The access for which a page was read must not be counted: not on a miss, and not on the first use
    /// after readahead. Otherwise each page of a scan would look as if it had been used twice.
    ///
    /// # Panics
    /// If there is no such frame; this holds for all methods that take a frame.
    pub fn insert(&mut self, frame: u32, page: u64) {
        let standing = if self.ghosts.take(page) { Standing::Main } else { Standing::Fresh };
        self.queues.remove(frame);
        self.queues.add(frame, standing);
        // Without evictions, as in a cache that is not full yet, pages must not stay fresh forever either.
        if self.queues.len_of(List::Fresh) > 2 * self.window()
            && let Some(oldest) = self.queues.oldest(List::Fresh)
        {
            self.queues.renew(oldest, Standing::Small);
        }
    }

    /// Chooses a frame to reuse and removes it from the order. `None`: no frame that was checked can be
    /// evicted now.
    ///
    /// `probe` returns the use count of a candidate and decrements it. It is called at most [`LOOKS`] times.
    /// If all frames that can be evicted were used, one of the least used is chosen. Busy frames are parked:
    /// each later call checks one of them, and more if there is no other candidate.
    ///
    /// A frame may be pinned after `probe` was called for it. A cache that then cannot reuse it inserts it
    /// again.
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

    /// Removes `frame`, whose page was dropped. O(1); no effect if the frame is not in the order.
    pub fn forget(&mut self, frame: u32) {
        self.queues.remove(frame);
    }

    /// Reports that the page in `frame` is in frame `to` now, which was not in the order: it takes its place. O(1); no effect
    /// if `frame` is not in the order.
    pub fn rename(&mut self, frame: u32, to: u32) {
        self.queues.rename(frame, to);
    }

    /// Marks the page in `frame` as no longer needed: it is evicted before all others unless it is used
    /// again. The caller resets its use count to 0. O(1); no effect if the frame is not in the order.
    pub fn cold_hint(&mut self, frame: u32) {
        self.queues.change(frame, Standing::Cold);
    }

    /// Reports that `frame` is no longer busy (for example because its page was written back). If it was
    /// parked, it becomes the next of its queue to be checked. O(1); no effect if it is not parked. Without
    /// this call it is found later.
    pub fn ready(&mut self, frame: u32) {
        self.queues.unpark(frame);
    }

    /// Whether there are frames that were not found busy, and so may be evicted.
    pub fn has_candidates(&self) -> bool {
        self.queues.len() > self.queues.len_of(List::Parked) as usize
    }

    /// Number of frames in the order, including busy ones.
    pub fn len(&self) -> usize {
        self.queues.len()
    }

    /// Whether there is no frame in the order.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Target size of the small queue: a share of the frames that are not parked.
    fn quota(&self) -> u32 {
        let lists = [List::Fresh, List::Small, List::Main];
        lists.map(|list| self.queues.len_of(list)).iter().sum::<u32>() / SMALL_SHARE
    }

    /// Number of frames of the small queue whose uses do not count.
    fn window(&self) -> u32 {
        self.quota() / FRESH_SHARE
    }

    /// Makes room for a fresh frame: drops the uses of the oldest fresh frames, whose uses count from here
    /// on. Returns the number of probes.
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

    /// The next frame to check; first (`recheck`) one that was busy. `parked` is the number of busy frames
    /// that were not yet checked in this call.
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

    /// Evicts a frame that was not used. If it was new, the fingerprint of its page is kept for a while.
    fn go(&mut self, frame: u32, page: u64) {
        if let Some(Standing::Fresh | Standing::Small) = self.queues.standing(frame) {
            self.ghosts.add(page);
        }
        self.queues.remove(frame);
    }
}
