//! Reads from a device while a layer is being built over it.

use crate::LayerError;
use platter_block::backend::{Backend, LaneUse};
use platter_block::bio::{Bio, Flags, Op};
use platter_block::fault::{Error, Fault, Kind, Stage};
use platter_block::lane::Lane;
use std::sync::Arc;

/// A lane for small reads.
pub(crate) struct Reader<'a> {
    device: &'a Arc<dyn Backend>,
    lane: Box<dyn Lane>,
}

impl Reader<'_> {
    pub(crate) fn open(device: &Arc<dyn Backend>) -> Result<Reader<'_>, LayerError> {
        let lane = device.open_lane(LaneUse::Synchronous).map_err(LayerError::Device)?;
        Ok(Reader { device, lane })
    }

    /// Reads `len` bytes at `pos`, both multiples of the logical block. `what` names the data in errors.
    pub(crate) fn read(&mut self, what: &str, pos: u64, len: usize) -> Result<Vec<u8>, LayerError> {
        let failed = |fault: Fault| {
            LayerError::Device(Error {
                fault,
                op: Op::Read,
                device: self.device.name(),
                offset: pos,
                len: len as u64,
                detail: format!("while reading {what}"),
            })
        };
        let mut bio = Bio::read(pos, vec![0; len]).map_err(failed)?;
        bio.add_flags(Flags::SYNC);
        self.lane.submit(self.device.now(), bio);
        let mut done = Vec::new();
        while done.is_empty() {
            self.lane.wait(self.device.now(), None);
            self.lane.run(self.device.now());
            self.lane.take_done(&mut done);
        }
        let Some(mut bio) = done.pop() else { return Ok(Vec::new()) };
        bio.status().map_err(failed)?;
        bio.take_buffer().ok_or_else(|| failed(Fault::new(Kind::TimedOut, Stage::Layer)))
    }
}
