//! What threads that do not hold the lock of a layer see of its work, and the bells of threads that come back for it.

use super::lanes::Lanes;
use crate::sync::{AtomicU64, Mutex, Ordering, lock};
use platter_block::backend::Backend;
use platter_block::lane::Bell;
use platter_block::time::Time;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

/// The value of a time that is not set.
const NEVER: u64 = u64::MAX;

/// The work of a layer at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// When the layer should be run even if nothing completes.
    pub due: Option<Time>,
    /// Devices have I/Os of the layer on its own lanes, or memory of them.
    pub is_out: bool,
    /// Anything of the layer has not ended.
    pub has_work: bool,
    /// When a thread must come back, although no bio waits for that; the end of time: when something completes.
    pub thread: Option<Time>,
}

/// Publishes the [`Outlook`] of a layer whose state is behind a lock.
// In cache lines of its own: other threads read and write what lies beside it.
#[repr(align(128))]
pub struct Board {
    due: AtomicU64,
    out: AtomicBool,
    works: AtomicBool,
    /// A sleeping lane listens to the layer's own lanes; otherwise every lane that is run runs the layer too.
    is_polled: AtomicBool,
    /// Bells to ring when there is work to do. They belong to their owners.
    wakers: Mutex<Vec<Weak<dyn Bell>>>,
    /// The time for which they were last rung, or [`NEVER`].
    told: AtomicU64,
    /// The same if it is still to come, so that a thread comes then also if the work is later by then, or none is left.
    visit: AtomicU64,
    /// The latest time that a thread may have found when it looked since then. 0: it knows the time for which it was rung, or an
    /// earlier one. [`NEVER`]: it may have found no work. Used under the lock only.
    seen: AtomicU64,
}

impl Default for Board {
    fn default() -> Board {
        Board {
            due: AtomicU64::new(NEVER),
            out: AtomicBool::new(false),
            works: AtomicBool::new(false),
            is_polled: AtomicBool::new(false),
            wakers: Mutex::default(),
            told: AtomicU64::new(NEVER),
            visit: AtomicU64::new(NEVER),
            seen: AtomicU64::new(0),
        }
    }
}

impl Board {
    /// Whether a lane that is run should run the layer.
    #[inline]
    pub fn is_due(&self, now: Time) -> bool {
        let unpolled = self.is_out() && !self.is_polled.load(Ordering::SeqCst);
        unpolled || self.due.load(Ordering::SeqCst) <= now.0
    }

    /// When the layer should be run even if nothing completes.
    #[inline]
    pub fn wakeup(&self) -> Option<Time> {
        let at = self.due.load(Ordering::SeqCst);
        (at != NEVER).then_some(Time(at))
    }

    /// Whether devices have I/Os of the layer on its own lanes, or memory of them.
    #[inline]
    pub fn is_out(&self) -> bool {
        self.out.load(Ordering::SeqCst)
    }

    /// When the thread that was told of work comes back, also if that is later or none is left.
    #[inline]
    pub fn visit(&self) -> Option<Time> {
        let at = self.visit.load(Ordering::SeqCst);
        (at != NEVER).then_some(Time(at))
    }

    /// Whether anything of the layer has not ended.
    #[inline]
    pub fn has_work(&self) -> bool {
        self.works.load(Ordering::SeqCst)
    }

    /// Registers a bell to ring when there is work to do here, or in the devices below.
    pub fn keep(&self, below: &[Arc<dyn Backend>], keeper: Arc<dyn Bell>) {
        below.iter().for_each(|below| below.keep(Arc::clone(&keeper)));
        let mut wakers = lock(&self.wakers);
        wakers.retain(|waker| waker.strong_count() > 0);
        wakers.push(Arc::downgrade(&keeper));
        drop(wakers);
        if self.told.load(Ordering::SeqCst) != NEVER {
            // The owner of the bell that was told may be gone.
            keeper.ring();
        }
    }

