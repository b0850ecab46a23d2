//! Makes a bio from an I/O of the plan and submits it.

use super::{Finding, Lane, PER_STEP, Pending, Run, Spare};
use crate::soak::memory::{Layout, Memory, fill_bio};
use crate::soak::plan::{Io, Unsound, Way};
use crate::soak::stamp::{self, SECTOR};
use platter_block::backend::Backend;
use platter_block::bio::{Bio, Context, Flags, IoPrio, Op};
use platter_block::fault::Fault;
use platter_block::limits::Limits;
use platter_block::time::Time;
use platter_disk::channel::Full;
use platter_sim::fault::Injected;
use platter_sim::oracle::{Outcome, Submission};
use std::sync::Arc;

/// Where the completion of an I/O is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// The channel of this number.
    Channel(u64),
    Futures,
    Call,
}

/// An I/O in flight.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub(super) op: Op,
    pub(super) sector: u64,
    pub(super) count: u64,
    pub(super) flags: Flags,
    pub(super) by: By,
    pub(super) submitted: Time,
    pub(super) deadline: Option<Time>,
    /// It has its place in the order: it has left the caller's plug.
    pub(super) placed: bool,
    /// It is one block, which is never cut.
    pub(super) single: bool,
    pub(super) unsound: Option<Unsound>,
    /// It is a write by a call that may begin or end inside a block, so that blocks are read for it.
    pub(super) reads_first: bool,
    pub(super) cancelled: bool,
    /// Its bio was used before.
    pub(super) again: bool,
    /// How often elevators had been switched when it was submitted.
    pub(super) switches: u64,
    /// Its memory is in more pieces for each block than a disk may take.
    pub(super) shredded: bool,
    /// Its memory is lent to the device, so it ends when the disk has returned it, whatever its deadline.
    pub(super) lent: bool,
    /// When it got its place, in events of the program.
    pub(super) event: u64,
    /// When a channel got it, of those of the oracle.
    pub(super) since: Option<u64>,
    /// How many changes of the sizes of disks there had been when it was made.
    pub(super) changes: usize,
    /// Faults that had occurred when it was submitted.
    pub(super) before: Injected,
}

impl Live {
    /// Whether it can change a sector of the range.
    pub(super) fn changes(&self, sector: u64, count: u64) -> bool {
        self.op.changes() && self.overlaps(sector, count)
    }

    /// Whether it reaches a sector of the range.
    pub(super) fn overlaps(&self, sector: u64, count: u64) -> bool {
        self.sector < sector + count && sector < self.sector + self.count
    }

    pub(super) fn has(&self, flags: Flags) -> bool {
        self.flags.intersects(flags)
    }

    pub(super) fn is_barrier(&self) -> bool {
        self.has(Flags::HARD_BARRIER | Flags::SOFT_BARRIER)
    }
}

/// Where an I/O of the plan is on the device: its first sector, and how many.
fn locate(io: &Io, limits: &Limits, size: u64) -> (u64, u64) {
    if io.op == Op::Flush && io.blocks == 0 {
        return (0, 0);
    }
    let block = u64::from(limits.logical_block) / SECTOR as u64;
    let sectors = size / SECTOR as u64;
    let blocks = sectors.div_ceil(block);
    let first = io.at % blocks;
    let last = (first + io.blocks).min(blocks);
    (first * block, (last * block).min(sectors) - first * block)
}

