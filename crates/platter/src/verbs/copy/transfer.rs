//! The copy itself: blocks are read, then written from the same buffers, with many of them on the way.

use super::blocks::{Block, Blocks};
use super::ends::Ends;
use super::meter::Meter;
use super::pieces::{Piece, Pieces};
use super::plan::Plan;
use crate::cli::{CliError, Context};
use platter_bench::report::units::thousands;
use platter_block::bio::{Bio, Op};
use platter_block::fault::{Error, Kind};
use platter_disk::pool::PoolBuf;

/// What became of the bytes of the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Written.
    pub(super) written: u64,
    /// Made zero without being written.
    pub(super) zeroed: u64,
    /// Left out: the destination reads as zeroes there.
    pub(super) skipped: u64,
}

impl Totals {
    /// All that has been dealt with.
    pub(super) fn sum(&self) -> u64 {
        self.written + self.zeroed + self.skipped
    }
}

/// A copy on its way.
pub(super) struct Transfer<'a> {
    plan: &'a Plan,
    ends: Ends,
    pieces: Pieces,
    /// A piece that waits for a place.
    held: Option<Piece>,
    blocks: Blocks<()>,
    /// Whether the destination can make ranges zero.
    write_zeroes: bool,
    totals: &'a mut Totals,
    failed: Option<Error>,
}

impl<'a> Transfer<'a> {
    pub(super) fn new(plan: &'a Plan, ends: Ends, bs: u64, totals: &'a mut Totals) -> Transfer<'a> {
        let holes = plan.holes.as_ref().and_then(|file| file.try_clone().ok());
        Transfer {
            plan,
            pieces: Pieces::new(plan.whole(), bs, plan.unit, holes),
            held: None,
            blocks: Blocks::new(ends.depth),
            write_zeroes: plan.destination.geometry().limits.write_zeroes,
            ends,
            totals,
            failed: None,
        }
    }

    /// Copies until all is done, something fails or the user wants to stop; then waits for what is in flight.
    pub(super) fn run(mut self, context: &Context, meter: &mut Meter) -> Result<(), CliError> {
        loop {
            let stop = self.failed.is_some() || context.is_interrupted();
            if !stop {
                self.fill();
            }
            if self.blocks.is_empty() {
                break;
            }
            let reads = self.ends.source.completed();
            let any_read = self.write(reads);
            let writes = self.ends.destination.completed();
            if !any_read && writes.is_empty() {
                self.ends.wait();
            }
            self.written(writes);
            meter.update(self.totals.sum());
        }
        if let Some(error) = self.failed.take() {
            return Err(CliError::failed(format!("{error}\n{}", self.reached())));
        }
        match context.is_interrupted() {
            true => Err(context.interruption(format!("interrupted: {}", self.reached()))),
            false => Ok(()),
        }
    }

    /// How far an incomplete copy got.
    fn reached(&self) -> String {
        let held = self.held.map(|(Piece::Data { pos, .. } | Piece::Hole { pos, .. })| pos);
        let first = self.blocks.lowest().into_iter().chain(held).fold(self.pieces.position(), u64::min);
        format!(
            "{} of {} bytes were copied, the first {} without a gap; {} is incomplete and was not flushed",
            thousands(self.totals.sum()),
            thousands(self.plan.size),
            thousands(first),
            self.plan.destination.name()
        )
    }

    /// Starts as many pieces as there is room for.
    fn fill(&mut self) {
        while self.failed.is_none() && !self.blocks.is_full() {
            let Some(piece) = self.held.take().or_else(|| self.pieces.next()) else { return };
            if !self.start(piece) {
                self.held = Some(piece);
                return;
            }
        }
    }

    /// Starts a piece; `false` when there is no buffer for it.
    fn start(&mut self, piece: Piece) -> bool {
        match piece {
            Piece::Hole { len, .. } if self.plan.reads_as_zeroes => self.totals.skipped += len,
            Piece::Hole { pos, len } if self.write_zeroes => {
                let bio = Bio::new(Op::WriteZeroes, pos, len);
                self.send(pos, len, bio, |ends, bio| ends.destination.submit(bio));
            }
            Piece::Hole { pos, len } => self.pieces.as_data(pos, len),
            Piece::Data { pos, len } => {
                let Some(buffer) = self.ends.take(len) else { return false };
                match Bio::read(pos, buffer) {
                    Ok(bio) => self.send(pos, len, bio, |ends, bio| ends.source.submit(bio)),
                    Err(fault) => self.fail(Err(self.ends.source.error(fault, Op::Read, pos, len))),
                }
            }
        }
        true
    }

    fn send(
        &mut self,
        pos: u64,
        len: u64,
        mut bio: Bio,
        submit: impl FnOnce(&mut Ends, Bio) -> Result<(), Error>,
    ) {
        if let Some(number) = self.blocks.add(pos, len, ()) {
            bio.set_token(number);
            if let Err(error) = submit(&mut self.ends, bio) {
                self.blocks.remove(number);
                self.fail(Err(error));
            }
        }
    }

    /// Records the first failure.
    fn fail(&mut self, outcome: Result<(), Error>) {
        if let Err(error) = outcome
            && self.failed.is_none()
        {
            self.failed = Some(error);
        }
    }

    /// Writes what has been read. Returns whether there was anything.
    fn write(&mut self, mut reads: Vec<Bio>) -> bool {
        let any = !reads.is_empty();
        for bio in reads.drain(..) {
            let outcome = self.ends.source.check(&bio);
            let number = bio.token();
            if outcome.is_err() || self.failed.is_some() {
                self.blocks.remove(number);
                self.fail(outcome);
                continue;
            }
            if let Err(error) = self.pass_on(bio, number) {
                self.blocks.remove(number);
                self.fail(Err(error));
            }
        }
        self.ends.source.recycle(reads);
        any
    }

    fn pass_on(&mut self, mut bio: Bio, number: u64) -> Result<(), Error> {
        let Some(&mut Block { pos, len, .. }) = self.blocks.get_mut(number) else {
            return Ok(());
        };
        let Some(buffer) = bio.take_buffer::<PoolBuf>() else { return Ok(()) };
        let zero = (self.plan.reads_as_zeroes || self.plan.zero_blocks) && is_zero(&buffer);
        if zero && self.plan.reads_as_zeroes {
            self.blocks.remove(number);
            self.totals.skipped += len;
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

    /// Takes note of what has been written.
    fn written(&mut self, mut writes: Vec<Bio>) {
        for bio in writes.drain(..) {
            let Some(block) = self.blocks.remove(bio.token()) else { continue };
            match (self.ends.destination.check(&bio), bio.op()) {
                (Ok(()), Op::WriteZeroes) => self.totals.zeroed += block.len,
                (Ok(()), _) => self.totals.written += block.len,
                (Err(error), Op::WriteZeroes) if error.fault.kind == Kind::Unsupported => {
                    self.write_zeroes = false;
                    self.pieces.as_data(block.pos, block.len);
                }
                (Err(error), _) => self.fail(Err(error)),
            }
        }
        self.ends.destination.recycle(writes);
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    // Words first: a loop over them is vectorized.
    let (words, rest) = bytes.as_chunks::<32>();
    words.iter().all(|chunk| *chunk == [0; 32]) && rest.iter().all(|byte| *byte == 0)
}
