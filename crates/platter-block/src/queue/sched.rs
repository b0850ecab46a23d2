//! The queue that all lanes of a device share: elevator, request pool, device plug, merging, flushes and barriers.
//!
//! Without an elevator it is first come, first served; then only flushes, barriers and what must keep order with them
//! go through it.

use crate::bio::{Bio, Flags, Op};
use crate::counters::Counters;
use crate::defect::{self, Defect};
use crate::driver::{Chain, Completion, Geometry, Started};
use crate::elevator::Elevator;
use crate::fault::{Fault, Kind, Stage};
use crate::request::{State, Table};
use crate::time::Time;
use crate::trace::{Action, Sink};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

mod complete;
mod doubt;
mod enqueue;
mod hash;
mod order;
mod plug;
mod pool;
mod split;
mod switch;
mod tags;
mod timers;
mod trace;
mod withdraw;

use super::doubt::Doubts;
use super::family::Families;
use super::pause::{NEVER, Pauses};
use super::prebuilt::Prebuilt;
use super::zeroes::Zeroes;
use super::{Rest, SPARE_BIOS, Settings, append, split as cut};
use hash::MergeHash;
use order::Order;
use plug::DevicePlug;
pub use plug::PlugSettings;
use pool::RequestPool;
pub use pool::{CONGESTION_BATCH, PoolRules, PoolStats};

/// Requests kept in reserve so that a flush or a retry can always be made (fact: the kernel's request mempool reserve
/// is 4).
const RESERVE: usize = 4;

/// What a parent of bios that the queue itself makes waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// All parts of a split.
    Split,
    /// Steps still to be done, see [`order`], and whether it is the active barrier.
    Sequence { steps: u8, barrier: bool },
    /// Zeroes that are being written over its range.
    Zeroes(Zeroes),
    /// The steps of a barrier that the device keeps in order, see [`tags`].
    Tagged,
}

/// The queue that the lanes of a device share. See the [module](super).
pub struct SchedQueue {
    geometry: Geometry,
    settings: Settings,
    /// FUA if the driver is told of it, else no flag.
    fua: Flags,
    /// Bios with any of these flags are not merged.
    unmergeable: Flags,
    table: Table,
    elevator: Option<Box<dyn Elevator>>,
    ends: MergeHash,
    starts: MergeHash,
    last_merge: Option<u32>,
    /// Requests in the order in which they go to the driver.
    ready: VecDeque<u32>,
    /// Bios that wait for a free request, reads and writes separately.
    waiting: [VecDeque<Bio>; 2],
    /// Bios of failed or partly completed requests, to be retried one by one.
    retries: VecDeque<Bio>,
    /// Bios that failed for a reason that may pass; they are retried after a pause.
    paused: Pauses,
    doubts: Doubts,
    /// Number of requests with the driver whose bios have all been given up.
    quarantined: u32,
    /// Nothing can start because given-up requests hold the whole depth.
    stuck: bool,
    /// Number of requests from which bios were withdrawn before they started.
    withdrawn: u32,
    /// Whether write-zeroes is carried out by writing zeroes.
    writes_zeroes: bool,
    pool: RequestPool,
    plug: DevicePlug,
    order: Order,
    families: Families<Role>,
    in_flight: u32,
    queued: u32,
    done: Vec<Bio>,
    spare: Vec<Bio>,
    frozen: bool,
    /// Something needs the slow paths (see [`SchedQueue::needs_attention`]).
    attention: bool,
    /// The driver has completed a request with an error.
    error: bool,
    /// The last request that the elevator chose and the driver completed has failed for good.
    fails: bool,
    /// The largest size that the device has had.
    largest: u64,
    /// No timer is due before this time. There may be none that is due at it.
    alarm: Time,
    /// No deadline passes before this time. The bio that had this deadline may be gone.
    next_deadline: Option<Time>,
    elevator_fault: Option<String>,
    counters: Arc<Counters>,
    sink: Option<Box<dyn Sink>>,
}

