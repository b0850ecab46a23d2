//! The lanes of a stateful layer as its shared state sees them: what they wait for, and which one listens to the
//! layer's own lane below (the *shared lane*); and lines of tasks that wait for a resource in order.

use super::rings::Rings;
use platter_block::lane::Bell;
use platter_block::time::{Span, Time};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The part of a lane that other lanes access.
pub struct LaneEntry {
    /// An event that the lane waits for has happened.
    pub kicked: AtomicBool,
    bell: Option<Arc<dyn Bell>>,
}

impl LaneEntry {
    /// Of a lane that `bell` wakes.
    pub fn new(bell: Option<Arc<dyn Bell>>) -> Arc<LaneEntry> {
        Arc::new(LaneEntry { kicked: AtomicBool::new(false), bell })
    }

    /// What wakes the lane.
    pub fn bell(&self) -> Option<&Arc<dyn Bell>> {
        self.bell.as_ref()
    }

    /// The bell is rung later, when the lock of the layer has been released.
    fn kick(&self, rings: &RefCell<Rings>) {
        if !self.kicked.swap(true, Ordering::SeqCst)
            && let Some(bell) = &self.bell
        {
            rings.borrow_mut().push(Arc::clone(bell));
        }
    }
}

struct LaneState<F> {
    entry: Arc<LaneEntry>,
    failures: Vec<F>,
}

/// All lanes, each with the failures (of type `F`) that its tasks have not seen yet.
///
/// Many threads may sleep until a bio on the shared lane completes. If all of them listened to it, each
/// completion would wake all of them. So one of the lanes that sleep until their calls complete listens, and
/// the others only wait to be kicked. A lane that stops listening while bios are in flight, or while the layer
/// is to be run at a certain time, appoints another one.
pub struct Lanes<F> {
    list: Vec<Option<LaneState<F>>>,
    /// The lane that listens, or will listen when it has woken.
    listener: Option<u32>,
    /// The shared lane has a descriptor to listen to. (A memory device has none: its I/O is complete at the
    /// next run.)
    shows_completions: bool,
    /// Until when the listening lane sleeps.
    until: Option<Time>,
    /// Other lanes that sleep.
    sleepers: Vec<u32>,
    /// Bells to ring when the lock of the layer has been released.
    rings: RefCell<Rings>,
}

impl<F> Default for Lanes<F> {
    fn default() -> Lanes<F> {
        let (listener, rings) = (None, RefCell::default());
        Lanes {
            list: Vec::new(),
            listener,
            shows_completions: false,
            until: None,
            sleepers: Vec::new(),
            rings,
        }
    }
}

impl<F> Lanes<F> {
    /// Adds a lane. Returns its number.
    pub fn join(&mut self, entry: &Arc<LaneEntry>) -> u32 {
        let state = LaneState { entry: Arc::clone(entry), failures: Vec::new() };
        let free = self.list.iter().position(Option::is_none);
        let number = free.unwrap_or_else(|| {
            self.list.push(None);
            self.list.len() - 1
        });
        self.list[number] = Some(state);
        number as u32
    }

    /// Removes a lane.
    pub fn leave(&mut self, number: u32) {
        self.wake(number);
        self.list[number as usize] = None;
    }

    /// Makes a lane check the events that it waits for.
    pub fn kick(&self, number: u32) {
        if let Some(Some(lane)) = self.list.get(number as usize) {
            lane.entry.kick(&self.rings);
        }
    }

    /// Makes every lane check the events that it waits for.
    pub fn kick_all(&self) {
        self.list.iter().flatten().for_each(|lane| lane.entry.kick(&self.rings));
    }

    /// Rings a bell when the lock of the layer has been released.
    pub fn ring_later(&self, bell: Arc<dyn Bell>) {
        self.rings.borrow_mut().push(bell);
    }

    /// The bells to ring, which ring when the result is dropped; `None`: there are none.
    #[inline]
    pub fn take_rings(&self) -> Option<Rings> {
        let mut rings = self.rings.borrow_mut();
        (!rings.is_empty()).then(|| std::mem::take(&mut *rings))
    }

    /// Tells a lane that an I/O that it waits for has ended.
    pub fn tell(&mut self, number: u32, failed: Option<F>) {
        if let Some(Some(lane)) = self.list.get_mut(number as usize) {
            lane.failures.extend(failed);
            lane.entry.kick(&self.rings);
        }
    }

    /// The failures that a lane was told of.
    pub fn failures(&self, number: u32) -> &[F] {
        let lane = self.list.get(number as usize).and_then(Option::as_ref);
        lane.map_or(&[], |lane| &lane.failures)
    }

    /// Drops the failures that all tasks of a lane have seen.
    pub fn forget_failures(&mut self, number: u32) {
        if let Some(Some(lane)) = self.list.get_mut(number as usize) {
            lane.failures.clear();
        }
    }

