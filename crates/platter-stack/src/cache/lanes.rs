//! The lanes of a cache as its engine sees them: what they wait for, and who listens to the lane that they share.

use super::ios::IoKey;
use platter_block::fault::Fault;
use platter_block::lane::Bell;
use platter_block::time::{Span, Time};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A lane as the others see it.
pub(super) struct LaneCell {
    /// Something that it waits for has happened.
    pub(super) kicked: AtomicBool,
    bell: Option<Arc<dyn Bell>>,
}

impl LaneCell {
    pub(super) fn new(bell: Option<Arc<dyn Bell>>) -> Arc<LaneCell> {
        Arc::new(LaneCell { kicked: AtomicBool::new(false), bell })
    }

    fn kick(&self) {
        if !self.kicked.swap(true, Ordering::SeqCst)
            && let Some(bell) = &self.bell
        {
            bell.ring();
        }
    }
}

/// An I/O that failed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failure {
    pub(super) key: IoKey,
    pub(super) fault: Fault,
    pub(super) pos: u64,
    /// If it took too long: whoever has no more time than until then need not try again. The end of time: nobody has.
    pub(super) until: Time,
}

struct LaneState {
    cell: Arc<LaneCell>,
    /// I/Os that it waited for and that failed.
    failures: Vec<Failure>,
}

/// All lanes.
///
/// Many threads may sleep until something on the shared lane has completed. If all of them listened to it, each
/// completion would wake all. So one of those that sleep until their calls are over listens, and the others only wait to
/// be kicked. Whoever stops listening while bios are out appoints another one.
#[derive(Default)]
pub(super) struct Lanes {
    list: Vec<Option<LaneState>>,
    /// The lane that listens, or will when it has woken.
    listener: Option<u32>,
    /// The shared lane can be heard. (Memory cannot: it is done at the next look.)
    hears: bool,
    /// Until when the lane that listens sleeps.
    until: Option<Time>,
    /// Others that sleep.
    sleepers: Vec<u32>,
}

impl Lanes {
    /// A lane joins: its number.
    pub(super) fn join(&mut self, cell: &Arc<LaneCell>) -> u32 {
        let state = LaneState { cell: Arc::clone(cell), failures: Vec::new() };
        let free = self.list.iter().position(Option::is_none);
        let number = free.unwrap_or_else(|| {
            self.list.push(None);
            self.list.len() - 1
        });
        self.list[number] = Some(state);
        number as u32
    }

    /// A lane is gone.
    pub(super) fn leave(&mut self, number: u32) {
        self.wake(number);
        self.list[number as usize] = None;
    }

    /// Has a lane look at what it waits for.
    pub(super) fn kick(&self, number: u32) {
        if let Some(Some(lane)) = self.list.get(number as usize) {
            lane.cell.kick();
        }
    }

    /// Tells a lane that an I/O that it waits for is over.
    pub(super) fn tell(&mut self, number: u32, failed: Option<Failure>) {
        if let Some(Some(lane)) = self.list.get_mut(number as usize) {
            lane.failures.extend(failed);
            lane.cell.kick();
        }
    }

    /// What went wrong with an I/O that a lane waited for.
    pub(super) fn failure_of(&self, number: u32, key: IoKey) -> Option<Failure> {
        let lane = self.list.get(number as usize)?.as_ref()?;
        lane.failures.iter().find(|failure| failure.key == key).copied()
    }

    /// All tasks of a lane that waited for what has failed so far have seen it.
    pub(super) fn forget_failures(&mut self, number: u32) {
        if let Some(Some(lane)) = self.list.get_mut(number as usize) {
            lane.failures.clear();
        }
    }

    /// The lane that listens has what it listens to, or there is nothing to be heard.
    /// `until`: it sleeps no longer than that.
    pub(super) fn set_hears(&mut self, hears: bool, until: Option<Time>) {
        (self.hears, self.until) = (hears, until);
    }

    /// A lane is awake: it looks at the time before it sleeps.
    pub(super) fn awake(&mut self, number: u32) {
        if self.listener == Some(number) {
            self.until = Some(Time(0));
        }
    }

    /// The shared lane is to be run at a time: the lane that listens may not sleep longer.
    pub(super) fn hasten(&self, at: Time) {
        if let Some(number) = self.listener
            && self.until.is_none_or(|until| until > at)
        {
            self.kick(number);
        }
    }

    /// A lane is about to sleep. Whether it is to listen to the shared lane.
    pub(super) fn sleep(&mut self, number: u32) -> bool {
        let listens = self.listener.is_none_or(|listener| listener == number);
        if listens {
            self.listener = Some(number);
        } else if !self.sleepers.contains(&number) {
            self.sleepers.push(number);
        }
        listens
    }

    /// A lane sleeps no more.
    pub(super) fn wake(&mut self, number: u32) {
        if self.listener == Some(number) {
            self.listener = None;
        }
        self.sleepers.retain(|&sleeper| sleeper != number);
    }

    /// Bios are out on the shared lane: somebody has to listen if anybody sleeps, or to look where nothing is heard.
    pub(super) fn appoint(&mut self) {
        match self.listener {
            Some(number) if !self.hears => self.kick(number),
            Some(_) => {}
            None => {
                if let Some(number) = self.sleepers.pop() {
                    self.listener = Some(number);
                    self.kick(number);
                }
            }
        }
    }

    /// Whether a lane listens to the shared one, so that others need not look after it.
    pub(super) fn is_heard(&self) -> bool {
        self.listener.is_some() && self.hears
    }
}

