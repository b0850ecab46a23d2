//! Cuts a call into bios, submits them one by one and waits for all of them.

#![allow(unsafe_code)]

use super::descriptor::{MAX_SECTORS, Open, SECTOR, STATIC_PAGES};
use super::low::{self, LowPage, PAGE};
use platter_block::bio::{Bio, Flags, Op};
use platter_block::buf::add_memory;
use platter_block::fault::{Fault, Kind, Stage, Status};
use platter_block::lane::Lane;
use platter_block::segment::RegionId;
use platter_disk::clock;
use std::io::IoSliceMut;

/// A part of a call's memory within one page.
#[derive(Clone, Copy)]
struct Piece {
    addr: *mut u8,
    len: usize,
}

/// A unit in flight through the low pool.
struct Bounced {
    page: LowPage,
    to: *mut u8,
    len: usize,
}

/// The buffer heads of an open device and its lane, kept from call to call.
pub(super) struct Heads {
    lane: Box<dyn Lane>,
    /// The bios of units that are not in flight.
    bios: Vec<Option<Bio>>,
    /// By number of bio.
    bounced: Vec<Option<Bounced>>,
    done: Vec<Bio>,
    /// What the descriptor maps, in order.
    pieces: Vec<Piece>,
    /// Pages of the low pool that no unit in flight uses; empty between calls.
    low: Vec<LowPage>,
}

// SAFETY: the addresses in `bounced` and `pieces` are only used inside a call that has lent that memory, and
// calls take the heads exclusively.
unsafe impl Send for Heads {}

impl Heads {
    pub(super) fn new(lane: Box<dyn Lane>) -> Heads {
        Heads {
            lane,
            bios: (0..MAX_SECTORS).map(|_| Some(Bio::flush())).collect(),
            bounced: (0..MAX_SECTORS).map(|_| None).collect(),
            done: Vec::with_capacity(MAX_SECTORS),
            pieces: Vec::with_capacity(STATIC_PAGES),
            low: Vec::new(),
        }
    }
}

/// How units are cut, and whether they are bounced.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    /// Bytes of a sector.
    pub(super) sector: usize,
    /// Whether an aligned page is one unit.
    pub(super) pages: bool,
    /// Whether units go through the low pool.
    pub(super) bounce: bool,
}

/// Result of a call.
pub(super) struct Outcome {
    pub(super) status: Status,
    /// Bytes copied through the low pool.
    pub(super) bounced: u64,
    /// Number of times the caller blocked.
    pub(super) waits: u64,
}

/// Units that may be in flight. However a round ends, all of them have completed then.
struct Round<'a> {
    heads: &'a mut Heads,
    left: usize,
    outcome: &'a mut Outcome,
}

