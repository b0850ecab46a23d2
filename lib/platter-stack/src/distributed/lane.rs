//! A lane over the lanes of several members.

use super::parts::{Parts, Turn};
use super::{Distributed, Map};
use crate::barrier_gate::BARRIER;
use crate::gated_lane::LayerLane;
use crate::kit::Board;
use platter_block::backend::{Backend, LaneUse};
use platter_block::bio::{Bio, Flags, MAX_SEGMENTS, Op};
use platter_block::fault::{Error, Fault, Kind, Stage};
use platter_block::lane::{Bell, Cancel, Lane, Left};
use platter_block::limits::Limits;
use platter_block::segment::{Region, RegionId};
use platter_block::time::{Span, Time};
use std::collections::VecDeque;
use std::sync::Arc;

/// Flags of bios that are not simply passed on to a member.
const SPECIAL: Flags = BARRIER.union(Flags::PREFLUSH);

/// Most parts in flight, except that one bio may exceed it alone: other bios wait in the lane.
const MAX_PARTS: usize = 4096;

/// How long a lane sleeps beside members on one disk that other lanes may have left with I/Os in flight.
const LOOK_INTERVAL: Span = Span::from_millis(100);

/// How often a lane looks at such members while it is run. In virtual time, whenever it is run.
const DUE_INTERVAL: Span = Span::from_micros(100);

struct Member {
    lane: Box<dyn Lane>,
    /// Bios and parts that the member has.
    out: usize,
    /// Whether the member is in `active`.
    active: bool,
}

pub(super) struct DistributedLane<M> {
    // Dropped first: this waits for the I/O that the members' drivers have.
    members: Vec<Member>,
    /// Bios and parts that the members have.
    out: usize,
    /// Numbers of the members that have bios or parts.
    active: Vec<u32>,
    map: Arc<M>,
    /// The members have one disk, and any lane may have to run any of them.
    has_one_disk: bool,
    /// When this lane looks at those again where it has no bios.
    next_look: Time,
    size: u64,
    block_mask: u64,
    limits: Limits,
    /// There is only one member, which keeps the order itself.
    alone: bool,
    /// Numbers of the members that may have work of their own: those with a volatile cache, and all on one disk.
    cached: Vec<u32>,
    simulated: bool,
    parts: Parts,
    /// Bios that wait until fewer parts are in flight.
    waiting: VecDeque<Bio>,
    done: Vec<Bio>,
    mixed: Vec<Bio>,
    /// A bio was started while completions were collected.
    again: bool,
    handles: Vec<i32>,
}

/// Maps a bio that a member has completed back to the device.
#[inline]
fn restore(map: &impl Map, member: usize, bio: &mut Bio) {
    // A command keeps the position that it has.
    if !matches!(bio.op(), Op::Flush | Op::Command) {
        let done = bio.done();
        bio.remap(map.whence(member, bio.pos() - done) + done);
    }
}

impl<M: Map> DistributedLane<M> {
    pub(super) fn open(device: &Distributed<M>, lane_use: LaneUse) -> Result<DistributedLane<M>, Error> {
        let open = |member: &Arc<dyn Backend>| {
            member.open_lane(lane_use).map(|lane| Member { lane, out: 0, active: false })
        };
        let members = device.members.iter().map(open).collect::<Result<Vec<Member>, Error>>()?;
        let geometries = || device.members.iter().map(|member| member.geometry());
        let has_one_disk = device.map.has_one_disk();
        let works = |(at, member): (usize, platter_block::driver::Geometry)| {
            (member.features.write_cache || has_one_disk).then_some(at as u32)
        };
        let max_segments =
            geometries().map(|member| member.limits.max_segments.clamp(1, MAX_SEGMENTS as u16)).collect();
        Ok(DistributedLane {
            out: 0,
            active: Vec::with_capacity(members.len()),
            map: Arc::clone(&device.map),
            has_one_disk,
            next_look: Time(0),
            size: device.geometry.size,
            block_mask: u64::from(device.geometry.limits.logical_block - 1),
            limits: device.geometry.limits,
            alone: members.len() == 1,
            cached: geometries().enumerate().filter_map(works).collect(),
            simulated: device.clock().is_some(),
            parts: Parts::new(max_segments),
            waiting: VecDeque::new(),
            done: Vec::new(),
            mixed: Vec::new(),
            again: false,
            handles: Vec::new(),
            members,
        })
    }

