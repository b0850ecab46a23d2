//! Requests prepared before the lock of a shared queue is taken.
//!
//! Source: "Improving Linux Block I/O for Enterprise Workloads" (Wong and others, OLS 2002), section 9.2, which names
//! the question of the moment: a request that is built too early must be built again for each merge, and one that is
//! built when it starts costs time while the device could be served. So what is prepared here is what no merge
//! changes: the verdict on the bio's range, operation and flags, and whether one request can take it. The request
//! itself is made under the lock.

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
