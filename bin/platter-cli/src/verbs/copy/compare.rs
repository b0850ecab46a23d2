//! The comparison after a copy: both devices are read again, block by block.

use super::blocks::{Block, Blocks};
use super::ends::{End, Ends};
use super::map::{Map, Status};
use super::meter::Meter;
use super::pieces::{Piece, Pieces};
use super::plan::Plan;
use super::stop::{Stopped, Stopper};
use crate::cli::Context;
use platter_bench::report::units::thousands;
use platter_block::bio::{Bio, Op};
use platter_block::fault::Error;
use platter_disk::pool::PoolBuf;

/// The data read of a block.
#[derive(Default)]
struct Pair {
    source: Option<PoolBuf>,
    destination: Option<PoolBuf>,
    /// Number of completed reads.
    back: u8,
}

/// A comparison in progress.
pub(super) struct Compare<'a> {
    plan: &'a Plan,
    ends: &'a mut Ends,
    pieces: Pieces,
    /// What is copied of blocks that are not copied whole.
    parts: Vec<(u64, u64)>,
    blocks: Blocks<Pair>,
    compared: u64,
    failed: Option<String>,
}

impl<'a> Compare<'a> {
    /// A comparison of all that the map has as copied, in whole blocks.
    pub(super) fn new(plan: &'a Plan, ends: &'a mut Ends, map: &Map, bs: u64) -> Compare<'a> {
        let unit = plan.unit;
        let (mut ranges, mut parts) = (Vec::new(), Vec::new());
        for (start, end) in map.ranges(Status::Done) {
            let (first, last) = (start.next_multiple_of(unit), end / unit * unit);
            let cut = if first < last { [(start, first), (last, end)] } else { [(start, end), (end, end)] };
            parts.extend(cut.into_iter().filter(|(start, end)| start < end));
            ranges.extend((first < last).then_some((first, last)));
        }
        let pieces = Pieces::new(ranges, bs, unit, None);
        Compare { plan, pieces, parts, blocks: Blocks::new(ends.depth / 2), ends, compared: 0, failed: None }
    }

    /// Compares until everything is compared, a difference or an error is found, or the user requests a stop.
    /// Returns the number of equal bytes, and why the comparison ended early.
    pub(super) fn run(mut self, stop: &mut Stopper<'_>, meter: &mut Meter) -> (u64, Result<(), Stopped>) {
        let outcome = self.blocks(stop, meter).and_then(|()| self.parts());
        (self.compared, outcome)
    }

    fn blocks(&mut self, stop: &mut Stopper<'_>, meter: &mut Meter) -> Result<(), Stopped> {
        loop {
            while self.failed.is_none() && !stop.asked() && !self.blocks.is_full() {
                let Some(Piece::Data { pos, len } | Piece::Hole { pos, len }) = self.pieces.next() else {
                    break;
                };
                self.start(pos, len);
            }
            if self.blocks.is_empty() {
                break;
            }
            let left = || format!("{} comparisons that are in flight", self.blocks.count());
            if stop.asked() {
                meter.clear();
                if stop.is_over(left) {
                    return Err(Stopped::Abandoned(left()));
                }
            }
            let mut done = self.ends.source.completed();
            let mut any = !done.is_empty();
            for bio in done.drain(..) {
                self.take_in(bio, |ends| &ends.source, |pair| &mut pair.source);
            }
            self.ends.source.recycle(done);
            let mut done = self.ends.destination.completed();
            any |= !done.is_empty();
            for bio in done.drain(..) {
                self.take_in(bio, |ends| &ends.destination, |pair| &mut pair.destination);
            }
            self.ends.destination.recycle(done);
            if !any {
                self.ends.wait();
            }
            meter.update(|| (self.compared, 0, self.plan.size));
        }
        match self.failed.take() {
            Some(message) => Err(Stopped::Failed(message)),
            None if stop.asked() => Err(Stopped::Interrupted),
            None => Ok(()),
        }
    }

    /// Compares what is copied of blocks that are not copied whole.
    fn parts(&mut self) -> Result<(), Stopped> {
        let plan = self.plan;
        for &(pos, end) in &self.parts {
            let mut a = vec![0; (end - pos) as usize];
            let mut b = a.clone();
            let read = Context::unattended(|| {
                plan.source.read_at(&mut a, pos).and_then(|()| plan.destination.read_at(&mut b, pos))
            });
            read.map_err(|error| Stopped::source(&error))?;
            if let Some(at) = first_difference(&a, &b) {
                return Err(Stopped::Failed(differ(plan, pos + at)));
            }
            self.compared += end - pos;
        }
        Ok(())
    }

    /// Reads a block from both devices.
    fn start(&mut self, pos: u64, len: u64) {
        let Some(number) = self.blocks.add(pos, len, Pair::default()) else { return };
        if let Err(error) = read(self.ends, number, pos, len, |ends| &mut ends.source) {
            self.blocks.remove(number);
            self.failed.get_or_insert(error.to_string());
            return;
        }
        if let Err(error) = read(self.ends, number, pos, len, |ends| &mut ends.destination) {
            // The read that was not submitted counts as completed.
            if let Some(block) = self.blocks.get_mut(number) {
                block.state.back += 1;
            }
            self.failed.get_or_insert(error.to_string());
        }
    }

    /// Records one of the two reads of a block; after the second one the block is compared.
    fn take_in(
        &mut self,
        mut bio: Bio,
        end: impl Fn(&Ends) -> &End,
        place: impl Fn(&mut Pair) -> &mut Option<PoolBuf>,
    ) {
        if let Err(error) = end(self.ends).check(&bio) {
            self.failed.get_or_insert(error.to_string());
        }
        let Some(block) = self.blocks.get_mut(bio.token()) else { return };
        *place(&mut block.state) = bio.take_buffer();
        block.state.back += 1;
        if block.state.back == 2
            && let Some(block) = self.blocks.remove(bio.token())
        {
            self.compare(&block);
        }
    }

    fn compare(&mut self, block: &Block<Pair>) {
        let (Some(a), Some(b)) = (&block.state.source, &block.state.destination) else { return };
        match first_difference(a, b) {
            None => self.compared += block.len,
            Some(at) => {
                self.failed.get_or_insert(differ(self.plan, block.pos + at));
            }
        }
    }
}

fn read(
    ends: &mut Ends,
    number: u64,
    pos: u64,
    len: u64,
    end: impl Fn(&mut Ends) -> &mut End,
) -> Result<(), Error> {
    let buffer = ends.take(len);
    let end = end(ends);
    // There are two buffers for each block.
    let buffer = buffer.ok_or_else(|| end.no_buffer(pos, len))?;
    let mut bio = Bio::read(pos, buffer).map_err(|fault| end.error(fault, Op::Read, pos, len))?;
    bio.set_token(number);
    end.submit(bio)
}

fn first_difference(a: &[u8], b: &[u8]) -> Option<u64> {
    if a == b {
        return None;
    }
    a.iter().zip(b).position(|(a, b)| a != b).map(|at| at as u64)
}

fn differ(plan: &Plan, at: u64) -> String {
    let (source, destination) = (plan.source.name(), plan.destination.name());
    format!(
        "{destination} differs from {source} at byte {} after the copy: one of them was changed meanwhile, or \
         does not keep what is written to it",
        thousands(at)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_found() {
        assert_eq!(first_difference(&[1, 2, 3], &[1, 2, 3]), None);
        assert_eq!(first_difference(&[1, 2, 3], &[1, 9, 9]), Some(1));
    }
}
