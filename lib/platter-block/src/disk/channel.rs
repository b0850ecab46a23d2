//! Channels of disks on their way to a queue.

use crate::driver::Driver;
use alloc::boxed::Box;
use core::fmt;

/// An open channel of a disk: a [`Driver`] that only a queue uses.
///
/// Code that can call [`Driver::queue`] of a channel can also report a request as complete while the channel still has it: its
/// memory is then freed under the disk's I/O. So a driver leaves its disk in this type, which safe code can pass on and drop,
/// but not use. A disk that opens the channels of another one as its own returns them as they are; one whose drivers use those
/// of another one has to [promise](DiskChannel::into_driver) what a queue keeps to:
///
/// ```compile_fail,E0133
/// use platter_block::backend::LaneUse;
/// use platter_block::disk::Disk;
/// use platter_block::driver::Driver;
///
/// fn inner(disk: &dyn Disk) -> Box<dyn Driver> {
///     disk.open_channel(LaneUse::Shared).expect("a channel").into_driver()
/// }
/// ```
///
/// A channel itself is no driver:
///
/// ```compile_fail,E0599
/// use platter_block::disk::DiskChannel;
/// use platter_block::driver::{Completion, Driver, Started};
/// use platter_block::time::Time;
///
/// /// Reports what the channel has only begun.
/// struct Early(DiskChannel, Vec<Completion>);
///
/// impl Driver for Early {
///     fn queue(&mut self, now: Time, request: &Started<'_>) -> bool {
///         self.1.push(Completion { tag: request.tag, result: request.len as i64 });
///         self.0.queue(now, request)
///     }
///     fn submit(&mut self, _: Time) {}
///     fn reap(&mut self, _: Time, done: &mut Vec<Completion>) {
///         done.append(&mut self.1);
///     }
/// }
/// ```
pub struct DiskChannel(Box<dyn Driver>);

impl DiskChannel {
    /// The channel of a driver.
    pub fn new(driver: impl Driver + 'static) -> DiskChannel {
        DiskChannel(Box::new(driver))
    }

    /// The driver.
    ///
    /// # Safety
    /// The memory of each request that [`Driver::queue`] has taken stays valid, as
    /// [`Segment::new`](crate::segment::Segment::new) says, until the driver has reported the request's tag or has been
    /// dropped. The queues of this crate keep to that; so does a driver that passes requests on to this one if it reports a tag
    /// only after this one has, and drops this one before it is itself gone.
    pub unsafe fn into_driver(self) -> Box<dyn Driver> {
        self.0
    }
}

impl From<Box<dyn Driver>> for DiskChannel {
    fn from(driver: Box<dyn Driver>) -> DiskChannel {
        DiskChannel(driver)
    }
}

impl fmt::Debug for DiskChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DiskChannel")
    }
}
