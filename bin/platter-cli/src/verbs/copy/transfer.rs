//! The copy itself: blocks are read, then written from the same buffers, with many of them on the way.

use super::blocks::{Block, Blocks};
use super::ends::{Ends, FLUSH};
use super::map::Status;
use super::meter::Meter;
use super::pieces::{Piece, Pieces};
use super::plan::Plan;
use super::stop::{Stopped, Stopper};
use super::work::{SAVE, Work};
use platter_block::bio::{Bio, Op};
use platter_block::fault::{Error, Kind};
use platter_disk::pool::PoolBuf;
use std::time::Instant;

/// Most bytes that are skipped at once behind a failed read.
const MOST_SKIPPED: u64 = 256 << 20;

/// How a rescue handles unreadable ranges.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bad {
    /// The status of an unreadable piece.
    pub(super) status: Status,
    /// Whether to skip more and more behind failed pieces, to copy easily readable data first.
    pub(super) skips: bool,
    /// One read at a time: kernels and drives merge neighbouring reads, which then fail together.
    pub(super) alone: bool,
}

/// One pass over a part of the source.
pub(super) struct Transfer<'a> {
    plan: &'a Plan,
    ends: &'a mut Ends,
    work: &'a mut Work,
    pieces: Pieces,
    block: u64,
    /// A piece that waits for a place.
    held: Option<Piece>,
    blocks: Blocks<()>,
    /// Whether the destination can make ranges zero.
    write_zeroes: bool,
    /// How unreadable ranges are handled; without it the copy ends there.
    bad: Option<Bad>,
    /// Bytes that were left out behind the last read that failed.
    left_out: u64,
    failed: Option<Stopped>,
}

impl<'a> Transfer<'a> {
    /// Copies `ranges` in pieces of `block` bytes.
    pub(super) fn new(
        plan: &'a Plan,
        ends: &'a mut Ends,
        work: &'a mut Work,
        ranges: Vec<(u64, u64)>,
        block: u64,
        bad: Option<Bad>,
    ) -> Transfer<'a> {
        let alone = bad.is_some_and(|bad| bad.alone);
        let holes = (plan.skips_holes && !alone).then(|| plan.source.clone());
        let unit = block.min(plan.unit);
        Transfer {
            plan,
            pieces: Pieces::new(ranges, block, unit, holes),
            block,
            held: None,
            blocks: Blocks::new(if alone { 1 } else { ends.depth }),
            write_zeroes: plan.destination.geometry().limits.write_zeroes,
            ends,
            work,
            bad,
            left_out: 0,
            failed: None,
        }
    }

    /// Copies until everything is copied, an error occurs or the user requests a stop; then waits for I/O in
    /// flight.
    pub(super) fn run(mut self, stop: &mut Stopper<'_>, meter: &mut Meter) -> Result<(), Stopped> {
        loop {
            if self.failed.is_none() && !stop.asked() {
                self.fill();
                self.save_if_due();
            }
            if self.blocks.is_empty() && !self.is_saving() {
                break;
            }
            if stop.asked() {
                meter.clear();
                if stop.is_over(|| self.left()) {
                    return Err(Stopped::Abandoned(self.left()));
                }
            }
            let reads = self.ends.source.completed();
            let any_read = self.write(reads, stop.asked());
            let writes = self.ends.destination.completed();
            if !any_read && writes.is_empty() {
                self.ends.wait();
            }
            self.written(writes);
            meter.update(|| self.work.progress());
        }
        match self.failed.take() {
            Some(stopped) => Err(stopped),
            None if stop.asked() => Err(Stopped::Interrupted),
            None => Ok(()),
        }
    }
}