    /// To be called with the lock held, before it is released.
    ///
    /// A thread that was told of a time comes then, whether or not there is work left: a layer whose work comes and goes rings
    /// once for all of it. Not if time is `simulated`, which would advance for nothing.
    pub fn publish<F>(&self, now: Time, lanes: &mut Lanes<F>, outlook: Outlook, simulated: bool) {
        set(&self.out, outlook.is_out);
        set(&self.works, outlook.has_work);
        set(&self.is_polled, lanes.is_polled());
        set_time(&self.due, outlook.due.map_or(NEVER, |at| at.0));
        if let Some(at) = outlook.due {
            lanes.hasten(at, outlook.thread.is_some_and(|thread| thread <= at));
        }
        self.tell(now, lanes, outlook, !simulated);
    }

    /// A panic has broken the layer: no work is left, and nothing is published any more. To be called when no thread can publish.
    #[cold]
    pub fn clear(&self) {
        [&self.due, &self.told, &self.visit].into_iter().for_each(|time| time.store(NEVER, Ordering::SeqCst));
        set(&self.out, false);
        set(&self.works, false);
    }

    /// Lanes run what bios wait for. Other work needs a thread that comes back at a certain time.
    fn tell<F>(&self, now: Time, lanes: &Lanes<F>, outlook: Outlook, comes: bool) {
        let (told, seen) = (self.told.load(Ordering::SeqCst), self.seen.load(Ordering::Relaxed));
        let is_past = told <= now.0;
        let due = outlook.due.map_or(NEVER, |at| at.0);
        // One that is to look now sleeps until work is due after that.
        let finds = outlook.thread.map_or(NEVER, |at| if at > now { at.0 } else { due });
        match outlook.thread {
            None if comes && !is_past => set_time(&self.seen, NEVER),
            None => self.set_told(NEVER, 0),
            Some(at) if at.0 < told || (is_past && finds < seen) => {
                self.set_told(at.0, if at > now { 0 } else { due });
                lock(&self.wakers).iter().filter_map(Weak::upgrade).for_each(|waker| lanes.ring_later(waker));
            }
            // In this case a thread has checked, and knows this time or an earlier one.
            Some(at) if is_past => self.set_told(at.0, if at > now { 0 } else { seen.max(due) }),
            Some(at) if at.0 > told => set_time(&self.seen, seen.max(at.0)),
            Some(_) => {}
        }
        // The thread also comes if the work is later by then: otherwise it would not learn of work that becomes due in between.
        let told = self.told.load(Ordering::Relaxed);
        set_time(&self.visit, if comes && told > now.0 { told } else { NEVER });
    }

    fn set_told(&self, at: u64, seen: u64) {
        set_time(&self.told, at);
        set_time(&self.seen, seen);
    }
}

/// As [`set`], of a time.
fn set_time(cell: &AtomicU64, value: u64) {
    if cell.load(Ordering::Relaxed) != value {
        cell.store(value, Ordering::SeqCst);
    }
}