    /// Records whether the listening lane has a descriptor to listen to, and that it sleeps until `until` at
    /// most.
    pub fn set_shows_completions(&mut self, shows_completions: bool, until: Option<Time>) {
        (self.shows_completions, self.until) = (shows_completions, until);
    }

    /// The lane is awake: it will check the time before it sleeps.
    pub fn awake(&mut self, number: u32) {
        if self.listener == Some(number) {
            self.until = Some(Time(0));
        }
    }

    /// The shared lane is to be run at a time: the listening lane may not sleep longer. If none listens and no thread of the
    /// layer `comes` by then, one that sleeps listens from now on: what it sleeps for may be later, or nothing but a kick.
    pub fn hasten(&mut self, at: Time, comes: bool) {
        match self.listener {
            Some(number) if self.until.is_none_or(|until| until > at) => self.kick(number),
            None if !comes => self.appoint_sleeper(),
            _ => {}
        }
    }

    /// A lane is about to sleep. Returns whether it must listen to the shared lane.
    pub fn sleep(&mut self, number: u32) -> bool {
        let listens = self.listener.is_none_or(|listener| listener == number);
        if listens {
            self.listener = Some(number);
        } else if !self.sleepers.contains(&number) {
            self.sleepers.push(number);
        }
        listens
    }

    /// A lane no longer sleeps.
    pub fn wake(&mut self, number: u32) {
        if self.listener == Some(number) {
            self.listener = None;
        }
        self.sleepers.retain(|&sleeper| sleeper != number);
    }

    /// Bios are in flight on the shared lane: if lanes sleep, one of them must listen to it, or poll where
    /// there is no descriptor.
    pub fn appoint(&mut self) {
        match self.listener {
            // A lane that is awake runs again before it sleeps. (Kicked, it would never return to its caller.)
            Some(number) if !self.shows_completions && self.until != Some(Time(0)) => self.kick(number),
            Some(_) => {}
            None => self.appoint_sleeper(),
        }
    }

    /// Wakes a lane that sleeps, if there is one: it listens when it sleeps again.
    fn appoint_sleeper(&mut self) {
        if let Some(number) = self.sleepers.pop() {
            self.listener = Some(number);
            self.kick(number);
        }
    }

    /// Whether a lane listens to the shared lane, so that others need not poll it.
    pub fn is_polled(&self) -> bool {
        self.listener.is_some() && self.shows_completions
    }
}

/// How long a grant is kept for a task whose lane is not run.
const PATIENCE: Span = Span::from_millis(10);

/// Tasks that wait for the same resource, in order of arrival.
///
/// A grant belongs to the task until the task continues, so that later tasks cannot take it; but only for a
/// limited time, because the task's lane may not be run.
#[derive(Default)]
pub struct Line {
    queue: VecDeque<Waiter>,
    /// Tasks with a grant that have not continued yet, and until when their grants are kept.
    granted: VecDeque<(Waiter, Time)>,
}

#[derive(Clone, Copy)]
struct Waiter {
    turn: u64,
    lane: u32,
    /// The most that the task wants.
    wants: u32,
}

impl Line {
    /// Adds a task at its place.
    pub fn join(&mut self, turn: u64, lane: u32, wants: u32) {
        let at = self.queue.partition_point(|waiter| waiter.turn < turn);
        self.queue.insert(at, Waiter { turn, lane, wants });
    }

    /// Whether a task still waits.
    pub fn has(&self, turn: u64) -> bool {
        self.queue.binary_search_by_key(&turn, |waiter| waiter.turn).is_ok()
    }

    /// Removes a task that continues or no longer wants its grant.
    pub fn leave(&mut self, turn: u64) {
        if let Ok(at) = self.queue.binary_search_by_key(&turn, |waiter| waiter.turn) {
            self.queue.remove(at);
        }
        self.granted.retain(|(waiter, _)| waiter.turn != turn);
    }

    /// Whether tasks wait.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The sum of the grants of tasks that have not continued.
    pub fn promised(&self) -> u32 {
        self.granted.iter().map(|(waiter, _)| waiter.wants).sum()
    }

    /// Grants `amount`, less what is already granted, to the tasks in order. `all`: to all tasks, however
    /// much they want.
    pub fn grant<F>(&mut self, now: Time, lanes: &Lanes<F>, amount: u32, all: bool) {
        while self.granted.front().is_some_and(|&(_, until)| until <= now) {
            self.granted.pop_front();
        }
        let mut left = amount.saturating_sub(self.promised());
        while (left > 0 || all)
            && let Some(waiter) = self.queue.pop_front()
        {
            left = left.saturating_sub(waiter.wants);
            self.granted.push_back((waiter, now + PATIENCE));
            lanes.kick(waiter.lane);
        }
    }

