//! Requests prepared before the lock of a shared queue is taken.
//!
//! Source: "Improving Linux Block I/O for Enterprise Workloads" (Wong and others, OLS 2002), section 9.2, which names
//! the question of the moment: a request that is built too early must be built again for each merge, and one that is
//! built when it starts costs time while the device could be served. So what is prepared here is what no merge
//! changes: the verdict on the bio's range, operation and flags, and whether one request can take it. The request
//! itself is made under the lock.

use super::direct::Common;
use super::split::{check, fits};
use crate::bio::{Bio, Flags, Op};
use crate::driver::Geometry;

/// What a submitter has found out about a bio: that it is valid for a device of this size and fits into one request.
/// A queue whose size is another one examines the bio itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prebuilt(Option<u64>);

impl Prebuilt {
    /// Nothing is known of the bio.
    pub const NOT: Prebuilt = Prebuilt(None);

    /// Examines a bio for a queue of this geometry. Bios that the queue must order, cut or refuse, and those of disks
    /// [without the feature](crate::driver::Features::prebuild), stay unknown.
    #[inline]
    pub fn examine(geometry: &Geometry, bio: &Bio) -> Prebuilt {
        let simple = geometry.features.prebuild
            && !matches!(bio.op(), Op::Flush | Op::Command)
            && !bio.flags().intersects(Flags::ORDERED)
            && check(geometry, geometry.size, bio).is_ok()
            && fits(&geometry.limits, bio);
        Prebuilt(simple.then_some(geometry.size))
    }

    /// Whether it is known to be valid for a device of this size.
    #[inline]
    pub(super) fn holds_for(self, size: u64) -> bool {
        self.0 == Some(size)
    }
}

/// What a submitter needs to examine its bios, for a queue of one geometry.
pub struct Examiner {
    geometry: Geometry,
    common: Common,
    /// What it may tell the queue.
    verdict: Prebuilt,
}

impl Examiner {
    /// `tells`: the queue learns what has been found out.
    pub fn new(geometry: Geometry, tells: bool) -> Examiner {
        let verdict = Prebuilt((tells && geometry.features.prebuild).then_some(geometry.size));
        Examiner { geometry, common: Common::new(&geometry, false), verdict }
    }

    /// What is known of all bios at the front of a batch that pass, if nothing is known of them that is not known of all. `each`
    /// gets those that pass, in order: bios with sound memory that the queue need not order.
    #[inline]
    pub fn examine<'a>(
        &self,
        batch: impl Iterator<Item = &'a mut Bio>,
        mut each: impl FnMut(&mut Bio),
    ) -> Prebuilt {
        let mut verdict = self.verdict;
        for bio in batch {
            if self.common.covers(bio).is_none() {
                match self.look_at(bio) {
                    Some(_) if verdict == Prebuilt::NOT => {}
                    Some(other) => verdict = other,
                    None => break,
                }
            }
            each(bio);
        }
        verdict
    }

    /// What is known of a bio that is not common; `None`: it does not pass.
    #[cold]
    fn look_at(&self, bio: &Bio) -> Option<Prebuilt> {
        let ordered = bio.flags().intersects(Flags::ORDERED) || matches!(bio.op(), Op::Flush | Op::Command);
        let passes = !ordered && self.geometry.limits.check_memory(bio, self.geometry.size).is_ok();
        passes.then(|| Prebuilt::examine(&self.geometry, bio))
    }
}
