//! From a bio to a request: merging, allocation, insertion; and from the elevator to the driver.

use super::SchedQueue;
use super::hash::Side;
use crate::bio::{Bio, Flags, Op};
use crate::elevator::MayQueue;
use crate::fault::Kind;
use crate::queue::is_at_head;
use crate::queue::pause::queue_fault;
use crate::request::{self, State};
use crate::time::{Span, Time};
use crate::trace::{Action, Event};

enum Place {
    Back(u32),
    Front(u32),
}

impl SchedQueue {
    /// Finds a request for a bio that fits into one: merges it into an existing request, or makes a new one.
    #[inline]
    pub(super) fn enqueue(&mut self, now: Time, bio: Bio) {
        if bio.op() == Op::Command {
            return self.enqueue_command(now, bio);
        }
        if self.store.elevator.is_some() {
            return self.enqueue_elevator(now, bio);
        }
        if let Some(last) = self.ready_merge(&bio) {
            return self.merge_back(now, last, bio);
        }
        if !self.waiting[0].is_empty() || !self.may_make() {
            return self.wait_for_request(now, bio);
        }
        self.make_ready(now, bio);
    }

    /// Puts a command at the [head](SchedQueue::head) of the dispatch list, or at its end, behind all that waits and that the elevator holds.
    /// Elevators do not sort commands, and do not delay them (Linux 2.6: `ELEVATOR_INSERT_FRONT` and
    /// `ELEVATOR_INSERT_BACK`). The number of requests does not bound them: depth does, and the memory that submitters have.
    #[cold]
    fn enqueue_command(&mut self, now: Time, bio: Bio) {
        let first = is_at_head(&bio);
        if !first {
            self.empty_elevator(now);
        }
        self.place_at_end(now, bio);
        if first && let Some(index) = self.store.ready.pop_back() {
            self.store.ready.insert(self.head(), index);
        }
        self.unplug_for_waiter(now);
    }

    /// The first place on the dispatch list that is behind all barriers: these keep their place in the order.
    fn head(&self) -> usize {
        let barrier = Flags::SOFT_BARRIER | Flags::TAGGED;
        let last =
            self.store.ready.iter().rposition(|&index| self.store.table.at(index).flags.intersects(barrier));
        last.map_or(0, |at| at + 1)
    }

    /// Whether a queue without an elevator may make another request.
    #[inline]
    pub(super) fn may_make(&self) -> bool {
        self.store.table.used() < self.settings.nr_requests as usize
    }

    /// Without an elevator a bio may merge into the last request.
    #[inline]
    fn ready_merge(&self, bio: &Bio) -> Option<u32> {
        let &last = self.store.ready.back()?;
        let fits =
            self.settings.merges && self.store.table.at(last).end() == bio.pos() && self.may_merge(last, bio);
        fits.then_some(last)
    }

    /// Merges the first bio that waits for a request, if a request has room for it by now.
    pub(super) fn merge_waiter(&mut self, now: Time, list: usize) -> bool {
        let Some(bio) = self.waiting[list].front() else { return false };
        let place = match self.store.elevator {
            Some(_) => self.find_merge(bio),
            None => self.ready_merge(bio).map(Place::Back),
        };
        let Some(place) = place else { return false };
        let Some(bio) = self.waiting[list].pop_front() else { return false };
        match place {
            Place::Back(index) if self.store.elevator.is_none() => {
                self.merge_back(now, index, bio);
            }
            place => self.merge_queued(now, place, bio),
        }
        true
    }

    /// Makes a request at the end of the dispatch list. Only called when a slot is free or the table may
    /// grow.
    #[inline]
    pub(super) fn make_ready(&mut self, now: Time, bio: Bio) {
        if let Some(index) = self.make_request(now, bio) {
            self.store.ready.push_back(index);
        }
    }

    /// Makes a request for the dispatch list.
    #[inline]
    pub(super) fn make_request(&mut self, now: Time, bio: Bio) -> Option<u32> {
        if !self.store.table.has_free() {
            self.grow_table();
        }
        let index = self.store.table.make(bio, State::Ready).ok()?;
        self.counters.requests.add(1);
        self.trace_request(now, Action::GetRequest, index, 0);
        self.trace_request(now, Action::Insert, index, 0);
        Some(index)
    }

    #[cold]
    fn wait_for_request(&mut self, now: Time, bio: Bio) {
        if bio.flags().contains(Flags::READAHEAD) {
            return self.fail(now, bio, queue_fault(Kind::WouldBlock));
        }
        self.counters.request_waits.add(1);
        self.trace_bio(now, Action::Sleep, &bio);
        // A submitter that has to wait for a request starts the device first.
        self.unplug_for_waiter(now);
        let list = if self.store.elevator.is_some() { bio.op().dir() as usize } else { 0 };
        self.waiting[list].push_back(bio);
        self.note_attention();
    }

