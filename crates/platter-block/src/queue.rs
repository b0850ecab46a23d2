//! The request queue: from bios to requests to the driver and back.
//!
//! A queue is told what was submitted and completed and what time it is; it answers with the next request to
//! start and when it wants to be woken. It never blocks: what has to wait (for a free request, behind a
//! barrier, for a range that is in doubt) waits in a list inside the queue. Every bio with a deadline leaves the queue
//! by it, wherever it is.

use crate::bio::{Bio, Flags, Op};
use crate::counters::Counters;
use crate::defect::{self, Defect};
use crate::driver::{Completion, Geometry, Started};
use crate::elevator::Elevator;
use crate::fault::{Fault, Kind, Stage};
use crate::request::{State, Table};
use crate::time::{Span, Time};
use crate::trace::{Action, Sink};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

mod common;
mod complete;
mod doubt;
mod enqueue;
mod family;
mod hash;
mod order;
mod plug;
mod pool;
mod split;
mod switch;
mod timers;
mod trace;
mod withdraw;
mod zeroes;

use common::Common;
use doubt::Doubts;
pub use doubt::Watch;
use family::Families;
use hash::MergeHash;
use order::Order;
use plug::DevicePlug;
pub use plug::PlugSettings;
use pool::RequestPool;
pub use pool::{CONGESTION_BATCH, PoolStats};
use timers::Paused;
pub use timers::{FIRST_PAUSE, RETRIES};

/// Requests kept back so that a flush or a retry can always be made (fact: the kernel's request mempool
/// reserve is 4).
const RESERVE: usize = 4;

/// How a queue is set up. `Default` is what a device opened without arguments gets.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Most requests with the driver at once (at least one).
    pub depth: u32,
    /// Requests: per direction with an elevator (Linux 2.6: 128), in all without (at least one).
    pub nr_requests: u32,
    /// Merge bios into requests.
    pub merges: bool,
    /// Plugging of the device; only used with an elevator.
    pub plug: Option<PlugSettings>,
    /// The time that a bio without a deadline of its own has, from submission; `None`: any time.
    pub timeout: Option<Span>,
    /// Longest that a hard barrier waits for requests of other queues of the device.
    pub barrier_timeout: Span,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            depth: 128,
            nr_requests: 128,
            merges: true,
            plug: Some(PlugSettings::default()),
            timeout: None,
            barrier_timeout: Span::from_secs(30),
        }
    }
}

/// What is in a queue, requests aside that were given up as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rest {
    /// Nothing.
    #[default]
    Settled,
    /// Only requests that the driver has.
    Started,
    /// Also bios or requests that have not started.
    Waits,
}

/// One request queue. See the [module](self).
pub struct Queue {
    geometry: Geometry,
    settings: Settings,
    /// FUA where the driver is told of it, else no flag.
    fua: Flags,
    /// Bios with any of these stand alone.
    unmergeable: Flags,
    table: Table,
    elevator: Option<Box<dyn Elevator>>,
    ends: MergeHash,
    starts: MergeHash,
    last_merge: Option<u32>,
    /// Requests in the order in which they go to the driver.
    ready: VecDeque<u32>,
    /// Bios that wait for a request, reads and writes apart.
    waiting: [VecDeque<Bio>; 2],
    /// Bios of failed or partly done requests, to be started again one by one.
    retries: VecDeque<Bio>,
    /// Bios that failed for a reason that may pass; they are started again after a pause.
    paused: Vec<Paused>,
    doubts: Doubts,
    /// Requests with the driver of which all bios were given up.
    quarantined: u32,
    /// Nothing can start: such requests hold all of the depth.
    stuck: bool,
    /// Of these, those that the driver has not been asked to cancel.
    given_up: Vec<u32>,
    /// Requests from which bios were withdrawn before they started.
    withdrawn: u32,
    /// Write-zeroes is done by writing zeroes.
    writes_zeroes: bool,
    pool: RequestPool,
    plug: DevicePlug,
    order: Order,
    families: Families,
    in_flight: u32,
    queued: u32,
    done: Vec<Bio>,
    spare: Vec<Bio>,
    frozen: bool,
    /// Something is not as it mostly is (see [`Queue::needs_attention`]): the slow paths must look.
    attention: bool,
    /// The driver has completed a request with an error.
    error: bool,
    /// What the common bio is compared against.
    common: Common,
    /// No timer is due before this. There may be none that is due then.
    alarm: Time,
    /// No deadline passes before this. The bio that had this one may be gone.
    next_deadline: Option<Time>,
    elevator_fault: Option<String>,
    counters: Arc<Counters>,
    sink: Option<Box<dyn Sink>>,
}