/// How long what was granted is kept for a task whose lane is not run.
const PATIENCE: Span = Span::from_millis(10);

/// Tasks that wait for the same thing, in the order in which they came.
///
/// What is granted to a task is its own until it has gone on, so that nobody who comes later takes it away; but not for
/// long, because its lane may not be run.
#[derive(Default)]
pub(super) struct Line {
    queue: VecDeque<Waiter>,
    /// Those that may go on and have not, and until when what they wanted is kept.
    granted: VecDeque<(Waiter, Time)>,
}

#[derive(Clone, Copy)]
struct Waiter {
    turn: u64,
    lane: u32,
    /// How much of it, at most.
    wants: u32,
}

impl Line {
    /// A task joins, in its place.
    pub(super) fn join(&mut self, turn: u64, lane: u32, wants: u32) {
        let at = self.queue.partition_point(|waiter| waiter.turn < turn);
        self.queue.insert(at, Waiter { turn, lane, wants });
    }

    /// Whether a task still waits.
    pub(super) fn has(&self, turn: u64) -> bool {
        self.queue.binary_search_by_key(&turn, |waiter| waiter.turn).is_ok()
    }

    /// A task goes on, or does not want it any more.
    pub(super) fn leave(&mut self, turn: u64) {
        if let Ok(at) = self.queue.binary_search_by_key(&turn, |waiter| waiter.turn) {
            self.queue.remove(at);
        }
        self.granted.retain(|(waiter, _)| waiter.turn != turn);
    }

    /// Whether tasks wait.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// What is kept for tasks that have not gone on.
    pub(super) fn promised(&self) -> u32 {
        self.granted.iter().map(|(waiter, _)| waiter.wants).sum()
    }

    /// Lets tasks go on, the first first, as long as something of `amount` is left beside what is promised; `all`:
    /// however much they want.
    pub(super) fn grant(&mut self, now: Time, lanes: &Lanes, amount: u32, all: bool) {
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

    /// When what is kept for a task can be given to another one.
    pub(super) fn wakeup(&self) -> Option<Time> {
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

    type Cells = Vec<(Arc<LaneCell>, Arc<Rings>)>;

    fn lanes(count: u32) -> (Lanes, Cells) {
        let (mut lanes, mut cells) = (Lanes::default(), Vec::new());
        for number in 0..count {
            let rings = Arc::new(Rings::default());
            let cell = LaneCell::new(Some(Arc::<Rings>::clone(&rings)));
            assert_eq!(lanes.join(&cell), number);
            cells.push((cell, rings));
        }
        (lanes, cells)
    }

    fn kicked(cells: &[(Arc<LaneCell>, Arc<Rings>)]) -> Vec<u32> {
        let was =
            |(_, (cell, _)): &(u32, &(Arc<LaneCell>, Arc<Rings>))| cell.kicked.swap(false, Ordering::SeqCst);
        (0..).zip(cells).filter(was).map(|(number, _)| number).collect()
    }

    #[test]
    fn tasks_go_in_order_as_far_as_there_is_room() {
        let (lanes, cells) = lanes(4);
        let mut line = Line::default();
        (0..4).for_each(|lane| line.join(u64::from(lane) * 10, lane, 3));
        line.grant(Time(0), &lanes, 0, false);
        assert_eq!(kicked(&cells), []);
        line.grant(Time(0), &lanes, 4, false);
        assert_eq!((kicked(&cells), line.promised()), (vec![0, 1], 6));
        assert!(!line.has(10) && line.has(20));
        // The same room is not given twice.
        line.grant(Time(1), &lanes, 4, false);
        assert_eq!(kicked(&cells), []);
        line.leave(0);
        line.leave(10);
        // The second found none after all: it is before the others again.
        line.join(10, 1, 3);
        line.grant(Time(2), &lanes, 1, false);
        assert_eq!(kicked(&cells), [1]);
        line.leave(20);
        // The lane of the second is not run: what was kept for it goes to the next.
        let later = Time(2) + PATIENCE;
        assert_eq!(line.wakeup(), Some(later));
        line.grant(later, &lanes, 1, false);
        assert_eq!(kicked(&cells), [3]);
        assert!(line.is_empty() && line.wakeup().is_none());
    }

    #[test]
    fn one_of_those_that_sleep_listens() {
        let (mut lanes, cells) = lanes(3);
        lanes.set_hears(true, None);
        assert!(lanes.sleep(0) && !lanes.sleep(1) && !lanes.sleep(2));
        assert!(lanes.sleep(0), "it listens again");
        lanes.appoint();
        assert_eq!(kicked(&cells), []);
        lanes.wake(0);
        lanes.appoint();
        assert_eq!(kicked(&cells), [2]);
        assert!(lanes.sleep(2) && !lanes.sleep(0));
        lanes.leave(2);
        lanes.wake(1);
        lanes.appoint();
        assert_eq!(kicked(&cells), [0]);
        assert!(lanes.is_heard());
        // Where nothing can be heard it has to look.
        lanes.set_hears(false, None);
        lanes.appoint();
        assert_eq!((kicked(&cells), lanes.is_heard()), (vec![0], false));
        // Where there is something to do before it wakes up it has to think again.
        lanes.set_hears(true, Some(Time(5)));
        lanes.hasten(Time(5));
        assert_eq!(kicked(&cells), []);
        lanes.hasten(Time(4));
        assert_eq!(kicked(&cells), [0]);
        lanes.awake(0);
        lanes.hasten(Time(4));
        assert_eq!(kicked(&cells), []);
    }
}