impl Run<'_> {
    pub(super) fn submit(&mut self, way: Way, ios: &[Io], hold: bool) -> Result<(), Finding> {
        let mut batch = Vec::new();
        for (at, io) in (1..).zip(ios) {
            let token = self.step * PER_STEP + at;
            let mut live = self.live_of(way, io)?;
            if way == Way::Call {
                self.call(token, live, io)?;
            } else {
                batch.push((token, self.bio(token, &mut live, io)?, live));
            }
        }
        match way {
            Way::Channel(pick) => self.send(pick, batch, hold),
            Way::Future => self.start(batch, hold),
            Way::Call => Ok(()),
        }
    }

    fn live_of(&self, way: Way, io: &Io) -> Result<Live, Finding> {
        // The size of the device when it was opened; I/O beyond it must fail.
        let size = self.open.as_ref().map_or(0, |open| open.map.len() as u64 * SECTOR as u64);
        let limits = self.device()?.geometry().limits;
        let (sector, count) = locate(io, &limits, size);
        let now = self.now();
        Ok(Live {
            op: io.op,
            sector,
            count,
            flags: io.flags,
            by: if way == Way::Call { By::Call } else { By::Futures },
            submitted: now,
            // Synchronous calls have no deadline of their own.
            deadline: io.deadline.filter(|_| way != Way::Call).map(|span| now + span),
            placed: false,
            single: count * SECTOR as u64 == u64::from(limits.logical_block),
            unsound: io.unsound,
            reads_first: false,
            cancelled: false,
            again: false,
            switches: self.cover.switches,
            shredded: self.is_shredded(io.layout, limits.logical_block),
            lent: false,
            event: 0,
            since: None,
            changes: self.sizes.changes(),
            before: self.injected(),
        })
    }

    fn is_shredded(&self, layout: Layout, block: u32) -> bool {
        let most = self.disks.iter().map(|disk| disk.geometry().limits.max_segments).min().unwrap_or(1);
        let pieces = match layout {
            Layout::Whole | Layout::Odd => 1,
            Layout::Pieces(size) => block.div_ceil(size) + 1,
            Layout::Split(_) => 2,
        };
        // A piece may be cut once more where it crosses a boundary.
        2 * pieces > u32::from(most)
    }

    /// Memory with the data of a write.
    pub(super) fn memory(&self, token: u64, live: &Live, layout: Layout) -> Memory {
        let mut memory = Memory::new(layout, live.count as usize * SECTOR, &self.alive);
        if live.op == Op::Write {
            memory.fill(&stamp::contents(token, live.sector, live.count));
        }
        memory
    }

    /// The bio of an I/O. One that is used again keeps the flags that it had.
    fn bio(&mut self, token: u64, live: &mut Live, io: &Io) -> Result<Bio, Finding> {
        let mut bio = match self.rewound(token, live, io) {
            Some(bio) => bio,
            None => self.aimed(token, live, io).map_err(Finding::unmakeable)?,
        };
        bio.set_token(token);
        bio.set_deadline(live.deadline);
        bio.add_flags(if io.lent { Flags::BORROWED } else { Flags::NONE });
        live.lent = bio.flags().contains(Flags::BORROWED);
        live.deadline = live.deadline.filter(|_| !live.lent);
        bio.set_context(io.context);
        bio.set_ioprio(io.ioprio);
        let Some(open) = &self.open else { return Ok(bio) };
        if let Some(pick) = io.handle
            && !open.handles.is_empty()
        {
            bio.set_handle(open.handles[pick as usize % open.handles.len()].id());
        }
        match live.unsound {
            Some(Unsound::Misplaced) => bio.rewind(bio.pos() + 7, bio.len()),
            Some(Unsound::OutOfRange) => bio.rewind(open.map.len() as u64 * SECTOR as u64, bio.len()),
            Some(Unsound::Empty) => bio.rewind(bio.pos(), 0),
            None => {}
        }
        Ok(bio)
    }

    /// A new bio with its place, memory and flags.
    fn aimed(&mut self, token: u64, live: &Live, io: &Io) -> Result<Bio, Fault> {
        let (pos, bytes) = (live.sector * SECTOR as u64, live.count * SECTOR as u64);
        let mut bio = match live.op {
            Op::Write => Bio::write(pos, self.memory(token, live, io.layout))?,
            Op::Read => Bio::read(pos, self.memory(token, live, io.layout))?,
            _ => Bio::new(live.op, pos, bytes),
        };
        bio.add_flags(live.flags);
        Ok(bio)
    }

    /// A bio that completed before, as it came back, with new contents in its memory.
    fn rewound(&mut self, token: u64, live: &mut Live, io: &Io) -> Option<Bio> {
        let bytes = live.count * SECTOR as u64;
        let fits = |(bio, _): &Spare| bio.op() == live.op && bio.segment_bytes() == bytes;
        let at = self.spare.iter().position(|spare| io.again && fits(spare))?;
        let (mut bio, (flags, shredded)) = self.spare.swap_remove(at);
        if live.op == Op::Write {
            fill_bio(&mut bio, &stamp::contents(token, live.sector, live.count));
        }
        bio.rewind(live.sector * SECTOR as u64, bytes);
        (live.flags, live.shredded) = (flags, shredded);
        live.again = true;
        self.cover.reused += 1;
        Some(bio)
    }

    fn send(&mut self, pick: u32, batch: Vec<(u64, Bio, Live)>, hold: bool) -> Result<(), Finding> {
        let may_hold = self.plan.disks.iter().all(|disk| disk.settings.caller_plug);
        let Some(open) = &mut self.open else { return Ok(()) };
        let Some(at) = open.lane(pick) else { return Ok(()) };
        let lane = &mut open.lanes[at];
        let mut bios = Vec::new();
        for (token, bio, mut live) in batch {
            live.by = By::Channel(lane.id);
            live.since = Some(self.oracle.moment());
            lane.held.push(token);
            self.live.insert(token, live);
            bios.push(bio);
        }
        if let Some(bug) = self.bug {
            bug.leak(&mut bios);
        }
        for bio in bios {
            self.cover.bios += 1;
            let token = bio.token();
            if let Err(Full(_)) = lane.channel.submit(bio) {
                self.cover.bios -= 1;
                lane.held.retain(|&held| held != token);
                self.live.remove(&token);
            }
        }
        if !(hold && may_hold) {
            self.place_held(at);
            self.with_lane(at, |lane| lane.channel.flush());
        }
        Ok(())
    }

    /// Calls back with a lane, if there is one at `at`.
    pub(super) fn with_lane<R>(&mut self, at: usize, act: impl FnOnce(&mut Lane) -> R) -> Option<R> {
        self.open.as_mut()?.lanes.get_mut(at).map(act)
    }

    /// What a channel has in its plug gets its place now.
    pub(super) fn place_held(&mut self, at: usize) {
        let held = self.with_lane(at, |lane| std::mem::take(&mut lane.held)).unwrap_or_default();
        held.into_iter().for_each(|token| self.place(token));
    }

    /// What the futures' lane has in its plug gets its place now.
    pub(super) fn place_futures(&mut self) {
        let held = self.open.as_mut().map(|open| std::mem::take(&mut open.held)).unwrap_or_default();
        held.into_iter().for_each(|token| self.place(token));
    }

    /// An I/O gets its place in the order: from now on the oracle knows it.
    pub(super) fn place(&mut self, token: u64) {
        let event = self.event();
        let orders = self.orders_softly();
        let limits = self.open.as_ref().map(|open| open.device.geometry().limits);
        let discards = limits.is_some_and(|limits| limits.discard_granularity > 0);
        let beyond = self.live.get(&token).is_some_and(|live| self.is_beyond(live));
        let Some(live) = self.live.get_mut(&token) else { return };
        live.placed = true;
        live.event = event;
        if live.is_barrier() {
            self.judged.last_barrier = event;
        }
        if self.story {
            eprintln!("{:>14} us submit {token} {live:?}", live.submitted.0 / 1000);
        }
        if live.unsound.is_some() {
            return;
        }
        let contents = vec![token; if live.op == Op::Write { live.count as usize } else { 0 }];
        // A barrier that the device cannot carry out fails before it has a place.
        let refused = beyond || (live.op == Op::Discard && !discards);
        let submission = Submission {
            contents: &contents,
            fua: live.flags.contains(Flags::FUA),
            preflush: live.flags.contains(Flags::PREFLUSH),
            hard: live.flags.contains(Flags::HARD_BARRIER) && !refused,
            soft: live.flags.contains(Flags::SOFT_BARRIER) && orders && !refused,
            atomic: live.flags.contains(Flags::ATOMIC),
            since: live.since,
            ..Submission::new(live.op, live.sector, live.count)
        };
        self.oracle.submit(token, &submission);
        if !refused {
            self.order.placed(token, live.op, live.flags);
        }
    }

    /// Whether a soft barrier of the device orders what is on the disks, and not only in what order they get it: a layer
    /// waits for what is before it, and disks without a volatile cache keep what has completed.
    fn orders_softly(&self) -> bool {
        let waits = ["raid0", "concat", "limit", "delay", "verify", "cache"];
        // A cache of this program that writes back is as volatile as that of a disk.
        let volatile = |below: &Arc<dyn Backend>| below.geometry().features.write_cache;
        let keeps =
            self.open.as_ref().is_some_and(|open| !open.device.backend().below().iter().any(volatile));
        let mut orders = self.stack();
        while orders.leaves_order() {
            orders = &orders.members()[0];
        }
        keeps && waits.contains(&orders.kind())
    }

    pub(super) fn start(&mut self, batch: Vec<(u64, Bio, Live)>, hold: bool) -> Result<(), Finding> {
        let may_hold = self.plan.disks.iter().all(|disk| disk.settings.caller_plug);
        for (token, bio, mut live) in batch {
            self.cover.bios += 1;
            live.since = Some(self.oracle.moment());
            self.live.insert(token, live);
            let Some(open) = &mut self.open else { return Ok(()) };
            let io = open.device.submit::<Memory>(bio);
            open.futures.push(Pending { token, io });
            open.held.push(token);
        }
        if hold && may_hold { Ok(()) } else { self.poll_futures().map(drop) }
    }

    /// A read of one range, to compare it.
    pub(super) fn reading(&mut self, sector: u64, count: u64) -> Result<(u64, Bio, Live), Finding> {
        let io = Io {
            op: Op::Read,
            at: 0,
            blocks: 0,
            flags: Flags::NONE,
            deadline: None,
            layout: Layout::Whole,
            context: Context::default(),
            ioprio: IoPrio::NONE,
            handle: None,
            again: false,
            unsound: None,
            lent: false,
        };
        self.made(&io, sector, count)
    }

    /// A bio that no step makes, at a place of its own.
    pub(super) fn made(&mut self, io: &Io, sector: u64, count: u64) -> Result<(u64, Bio, Live), Finding> {
        self.extra += 1;
        let token = self.extra;
        let mut live = Live { sector, count, ..self.live_of(Way::Future, io)? };
        let bio = self.bio(token, &mut live, io)?;
        Ok((token, bio, live))
    }

    /// Sends one bio on the channel at `at`.
    pub(super) fn send_one(&mut self, at: usize, made: (u64, Bio, Live)) -> Result<(), Finding> {
        self.send(at as u32, vec![made], false)
    }

    /// The I/O will not complete any more as far as the program can see.
    pub(super) fn lose(&mut self, token: u64) {
        if let Some(live) = self.live.remove(&token)
            && live.placed
        {
            if live.is_barrier() {
                self.lose_barrier(token);
            }
            self.judged.lose_sight();
            // A barrier of a dropped lane no longer holds I/O back.
            self.oracle.unorder(token);
            self.oracle.complete(token, Outcome::Abandoned);
        }
    }
}