/// Stores a value that differs. Others read the line, and a store costs more than a look. Only the holder of the lock stores, and
/// after a panic those that find the state broken: all of them store the same.
fn set(cell: &AtomicBool, value: bool) {
    if cell.load(Ordering::Relaxed) != value {
        cell.store(value, Ordering::SeqCst);
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

    /// How often a keeper is rung when there is work for a thread at some time.
    fn told(board: &Board, rings: &Rings, now: u64, thread: Option<u64>, simulated: bool) -> u32 {
        let outlook = Outlook { due: thread.map(Time), thread: thread.map(Time), ..Outlook::default() };
        board.publish(Time(now), &mut Lanes::<()>::default(), outlook, simulated);
        rings.0.swap(0, Ordering::SeqCst)
    }

    #[test]
    fn a_keeper_is_told_once_of_each_earlier_time() {
        let (board, rings) = (Board::default(), Arc::new(Rings::default()));
        board.keep(&[], Arc::clone(&rings) as Arc<dyn Bell>);
        let tell = |now, thread| told(&board, &rings, now, thread, true);
        assert_eq!([tell(0, None), tell(0, Some(9)), tell(1, Some(9)), tell(1, Some(5))], [0, 1, 0, 1]);
        // At that time it comes by itself, and learns of the next one.
        assert_eq!([tell(5, Some(8)), tell(6, Some(7)), tell(6, None), tell(6, Some(9))], [0, 1, 0, 1]);
        assert_eq!(
            (board.wakeup(), board.is_due(Time(8)), board.is_due(Time(9))),
            (Some(Time(9)), false, true)
        );
        // A keeper that comes later is told what the earlier ones know.
        let late = Arc::new(Rings::default());
        board.keep(&[], Arc::clone(&late) as Arc<dyn Bell>);
        assert_eq!(late.0.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_keeper_that_was_told_is_not_rung_again_for_work_that_comes_and_goes() {
        let (board, rings) = (Board::default(), Arc::new(Rings::default()));
        board.keep(&[], Arc::clone(&rings) as Arc<dyn Bell>);
        let tell = |now, thread| told(&board, &rings, now, thread, false);
        assert_eq!([tell(0, Some(9)), tell(1, None), tell(2, Some(11)), tell(3, None)], [1, 0, 0, 0]);
        // It must come at the time that it was told, however late the work is by then.
        assert_eq!(board.visit(), Some(Time(9)));
        assert_eq!([tell(4, Some(8)), tell(5, None)], [1, 0]);
        // When it has come and found nothing, it is rung for the next work.
        assert_eq!((tell(8, None), board.visit()), (0, None));
        assert_eq!(tell(9, Some(20)), 1);
        // It may have looked between, and know of a later time only: it is rung when the earlier one has passed.
        assert_eq!(
            [tell(10, None), tell(11, Some(30)), tell(20, Some(30)), tell(30, Some(40))],
            [0, 0, 1, 0]
        );
    }

    /// It comes at the time that it was told. If it finds then that the work is due later, it is rung if other work comes before.
    #[test]
    fn a_keeper_is_rung_for_work_that_is_earlier_than_what_it_found() {
        let (board, rings) = (Board::default(), Arc::new(Rings::default()));
        board.keep(&[], Arc::clone(&rings) as Arc<dyn Bell>);
        let tell = |now, thread| told(&board, &rings, now, thread, false);
        assert_eq!([tell(0, Some(30)), tell(20, Some(50))], [1, 0]);
        assert_eq!(board.visit(), Some(Time(30)), "also for work that comes between");
        assert_eq!((tell(31, Some(31)), board.visit()), (1, None));
        // Not for what it has found, or what is later.
        assert_eq!([tell(32, Some(60)), tell(40, Some(70)), tell(61, Some(70)), tell(70, Some(80))], [0; 4]);
        assert_eq!(
            [tell(71, Some(75)), tell(72, Some(90)), tell(73, Some(85)), tell(76, Some(88))],
            [1, 0, 0, 1]
        );
    }

    /// Work that a thread has to do now lasts: it is rung once, comes at no time that has passed, and is rung again when a time is
    /// due that it cannot have found.
    #[test]
    fn a_keeper_that_has_work_now_sleeps_until_it_is_told_of_a_time() {
        let (board, rings) = (Board::default(), Arc::new(Rings::default()));
        board.keep(&[], Arc::clone(&rings) as Arc<dyn Bell>);
        let tell = |now, due: Option<u64>| {
            let outlook = Outlook { due: due.map(Time), thread: Some(Time(now)), ..Outlook::default() };
            board.publish(Time(now), &mut Lanes::<()>::default(), outlook, false);
            assert_eq!(board.visit(), None);
            rings.0.swap(0, Ordering::SeqCst)
        };
        assert_eq!([tell(1, None), tell(2, None), tell(3, None)], [1, 0, 0]);
        assert_eq!(
            [tell(4, Some(20)), tell(5, Some(20)), tell(6, Some(30)), tell(7, Some(25))],
            [1, 0, 0, 1]
        );
        assert_eq!([tell(8, Some(25)), tell(9, None), tell(10, Some(40))], [0, 0, 1]);
    }

    #[test]
    fn every_lane_runs_a_layer_that_none_listens_to() {
        let (board, mut lanes) = (Board::default(), Lanes::<()>::default());
        let entry = super::super::lanes::LaneEntry::new(None);
        let number = lanes.join(&entry);
        let outlook = Outlook { is_out: true, has_work: true, ..Outlook::default() };
        board.publish(Time(0), &mut lanes, outlook, false);
        assert!(board.is_due(Time(0)) && board.is_out() && board.has_work());
        lanes.sleep(number);
        lanes.set_shows_completions(true, None);
        board.publish(Time(0), &mut lanes, outlook, false);
        assert!(!board.is_due(Time(0)) && board.wakeup().is_none());
    }
}