    /// Fails bios that wait for fewer parts to be in flight and are to be taken back.
    #[cold]
    fn fail_waiting(&mut self, which: &Cancel) {
        while let Some(at) = self.waiting.iter().position(|bio| which.matches(bio)) {
            let Some(mut bio) = self.waiting.remove(at) else { return };
            bio.fail(Fault::new(which.kind(), Stage::Layer));
            self.done.push(bio);
        }
    }

    #[inline]
    fn start(&mut self, now: Time, mut bio: Bio) {
        let (pos, len) = (bio.pos(), bio.len());
        let fits = (pos | len) & self.block_mask == 0
            && len.wrapping_sub(1) < self.size
            && pos <= self.size - len
            && (self.alone || !bio.flags().intersects(SPECIAL));
        if fits && !matches!(bio.op(), Op::Flush | Op::Command) {
            let place = self.map.find(pos);
            if len <= place.len {
                bio.remap(place.pos);
                return self.send(now, place.member, bio);
            }
        }
        self.start_whole(now, bio);
    }

    #[inline]
    fn send(&mut self, now: Time, at: usize, bio: Bio) {
        self.out += 1;
        let member = &mut self.members[at];
        member.out += 1;
        if !member.active {
            member.active = true;
            self.active.push(at as u32);
        }
        member.lane.submit(now, bio);
    }

    /// Checks a bio for errors that its parts would not show.
    fn check(&self, bio: &Bio) -> Result<(), Fault> {
        if bio.op() == Op::Command {
            // It would have to be taken apart among the members.
            return Err(Fault::new(Kind::Unsupported, Stage::Layer));
        }
        let at_layer = |fault: Fault| Fault { stage: Stage::Layer, ..fault };
        self.limits.check_range(bio.pos(), bio.len(), self.size).map_err(at_layer)?;
        let bytes = || bio.segments().map(|segment| u64::from(segment.len())).sum::<u64>();
        if bio.op().has_data() && bytes() != bio.len() {
            return Err(Fault::new(Kind::BadSegments, Stage::Layer));
        }
        Ok(())
    }

    /// Starts a bio that spans several members.
    fn start_whole(&mut self, now: Time, mut bio: Bio) {
        let is_flush = bio.op() == Op::Flush;
        if self.alone && is_flush {
            return self.send(now, 0, bio);
        }
        if let Some(member) = self.member_of_command(&bio) {
            return self.send(now, member, bio);
        }
        if !is_flush && let Err(fault) = self.check(&bio) {
            bio.fail(fault);
            return self.done.push(bio);
        }
        let flags = bio.flags();
        if flags.contains(Flags::ATOMIC) && !self.is_on_one_member(&bio) {
            bio.fail(Fault::new(Kind::Unsupported, Stage::Layer));
            return self.done.push(bio);
        }
        if self.parts.out >= MAX_PARTS {
            return self.waiting.push_back(bio);
        }
        let barrier = flags.intersects(BARRIER);
        // Members on one disk do not know the order of each other's writes.
        let hard = (barrier && self.has_one_disk) || flags.contains(Flags::HARD_BARRIER);
        let flushes = is_flush || hard || flags.contains(Flags::PREFLUSH);
        // A barrier and a preflush are about all that was written before.
        let of_all = barrier || flags.contains(Flags::PREFLUSH);
        let range = (is_flush && self.has_one_disk && !of_all).then(|| (bio.pos(), bio.len()));
        let at = self.parts.insert(bio, hard, flushes && !is_flush);
        if flushes {
            // Members without a cache are flushed too: one may have lost writes because it has failed meanwhile. Otherwise this
            // costs nothing.
            let members = self.members.len() as u32;
            match self.has_one_disk {
                true => self.parts.flushes_of_one_disk(at, members, range),
                false => self.parts.flushes(at, members, range),
            }
            self.send_parts(now, at);
        } else {
            self.send_data(now, at);
        }
    }

    /// The member that carries out a command: the one that has all blocks that it reaches.
    fn member_of_command(&self, bio: &Bio) -> Option<usize> {
        if bio.op() != Op::Command || !self.has_one_disk || bio.flags().intersects(SPECIAL) {
            return None;
        }
        let (start, end) = bio.reach();
        if start == end {
            return Some(0);
        }
        let place = (start < self.size).then(|| self.map.find(start))?;
        (end - start <= place.len).then_some(place.member)
    }