    pub(super) fn enqueue_elevator(&mut self, now: Time, bio: Bio) {
        if let Some(place) = self.find_merge(&bio) {
            return self.merge_queued(now, place, bio);
        }
        let dir = bio.op().dir();
        let may = self.may_queue(&bio);
        let in_line = self.attention && !self.waiting[dir as usize].is_empty() && may != MayQueue::Must;
        if in_line || !self.store.pool.take(now, dir, bio.context(), may) {
            if self.store.table.used() > 0 {
                return self.wait_for_request(now, bio);
            }
            // No completion would wake the waiter: one request is always allowed, whatever the elevator
            // answers.
            self.store.pool.take_always(dir);
        }
        self.insert_new(now, bio);
    }

    /// The elevator's answer to whether a bio may have a request.
    pub(super) fn may_queue(&self, bio: &Bio) -> MayQueue {
        let Some(elevator) = &self.store.elevator else { return MayQueue::May };
        let (context, dir) = (bio.context(), bio.op().dir());
        match request::is_sync(bio.op(), bio.flags()) {
            true => elevator.may_queue(context, dir),
            false => elevator.may_queue_async(context, dir),
        }
    }

    fn merge_queued(&mut self, now: Time, place: Place, bio: Bio) {
        let sync = bio.flags().contains(Flags::SYNC);
        match place {
            Place::Back(index) => self.merge_back_queued(now, index, bio),
            Place::Front(index) => self.merge_front_queued(now, index, bio),
        }
        self.unplug_if_due(now, sync);
    }

    /// Makes a request that is already counted in the pool, and gives it to the elevator.
    #[inline(always)]
    pub(super) fn insert_new(&mut self, now: Time, bio: Bio) {
        let (info, flags) = (request::info_of(&bio), bio.flags());
        if !self.store.table.has_free() {
            self.grow_table();
        }
        let Ok(index) = self.store.table.make(bio, State::Queued) else { return };
        self.counters.requests.add(1);
        self.plug_if_empty(now);
        self.store.queued += 1;
        if self.settings.merges && !flags.intersects(self.unmergeable) {
            self.store.neighbours.insert(index, info.pos, info.end());
            self.store.last_merge = Some(index);
        }
        if self.sink.is_some() {
            self.trace_request(now, Action::GetRequest, index, 0);
            self.trace_request(now, Action::Insert, index, 0);
        }
        let id = self.store.table.id(index);
        if let Some(elevator) = &mut self.store.elevator {
            elevator.insert(now, id, &info);
        }
        self.unplug_if_due(now, flags.contains(Flags::SYNC));
    }

    /// Whether a bio may join a request: same operation and priority, both mergeable, and the size stays
    /// within the limits.
    #[inline]
    fn may_merge(&self, index: u32, bio: &Bio) -> bool {
        let request = self.store.table.at(index);
        let limits = &self.geometry.limits;
        if request.op != bio.op()
            || (request.flags | bio.flags()).intersects(self.unmergeable)
            || self.store.table.ioprio(index) != bio.ioprio()
            || !matches!(bio.op(), Op::Read | Op::Write | Op::Discard)
            || !request.takes_bios(1)
        {
            return false;
        }
        let start = request.pos.min(bio.pos());
        let (len, segments) = (request.len + bio.len(), u32::from(request.segments));
        len <= limits.max_bytes_at(bio.op(), start)
            && limits.takes_segments(segments + u32::from(bio.segment_count()), len)
    }

    fn elevator_allows(&self, index: u32, bio: &Bio) -> bool {
        let (id, info) = (self.store.table.id(index), self.store.table.at(index).info());
        self.store.elevator.as_ref().is_none_or(|e| e.allow_merge(id, &info, &request::info_of(bio)))
    }

    /// A queued request that a bio can join.
    #[inline(always)]
    fn find_merge(&self, bio: &Bio) -> Option<Place> {
        match self.store.neighbours.may_touch(bio.pos(), bio.end()) {
            true => self.search_merge(bio),
            false => None,
        }
    }

