//! Buses that disks share: a string of SCSI disks, a loop of Fibre Channel, an IDE channel, and the PCI bus that the
//! adapters are on.
//!
//! A command to a disk occupies the buses of its path for its command phase and, if it writes, for its data;
//! then the disk's model gets it. The data of a read goes back over the same buses when the model reports it
//! complete. Data moves in bursts: a free bus takes the burst that was ready first, and a disk with more data
//! queues again behind the others, so that disks that saturate a bus get equal shares of it. Adapters buffer:
//! a burst may be on the SCSI bus while the previous one is on the PCI bus.
//!
//! Reads stream: a real disk sends data while it continues to read. A model only reports completion. So at
//! that time all but the last burst of the read counts as already sent, as far as all buses of the path had
//! idle time between the start of the command (or the end of the disk's previous command) and now; that idle
//! time is then used up for all disks. The rest is sent now. A saturated bus has no idle time, so it never
//! carries more than its rate. Writes do not stream: a disk begins when it has all of the data.
//!
//! All disks of a world that are on buses are in one [`Fabric`], which processes the events of all of them in
//! order of time. **Invariant:** whichever disk is polled first, buses are used in the order of virtual time;
//! at the same time, bursts come before disks and lower numbers before higher ones. So the order in which
//! disks are polled does not change any time, as long as each command is given to its disk at its own time.

mod bused;
mod fabric;
mod state;
mod table;
#[cfg(test)]
mod tests;
mod wire;

pub use bused::Bused;
pub use fabric::{BusError, Fabric};
pub use table::{BusModel, TABLE, by_name};

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
    /// Time of each command in addition to its data: command, messages, status.
    pub command: Span,
    /// Most bytes before other disks may use the bus.
    pub burst: u32,
    /// A command occupies the bus from its beginning to its end; other disks wait.
    pub exclusive: bool,
    /// Most disks; `None`: no limit of the bus itself.
    pub disks: Option<u32>,
}
