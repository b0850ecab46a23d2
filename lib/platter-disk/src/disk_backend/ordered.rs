//! Whether barriers go to the disk as ordered tags.

use super::Shared;
use platter_block::bio::Op;
use platter_block::disk::Disk;
use platter_block::fault::{Error, Fault, Kind, Stage};
use platter_block::queue::Ordered;

/// Barriers can be sent as ordered tags only to a disk that keeps their order.
pub(super) fn check(disk: &dyn Disk, ordered: Ordered) -> Result<(), Error> {
    if ordered == Ordered::Drain || disk.geometry().features.ordered_tags {
        return Ok(());
    }
    let fault = Fault::new(Kind::Unsupported, Stage::Queue);
    let detail = "ordered=tag: the disk takes no ordered tags and supports only ordered=drain, the default; leave that \
                  out, or use a simulated SCSI disk with a queue of its own (queue=sptf) and without a bus, such as \
                  sim(man3367mp)"
        .to_string();
    Err(Error { fault, op: Op::Write, device: disk.name(), offset: 0, len: 0, detail })
}

/// Switches the order of the barriers that are submitted from now on.
pub(super) fn switch(shared: &Shared, ordered: Ordered) -> Result<(), Error> {
    check(&*shared.disk, ordered)?;
    shared.with_control(|control| control.queue().switch_ordered(shared.clock.now(), ordered));
    // Starts what the elevator held, and what was held back if the queue was empty.
    shared.run_control(shared.clock.now(), None);
    Ok(())
}
