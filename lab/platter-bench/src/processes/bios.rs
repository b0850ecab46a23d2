//! Bios with their buffers, used again.

use super::ProcessError;
use platter_block::bio::{Bio, Flags, Op};
use platter_block::fault;
use platter_disk::pool::{PAGE, Pool};
use std::collections::BTreeMap;

/// Bios that are not with the device, by operation and length.
#[derive(Default)]
pub(super) struct Bios {
    idle: BTreeMap<(u8, u64), Vec<Bio>>,
    align: usize,
}

impl Bios {
    pub(super) fn new(memory_align: u32) -> Bios {
        Bios { idle: BTreeMap::new(), align: PAGE.max(memory_align as usize) }
    }

    /// A bio with a buffer.
    pub(super) fn take(&mut self, op: Op, offset: u64, len: u64) -> Result<Bio, ProcessError> {
        if let Some(mut bio) = self.idle.get_mut(&(op as u8, len)).and_then(Vec::pop) {
            bio.rewind(offset, len);
            return Ok(bio);
        }
        if !op.has_data() {
            return Ok(Bio::new(op, offset, len));
        }
        let pool = Pool::new(1, len as usize, self.align).map_err(ProcessError::Buffer)?;
        // A new pool has its one buffer.
        let Some(buffer) = pool.take() else { return Ok(Bio::new(op, offset, len)) };
        let made = if op == Op::Write { Bio::write(offset, buffer) } else { Bio::read(offset, buffer) };
        made.map_err(|fault| {
            let (device, detail) = ("buffer".into(), String::new());
            ProcessError::Device(fault::Error { fault, op, device, offset, len, detail })
        })
    }

    /// Gives a bio back.
    pub(super) fn put(&mut self, mut bio: Bio, len: u64) {
        bio.remove_flags(Flags::SYNC | Flags::READAHEAD);
        self.idle.entry((bio.op() as u8, len)).or_default().push(bio);
    }
}