    /// Whether a transfer can be passed on as one bio, without being split.
    fn is_on_one_member(&self, bio: &Bio) -> bool {
        let place = self.map.find(bio.pos());
        bio.len() <= place.len && self.parts.takes(place.member, bio)
    }

    fn send_data(&mut self, now: Time, at: u32) {
        self.parts.share_out(&*self.map, at);
        self.send_parts(now, at);
    }

    fn send_parts(&mut self, now: Time, at: u32) {
        let mut staged = self.parts.take_staged(at);
        for (member, part) in staged.drain(..) {
            self.send(now, member as usize, part);
        }
        self.parts.keep_list(staged);
    }

    fn take_turn(&mut self, now: Time, turn: Turn) {
        match turn {
            Turn::Wait => {}
            Turn::Disk(at) => {
                self.again = true;
                self.send_parts(now, at);
            }
            Turn::Data(at) => {
                self.again = true;
                self.send_data(now, at);
            }
            Turn::Over(bio) => self.done.push(bio),
        }
    }

    /// Takes in the completions of a member: the bios in `done` from `first` on.
    #[inline]
    fn collect(&mut self, now: Time, at: usize, first: usize) {
        let count = self.done.len() - first;
        self.members[at].out -= count;
        self.out -= count;
        if self.parts.out > 0 {
            return self.collect_mixed(now, at, first);
        }
        let map = &*self.map;
        self.done[first..].iter_mut().for_each(|bio| restore(map, at, bio));
    }

    /// As `collect`, where some of the completed bios may be parts.
    fn collect_mixed(&mut self, now: Time, at: usize, first: usize) {
        let mut mixed = std::mem::take(&mut self.mixed);
        mixed.extend(self.done.drain(first..));
        for mut bio in mixed.drain(..) {
            if self.parts.made(&bio) {
                let map = &self.map;
                let turn = self.parts.came_back(bio, |pos| map.whence(at, pos));
                self.take_turn(now, turn);
            } else {
                restore(&*self.map, at, &mut bio);
                self.done.push(bio);
            }
        }
        self.mixed = mixed;
        while self.parts.out < MAX_PARTS
            && let Some(bio) = self.waiting.pop_front()
        {
            self.again = true;
            self.start_whole(now, bio);
        }
    }

    /// Marks members as active that have work of their own to do: a cache that must write dirty pages.
    #[cold]
    fn find_work(&mut self) {
        for &at in &self.cached {
            let member = &mut self.members[at as usize];
            if !member.active && !member.lane.is_idle() {
                member.active = true;
                self.active.push(at);
            }
        }
    }

    /// Runs members on the one disk that have something to do although this lane has no bio there. What they have in flight may
    /// be what the bios of this lane wait for: a layer below may admit one I/O at a time. Returns whether there were any.
    #[cold]
    fn run_due_members(&mut self, now: Time) -> bool {
        let mut any = false;
        self.next_look = if self.simulated { now } else { now + DUE_INTERVAL };
        for at in 0..self.members.len() {
            if self.members[at].active || !self.map.board(at).is_some_and(|board| board.is_due(now)) {
                continue;
            }
            any = true;
            self.members[at].lane.run(now);
            if self.is_out(at) {
                self.members[at].active = true;
                self.active.push(at as u32);
            }
        }
        any
    }

    /// Whether a member on the one disk has I/Os of its own there.
    fn is_out(&self, member: usize) -> bool {
        self.has_one_disk && self.map.board(member).is_some_and(Board::is_out)
    }

    /// A timeout for a sleep beside bios of this lane. A thread that has just left may have left I/Os of a member in flight, and
    /// only lanes with bios there are woken for them; so the others look from time to time.
    fn limited(&self, timeout: Option<Span>) -> Option<Span> {
        let looks = self.has_one_disk && self.out > 0;
        timeout.into_iter().chain(looks.then_some(LOOK_INTERVAL)).min()
    }

    /// Runs the members that have bios or parts.
    #[inline]
    fn run_members(&mut self, now: Time) {
        let mut at = 0;
        while let Some(&index) = self.active.get(at) {
            let index = index as usize;
            let first = self.done.len();
            self.members[index].lane.turn(now, &mut self.done);
            if self.done.len() > first {
                self.collect(now, index, first);
            }
            let is_out = self.has_one_disk && self.is_out(index);
            let member = &mut self.members[index];
            if member.out == 0 && !is_out && member.lane.is_idle() {
                member.active = false;
                self.active.swap_remove(at);
            } else {
                at += 1;
            }
        }
    }
}

