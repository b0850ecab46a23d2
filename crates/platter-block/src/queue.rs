//! The request queue: from bios to requests for the driver and back.
//!
//! The caller tells a queue what was submitted and completed and what time it is; the queue answers with the next
//! request to start and the time of its next timer. It never blocks: bios that have to wait (for a free request,
//! behind a barrier, for a range in doubt) wait in a list inside the queue. Every bio with a deadline leaves the
//! queue by its deadline, whatever it waits for.

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

/// Requests kept in reserve so that a flush or a retry can always be made (fact: the kernel's request mempool reserve
/// is 4).
const RESERVE: usize = 4;

/// Settings of a queue. `Default` has the settings of a device opened without arguments.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Most requests with the driver at once (at least one).
    pub depth: u32,
    /// Number of requests: per direction with an elevator (Linux 2.6: 128), in total without one (at least one).
    pub nr_requests: u32,
    /// Merge bios into requests.
    pub merges: bool,
    /// Plugging of the device; only used with an elevator.
    pub plug: Option<PlugSettings>,
    /// Time from submission after which a bio without a deadline of its own fails; `None`: no limit.
    pub timeout: Option<Span>,
    /// Longest time that a hard barrier waits for requests of other queues of the device.
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

/// What a queue still holds, except requests that were given up as a whole.
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
    paused: Vec<Paused>,
    doubts: Doubts,
    /// Number of requests with the driver whose bios have all been given up.
    quarantined: u32,
    /// Nothing can start because given-up requests hold the whole depth.
    stuck: bool,
    /// Given-up requests that the driver has not been asked to cancel yet.
    given_up: Vec<u32>,
    /// Number of requests from which bios were withdrawn before they started.
    withdrawn: u32,
    /// Whether write-zeroes is carried out by writing zeroes.
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
    /// Something needs the slow paths (see [`Queue::needs_attention`]).
    attention: bool,
    /// The driver has completed a request with an error.
    error: bool,
    /// Conditions that a common bio is checked against.
    common: Common,
    /// No timer is due before this time. There may be none that is due at it.
    alarm: Time,
    /// No deadline passes before this time. The bio that had this deadline may be gone.
    next_deadline: Option<Time>,
    elevator_fault: Option<String>,
    counters: Arc<Counters>,
    sink: Option<Box<dyn Sink>>,
}

/// Moves all of `from` to the end of `out`; if `out` is empty, by swapping the vectors.
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
    /// A queue for a disk; `elevator: None` is first come, first served and costs least.
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
        self.look_for_common();
    }

    /// Determines whether the fast path for common bios is possible.
    fn look_for_common(&mut self) {
        self.common.possible =
            self.elevator.is_none() && self.sink.is_none() && self.settings.timeout.is_none();
    }

    /// Submits a bio. It completes later through [`Queue::take_done`], or at once if it is invalid.
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
            self.geometry.limits.check_memory(&bio, self.geometry.size).is_ok() || self.check(&bio).is_err(),
            "the memory was not checked: {bio:?}"
        );
        self.counters.bios.add(1);
        if self.common.covers(&bio) && !self.attention && self.may_make() {
            return self.make_ready(now, bio);
        }
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

    /// Checks a bio for faults, except those of its memory.
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

    /// Returns the next request for the driver and counts it as started; `None` if there is none or none may start.
    /// Follow with [`Queue::started`] to hand it over, or with [`Queue::refused`].
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

    /// [`Queue::next`] while requests wait, are in doubt or were withdrawn.
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
            chain: self.table.chain(index),
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
            && self.doubts.holds_none()
            && self.families.are_released()
    }

    /// Whether [`Queue::next`] might return a request after a completion or a timer.
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

    /// A thread waits: starts a plugged device.
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

    /// The error of the elevator, if it had to be replaced with `noop`.
    pub fn elevator_fault(&self) -> Option<&str> {
        self.elevator_fault.as_deref()
    }

    /// Sends trace events to `sink`; `None` stops tracing.
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