    /// When a grant expires and can go to another task.
    pub fn wakeup(&self) -> Option<Time> {
        self.granted.front().filter(|_| !self.queue.is_empty()).map(|&(_, until)| until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[derive(Default)]
    struct Rings(AtomicU32);

    impl Bell for Rings {
        fn ring(&self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    type Entries = Vec<(Arc<LaneEntry>, Arc<Rings>)>;

    fn lanes(count: u32) -> (Lanes<()>, Entries) {
        let (mut lanes, mut entries) = (Lanes::default(), Vec::new());
        for number in 0..count {
            let rings = Arc::new(Rings::default());
            let entry = LaneEntry::new(Some(Arc::<Rings>::clone(&rings)));
            assert_eq!(lanes.join(&entry), number);
            entries.push((entry, rings));
        }
        (lanes, entries)
    }

    fn kicked(entries: &[(Arc<LaneEntry>, Arc<Rings>)]) -> Vec<u32> {
        let was = |(_, (entry, _)): &(u32, &(Arc<LaneEntry>, Arc<Rings>))| {
            entry.kicked.swap(false, Ordering::SeqCst)
        };
        (0..).zip(entries).filter(was).map(|(number, _)| number).collect()
    }

    #[test]
    fn tasks_go_in_order_as_far_as_there_is_room() {
        let (lanes, entries) = lanes(4);
        let mut line = Line::default();
        (0..4).for_each(|lane| line.join(u64::from(lane) * 10, lane, 3));
        line.grant(Time(0), &lanes, 0, false);
        assert_eq!(kicked(&entries), []);
        line.grant(Time(0), &lanes, 4, false);
        assert_eq!((kicked(&entries), line.promised()), (vec![0, 1], 6));
        assert!(!line.has(10) && line.has(20));
        // The same room is not granted twice.
        line.grant(Time(1), &lanes, 4, false);
        assert_eq!(kicked(&entries), []);
        line.leave(0);
        line.leave(10);
        // The second task found none after all: it is in front of the others again.
        line.join(10, 1, 3);
        line.grant(Time(2), &lanes, 1, false);
        assert_eq!(kicked(&entries), [1]);
        line.leave(20);
        // The lane of the second task is not run: its grant goes to the next.
        let later = Time(2) + PATIENCE;
        assert_eq!(line.wakeup(), Some(later));
        line.grant(later, &lanes, 1, false);
        assert_eq!(kicked(&entries), [3]);
        assert!(line.is_empty() && line.wakeup().is_none());
    }

    #[test]
    fn one_of_those_that_sleep_listens() {
        let (mut lanes, entries) = lanes(3);
        lanes.set_shows_completions(true, None);
        assert!(lanes.sleep(0) && !lanes.sleep(1) && !lanes.sleep(2));
        assert!(lanes.sleep(0), "the lane listens again");
        lanes.appoint();
        assert_eq!(kicked(&entries), []);
        lanes.wake(0);
        lanes.appoint();
        assert_eq!(kicked(&entries), [2]);
        assert!(lanes.sleep(2) && !lanes.sleep(0));
        lanes.leave(2);
        lanes.wake(1);
        lanes.appoint();
        assert_eq!(kicked(&entries), [0]);
        assert!(lanes.is_polled());
        // Without a descriptor the lane must poll.
        lanes.set_shows_completions(false, None);
        lanes.appoint();
        assert_eq!((kicked(&entries), lanes.is_polled()), (vec![0], false));
        // If there is work before the lane wakes up, it must set an earlier wakeup.
        lanes.set_shows_completions(true, Some(Time(5)));
        lanes.hasten(Time(5), false);
        assert_eq!(kicked(&entries), []);
        lanes.hasten(Time(4), false);
        assert_eq!(kicked(&entries), [0]);
        lanes.awake(0);
        lanes.hasten(Time(4), false);
        assert_eq!(kicked(&entries), []);
    }

    /// The lane that listened has ended, and nothing is in flight: the others sleep without a time of their own.
    #[test]
    fn a_time_that_none_listens_for_wakes_one_that_sleeps() {
        let (mut lanes, entries) = lanes(3);
        assert!(lanes.sleep(0) && !lanes.sleep(1) && !lanes.sleep(2));
        lanes.wake(0);
        lanes.wake(2);
        lanes.hasten(Time(5), true);
        assert_eq!(kicked(&entries), []);
        lanes.hasten(Time(5), false);
        assert_eq!(kicked(&entries), [1]);
        assert!(lanes.sleep(1) && !lanes.sleep(2), "it listens now");
        lanes.set_shows_completions(true, Some(Time(5)));
        lanes.hasten(Time(5), false);
        assert_eq!(kicked(&entries), []);
        lanes.wake(1);
        lanes.wake(2);
        lanes.hasten(Time(5), false);
        assert_eq!(kicked(&entries), [], "none sleeps");
    }
}