/// Moves all of `from` to the end of `out`; where `out` is empty, without looking at the elements.
#[inline]
pub fn append(out: &mut Vec<Bio>, from: &mut Vec<Bio>) {
    if from.is_empty() {
        return;
    }
    if out.is_empty() {
        core::mem::swap(out, from);
    } else {
        out.append(from);
    }
}

/// Bios kept for splits and flushes.
const SPARE_BIOS: usize = 256;

impl Queue {
    /// A queue for a disk; `elevator: None` is first come, first served without a lock's worth of work.
    pub fn new(
        geometry: Geometry,
        settings: Settings,
        elevator: Option<Box<dyn Elevator>>,
        counters: Arc<Counters>,
    ) -> Queue {
        let settings =
            Settings { depth: settings.depth.max(1), nr_requests: settings.nr_requests.max(1), ..settings };
        let capacity = pool::capacity(&settings) + RESERVE;
        let features = geometry.features;
        let mut queue = Queue {
            geometry,
            settings,
            fua: if features.write_cache && features.fua { Flags::FUA } else { Flags::NONE },
            unmergeable: enqueue::unmergeable(&features),
            table: Table::new(capacity),
            elevator: None,
            ends: MergeHash::new(capacity),
            starts: MergeHash::new(capacity),
            last_merge: None,
            ready: VecDeque::with_capacity(capacity),
            waiting: [VecDeque::new(), VecDeque::new()],
            retries: VecDeque::new(),
            paused: Vec::new(),
            doubts: Doubts::default(),
            quarantined: 0,
            stuck: false,
            given_up: Vec::new(),
            withdrawn: 0,
            writes_zeroes: !geometry.limits.write_zeroes,
            pool: RequestPool::new(settings.nr_requests),
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
            common: Common::new(&geometry),
            alarm: timers::NEVER,
            next_deadline: None,
            elevator_fault: None,
            counters,
            sink: None,
        };
        queue.set_elevator(elevator);
        queue
    }

