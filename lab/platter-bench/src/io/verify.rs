//! Which block was written how often, and whether it reads back so.

use platter_block::bio::{Bio, Op};
use platter_disk::pool::PoolBuf;

use super::tally::Tally;
use crate::workload::{JobError, Region, Verifier, VerifyError};

/// The most blocks that a verified write job may touch: 4 bytes are kept of each.
pub(super) const MAX_BLOCKS: u64 = 1 << 28;

/// The block is being written.
const BUSY: u32 = 1 << 31;

/// Fills blocks before they are written, and checks those that were read.
pub(super) struct Checker {
    verifier: Verifier,
    region: Region,
    /// By block: which write of it was the last, and whether it is in flight. Empty when only reading.
    generations: Vec<u32>,
    /// Whether reads are checked.
    checks: bool,
    first_mismatch: Option<VerifyError>,
}

impl Checker {
    /// A checker for a job that writes, which reads all blocks back at its end.
    ///
    /// # Errors
    /// More blocks than can be recorded.
    pub(super) fn of_writes(verifier: Verifier, region: Region) -> Result<Self, JobError> {
        let blocks = region.blocks();
        if blocks > MAX_BLOCKS {
            let allowed = format!(
                "the last write of each block is remembered, for at most {MAX_BLOCKS} blocks; here are {blocks}: \
                 give a smaller size or a larger bs"
            );
            return Err(JobError { option: "verify", value: "1".into(), allowed, unfit: false });
        }
        let generations = vec![0; blocks as usize];
        Ok(Self { verifier, region, generations, checks: false, first_mismatch: None })
    }

    /// A checker for a job that reads the blocks of another job; any write of a block is accepted.
    pub(super) fn of_reads(verifier: Verifier, region: Region) -> Self {
        Self { verifier, region, generations: Vec::new(), checks: true, first_mismatch: None }
    }

    fn block(&self, offset: u64) -> usize {
        ((offset - self.region.at(0)) / self.region.bs()) as usize
    }

    /// Whether the block at `offset` is being written.
    pub(super) fn is_busy(&self, offset: u64) -> bool {
        self.generations.get(self.block(offset)).is_some_and(|g| g & BUSY != 0)
    }

    /// Fills a buffer for the next write of the block at `offset`.
    pub(super) fn fill(&mut self, buffer: &mut [u8], offset: u64) {
        let block = self.block(offset);
        let Some(generation) = self.generations.get_mut(block) else { return };
        // After 2^31 writes of one block its numbers begin again.
        let next = (*generation & !BUSY).wrapping_add(1) & !BUSY;
        let next = next.max(1);
        *generation = next | BUSY;
        self.verifier.fill(buffer, offset, u64::from(next)).expect("a job's blocks are whole intervals");
    }

    /// Processes a completed bio, and checks read data.
    pub(super) fn completed(&mut self, bio: &mut Bio, tally: &mut Tally) {
        let offset = bio.pos() - bio.done();
        let block = self.block(offset);
        if bio.op() == Op::Write {
            if let Some(generation) = self.generations.get_mut(block) {
                *generation &= !BUSY;
            }
        } else if self.checks && bio.status().is_ok() {
            let expected = self.generations.get(block).map(|&g| u64::from(g));
            self.check(bio, offset, expected, tally);
        }
    }

    fn check(&mut self, bio: &mut Bio, offset: u64, expected: Option<u64>, tally: &mut Tally) {
        let (token, ioprio, context) = (bio.token(), bio.ioprio(), bio.context());
        let Some(buffer) = bio.take_buffer::<PoolBuf>() else { return };
        let result = match expected {
            Some(generation) => self.verifier.check_generation(&buffer, offset, generation),
            None => self.verifier.check(&buffer, offset).map(|_| ()),
        };
        tally.verified += 1;
        if let Err(error) = result {
            tally.verify_errors += 1;
            self.first_mismatch.get_or_insert(error);
        }
        // One segment always fits.
        let _ = bio.reset_read(offset, buffer);
        bio.set_token(token);
        bio.set_ioprio(ioprio);
        bio.set_context(context);
    }

    /// From now on every block that was written must read back as the last write of it. How many there are.
    pub(super) fn expect_latest(&mut self) -> u64 {
        self.checks = true;
        self.generations.iter().filter(|&&g| g != 0).count() as u64
    }

    /// The first block from number `block` on that was written: its number and its offset.
    pub(super) fn written_from(&self, block: u64) -> Option<(u64, u64)> {
        let rest = self.generations.get(block as usize..)?;
        let found = block + rest.iter().position(|&g| g != 0)? as u64;
        Some((found, self.region.at(found)))
    }

    pub(super) fn first_mismatch(&self) -> Option<&VerifyError> {
        self.first_mismatch.as_ref()
    }
}
