//! The body of both request queues: what a queue keeps and does wherever its requests are.
//!
//! Families of split bios, zeroes that are written, bios that wait, pauses before a retry, the time that the driver
//! takes, counters and trace are the same for all queues. A [`Store`] has the requests themselves: those that wait to start, and
//! those that the driver has.

use super::family::{Families, Parent, Role};
use super::order::Order;
use super::pause::{NEVER, Pauses, queue_fault};
use super::split::{check, fits, front_bytes, unmergeable};
use super::watch::Watch;
use super::zeroes::{AT_ONCE, Zeroes, can_write};
use super::{Rest, SPARE_BIOS, Settings};
use crate::bio::{Bio, Flags, Op};
use crate::counters::Counters;
use crate::driver::{Completion, Geometry, Started};
use crate::fault::{Fault, Kind, Status};
use crate::request::Marks;
use crate::time::Time;
use crate::trace::{Action, Event, Sink};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

pub(super) mod silence;

use silence::{GONE, Silence};

/// Where a queue keeps its requests, and in which order they start.
pub trait Store: Send + Sized {
    /// Requests that have not started.
    fn unstarted(queue: &Queue<Self>) -> u32;

    /// Tags of the requests that the driver has.
    fn tags(&self) -> Vec<u32>;

    /// Visits the bios of a request that the driver has, perhaps to change them.
    fn visit(&mut self, tag: u32, each: impl FnMut(&mut Bio));

    /// The marks of a request that the driver has.
    fn marks(&mut self, tag: u32) -> &mut Marks;

    /// Operation and start of a request that the driver has.
    fn started_at(&self, tag: u32) -> (Op, Time);

    /// Finds or makes a request for a bio that fits into one, or has the bio wait for one.
    fn enqueue(queue: &mut Queue<Self>, now: Time, bio: Bio);

    /// Takes the bios that match out of the requests that have not started.
    fn withdraw(queue: &mut Queue<Self>, which: &dyn Fn(&Bio) -> bool, out: &mut Vec<Bio>);

    /// Lets bios go on that a completion has made room for.
    fn wake(queue: &mut Queue<Self>, now: Time);

    /// The next request for the driver, counted as in flight.
    fn next(queue: &mut Queue<Self>, now: Time) -> Option<u32>;

    /// A started request in the form in which the driver gets it.
    fn request(queue: &Queue<Self>, tag: u32) -> Option<Started<'_>>;

    /// The driver had no room for a request: it is the next one again.
    fn refused(queue: &mut Queue<Self>, now: Time, tag: u32);

    /// Completes requests. Returns how many of them the driver did not have.
    fn complete(queue: &mut Queue<Self>, now: Time, completions: &mut Vec<Completion>) -> u64;

    /// Admits a bio that has been checked.
    fn admit_checked(queue: &mut Queue<Self>, now: Time, bio: Bio);

    /// The device has another size.
    fn set_size(&mut self, size: u64) {
        let _ = size;
    }

    // The rest is for a queue with an elevator, flushes and barriers.

    /// When the queue wants to be run even if nothing happens.
    fn next_wakeup(queue: &Queue<Self>) -> Option<Time> {
        queue.next_timer()
    }

    /// When the store's own timer is due.
    fn timer(&self) -> Option<Time> {
        None
    }

    /// Runs the timers that are due, except those of pauses and of the time with the driver.
    fn run_timers(queue: &mut Queue<Self>, now: Time) {
        let _ = (queue, now);
    }

    /// Starts what is held back although it could start.
    fn unplug(queue: &mut Queue<Self>, now: Time) {
        let _ = (queue, now);
    }

    /// The queue's own flush has ended, or all children of a sequence.
    fn step_done(queue: &mut Queue<Self>, now: Time, at: u32, status: Status) {
        let _ = (queue, now, at, status);
    }

    /// A request has failed or is short. Returns its bio, unless that is a step of a barrier or is behind one.
    fn step_failed(queue: &mut Queue<Self>, now: Time, bio: Bio, result: i64) -> Option<Bio> {
        let _ = (queue, now, result);
        Some(bio)
    }

    /// Ends the sequences of matching bios that have not started: they wait for a flush or for the drain.
    fn end_sequences(queue: &mut Queue<Self>, now: Time, which: &dyn Fn(&Bio) -> bool, why: Kind) {
        let _ = (queue, now, which, why);
    }
}