    /// Makes places for requests that must not wait.
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
        self.look_for_common();
    }

    /// Whether there may be bios that need no closer look.
    fn look_for_common(&mut self) {
        self.common.possible =
            self.elevator.is_none() && self.sink.is_none() && self.settings.timeout.is_none();
    }

    /// Takes a bio in. It completes later through [`Queue::take_done`], or at once when it cannot be done.
    #[inline]
    pub fn submit(&mut self, now: Time, bio: Bio) {
        match self.geometry.limits.check_memory(&bio, self.geometry.size) {
            Ok(()) => self.submit_sound(now, bio),
            Err(fault) => self.refuse(now, bio, fault),
        }
    }

    /// Takes in a bio whose memory has passed [`Limits::check_memory`](crate::limits::Limits::check_memory).
    #[inline]
    pub fn submit_sound(&mut self, now: Time, bio: Bio) {
        debug_assert!(
            self.geometry.limits.check_memory(&bio, self.geometry.size).is_ok() || self.check(&bio).is_err(),
            "the memory was not checked: {bio:?}"
        );
        self.counters.bios.add(1);
        if self.common.covers(&bio) && !self.attention && self.may_make() {
            return self.make_ready(now, bio);
        }
        self.submit_any(now, bio);
    }

    /// Fails a bio whose memory is not as the device needs it, or for what else is wrong with it.
    #[cold]
    fn refuse(&mut self, now: Time, mut bio: Bio, fault: Fault) {
        self.counters.bios.add(1);
        if self.sink.is_some() {
            self.trace_bio(now, Action::Queue, &bio);
        }
        bio.fail(self.check(&bio).err().unwrap_or(fault));
        self.finish(now, bio);
    }

    fn submit_any(&mut self, now: Time, mut bio: Bio) {
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
        const ORDERED: Flags =
            Flags::FUA.union(Flags::PREFLUSH).union(Flags::SOFT_BARRIER).union(Flags::HARD_BARRIER);
        if self.order.is_closed() || bio.flags().intersects(ORDERED) || bio.op() == Op::Flush {
            self.submit_ordered(now, bio);
        } else {
            self.admit(now, bio);
        }
    }

    /// What can be wrong with a bio by itself, its memory aside.
    #[inline]
    fn check(&self, bio: &Bio) -> Result<(), Fault> {
        let op = bio.op();
        if op == Op::Flush {
            return Ok(());
        }
        let limits = &self.geometry.limits;
        limits
            .check_range(bio.pos(), bio.len(), self.geometry.size)
            .map_err(|fault| self.common.past_the_end(bio, fault))?;
        let fault = |kind| Err(Fault::new(kind, Stage::Queue));
        if op.changes() && self.geometry.features.read_only {
            return fault(Kind::ReadOnly);
        }
        if bio.flags().contains(Flags::ATOMIC) {
            self.check_atomic(bio)?;
        }
        if !op.has_data() {
            let supported = op != Op::Discard || limits.discard_granularity != 0;
            return if supported { Ok(()) } else { fault(Kind::Unsupported) };
        }
        Ok(())
    }

    /// The next request for the driver, now counted as started; `None` when there is none or none may go.
    /// Follow with [`Queue::started`] to hand it over, or [`Queue::refused`].
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

    /// [`Queue::next`] while something waits, is in doubt or was withdrawn.
    #[cold]
    fn next_with_care(&mut self, now: Time) -> Option<u32> {
        loop {
            self.requeue_retries(now);
            let index = match self.ready.pop_front() {
                Some(index) => index,
                None => self.next_from_elevator(now)?,
            };
            if self.may_start(index) {
                return Some(self.start(now, index));
            }
            self.take_apart(now, index);
        }
    }

    /// The request as the driver gets it.
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
            chain: self.table.chain(index),
            limits: &self.geometry.limits,
        }
    }

    /// The driver had no room: the request goes back to the head of the list.
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

    /// The driver is done with a request. Unknown tags are ignored and reported as a broken contract.
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

    /// Completed bios waiting to be taken.
    #[inline]
    pub fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    /// Whether nothing is in the queue that could still start or complete to a submitter. Requests that were given up
    /// as a whole and that the driver still has do not count.
    #[inline]
    pub fn is_settled(&self) -> bool {
        if self.attention { self.is_drained() } else { self.table.used() == 0 }
    }

    /// How much of what is in the queue the driver has.
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

    /// Requests that were given up as a whole and that the driver still has. They keep their places.
    #[inline]
    pub fn quarantined(&self) -> u32 {
        self.quarantined
    }

    /// Requests that are with the driver or could be.
    #[inline]
    pub fn demand(&self) -> u32 {
        (self.table.used() + self.retries.len()) as u32
    }

    /// Requests with the driver.
    #[inline]
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Whether nothing at all is in the queue (completed bios aside).
    pub fn is_idle(&self) -> bool {
        self.table.used() == 0 && self.is_drained() && self.families.is_empty() && self.order.is_idle()
    }

    /// Whether all that was let in has completed, requests given up aside: what a barrier waits for.
    fn is_drained(&self) -> bool {
        let given_up = if defect::is_on(Defect::BarrierWaitsForQuarantine) { 0 } else { self.quarantined };
        self.table.used() == given_up as usize
            && self.waiting.iter().all(VecDeque::is_empty)
            && self.retries.is_empty()
            && self.paused.is_empty()
            && self.doubts.holds_none()
            && self.families.are_released()
    }

    /// Whether [`Queue::next`] might return a request once something completes or a timer fires.
    #[inline]
    pub fn has_work(&self) -> bool {
        self.table.used() > self.in_flight as usize || !self.retries.is_empty()
    }

    /// When the elevator wants to be asked again although nothing happened.
    pub fn elevator_wakeup(&self) -> Option<Time> {
        // Its time only matters when it would then be asked.
        let asked = !self.frozen && self.ready.is_empty() && self.in_flight < self.settings.depth;
        let elevator = self.elevator.as_ref().filter(|_| asked && !self.plug.is_plugged());
        elevator.and_then(|e| e.next_wakeup())
    }

    /// Somebody waits: starts a plugged device.
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

    /// How the queue is set up.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The device has another size. What is beyond its end fails from now on, with [`Kind::Gone`] as far as the `largest`
    /// size that it has had. Bios that were taken in earlier go to the driver all the same.
    pub fn set_size(&mut self, size: u64, largest: u64) {
        self.geometry.size = size;
        self.common.resize(size, largest);
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

    /// What the elevator did wrong, if it had to be replaced with `noop`.
    pub fn elevator_fault(&self) -> Option<&str> {
        self.elevator_fault.as_deref()
    }

    /// Sends trace events to `sink`, or nowhere.
    pub fn set_sink(&mut self, sink: Option<Box<dyn Sink>>) {
        self.sink = sink;
        self.look_for_common();
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
