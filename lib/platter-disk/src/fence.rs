//! The fence of an opened device: the ranges of changes whose callers did not wait for their end.
//!
//! A call, a future or a bio of a channel that has a deadline ends at it, with `TimedOut`. If a driver still has its bio then, and the
//! bio changes data, that change may reach the disk at any later time: it is *late*. Until the driver has returned it,
//!
//! - what overlaps its range waits before it reaches the device ([`Entry::Waits`]), because the late change could otherwise come
//!   after it: a write of new data would be undone, and a read would return what is about to change;
//! - flushes, preflushes and barriers fail ([`Entry::Refused`]), because what they promise about everything before them would
//!   not hold. This is not remembered: no completed data is lost. Barriers also fail as long as anything waits, which they would pass;
//! - all else goes on.
//!
//! Example: a write of 4 KiB at 8192 with a deadline of 100 ms is with a disk that does not answer. At 100 ms its caller gets `TimedOut`,
//! and 8192 to 12288 is in the fence. A read at 12288 is carried out, one at 8192 waits, and `flush` fails with `Unsettled`. At 5 s the disk
//! returns the write: the read goes on, and `flush` succeeds again.
//!
//! The late bio is in a lane, and only the thread that runs the lane sees it come back. A lane of the futures is run by the service
//! thread; a channel is run by its own. So that a thread cannot wait for ever for a channel that is not polled, perhaps its own,
//! what waits for a lane that has not been run for `barrier_timeout` fails with `Unsettled`.
//!
//! There is one fence for each opened device, shared by all its handles. Layers and queues know nothing of it: for them a bio ends when the
//! driver returns it. The order between a stack and a program that writes to one of its members directly is therefore not
//! protected.

use crate::sync::{Mutex, lock};
use platter_block::bio::{Bio, Flags, Op};
use platter_block::command::Command;
use platter_block::fault::{Fault, Kind, Stage};
use platter_block::lane::{Bell, Holder, Left};
use platter_block::time::{Span, Time};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// The fault of what cannot be promised because a change is late, or has waited too long for it.
pub(crate) const UNSETTLED: Fault = Fault::new(Kind::Unsettled, Stage::Handle);

/// The fault of what did not end in its time.
pub(crate) const TIMED_OUT: Fault = Fault::new(Kind::TimedOut, Stage::Handle);

/// How often what waits for a closed channel looks whether a queue that no lane runs has returned its bio.
const LOOK_AGAIN: Span = Span::from_millis(10);

/// How long before something fails because of a lane that is not run this lane is asked to run.
const GRACE: Span = Span::from_secs(1);

/// A lane that can have late changes.
pub(crate) struct Place {
    /// For errors.
    name: String,
    /// When it was last run while it had late changes.
    ran: AtomicU64,
    /// When it was asked to run, because others wait for what only it can see.
    asked: AtomicU64,
    /// Its thread sleeps until the lane has something for it, which may be what is late.
    sleeps: AtomicBool,
    /// Has its thread run it, if it sleeps.
    bell: Option<Arc<dyn Bell>>,
}

impl Place {
    pub(crate) fn new(name: String, bell: Option<Arc<dyn Bell>>) -> Arc<Place> {
        let (ran, asked, sleeps) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
        Arc::new(Place { name, ran, asked, sleeps, bell })
    }

    /// The lane is run.
    pub(crate) fn note_run(&self, now: Time) {
        self.ran.fetch_max(now.0, Ordering::Relaxed);
    }

    /// The lane is closed: what it has left is looked after by others.
    fn note_closed(&self) {
        self.note_run(Time(u64::MAX / 2));
    }

    /// Whether the lane's thread sleeps until the lane has something for it.
    pub(crate) fn set_sleeps(&self, sleeps: bool) {
        self.sleeps.store(sleeps, Ordering::Relaxed);
    }

    /// When to look again at what waits for the lane; `None`: it has not been run for `patience`. It is asked to run [`GRACE`] before
    /// that, because its thread may sleep, or the whole program may have stopped for so long.
    fn looks_at(&self, now: Time, patience: Span) -> Option<Time> {
        if self.sleeps.load(Ordering::Relaxed) {
            return Some(now + patience);
        }
        let grace = GRACE.min(Span(patience.0 / 4));
        let (ran, asked) = (Time(self.ran.load(Ordering::Relaxed)), Time(self.asked.load(Ordering::Relaxed)));
        let until = ran + patience;
        if asked > ran {
            return Some(until.max(asked + grace)).filter(|&at| at > now);
        }
        if until > now + grace {
            return Some(Time(until.0 - grace.0));
        }
        self.asked.store(now.0, Ordering::Relaxed);
        self.bell.iter().for_each(|bell| bell.ring());
        Some(now + grace)
    }
}