impl SchedQueue {
    /// A queue for a disk; `elevator: None` is first come, first served and costs least.
    pub fn new(
        geometry: Geometry,
        settings: Settings,
        elevator: Option<Box<dyn Elevator>>,
        counters: Arc<Counters>,
    ) -> SchedQueue {
        let settings = settings.at_least_one();
        let capacity = pool::capacity(&settings) + RESERVE;
        let features = geometry.features;
        let mut queue = SchedQueue {
            geometry,
            settings,
            fua: if features.write_cache && features.fua { Flags::FUA } else { Flags::NONE },
            unmergeable: cut::unmergeable(&features),
            table: Table::new(capacity),
            elevator: None,
            ends: MergeHash::new(capacity),
            starts: MergeHash::new(capacity),
            last_merge: None,
            ready: VecDeque::with_capacity(capacity),
            waiting: [VecDeque::new(), VecDeque::new()],
            retries: VecDeque::new(),
            paused: Pauses::default(),
            doubts: Doubts::default(),
            quarantined: 0,
            stuck: false,
            withdrawn: 0,
            writes_zeroes: !geometry.limits.write_zeroes,
            pool: RequestPool::new(&settings),
            plug: DevicePlug::new(settings.plug),
            order: Order::default(),
            families: Families::default(),
            in_flight: 0,
            queued: 0,
            done: Vec::with_capacity(capacity),
            spare: Vec::new(),
            frozen: false,
            attention: false,
            error: false,
            fails: false,
            largest: geometry.size,
            alarm: NEVER,
            next_deadline: None,
            elevator_fault: None,
            counters,
            sink: None,
        };
        queue.set_elevator(elevator);
        queue
    }

    /// Adds slots for requests that must not wait.
    #[cold]
    fn grow_table(&mut self) {
        self.table.grow();
        if let Some(elevator) = &mut self.elevator {
            elevator.reserve(self.table.capacity());
        }
    }

    fn set_elevator(&mut self, mut elevator: Option<Box<dyn Elevator>>) {
        if let Some(elevator) = &mut elevator {
            elevator.depth_updated(self.settings.nr_requests);
            elevator.reserve(self.table.capacity());
        }
        self.elevator = elevator;
    }

    /// Submits a bio. It completes later through [`SchedQueue::take_done`], or at once if it is invalid.
    #[inline]
    pub fn submit(&mut self, now: Time, bio: Bio) {
        match self.geometry.limits.check_memory(&bio, self.geometry.size) {
            Ok(()) => self.submit_sound(now, bio),
            Err(fault) => self.refuse(now, bio, fault),
        }
    }

    /// Submits a bio whose memory has passed [`Limits::check_memory`](crate::limits::Limits::check_memory).
    #[inline]
    pub fn submit_sound(&mut self, now: Time, bio: Bio) {
        debug_assert!(
            bio.op() == Op::Command
                || self.geometry.limits.check_memory(&bio, self.geometry.size).is_ok()
                || self.check(&bio).is_err(),
            "the memory was not checked: {bio:?}"
        );
        self.submit_any(now, bio);
    }

    /// Fails a bio whose memory is not aligned as the device requires, or with another fault of the bio if it has
    /// one.
    #[cold]
    fn refuse(&mut self, now: Time, mut bio: Bio, fault: Fault) {
        self.counters.bios.add(1);
        if self.sink.is_some() {
            self.trace_bio(now, Action::Queue, &bio);
        }
        bio.fail(self.check(&bio).err().unwrap_or(fault));
        self.finish(now, bio);
    }

    /// [`SchedQueue::submit_sound`] for a bio that its submitter has examined.
    #[inline]
    pub fn submit_prebuilt(&mut self, now: Time, mut bio: Bio, prebuilt: Prebuilt) {
        let stale = defect::is_on(Defect::PrebuiltOfOldSize) && prebuilt.is_known();
        if !(prebuilt.holds_for(self.geometry.size) || stale) || self.order.is_closed() {
            return self.submit_sound(now, bio);
        }
        self.counters.bios.add(1);
        if self.sink.is_some() {
            self.trace_bio(now, Action::Queue, &bio);
        }
        match self.admit_in_time(now, &mut bio) {
            Ok(()) => self.enqueue(now, bio),
            Err(fault) => {
                bio.fail(fault);
                self.finish(now, bio);
            }
        }
    }

    fn submit_any(&mut self, now: Time, mut bio: Bio) {
        self.counters.bios.add(1);
        if self.sink.is_some() {
            self.trace_bio(now, Action::Queue, &bio);
        }
        if let Err(fault) = self.check(&bio).and_then(|()| self.admit_in_time(now, &mut bio)) {
            bio.fail(fault);
            return self.finish(now, bio);
        }
        self.submit_checked(now, bio);
    }

