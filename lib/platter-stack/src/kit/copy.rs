//! Copies of data between the devices below.

use super::core::Below;
use super::memory::Buffer;
use platter_block::bio::Flags;
use platter_block::fault::Fault;

/// A range to copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Where it is on the one device.
    pub from: u64,
    /// Where it goes on the other.
    pub to: u64,
    /// Bytes.
    pub len: u64,
}

/// Which half of a copy failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyError {
    /// It could not be read.
    Read(Fault),
    /// It could not be written.
    Write(Fault),
}

impl From<CopyError> for Fault {
    fn from(error: CopyError) -> Fault {
        match error {
            CopyError::Read(fault) | CopyError::Write(fault) => fault,
        }
    }
}

impl Below {
    /// Copies ranges from one device to another, all at the same time. Returns when all I/O is over, so that the places can be
    /// used again. The caller holds a [lock](super::Ranges) on them, bounds how much is copied at a time
    /// ([`Permits`](super::Permits)), and flushes.
    ///
    /// # Errors
    /// The first one. What could be read was written.
    pub async fn copy(&self, from: usize, to: usize, runs: &[Run]) -> Result<(), CopyError> {
        let read = |run: &Run| (run.to, self.read(from, run.from, Buffer::new(run.len as usize)));
        let reads: Vec<_> = runs.iter().map(read).collect();
        let (mut writes, mut status) = (Vec::new(), Ok(()));
        for (pos, read) in reads {
            match read.await {
                Ok(buffer) => writes.push(self.write(to, pos, buffer, Flags::NONE)),
                Err(fault) => status = status.and(Err(CopyError::Read(fault))),
            }
        }
        for write in writes {
            status = status.and(write.await.map(|_| ()).map_err(CopyError::Write));
        }
        status
    }
}
