//! Opens drivers for the queues of a disk.

use platter_block::backend::LaneUse;
use platter_block::disk::Disk;
use platter_block::driver::Driver;
use platter_block::fault::Error;

/// The driver of a new channel, for a queue.
pub(super) fn driver(disk: &dyn Disk, lane_use: LaneUse) -> Result<Box<dyn Driver>, Error> {
    let channel = disk.open_channel(lane_use)?;
    // SAFETY: the lanes of this module put drivers under queues, which own the bios of each request, and so keep their memory,
    // until the driver has reported it. Lanes drop a driver before its queue, and replace it only when it has no request.
    Ok(unsafe { channel.into_driver() })
}