    #[inline]
    fn submit_checked(&mut self, now: Time, bio: Bio) {
        if self.order.is_closed() || bio.flags().intersects(Flags::ORDERED) || bio.op() == Op::Flush {
            self.submit_ordered(now, bio);
        } else {
            self.admit(now, bio);
        }
    }

    /// Checks a bio for faults, except those of its memory.
    #[inline]
    fn check(&self, bio: &Bio) -> Result<(), Fault> {
        cut::check(&self.geometry, self.largest, bio)
    }

    /// Returns the next request for the driver and counts it as started; `None` if there is none or none may start.
    /// Follow with [`SchedQueue::started`] to hand it over, or with [`SchedQueue::refused`].
    #[inline]
    pub fn next(&mut self, now: Time) -> Option<u32> {
        if self.in_flight >= self.settings.depth || self.frozen {
            return None;
        }
        if self.attention {
            return self.next_with_care(now);
        }
        let index = match self.ready.pop_front() {
            Some(index) => index,
            None => self.next_from_elevator(now)?,
        };
        Some(self.start(now, index))
    }

    #[inline]
    fn start(&mut self, now: Time, index: u32) -> u32 {
        self.in_flight += 1;
        let request = self.table.at_mut(index);
        request.state = State::Started;
        request.started = now;
        self.counters.dispatched(self.in_flight);
        if self.sink.is_some() {
            self.trace_request(now, Action::Issue, index, 0);
        }
        index
    }

    /// [`SchedQueue::next`] while requests wait, are in doubt or were withdrawn.
    #[cold]
    fn next_with_care(&mut self, now: Time) -> Option<u32> {
        loop {
            self.requeue_retries(now);
            let index = match self.ready.pop_front() {
                Some(index) => index,
                None => match self.next_from_elevator(now) {
                    Some(index) => index,
                    None if self.tag_follows(now) => continue,
                    None => return None,
                },
            };
            if self.may_start(index) {
                return Some(self.start(now, index));
            }
            self.take_apart(now, index);
        }
    }