impl Transfer<'_> {
    /// A description of the I/O in flight.
    fn left(&self) -> String {
        match (self.blocks.count(), self.is_saving()) {
            (0, _) => "the flush of the destination".to_owned(),
            (1, _) => "1 read or write that is in flight".to_owned(),
            (n, _) => format!("{n} reads and writes that are in flight"),
        }
    }

    /// Starts as many pieces as there is room for.
    fn fill(&mut self) {
        while self.failed.is_none() && !self.blocks.is_full() {
            let Some(piece) = self.held.take().or_else(|| self.pieces.next()) else { return };
            if !self.start(piece) {
                self.held = Some(piece);
                if self.blocks.is_empty() {
                    // Reads that timed out keep their buffers: all buffers are in use, and none will come
                    // back soon.
                    let (Piece::Data { pos, len } | Piece::Hole { pos, len }) = piece;
                    self.fail(Err(Stopped::source(&self.ends.source.no_buffer(pos, len))));
                }
                return;
            }
        }
    }

    /// Starts a piece; `false` when there is no buffer for it.
    fn start(&mut self, piece: Piece) -> bool {
        match piece {
            Piece::Hole { pos, len } if self.plan.reads_as_zeroes => self.skipped(pos, len),
            Piece::Hole { pos, len } if self.write_zeroes => {
                let bio = Bio::new(Op::WriteZeroes, pos, len);
                let sent = self.send(pos, len, bio, |ends, bio| ends.destination.submit(bio));
                self.fail(sent.map_err(|error| Stopped::destination(&error)));
            }
            Piece::Hole { pos, len } => self.pieces.as_data(pos, len),
            Piece::Data { pos, len } => {
                let Some(buffer) = self.ends.take(len) else { return false };
                let sent = match Bio::read(pos, buffer) {
                    Ok(bio) => self.send(pos, len, bio, |ends, bio| ends.source.submit(bio)),
                    Err(fault) => Err(self.ends.source.error(fault, Op::Read, pos, len)),
                };
                self.fail(sent.map_err(|error| Stopped::source(&error)));
            }
        }
        true
    }

    fn skipped(&mut self, pos: u64, len: u64) {
        self.work.totals.skipped += len;
        self.work.done(pos, len);
    }

    fn send(
        &mut self,
        pos: u64,
        len: u64,
        mut bio: Bio,
        submit: impl FnOnce(&mut Ends, Bio) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Some(number) = self.blocks.add(pos, len, ()) else { return Ok(()) };
        bio.set_token(number);
        submit(self.ends, bio).inspect_err(|_| {
            self.blocks.remove(number);
        })
    }

    /// Records the first failure.
    fn fail(&mut self, outcome: Result<(), Stopped>) {
        if let Err(stopped) = outcome
            && self.failed.is_none()
        {
            self.failed = Some(stopped);
        }
    }

    /// Writes the data that was read, unless the copy is about to end. Returns whether there was any.
    fn write(&mut self, mut reads: Vec<Bio>, stopping: bool) -> bool {
        let any = !reads.is_empty();
        for bio in reads.drain(..) {
            let number = bio.token();
            if let Err(error) = self.ends.source.check(&bio) {
                self.unread(number, &error);
            } else if stopping || self.failed.is_some() {
                self.blocks.remove(number);
            } else if let Err(error) = self.pass_on(bio, number) {
                self.blocks.remove(number);
                self.fail(Err(Stopped::destination(&error)));
            }
        }
        self.ends.source.recycle(reads);
        any
    }

    /// Handles an unreadable block: a rescue records it and continues, unless the disk is gone.
    fn unread(&mut self, number: u64, error: &Error) {
        let Some(Block { pos, len, .. }) = self.blocks.remove(number) else { return };
        let Some(bad) = self.bad.filter(|_| is_bad_place(error.fault.kind)) else {
            return self.fail(Err(Stopped::source(error)));
        };
        self.work.map.mark_failed(pos, len, bad.status);
        if bad.skips {
            self.left_out = (self.left_out * 2).clamp(self.block, MOST_SKIPPED);
            self.pieces.leave_out(self.left_out);
        }
    }

    fn pass_on(&mut self, mut bio: Bio, number: u64) -> Result<(), Error> {
        self.left_out = 0;
        let Some(&mut Block { pos, len, .. }) = self.blocks.get_mut(number) else {
            return Ok(());
        };
        let Some(buffer) = bio.take_buffer::<PoolBuf>() else { return Ok(()) };
        let zero = (self.plan.reads_as_zeroes || self.plan.zero_blocks) && is_zero(&buffer);
        if zero && self.plan.reads_as_zeroes {
            self.blocks.remove(number);
            self.skipped(pos, len);
            return Ok(());
        }
        if !pos.is_multiple_of(self.plan.unit) || !len.is_multiple_of(self.plan.unit) {
            // A block of the source is a part of one of the destination.
            self.plan.destination.write_at(&buffer, pos)?;
            self.blocks.remove(number);
            self.work.totals.written += len;
            self.work.done(pos, len);
            return Ok(());
        }
        if zero && self.write_zeroes {
            bio.reset(Op::WriteZeroes, pos, len);
        } else {
            let built = bio.reset_write(pos, buffer);
            built.map_err(|fault| self.ends.destination.error(fault, Op::Write, pos, len))?;
        }
        bio.set_token(number);
        self.ends.destination.submit(bio)
    }

    /// Records completed writes.
    fn written(&mut self, mut writes: Vec<Bio>) {
        for bio in writes.drain(..) {
            let outcome = self.ends.destination.check(&bio);
            if bio.token() == FLUSH {
                self.save(outcome);
                continue;
            }
            let Some(block) = self.blocks.remove(bio.token()) else { continue };
            match (outcome, bio.op()) {
                (Ok(()), op) => {
                    let zeroes = op == Op::WriteZeroes;
                    let totals = &mut self.work.totals;
                    *(if zeroes { &mut totals.zeroed } else { &mut totals.written }) += block.len;
                    self.work.done(block.pos, block.len);
                }
                (Err(error), Op::WriteZeroes) if error.fault.kind == Kind::Unsupported => {
                    self.write_zeroes = false;
                    self.pieces.as_data(block.pos, block.len);
                }
                (Err(error), _) => self.fail(Err(Stopped::destination(&error))),
            }
        }
        self.ends.destination.recycle(writes);
    }

    fn is_saving(&self) -> bool {
        self.work.saver.as_ref().is_some_and(|saver| saver.pending.is_some())
    }

    /// Begins to save the map when that is due, with the flush that it needs.
    fn save_if_due(&mut self) {
        let Some(saver) = &mut self.work.saver else { return };
        if saver.pending.is_some() || Instant::now() < saver.due {
            return;
        }
        saver.due = Instant::now() + SAVE;
        saver.pending = Some(self.work.map.clone());
        if let Err(error) = self.ends.start_flush() {
            saver.pending = None;
            self.fail(Err(Stopped::destination(&error)));
        }
    }

    /// Saves the map as it was when the flush was sent.
    fn save(&mut self, flushed: Result<(), Error>) {
        let Some(saver) = &mut self.work.saver else { return };
        let Some(map) = saver.pending.take() else { return };
        let outcome = match flushed {
            Ok(()) => saver.file.save(&map).map_err(|error| Stopped::Failed(error.to_string())),
            Err(error) => {
                self.work.flush_failed = true;
                Err(Stopped::destination(&error))
            }
        };
        self.fail(outcome);
    }
}

/// Whether a failed read concerns only its own range, and others may succeed.
fn is_bad_place(kind: Kind) -> bool {
    matches!(kind, Kind::Io | Kind::Corrupt | Kind::Short | Kind::TimedOut)
}

fn is_zero(bytes: &[u8]) -> bool {
    // Compares words first, because such a loop is vectorized.
    let (words, rest) = bytes.as_chunks::<32>();
    words.iter().all(|chunk| *chunk == [0; 32]) && rest.iter().all(|byte| *byte == 0)
}