/// A request queue: the body of both kinds of the [module](super).
pub struct Queue<S: Store> {
    pub(super) store: S,
    pub(super) geometry: Geometry,
    pub(super) settings: Settings,
    /// FUA if the driver is told of it, else no flag.
    pub(super) fua: Flags,
    /// Bios with any of these flags are not merged.
    pub(super) unmergeable: Flags,
    /// The largest size that the device has had.
    largest: u64,
    /// Bios that wait for a free request; with an elevator reads and writes separately.
    pub(super) waiting: [VecDeque<Bio>; 2],
    /// Bios of failed or partly completed requests, to be retried one by one before all others.
    pub(super) retries: VecDeque<Bio>,
    /// Bios that failed for a reason that may pass; they are retried after a pause.
    pub(super) paused: Pauses,
    /// Requests that the driver has had for too long.
    pub(super) silence: Silence,
    /// The device has failed: nothing starts, and new bios are refused.
    pub(super) failed: bool,
    /// Speaks for the other queues of the device.
    pub(super) watch: Option<Box<dyn Watch>>,
    /// Number of requests from which bios were withdrawn before they started.
    pub(super) withdrawn: u32,
    /// Whether write-zeroes is carried out by writing zeroes.
    writes_zeroes: bool,
    /// Flushes and barriers. The queue of a lane never gets any.
    pub(super) order: Order,
    pub(super) families: Families,
    pub(super) in_flight: u32,
    pub(super) done: Vec<Bio>,
    spare: Vec<Bio>,
    pub(super) quiesced: bool,
    /// Something waits for other reasons than the depth, the driver has overdue requests, or the device has failed.
    pub(super) attention: bool,
    /// Something needs the slow paths: `attention`, a trace, a timeout or a freeze.
    pub(super) care: bool,
    /// The driver has completed a request with an error.
    pub(super) error: bool,
    /// No timer is due before this time. There may be none that is due at it.
    pub(super) alarm: Time,
    pub(super) counters: Arc<Counters>,
    pub(super) sink: Option<Box<dyn Sink>>,
}