    /// The request in the form in which the driver gets it.
    #[inline]
    pub fn started(&self, index: u32) -> Started<'_> {
        let request = self.table.at(index);
        Started {
            tag: index,
            op: request.op,
            pos: request.pos,
            len: request.len,
            fua: request.flags.intersects(self.fua) && request.op == Op::Write,
            atomic: request.flags.contains(Flags::ATOMIC),
            ioprio: self.table.ioprio(index),
            piece: None,
            chain: Chain::Linked(self.table.chain(index)),
            limits: &self.geometry.limits,
        }
    }

    /// The driver had no room: the request goes back to the head of the dispatch list.
    pub fn refused(&mut self, now: Time, index: u32) {
        self.in_flight -= 1;
        self.table.at_mut(index).state = State::Ready;
        self.ready.push_front(index);
        self.counters.requeues.add(1);
        self.counters.refusals.add(1);
        if self.sink.is_some() {
            self.trace_request(now, Action::Requeue, index, 0);
        }
    }

    /// The driver has completed a request. Unknown tags are ignored and reported as a broken contract.
    ///
    /// # Errors
    /// [`Kind::Contract`] when no such request was with the driver.
    #[inline]
    pub fn complete(&mut self, now: Time, completion: Completion) -> Result<(), Fault> {
        let index = completion.tag;
        if self.table.get(index).is_none_or(|r| r.state != State::Started) {
            return Err(Fault::new(Kind::Contract, Stage::Driver));
        }
        self.in_flight -= 1;
        self.counters.completions.add(1);
        if self.sink.is_some() {
            let errno = i32::try_from(completion.result.min(0).unsigned_abs()).unwrap_or(i32::MAX);
            self.trace_request(now, Action::Complete, index, errno);
        }
        self.complete_request(now, index, completion.result);
        Ok(())
    }

    /// Appends completed bios, oldest first.
    #[inline]
    pub fn take_done(&mut self, out: &mut Vec<Bio>) {
        append(out, &mut self.done);
    }

    /// Whether completed bios can be taken.
    #[inline]
    pub fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    /// Whether the queue holds nothing that could still start or complete to a submitter. Requests that were given up
    /// as a whole and that the driver still has do not count.
    #[inline]
    pub fn is_settled(&self) -> bool {
        if self.attention { self.is_drained() } else { self.table.used() == 0 }
    }

    /// Whether the queue still holds requests, and whether all of them have started.
    #[inline]
    pub fn rest(&self) -> Rest {
        let used = self.table.used();
        match self.attention {
            true if self.is_drained() => Rest::Settled,
            true => Rest::Waits,
            false if used == 0 => Rest::Settled,
            false if used == self.in_flight as usize => Rest::Started,
            false => Rest::Waits,
        }
    }

    /// Requests that were given up as a whole and that the driver still has. They keep their slots.
    #[inline]
    pub fn quarantined(&self) -> u32 {
        self.quarantined
    }

    /// Requests that are with the driver or could be given to it.
    #[inline]
    pub fn demand(&self) -> u32 {
        (self.table.used() + self.retries.len()) as u32
    }

    /// Requests with the driver.
    #[inline]
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Whether the queue holds nothing at all (except completed bios).
    pub fn is_idle(&self) -> bool {
        self.table.used() == 0 && self.is_drained() && self.families.is_empty() && self.order.is_idle()
    }

    /// Whether everything that was admitted has completed, except requests given up: the condition for a barrier to
    /// start.
    fn is_drained(&self) -> bool {
        let given_up = if defect::is_on(Defect::BarrierWaitsForQuarantine) { 0 } else { self.quarantined };
        self.table.used() == given_up as usize
            && self.waiting.iter().all(VecDeque::is_empty)
            && self.retries.is_empty()
            && self.paused.is_empty()
            && self.doubts.held.is_empty()
            // The families of bios that were taken back from behind the barrier are not before it.
            && (self.families.are_released() || self.order.by_drain || self.order.settling)
    }

    /// Whether [`SchedQueue::next`] might return a request after a completion or a timer.
    #[inline]
    pub fn has_work(&self) -> bool {
        self.table.used() > self.in_flight as usize || !self.retries.is_empty()
    }

    /// When the elevator wants to be asked again even if nothing happens.
    pub fn elevator_wakeup(&self) -> Option<Time> {
        // The time only matters if the elevator would be asked then.
        let asked = !self.frozen && self.ready.is_empty() && self.in_flight < self.settings.depth;
        let elevator = self.elevator.as_ref().filter(|_| asked && !self.plug.is_plugged());
        elevator.and_then(|e| e.next_wakeup())
    }

    /// Whether the device holds its requests back for merging.
    #[inline]
    pub fn is_plugged(&self) -> bool {
        self.plug.is_plugged()
    }

    /// A thread waits: starts a plugged device.
    #[inline]
    pub fn unplug_for_waiter(&mut self, now: Time) {
        if self.plug.is_plugged() {
            self.unplug(now, Action::Unplug);
        }
    }

    /// The counters.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Geometry of the disk below.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The settings of the queue.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The size of the device has changed. Bios beyond its end fail from now on, with [`Kind::Gone`] if they are
    /// below the `largest` size that the device has had. Bios submitted earlier go to the driver unchanged.
    pub fn set_size(&mut self, size: u64, largest: u64) {
        (self.geometry.size, self.largest) = (size, largest);
    }

    /// Changes how many requests may be with the driver at once (at least one).
    #[inline]
    pub fn set_depth(&mut self, depth: u32) {
        self.settings.depth = depth.max(1);
    }

    /// The elevator, to read and set its parameters.
    pub fn elevator_mut(&mut self) -> Option<&mut (dyn Elevator + 'static)> {
        self.elevator.as_deref_mut()
    }

    /// Name of the elevator, or `none`.
    pub fn elevator_name(&self) -> &'static str {
        self.elevator.as_ref().map_or("none", |e| e.name())
    }

    /// The error of the elevator, if it had to be replaced with `noop`.
    pub fn elevator_fault(&self) -> Option<&str> {
        self.elevator_fault.as_deref()
    }

    /// Sends trace events to `sink`; `None` stops tracing.
    pub fn set_sink(&mut self, sink: Option<Box<dyn Sink>>) {
        self.sink = sink;
    }

    /// A bio for the queue's own use.
    fn spare_bio(&mut self) -> Bio {
        self.spare.pop().unwrap_or_else(Bio::flush)
    }

    fn keep_spare(&mut self, mut bio: Bio) {
        bio.recycle();
        if self.spare.len() < SPARE_BIOS {
            self.spare.push(bio);
        }
    }
}