/// A late change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LateId(u64);

struct Range {
    id: LateId,
    pos: u64,
    end: u64,
    place: Arc<Place>,
}

/// What to ring for a lane with bios that wait.
#[derive(Clone)]
pub(crate) enum Waiter {
    /// A lane of the futures, which must not be kept alive.
    Weak(Weak<dyn Bell>),
    /// The bell of a lane.
    Bell(Arc<dyn Bell>),
}

impl Waiter {
    fn address(&self) -> *const () {
        match self {
            Waiter::Weak(lane) => lane.as_ptr().cast(),
            Waiter::Bell(bell) => Arc::as_ptr(bell).cast(),
        }
    }

    fn ring(&self) {
        match self {
            Waiter::Weak(lane) => lane.upgrade().into_iter().for_each(|lane| lane.ring()),
            Waiter::Bell(bell) => bell.ring(),
        }
    }
}

#[derive(Default)]
struct State {
    ranges: Vec<Range>,
    /// Bios that wait in all lanes. A barrier must not pass them.
    held: usize,
    last: u64,
    /// What to ring when a range leaves: lanes with bios that wait.
    waiting: Vec<Waiter>,
    /// Queues and layers with bios of closed channels.
    left: Vec<Weak<dyn Holder>>,
    /// Names the lanes for which something has waited too long; empty again when no change is late.
    stalled: String,
}

/// What becomes of a new bio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// It goes to the device.
    Open,
    /// It overlaps a late change.
    Waits,
    /// Its promise cannot be kept.
    Refused,
}

pub(crate) struct Fence {
    /// Number of ranges and of bios that wait: all that is looked at while there are none.
    count: AtomicUsize,
    state: Mutex<State>,
    /// How long something waits for a lane that is not run.
    patience: Span,
    /// I/Os that ended while the device had their bios.
    late: AtomicU64,
}

/// Whether a bio promises something about everything before it.
fn is_ordered(bio: &Bio) -> bool {
    bio.op() == Op::Flush || bio.flags().intersects(Flags::PREFLUSH | Flags::BARRIERS)
}

impl Fence {
    pub(crate) fn new(patience: Span) -> Arc<Fence> {
        let (count, late) = (AtomicUsize::new(0), AtomicU64::new(0));
        Arc::new(Fence { count, state: Mutex::new(State::default()), patience, late })
    }

    /// Whether no change is late and nothing waits. The program learns of a late change after it has entered, so a caller that knows sees it.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// What becomes of a new bio.
    #[inline]
    pub(crate) fn admits(&self, now: Time, bio: &Bio) -> Entry {
        if self.is_empty() { Entry::Open } else { self.examine(now, bio) }
    }

    #[cold]
    fn examine(&self, now: Time, bio: &Bio) -> Entry {
        self.run_left(now);
        let state = lock(&self.state);
        let passes = state.held > 0 && bio.flags().intersects(Flags::BARRIERS);
        if state.ranges.is_empty() && !passes {
            Entry::Open
        } else if is_ordered(bio) {
            Entry::Refused
        } else if state.overlaps(bio.reach()) {
            Entry::Waits
        } else {
            Entry::Open
        }
    }

    /// Runs the queues and layers that no lane runs for the late bios that they have.
    fn run_left(&self, now: Time) {
        let left: Vec<_> = lock(&self.state).left.iter().filter_map(Weak::upgrade).collect();
        left.iter().for_each(|holder| holder.run(now));
    }

    /// A bio has come back. One that promised something about everything before it fails if a change has become late meanwhile.
    #[inline]
    pub(crate) fn settle(&self, bio: &mut Bio) {
        if !self.is_empty() && is_ordered(bio) && !lock(&self.state).ranges.is_empty() {
            bio.fail(UNSETTLED);
        }
    }