impl<S: Store> Queue<S> {
    /// A queue over a store that has room for `capacity` requests.
    pub(super) fn over(
        store: S,
        (geometry, settings): (Geometry, Settings),
        counters: Arc<Counters>,
        capacity: usize,
    ) -> Queue<S> {
        let features = geometry.features;
        let mut queue = Queue {
            store,
            geometry,
            settings,
            fua: if features.write_cache && features.fua { Flags::FUA } else { Flags::NONE },
            unmergeable: unmergeable(&features),
            largest: geometry.size,
            waiting: [VecDeque::new(), VecDeque::new()],
            retries: VecDeque::new(),
            paused: Pauses::default(),
            silence: Silence::NONE,
            failed: false,
            watch: None,
            withdrawn: 0,
            writes_zeroes: !geometry.limits.write_zeroes,
            order: Order::default(),
            families: Families::default(),
            in_flight: 0,
            done: Vec::with_capacity(capacity),
            spare: Vec::new(),
            quiesced: false,
            attention: false,
            care: false,
            error: false,
            alarm: NEVER,
            counters,
            sink: None,
        };
        queue.note_attention();
        queue
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
            bio.op() == Op::Command
                || self.geometry.limits.check_memory(&bio, self.geometry.size).is_ok()
                || self.check(&bio).is_err(),
            "the memory was not checked: {bio:?}"
        );
        let checked = self.check(&bio);
        if let Some(bio) = self.accept(now, bio, checked) {
            S::admit_checked(self, now, bio);
        }
    }

    /// Fails a bio whose memory is not aligned as the device requires, or with another fault of the bio if it has
    /// one.
    #[cold]
    fn refuse(&mut self, now: Time, bio: Bio, fault: Fault) {
        let refused = self.check(&bio).and(Err(fault));
        self.accept(now, bio, refused);
    }

    /// Counts a new bio, and returns it if it is sound and the device has not failed.
    #[inline]
    pub(super) fn accept(&mut self, now: Time, bio: Bio, checked: Result<(), Fault>) -> Option<Bio> {
        self.counters.bios.add(1);
        self.trace_bio(now, Action::Queue, &bio);
        match checked.and(if self.failed { Err(GONE) } else { Ok(()) }) {
            Ok(()) => Some(bio),
            Err(fault) => {
                self.fail(now, bio, fault);
                None
            }
        }
    }

    /// Checks a bio for faults, except those of its memory.
    #[inline]
    fn check(&self, bio: &Bio) -> Result<(), Fault> {
        check(&self.geometry, self.largest, bio)
    }

    /// Admits a bio on its way to the driver, split into as many requests as it needs.
    #[inline]
    pub(super) fn admit(&mut self, now: Time, bio: Bio) {
        if fits(&self.geometry.limits, &bio) { S::enqueue(self, now, bio) } else { self.split(now, bio) }
    }

    /// Cuts a bio into pieces that fit and admits each; the bio completes when all pieces have.
    #[cold]
    fn split(&mut self, now: Time, bio: Bio) {
        if bio.op() == Op::WriteZeroes && self.writes_zeroes && can_write(&self.geometry.limits) {
            return self.write_zeroes(now, bio);
        }
        let limits = self.geometry.limits;
        let mut front = front_bytes(&limits, &bio);
        if front == bio.len() {
            return S::enqueue(self, now, bio);
        }
        let mut rest = self.spare_bio();
        rest.share_window(&bio);
        let parent = self.families.insert(Parent { bio, pending: 1, role: Role::Split });
        while front > 0 && front < rest.len() {
            let mut piece = self.spare_bio();
            rest.split_front(front, &mut piece);
            self.counters.splits.add(1);
            self.trace(|| Event { extra: rest.pos() / 512, ..Event::of_bio(now, Action::Split, &piece) });
            self.enqueue_child(now, piece, parent);
            front = front_bytes(&limits, &rest);
        }
        if front == 0 {
            self.families.count_child(parent);
            rest.set_parent(parent);
            self.fail(now, rest, queue_fault(Kind::BadSegments));
        } else {
            self.enqueue_child(now, rest, parent);
        }
        self.child_done(now, parent, Ok(()));
    }

    fn enqueue_child(&mut self, now: Time, mut child: Bio, parent: u32) {
        self.families.count_child(parent);
        child.set_parent(parent);
        S::enqueue(self, now, child);
    }

    /// The device does not support a bio's operation. Returns the bio if there is no substitute.
    #[cold]
    pub(super) fn replace_unsupported(&mut self, now: Time, bio: Bio) -> Option<Bio> {
        let is_last = bio.flags().contains(Flags::LAST);
        if bio.op() != Op::WriteZeroes || is_last || !can_write(&self.geometry.limits) {
            return Some(bio);
        }
        self.writes_zeroes = true;
        self.write_zeroes(now, bio);
        None
    }

    /// Writes zeroes over the range of a bio, which completes when all of them are written.
    #[cold]
    fn write_zeroes(&mut self, now: Time, bio: Bio) {
        self.counters.zeroes_written.add(bio.len());
        let role = Role::Zeroes(Zeroes::of(&bio));
        let at = self.families.insert(Parent { bio, pending: 1, role });
        self.child_done(now, at, Ok(()));
    }

    /// Starts further writes of a bio, up to the number allowed in flight.
    pub(super) fn write_more_zeroes(&mut self, now: Time, at: u32) {
        while let Some(child) = self.next_zeroes(at) {
            self.admit(now, child);
        }
    }

    fn next_zeroes(&mut self, at: u32) -> Option<Bio> {
        let mut child = self.spare_bio();
        let parent = self.families.get_mut(at)?;
        let Role::Zeroes(zeroes) = &mut parent.role else { return None };
        if parent.pending > AT_ONCE || zeroes.len == 0 || parent.bio.status().is_err() {
            self.keep_spare(child);
            return None;
        }
        zeroes.next(&self.geometry.limits, (&parent.bio, at), &mut child);
        parent.pending += 1;
        Some(child)
    }

    /// A bio for the queue's own use.
    pub(super) fn spare_bio(&mut self) -> Bio {
        self.spare.pop().unwrap_or_else(Bio::flush)
    }

    pub(super) fn keep_spare(&mut self, mut bio: Bio) {
        bio.recycle();
        if self.spare.len() < SPARE_BIOS {
            self.spare.push(bio);
        }
    }

    /// Requests that have started and those that have not.
    #[inline]
    pub(super) fn used(&self) -> u32 {
        self.in_flight + S::unstarted(self)
    }

    /// Takes the next request for the driver and counts it as started; `None` if there is none or none may start.
    /// Follow with [`Queue::request`] to hand it over, or with [`Queue::refused`].
    #[inline]
    pub fn next(&mut self, now: Time) -> Option<u32> {
        let tag = S::next(self, now)?;
        self.counters.dispatched(self.in_flight);
        Some(tag)
    }

    /// A started request in the form in which the driver gets it.
    #[inline]
    pub fn request(&self, tag: u32) -> Option<Started<'_>> {
        S::request(self, tag)
    }

    /// The driver had no room: the request is the next one again.
    #[cold]
    pub fn refused(&mut self, now: Time, tag: u32) {
        self.counters.requeues.add(1);
        self.counters.refusals.add(1);
        self.in_flight -= 1;
        S::refused(self, now, tag);
    }

    /// Whether completed bios can be taken.
    #[inline]
    pub fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    /// Whether the queue holds nothing that could still start or complete to a submitter.
    #[inline]
    pub fn is_settled(&self) -> bool {
        self.rest() == Rest::Settled
    }

    /// Whether the queue holds nothing at all (except completed bios).
    pub fn is_idle(&self) -> bool {
        self.used() == 0 && self.is_drained() && self.families.is_empty() && self.order.is_idle()
    }

    /// Whether [`Queue::next`] might return a request after a completion or a timer.
    #[inline]
    pub fn has_work(&self) -> bool {
        S::unstarted(self) > 0 || !self.retries.is_empty()
    }

    /// Requests that are with the driver or could be given to it.
    #[inline]
    pub fn demand(&self) -> u32 {
        self.used() + self.retries.len() as u32
    }

    /// Requests with the driver.
    #[inline]
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// When the queue wants [`Queue::tick`] to be called even if nothing happens.
    #[inline]
    pub fn next_wakeup(&self) -> Option<Time> {
        S::next_wakeup(self)
    }

    /// Whether no bio waits, for whatever reason.
    pub(super) fn nothing_waits(&self) -> bool {
        self.waiting.iter().all(VecDeque::is_empty) && self.retries.is_empty() && self.paused.is_empty()
    }

    /// Whether everything that was admitted has completed: the condition for a barrier to start.
    pub(super) fn is_drained(&self) -> bool {
        self.used() == 0
            && self.nothing_waits()
            // The families of bios that were taken back from behind the barrier are not before it.
            && (self.families.is_empty() || self.order.by_drain || self.order.settling)
    }

    /// After a completion: bios that waited for a free request may get one, and a barrier may begin.
    #[cold]
    pub(super) fn attend(&mut self, now: Time) {
        S::wake(self, now);
        self.note_attention();
    }

    /// Call this after any change of what it examines, unless attention is already set and the change cannot clear it.
    #[cold]
    pub(super) fn note_attention(&mut self) {
        let waiting: usize = self.waiting.iter().map(VecDeque::len).sum();
        let held = waiting + self.order.held_back_len() + self.paused.len();
        self.attention = held > 0
            || self.order.is_watched()
            || !self.retries.is_empty()
            || self.silence.is_watched()
            || self.withdrawn > 0
            || self.failed;
        self.care = self.attention || self.quiesced || self.sink.is_some() || self.settings.limit_time();
        self.counters.held.set(held as u64);
    }

    #[inline]
    pub(super) fn trace_bio(&mut self, now: Time, action: Action, bio: &Bio) {
        self.trace(|| Event::of_bio(now, action, bio));
    }

    #[inline]
    pub(super) fn trace(&mut self, event: impl FnOnce() -> Event) {
        if let Some(sink) = &mut self.sink {
            sink.event(&event());
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

    /// Sends trace events to `sink`; `None` stops tracing.
    pub fn set_sink(&mut self, sink: Option<Box<dyn Sink>>) {
        self.sink = sink;
        self.note_attention();
    }

    /// Changes how many requests may be with the driver at once (at least one).
    #[inline]
    pub fn set_depth(&mut self, depth: u32) {
        self.settings.depth = depth.max(1);
    }

    /// The size of the device has changed. Bios beyond its end fail from now on, with [`Kind::Gone`] if they are
    /// below the `largest` size that the device has had. Bios submitted earlier go to the driver unchanged.
    pub fn set_size(&mut self, size: u64, largest: u64) {
        (self.geometry.size, self.largest) = (size, largest);
        self.store.set_size(size);
    }

    /// Starts no further request until [`Queue::unquiesce`]; requests with the driver continue.
    pub fn quiesce(&mut self) {
        self.quiesced = true;
        self.note_attention();
    }

    /// Lets requests start again.
    pub fn unquiesce(&mut self) {
        self.quiesced = false;
        self.note_attention();
    }

    /// Whether the queue is quiesced.
    pub fn is_quiesced(&self) -> bool {
        self.quiesced
    }
}