impl<M: Map> Lane for DistributedLane<M> {
    #[inline]
    fn submit(&mut self, now: Time, bio: Bio) {
        self.start(now, bio);
    }

    #[inline]
    fn run(&mut self, now: Time) {
        if self.out == 0 {
            self.find_work();
        }
        let mut may_look = self.has_one_disk && now >= self.next_look;
        loop {
            self.again = false;
            self.run_members(now);
            if std::mem::take(&mut may_look) && !self.again && !self.has_done() && self.run_due_members(now) {
                continue;
            }
            // Bios that were only just started have not been handed over.
            if !self.again {
                return;
            }
        }
    }

    #[inline]
    fn take_done(&mut self, out: &mut Vec<Bio>) {
        platter_block::queue::append(out, &mut self.done);
    }

    #[inline]
    fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    fn next_wakeup(&self) -> Option<Time> {
        let wakeup = |&at: &u32| self.members[at as usize].lane.next_wakeup();
        let members = self.active.iter().filter_map(wakeup);
        let others = if self.has_one_disk { 0..self.members.len() } else { 0..0 };
        let others = others.filter_map(|at| self.map.board(at)?.wakeup());
        members.chain(others).min()
    }

    fn unplug(&mut self, now: Time) {
        // A thread that waits looks once more.
        self.next_look = now;
        for &at in &self.active {
            self.members[at as usize].lane.unplug(now);
        }
    }

    /// Until a member has completions.
    fn sleep(&mut self, now: Time, timeout: Option<Span>, others: &[i32]) {
        let mut handles = std::mem::take(&mut self.handles);
        handles.extend_from_slice(others);
        let rest = self.active.iter().map(|&at| at as usize).filter(|&at| at != 0 && !self.simulated);
        // Every member is asked, even after one that has no handle: a member signals only lanes that have
        // asked.
        let complete =
            rest.fold(true, |complete, at| self.members[at].lane.wait_handles(&mut handles) & complete);
        let timeout = self.limited(timeout);
        // Without a handle for every member, sleep only if nothing is in flight: the next run finds what was
        // started.
        if (complete || self.in_flight() == 0)
            && let Some(first) = self.members.first_mut()
        {
            first.lane.sleep(now, timeout, &handles);
        }
        handles.clear();
        self.handles = handles;
    }

    fn bell(&self) -> Option<Arc<dyn Bell>> {
        self.members.first().and_then(|member| member.lane.bell())
    }

    fn wait_handles(&self, out: &mut Vec<i32>) -> bool {
        // Every member is asked, even after one that has no handle: a member signals only lanes that have
        // asked.
        self.members.iter().fold(true, |complete, member| member.lane.wait_handles(out) & complete)
    }

    fn in_flight(&self) -> u32 {
        self.active.iter().map(|&at| self.members[at as usize].lane.in_flight()).sum()
    }

    fn cancel(&mut self, now: Time, which: &Cancel) {
        self.fail_waiting(which);
        let parts = self.parts.cancel(which);
        for &at in &self.active {
            let lane = &mut self.members[at as usize].lane;
            // Cancels both bios that were passed on as they are and the parts of others.
            lane.cancel(now, which);
            parts.iter().for_each(|&token| lane.cancel(now, &which.with_token(token)));
        }
    }

    fn closing(&mut self, left: &Arc<dyn Left>) {
        self.members.iter_mut().for_each(|member| member.lane.closing(left));
    }

    fn is_idle(&self) -> bool {
        let is_idle = |member: &Member| member.out == 0 && member.lane.is_idle();
        self.active.iter().all(|&at| is_idle(&self.members[at as usize]))
    }

    fn register(&mut self, region: &Region) {
        self.members.iter_mut().for_each(|member| member.lane.register(region));
    }

    fn unregister(&mut self, region: RegionId) {
        self.members.iter_mut().for_each(|member| member.lane.unregister(region));
    }
}

impl<M: Map> LayerLane for DistributedLane<M> {
    fn wait_below(&mut self, now: Time, timeout: Option<Span>) -> bool {
        let [only] = self.active[..] else { return false };
        let timeout = self.limited(timeout);
        self.members[only as usize].lane.wait(now, timeout);
        true
    }
}