    /// The time of an I/O is over while the device has its bio. To be called before the program is told.
    pub(crate) fn note_late(&self, now: Time, due: &Due, place: &Arc<Place>) -> Option<LateId> {
        self.late.fetch_add(1, Ordering::Relaxed);
        due.changes.then(|| self.enter(now, due.reach, place))
    }

    /// How many such I/Os there were.
    pub(crate) fn lates(&self) -> u64 {
        self.late.load(Ordering::Relaxed)
    }

    /// A change is late.
    fn enter(&self, now: Time, (pos, end): (u64, u64), place: &Arc<Place>) -> LateId {
        place.note_run(now);
        let mut state = lock(&self.state);
        state.last += 1;
        let id = LateId(state.last);
        state.ranges.push(Range { id, pos, end, place: Arc::clone(place) });
        self.recount(&state);
        id
    }

    /// The driver has returned a late change. Bios that waited may go on.
    pub(crate) fn leave(&self, id: LateId) {
        let mut state = lock(&self.state);
        state.ranges.retain(|range| range.id != id);
        self.recount(&state);
        if state.ranges.is_empty() {
            state.left.clear();
            state.stalled.clear();
        }
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.iter().for_each(Waiter::ring);
    }

    fn recount(&self, state: &State) {
        self.count.store(state.ranges.len() + state.held, Ordering::Release);
    }

    /// A bio waits in a lane, or no longer does.
    pub(crate) fn count_held(&self, waits: bool) {
        let mut state = lock(&self.state);
        state.held = if waits { state.held + 1 } else { state.held - 1 };
        self.recount(&state);
    }

    /// Has a lane rung once, when a change is no longer late. The caller looks again after this.
    pub(crate) fn call_back(&self, waiter: Waiter) {
        let mut state = lock(&self.state);
        if !state.waiting.iter().any(|known| known.address() == waiter.address()) {
            state.waiting.push(waiter);
        }
    }

    /// When to look again at a bio that waits, if nothing changes. An error: the lane with the late change is not run.
    pub(crate) fn waits_until(&self, now: Time, bio: &Bio) -> Result<Time, Fault> {
        let (pos, end) = bio.reach();
        let mut state = lock(&self.state);
        // What is left in a queue shows its end only when the queue is run, here.
        let mut first = now + if state.left.is_empty() { self.patience } else { LOOK_AGAIN };
        let mut stalled = Vec::new();
        for range in state.ranges.iter().filter(|range| range.pos < end && pos < range.end) {
            match range.place.looks_at(now, self.patience) {
                Some(at) => first = first.min(at),
                None => stalled.push(range.place.name.clone()),
            }
        }
        if stalled.is_empty() {
            return Ok(first);
        }
        stalled.sort();
        stalled.dedup();
        state.stalled = stalled.join("; ");
        Err(UNSETTLED)
    }

    /// What to know about a bio that failed because of the fence.
    pub(crate) fn explain(&self) -> String {
        let state = lock(&self.state);
        if !state.stalled.is_empty() {
            let lanes = &state.stalled;
            return format!(
                "a change of {lanes} timed out, and only running that shows whether it has ended; poll or close it"
            );
        }
        match state.ranges.first() {
            Some(range) => {
                let (pos, end) = (range.pos, range.end);
                format!(
                    "a change of bytes {pos} to {end} timed out and may still reach the device; try again when it has ended"
                )
            }
            None => "a change that timed out could still reach the device; try again".to_string(),
        }
    }
}

impl State {
    fn overlaps(&self, (pos, end): (u64, u64)) -> bool {
        self.ranges.iter().any(|range| range.pos < end && pos < range.end)
    }
}

/// What a handle remembers of a bio that has a deadline, while the device has it.
#[derive(Clone, Debug)]
pub(crate) struct Due {
    pub(crate) at: Time,
    pub(crate) identity: usize,
    op: Op,
    pos: u64,
    len: u64,
    token: u64,
    flags: Flags,
    command: Option<Arc<Command>>,
    reach: (u64, u64),
    changes: bool,
}

