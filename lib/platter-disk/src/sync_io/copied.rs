//! Synchronous I/O through memory of the library.
//!
//! A call can lend its memory only while it lasts. Transfers that cannot use the caller's memory directly, and every
//! call that must end at a deadline, therefore go through memory that the bio owns. The copies are counted.
//!
//! If an offset or length lies inside a block, a read reads the blocks around the range; a write reads the blocks at
//! its ends first and writes them back. No other such write touches these blocks in the meantime, so two writes to
//! parts of one block do not undo each other.

use super::edges::EndBlocks;
use super::lane::SyncLane;
use super::{CopyRules, PIECE};
use crate::aligned::{Aligned, Window};
use crate::bounce::Bouncer;
use crate::fence::TIMED_OUT;
use platter_block::bio::{Bio, Flags, Op};
use platter_block::fault::{Fault, Kind, Stage, Status};
use platter_block::time::Time;

/// One transfer in pieces.
pub(super) struct Copied<'a> {
    pub(super) rules: &'a CopyRules,
    pub(super) lane: &'a mut SyncLane,
    /// The size of the device.
    pub(super) size: u64,
    pub(super) until: Option<Time>,
}

/// The whole blocks around a part of a transfer.
#[derive(Clone, Copy)]
struct Blocks {
    start: u64,
    end: u64,
}

/// The part of a transfer that is copied at once.
struct Piece {
    blocks: Blocks,
    /// Number of bytes of the transfer in these blocks.
    bytes: u64,
}

impl Copied<'_> {
    fn block(&self) -> u64 {
        u64::from(self.rules.limits.logical_block)
    }

    /// The next piece of what is left of `bio`.
    fn next(&self, bio: &Bio) -> Piece {
        let block = self.block();
        let start = bio.pos() - bio.pos() % block;
        let most = if bio.flags().contains(Flags::ATOMIC) { u64::MAX } else { PIECE.max(block) };
        let stop = bio.end().min(start.saturating_add(most));
        let end = stop.checked_next_multiple_of(block).unwrap_or(u64::MAX).min(self.size);
        Piece { blocks: Blocks { start, end }, bytes: stop - bio.pos() }
    }

    fn memory(&mut self, op: Op, len: u64) -> Result<Aligned, Fault> {
        let align = Bouncer::align_for(&self.rules.limits);
        let memory = usize::try_from(len).ok().and_then(|len| self.lane.bouncer.memory(op, len, align));
        memory.ok_or(Fault::new(Kind::NoMemory, Stage::Handle))
    }

    /// Carries out a bio that is never submitted itself: its range and segments describe the transfer.
    pub(super) fn run(&mut self, bio: &mut Bio) -> Status {
        self.rules.count(bio.len());
        match bio.op() {
            Op::Read => self.read(bio),
            _ => self.write(bio),
        }
    }

    fn read(&mut self, bio: &mut Bio) -> Status {
        while !bio.is_empty() {
            let Piece { blocks, bytes } = self.next(bio);
            let memory = self.fetch(bio, blocks)?;
            memory.exchange(bio, (bio.pos() - blocks.start) as usize, bytes as usize);
            self.lane.bouncer.keep(memory);
            bio.advance(bytes);
        }
        Ok(())
    }

    /// Reads whole blocks.
    fn fetch(&mut self, like: &Bio, blocks: Blocks) -> Result<Aligned, Fault> {
        let len = blocks.end - blocks.start;
        let window = Window { memory: self.memory(Op::Read, len)?, len: len as usize };
        self.lane.run_window(like, Op::Read, blocks.start, window, self.until).map(|window| window.memory)
    }

    fn write(&mut self, bio: &mut Bio) -> Status {
        let (block, end) = (self.block(), bio.end());
        let (head, last) = (bio.pos() - bio.pos() % block, end - end % block);
        let is_partial_head = bio.pos() != head;
        let is_partial_tail = end != last && end != self.size;
        if !is_partial_head && !is_partial_tail {
            return self.write_pieces(bio, None, None);
        }
        if bio.flags().contains(Flags::ATOMIC) {
            // Writing whole blocks would change bytes that the caller did not name.
            return Err(Fault::new(Kind::Misaligned, Stage::Handle));
        }
        let ends = EndBlocks {
            first: if is_partial_head { head } else { last },
            last: if is_partial_tail { last } else { head },
        };
        let rules = self.rules;
        let _edges = rules.edges.lock(ends, || self.lane.left(self.until)).ok_or(TIMED_OUT)?;
        // Before anything is written: a block that cannot be read fails the whole call.
        let mut edge = |is_partial: bool, start: u64| {
            let blocks = Blocks { start, end: start.saturating_add(block).min(self.size) };
            is_partial.then(|| self.fetch(bio, blocks)).transpose()
        };
        let head_block = edge(is_partial_head || last == head, head)?;
        let tail_block = edge(is_partial_tail && last != head, last)?;
        let status = self.write_pieces(bio, head_block.as_ref(), tail_block.as_ref());
        head_block.into_iter().chain(tail_block).for_each(|memory| self.lane.bouncer.keep(memory));
        status
    }

    /// Writes all of `bio`, completed by the blocks that it begins and ends in.
    fn write_pieces(&mut self, bio: &mut Bio, head: Option<&Aligned>, tail: Option<&Aligned>) -> Status {
        let block = self.block();
        let (mut head, end) = (head, bio.end());
        while !bio.is_empty() {
            let Piece { blocks, bytes } = self.next(bio);
            let len = (blocks.end - blocks.start) as usize;
            let mut memory = self.memory(Op::Write, blocks.end - blocks.start)?;
            if let Some(head) = head.take() {
                memory.copy_from(0, head, len.min(block as usize));
            }
            if let Some(tail) = tail.filter(|_| bio.pos() + bytes == end) {
                let last = end - end % block;
                memory.copy_from((last - blocks.start) as usize, tail, (blocks.end - last) as usize);
            }
            memory.exchange(bio, (bio.pos() - blocks.start) as usize, bytes as usize);
            let window = Window { memory, len };
            let window = self.lane.run_window(bio, Op::Write, blocks.start, window, self.until)?;
            self.lane.bouncer.keep(window.memory);
            bio.advance(bytes);
        }
        Ok(())
    }
}

impl SyncLane {
    /// Carries out `op` at `pos` with memory of the library, on behalf of `like`. The memory is lost if the result is
    /// [`Kind::TimedOut`] and the disk still uses it.
    pub(super) fn run_window(
        &mut self,
        like: &Bio,
        op: Op,
        pos: u64,
        window: Window,
        until: Option<Time>,
    ) -> Result<Window, Fault> {
        let mut bio = self.take_bio();
        match op {
            Op::Read => bio.reset_read(pos, window)?,
            _ => bio.reset_write(pos, window)?,
        }
        let flags = if op == like.op() { like.flags().without(Flags::BORROWED) } else { Flags::NONE };
        bio.add_flags(flags | Flags::SYNC);
        bio.set_ioprio(like.ioprio());
        bio.set_context(like.context());
        bio.set_handle(like.handle());
        bio.set_deadline(until);
        let mut bio = self.wait_for(bio, until);
        let window = bio.take_buffer::<Window>();
        match (self.settle(bio), window) {
            (Ok(()), Some(window)) => Ok(window),
            (Err(fault), window) => {
                window.into_iter().for_each(|window| self.bouncer.keep(window.memory));
                Err(fault)
            }
            (Ok(()), None) => Err(TIMED_OUT),
        }
    }
}