    /// Candidates in the order of 2.6.19: the last request merged into, the hash of ends, then the front.
    #[inline(never)]
    fn search_merge(&self, bio: &Bio) -> Option<Place> {
        if !self.settings.merges || bio.flags().intersects(self.unmergeable) {
            return None;
        }
        let fits = |index: u32| self.may_merge(index, bio) && self.elevator_allows(index, bio);
        if let Some(last) = self.store.last_merge
            && self.store.table.at(last).end() == bio.pos()
            && fits(last)
        {
            return Some(Place::Back(last));
        }
        if let Some(index) = self.store.neighbours.find(Side::End, bio.pos(), fits) {
            return Some(Place::Back(index));
        }
        if self.store.elevator.as_ref().is_some_and(|e| e.front_merges()) {
            return self.store.neighbours.find(Side::Start, bio.end(), fits).map(Place::Front);
        }
        None
    }

    /// The number of queued requests that a search for a request to merge with looks at, for a bio of this range: in the hash of
    /// ends, then in that of starts. For experiments that count the work of the queue.
    pub fn merge_looks(&self, pos: u64, len: u64) -> usize {
        let front = self.store.elevator.as_ref().is_some_and(|elevator| elevator.front_merges());
        let looks = |side, key| self.store.neighbours.looks(side, key);
        looks(Side::End, pos) + if front { looks(Side::Start, pos + len) } else { 0 }
    }

    #[inline]
    fn merge_back(&mut self, now: Time, index: u32, bio: Bio) {
        self.counters.back_merges.add(1);
        self.trace_bio(now, Action::BackMerge, &bio);
        self.store.table.push_back(index, bio);
    }

    fn merge_back_queued(&mut self, now: Time, index: u32, bio: Bio) {
        let old = self.store.table.at(index).info();
        self.merge_back(now, index, bio);
        self.store.neighbours.unlink(Side::End, index);
        self.grown(index, &old);
        // The request may now reach its neighbour.
        let end = self.store.table.at(index).end();
        if let Some(next) = self.store.neighbours.find(Side::Start, end, |next| self.may_join(index, next)) {
            self.join(index, next);
        }
        let end = self.store.table.at(index).end();
        self.store.neighbours.link(Side::End, index, end);
        self.store.last_merge = Some(index);
    }

    fn merge_front_queued(&mut self, now: Time, index: u32, bio: Bio) {
        let old = self.store.table.at(index).info();
        self.counters.front_merges.add(1);
        self.trace_bio(now, Action::FrontMerge, &bio);
        self.store.table.push_front(index, bio);
        self.store.neighbours.unlink(Side::Start, index);
        self.grown(index, &old);
        let start = self.store.table.at(index).pos;
        self.store.neighbours.link(Side::Start, index, start);
        // No request can end here: the bio would have been merged at its end.
        self.store.last_merge = Some(index);
    }

    fn grown(&mut self, index: u32, old: &crate::elevator::RequestInfo) {
        let (id, new) = (self.store.table.id(index), self.store.table.at(index).info());
        if let Some(elevator) = &mut self.store.elevator {
            elevator.merged(id, old, &new);
        }
    }

    fn may_join(&self, front: u32, back: u32) -> bool {
        let (f, b) = (self.store.table.at(front), self.store.table.at(back));
        let limits = &self.geometry.limits;
        front != back
            && f.op == b.op
            && self.store.table.ioprio(front) == self.store.table.ioprio(back)
            && f.info().context == b.info().context
            && f.takes_bios(b.bios)
            && f.len + b.len <= limits.max_bytes_at(f.op, f.pos)
            && limits.takes_segments(u32::from(f.segments) + u32::from(b.segments), f.len + b.len)
            && self.elevator_joins(front, back)
    }

    fn elevator_joins(&self, front: u32, back: u32) -> bool {
        let (front, back) = (self.store.table.id(front), self.store.table.id(back));
        self.store.elevator.as_ref().is_none_or(|elevator| elevator.allow_join(front, back))
    }

    /// Joins two queued neighbours into one request. The caller updates the survivor's hash of ends.
    fn join(&mut self, front: u32, back: u32) {
        let (old, id) = (self.store.table.at(front).info(), self.store.table.id(front));
        let (absorbed, info) = (self.store.table.id(back), self.store.table.at(back).info());
        self.store.neighbours.remove(back);
        self.counters.request_merges.add(1);
        if self.withdrawn > 0 {
            self.pass_mark_on(front, back);
        }
        self.store.table.absorb(front, back);
        self.store.queued -= 1;
        self.store.pool.put(info.dir);
        if let Some(elevator) = &mut self.store.elevator {
            elevator.absorbed(id, absorbed, &info);
        }
        self.grown(front, &old);
    }