/// Takes the deadline out of a bio; `None`: it has none. A bio over borrowed memory ends when the device returns it, so its deadline does
/// not count.
pub(crate) fn take_due(bio: &mut Bio) -> Option<Due> {
    let at = bio.deadline()?;
    bio.set_deadline(None);
    (!bio.flags().contains(Flags::BORROWED)).then(|| Due {
        at,
        identity: bio.identity(),
        op: bio.op(),
        pos: bio.pos(),
        len: bio.len(),
        token: bio.token(),
        flags: bio.flags(),
        command: bio.command().cloned(),
        reach: bio.reach(),
        changes: bio.changes(),
    })
}

/// A bio has come back after its deadline, at which its driver was asked to cancel it: if it has failed, however the driver puts it, its
/// time was over.
#[cold]
pub(crate) fn end_late(bio: &mut Bio) {
    if bio.status().is_err() {
        bio.replace_fault(TIMED_OUT);
    }
}

impl Due {
    /// What the program gets in place of the bio: it has the token, and no memory.
    pub(crate) fn substitute(&self) -> Bio {
        let mut bio = Bio::new(self.op, self.pos, self.len);
        bio.set_token(self.token);
        bio.add_flags(self.flags);
        self.command.iter().for_each(|command| bio.name_command(Arc::clone(command)));
        bio.fail(TIMED_OUT);
        bio
    }
}

/// What a channel leaves that is closed while devices have bios of it. Until the last of them is back, what was late stays late, and
/// whatever else a disk does not return in time is late as well.
struct ClosedChannel {
    fence: Arc<Fence>,
    now: Time,
    late: Mutex<Vec<LateId>>,
}

impl Drop for ClosedChannel {
    fn drop(&mut self) {
        lock(&self.late).drain(..).for_each(|id| self.fence.leave(id));
    }
}

impl Left for ClosedChannel {
    fn keep_late(self: Arc<Self>, holder: Weak<dyn Holder>) -> Option<Arc<dyn Left>> {
        if lock(&self.late).is_empty() {
            return None;
        }
        lock(&self.fence.state).left.push(holder);
        Some(self)
    }

    fn keep_all(self: Arc<Self>, holder: Option<Weak<dyn Holder>>) -> Arc<dyn Left> {
        let place = Place::new("a closed channel".to_string(), None);
        place.note_closed();
        let id = self.fence.enter(self.now, (0, u64::MAX), &place);
        lock(&self.late).push(id);
        lock(&self.fence.state).left.extend(holder);
        self
    }
}