/// One blocking read of the device from `pos` on: maps as much of the buffers as the descriptor holds, reads that,
/// and repeats.
pub(super) fn read(
    heads: &mut Heads,
    open: &mut Open,
    buffers: &mut [IoSliceMut<'_>],
    pos: u64,
    cut: Cut,
    outcome: &mut Outcome,
) {
    let mut pos = pos;
    open.clear();
    heads.pieces.clear();
    for buffer in buffers {
        let (base, len) = (buffer.as_mut_ptr(), buffer.len());
        let mut used = 0;
        while used < len && outcome.status.is_ok() {
            let addr = base.wrapping_add(used);
            let piece = (len - used).min(PAGE - addr as usize % PAGE);
            if open.push(addr as usize, piece) {
                heads.pieces.push(Piece { addr, len: piece });
                used += piece;
            } else {
                pos += read_mapped(heads, open, pos, cut, outcome);
            }
        }
    }
    if outcome.status.is_ok() && open.nr_pages() > 0 {
        read_mapped(heads, open, pos, cut, outcome);
    }
}

/// Reads from `pos` on into the mapped memory, which the caller has borrowed until this returns, and empties the
/// map. Returns the number of bytes.
fn read_mapped(heads: &mut Heads, open: &mut Open, pos: u64, cut: Cut, outcome: &mut Outcome) -> u64 {
    open.number_blocks((pos / SECTOR) as u32);
    if cut.bounce {
        let units = if cut.pages { open.nr_pages() } else { open.length() as usize / cut.sector };
        low::try_take(units, &mut heads.low);
    }
    let mut round = Round { heads, left: 0, outcome };
    let (mut unit, mut sector) = (0, 0);
    for index in 0..open.nr_pages() {
        let piece = round.heads.pieces[index];
        let mut at = 0;
        while at < piece.len && round.outcome.status.is_ok() {
            let address = open.page(index) + at;
            let whole = cut.pages && address.is_multiple_of(PAGE);
            let len = (piece.len - at).min(if whole { PAGE } else { cut.sector });
            let pos = u64::from(open.block(sector)) * SECTOR;
            round.submit(open.bh(unit) as usize, pos, piece.addr.wrapping_add(at), len, cut.bounce);
            (unit, sector, at) = (unit + 1, sector + len / SECTOR as usize, at + len);
        }
    }
    round.finish();
    drop(round);
    heads.pieces.clear();
    let length = open.length();
    open.clear();
    length
}

impl Round<'_> {
    /// Queues the unit that reads `len` bytes at `pos` into `to`, which lies in one of the pieces.
    fn submit(&mut self, bh: usize, pos: u64, to: *mut u8, len: usize, bounce: bool) {
        let Some(mut bio) = self.heads.bios.get_mut(bh).and_then(Option::take) else {
            return self.fail(Fault::new(Kind::Contract, Stage::Handle));
        };
        let mut addr = to;
        if bounce {
            let page = self.low_page();
            addr = page.as_ptr();
            self.heads.bounced[bh] = Some(Bounced { page, to, len });
        }
        bio.reset(Op::Read, pos, len as u64);
        bio.add_flags(Flags::BORROWED);
        bio.set_token(bh as u64);
        // SAFETY: the memory is a part of the buffers that `read` borrows for longer than the round, or a page that
        // `bounced` keeps. A round does not end, not even by a panic, before the bio is back (`finish`, called on
        // drop), and no deadline ends a bio flagged BORROWED.
        if let Err(fault) = unsafe { add_memory(&mut bio, addr, len, RegionId::NONE) } {
            self.heads.bios[bh] = Some(bio);
            self.heads.low.extend(self.heads.bounced[bh].take().map(|bounced| bounced.page));
            return self.fail(fault);
        }
        self.left += 1;
        self.heads.lane.submit(clock::now(), bio);
    }

    fn fail(&mut self, fault: Fault) {
        self.outcome.status = self.outcome.status.and(Err(fault));
    }

    /// Takes a page of the low pool. If none is free, this round's own units complete first: no caller may hold
    /// pages while it waits for others.
    fn low_page(&mut self) -> LowPage {
        if self.heads.low.is_empty() {
            low::try_take(1, &mut self.heads.low);
        }
        if self.heads.low.is_empty() {
            self.finish();
        }
        self.heads.low.pop().unwrap_or_else(low::take)
    }

    /// Waits for all units in flight.
    fn finish(&mut self) {
        if self.left > 0 {
            self.outcome.waits += 1;
        }
        while self.left > 0 {
            let now = clock::now();
            let lane = &mut self.heads.lane;
            let wake = lane.next_wakeup().map(|at| at.since(now));
            lane.wait(now, wake);
            lane.run(clock::now());
            lane.take_done(&mut self.heads.done);
            while let Some(bio) = self.heads.done.pop() {
                self.left -= 1;
                self.complete(bio);
            }
        }
    }

    fn complete(&mut self, bio: Bio) {
        let (status, bh) = (bio.status(), bio.token() as usize);
        if let Some(Bounced { page, to, len }) = self.heads.bounced[bh].take() {
            if status.is_ok() {
                assert!(len <= PAGE, "a unit fits a page");
                // SAFETY: `to` is a part of the buffers that `read` borrows for longer than the round; the page has
                // `len` bytes (checked), is memory of the pool's own, and the bio that filled it is back.
                unsafe { std::ptr::copy_nonoverlapping(page.as_ptr(), to, len) };
                self.outcome.bounced += len as u64;
            }
            self.heads.low.push(page);
        }
        self.heads.bios[bh] = Some(bio);
        self.outcome.status = self.outcome.status.and(status);
    }
}

impl Drop for Round<'_> {
    fn drop(&mut self) {
        self.finish();
        low::give_back(&mut self.heads.low);
    }
}