    /// The elevator's choice, checked; `None` while the device is plugged, or if the elevator has no request
    /// or wants to wait.
    #[inline]
    pub(super) fn next_from_elevator(&mut self, now: Time) -> Option<u32> {
        if self.store.elevator.is_none() || self.store.plug.is_plugged() {
            return None;
        }
        // From a disk that fails or is gone nothing is held back. What waits until others have been quiet for long would wait
        // as long as these try again, and to wait for the next request of a sequence would gain nothing.
        self.choose(now, self.store.fails || (self.attention && self.order.is_closed()))
    }

    #[inline]
    pub(super) fn choose(&mut self, now: Time, force: bool) -> Option<u32> {
        let id = self.store.elevator.as_mut()?.dispatch(now, force);
        match id.and_then(|id| self.store.table.find(id, State::Queued)) {
            Some(index) => {
                self.leave_elevator(index);
                Some(index)
            }
            None => self.choose_again(now, force, id.is_some()),
        }
    }

    /// The elevator chose nothing, or what it did not hold: asks the one that replaces it if it is broken.
    #[cold]
    fn choose_again(&mut self, now: Time, force: bool, chose: bool) -> Option<u32> {
        let elevator = self.store.elevator.as_ref()?;
        // Waiting is fine as long as a completion or a timer can end it.
        let endless = || self.in_flight == 0 && elevator.next_wakeup().is_none();
        if chose {
            self.replace_broken(now, "returned a request that it did not hold");
        } else if self.store.queued > 0 && (force || elevator.is_empty() || endless()) {
            self.replace_broken(now, "did not return a request that it held");
        } else {
            return None;
        }
        self.choose(now, force)
    }

    #[inline]
    pub(super) fn leave_elevator(&mut self, index: u32) {
        self.store.neighbours.remove(index);
        if self.store.last_merge == Some(index) {
            self.store.last_merge = None;
        }
        self.store.queued -= 1;
        let request = self.store.table.at_mut(index);
        request.state = State::Ready;
        request.chosen = self.store.hears;
    }
}

// The device's plug (2.5.60 to 2.6.38): a queue that gets its first request delays it briefly, so that
// neighbours can merge, until enough requests wait, a timer fires or a thread waits for one.

/// When a plugged device starts without being asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlugSettings {
    /// Start when this many requests wait (`unplug_thresh`).
    pub threshold: u32,
    /// Start after this time (`unplug_delay`).
    pub delay: Span,
}

impl PlugSettings {
    /// Linux 2.4: neither a count nor a timer, the device starts when a thread waits. The delay only bounds how long I/O
    /// that no thread waits for is held back.
    pub const BY_WAITERS: PlugSettings = PlugSettings { threshold: u32::MAX, delay: Span::from_secs(3600) };
}

impl Default for PlugSettings {
    fn default() -> PlugSettings {
        PlugSettings { threshold: 4, delay: Span::from_millis(3) }
    }
}

pub(super) struct DevicePlug {
    settings: Option<PlugSettings>,
    since: Option<Time>,
}

impl DevicePlug {
    pub(super) fn new(settings: Option<PlugSettings>) -> DevicePlug {
        DevicePlug { settings, since: None }
    }

    #[inline]
    pub(super) fn is_plugged(&self) -> bool {
        self.since.is_some()
    }

    #[inline]
    pub(super) fn deadline(&self) -> Option<Time> {
        Some(self.since? + self.settings?.delay)
    }
}

impl SchedQueue {
    /// Plugs an empty queue just before it gets a request.
    #[inline]
    fn plug_if_empty(&mut self, now: Time) {
        let empty = self.store.queued == 0 && self.store.plug.since.is_none();
        if self.store.plug.settings.is_some() && empty && !self.order.is_closed() {
            self.store.plug.since = Some(now);
            self.store.plug.deadline().into_iter().for_each(|at| self.arm(at));
            self.counters.plugs.add(1);
            self.trace(|| Event::of_queue(now, Action::Plug, 0));
        }
    }

    /// After an insertion: unplugs if enough requests wait, or if a thread waits for this one.
    #[inline]
    fn unplug_if_due(&mut self, now: Time, sync: bool) {
        let Some(settings) = self.store.plug.settings else { return };
        if self.store.plug.since.is_some() && (sync || self.store.queued >= settings.threshold) {
            self.unplug(now, Action::Unplug);
        }
    }

    pub(super) fn unplug(&mut self, now: Time, why: Action) {
        if self.store.plug.since.take().is_none() {
            return;
        }
        let timer = why == Action::UnplugTimer;
        if timer { &self.counters.unplugs_timer } else { &self.counters.unplugs }.add(1);
        let queued = u64::from(self.store.queued);
        self.trace(|| Event::of_queue(now, why, queued));
    }
}