impl Fence {
    /// For a lane that is closed while it has I/O out, of which these changes of `place` are late.
    pub(crate) fn close(
        self: &Arc<Fence>,
        now: Time,
        late: Vec<LateId>,
        place: Option<Arc<Place>>,
    ) -> Arc<dyn Left> {
        place.iter().for_each(|place| place.note_closed());
        Arc::new(ClosedChannel { fence: Arc::clone(self), now, late: Mutex::new(late) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    const SECOND: Span = Span::from_secs(1);

    #[derive(Default)]
    struct Count(AtomicU32);

    impl Bell for Count {
        fn ring(&self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    impl Holder for Count {
        fn run(&self, _now: Time) {
            self.ring();
        }
    }

    fn write(pos: u64) -> Bio {
        Bio::write(pos, vec![0; 4096]).unwrap()
    }

    fn late(fence: &Fence, now: Time, pos: u64, place: &Arc<Place>) -> LateId {
        let mut bio = write(pos);
        bio.set_deadline(Some(now));
        let due = take_due(&mut bio).unwrap();
        assert_eq!(bio.deadline(), None, "nothing below the handle knows of it");
        fence.note_late(now, &due, place).expect("it changes data")
    }

    #[test]
    fn what_overlaps_waits_what_promises_is_refused_and_all_else_goes_on() {
        let (fence, now) = (Fence::new(SECOND), Time(0));
        let place = Place::new("here".to_string(), None);
        let [mut durable, mut barrier, mut first] = [8192, 8192, 65536].map(write);
        durable.add_flags(Flags::FUA);
        barrier.add_flags(Flags::SOFT_BARRIER);
        first.add_flags(Flags::PREFLUSH);
        let looks = |fence: &Fence| {
            let bios =
                [&write(4096), &write(8191), &write(8192 - 4096), &durable, &barrier, &first, &Bio::flush()];
            bios.map(|bio| fence.admits(now, bio))
        };
        assert_eq!(looks(&fence), [Entry::Open; 7]);
        let id = late(&fence, now, 4096, &place);
        use Entry::{Open, Refused, Waits};
        assert_eq!(looks(&fence), [Waits, Waits, Waits, Open, Refused, Refused, Refused]);
        assert!(fence.explain().contains("4096 to 8192"), "{}", fence.explain());
        let [mut flush, mut read] = [Bio::flush(), Bio::read(0, vec![0; 512]).unwrap()];
        fence.settle(&mut flush);
        fence.settle(&mut read);
        assert_eq!((flush.status(), read.status()), (Err(UNSETTLED), Ok(())), "also if it was under way");
        fence.leave(id);
        assert_eq!(looks(&fence), [Entry::Open; 7]);
        fence.count_held(true);
        assert_eq!(
            looks(&fence),
            [Open, Open, Open, Open, Refused, Open, Open],
            "a barrier does not pass what waits"
        );
        fence.count_held(false);
        assert!(fence.is_empty());
    }

    #[test]
    fn those_that_wait_are_rung_once_when_a_change_is_back() {
        let (fence, now) = (Fence::new(SECOND), Time(0));
        let (place, bell) = (Place::new("here".to_string(), None), Arc::new(Count::default()));
        let (one, two) = (late(&fence, now, 0, &place), late(&fence, now, 0, &place));
        for _ in 0..3 {
            fence.call_back(Waiter::Bell(Arc::clone(&bell) as Arc<dyn Bell>));
        }
        fence.leave(one);
        fence.leave(two);
        assert_eq!(bell.0.load(Ordering::SeqCst), 1);
    }

    /// 0 s: the lane is run. 0.75 s: it is asked to run. 1 s: what waits fails.
    #[test]
    fn a_lane_that_is_not_run_is_asked_to_and_then_what_waits_for_it_fails() {
        let (fence, start) = (Fence::new(SECOND), Time(SECOND.0));
        let bell = Arc::new(Count::default());
        let place = Place::new("a channel".to_string(), Some(Arc::clone(&bell) as Arc<dyn Bell>));
        let id = late(&fence, start, 0, &place);
        let (bio, quarter) = (write(0), Span(SECOND.0 / 4));
        let asks = start + Span(3 * quarter.0);
        assert_eq!(fence.waits_until(start, &bio), Ok(asks));
        assert_eq!((fence.waits_until(asks, &bio), bell.0.load(Ordering::SeqCst)), (Ok(asks + quarter), 1));
        assert_eq!(fence.waits_until(asks + quarter, &bio), Err(UNSETTLED));
        assert!(fence.explain().contains("a change of a channel timed out"), "{}", fence.explain());
        place.set_sleeps(true);
        assert_eq!(
            fence.waits_until(asks + quarter, &bio),
            Ok(asks + quarter + SECOND),
            "its thread waits for the disk"
        );
        place.set_sleeps(false);
        place.note_run(asks + quarter);
        assert!(fence.waits_until(asks + quarter, &bio).is_ok());
        fence.leave(id);
        late(&fence, start, 0, &place);
        assert!(!fence.explain().contains("a channel"), "{}", fence.explain());
    }

    #[test]
    fn what_a_closed_channel_leaves_is_late_until_the_last_disk_is_done_with_it() {
        let (fence, now) = (Fence::new(SECOND), Time(0));
        let place = Place::new("here".to_string(), None);
        let id = late(&fence, now, 4096, &place);
        let queue = Arc::new(Count::default());
        let left = fence.close(now, vec![id], Some(place));
        let weak = || Arc::downgrade(&queue) as Weak<dyn Holder>;
        let mut kept = vec![Arc::clone(&left).keep_late(weak()).expect("a change is late")];
        kept.push(left.keep_all(Some(weak())));
        assert_eq!(
            fence.admits(now, &write(1 << 30)),
            Entry::Waits,
            "what the disk has of it may be anywhere"
        );
        assert!(queue.0.load(Ordering::SeqCst) > 0, "no lane runs the queue for it");
        assert!(
            fence.waits_until(now + Span(100 * SECOND.0), &write(4096)).is_ok(),
            "no thread has to poll a closed channel"
        );
        kept.pop();
        assert!(!fence.is_empty());
        kept.pop();
        assert!(fence.is_empty());
        let nothing_late = fence.close(now, Vec::new(), None);
        assert!(nothing_late.keep_late(weak()).is_none());
    }
}
