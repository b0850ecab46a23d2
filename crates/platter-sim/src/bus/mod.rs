//! Buses that disks share: a string of SCSI disks, a loop of Fibre Channel, an IDE channel, and the PCI bus that the
//! adapters are on.
//!
//! A command that goes to a disk takes the buses on its way for its command phase and, if it writes, for its data;
//! then the disk's model has it. What a read brings goes back over the same buses when the model says that the disk
//! has it. Data move in bursts: a bus that is free takes the burst that was ready first, a disk that has more to
//! send queues again behind the others, so that disks that want all of a bus get equal shares of it. Adapters
//! buffer: a burst may be on the SCSI bus while the one before it is on the PCI bus.
//!
//! Reads stream: a real disk sends what it has while it reads on. A model only says when it is done. So when it
//! does, all but the last burst of the read counts as having been sent before, as far as all buses on the way had
//! idle time between the start of the command (or the end of the disk's command before it) and now; that idle time
//! is then used up for all disks. What had no place there is sent now. On a saturated bus there is no idle time,
//! and the bus carries its rate and no more. Writes do not stream: a disk begins when it has all of the data.
//!
//! All disks of a world that are on buses live in one [`Fabric`], which steps through what happens on any of them
//! in order of time. **Invariant:** whichever disk is asked first, buses are taken in the order of virtual time;
//! at the same time, bursts come before disks and lower numbers before higher ones. So the order in which disks are
//! polled does not change a single time, as long as each command is given to its disk at its own time.

mod bused;
mod fabric;
mod state;
mod table;
#[cfg(test)]
mod tests;
mod wire;

pub use bused::Bused;
pub use fabric::{BusError, Fabric};
pub use table::{Row, TABLE, by_name};

use platter_block::time::Span;

/// Most buses between a disk and the memory of the host.
pub const MAX_PATH: usize = 4;

/// A bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusParams {
    /// Bytes per second while data move.
    pub rate: u64,
    /// Time of each burst in which no data move: arbitration, selection, reselection, addresses.
    pub arbitration: Span,
    /// Time of each command beside its data: command, messages, status.
    pub command: Span,
    /// Most bytes before the bus is given to others.
    pub burst: u32,
    /// A command has the bus from its beginning to its end; other disks wait.
    pub exclusive: bool,
    /// Most disks; `None`: no limit of the bus itself.
    pub disks: Option<u32>,
}
