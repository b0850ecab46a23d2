//! The list of a disk's lanes, and how bios are routed back to them.

use super::doubts::Owner;
use super::gate::Seen;
use super::woken::Woken;
use super::{Busy, Mailbox};
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, lock};
use platter_block::backend::LaneUse;
use platter_block::bio::Bio;
use platter_block::counters::{Counters, Snapshot};
use platter_block::driver::{Driver, Outstanding};
use platter_block::lane::Bell;
use platter_block::statistics::{Gauges, Statistics};
use platter_block::time::{Span, Time};
use std::sync::Arc;

/// How long before I/O fails because of a lane that is not run this lane is asked to run.
const GRACE: Span = Span::from_secs(1);

/// The part of a lane that its device knows.
pub(super) struct LaneCell {
    pub(super) busy: Busy,
    pub(super) mailbox: Mailbox,
    pub(super) counters: Arc<Counters>,
    /// The number of the lane's own queue, for reports to the device.
    owner: Owner,
    /// The lane sleeps only on its bell: another lane polls the driver of the shared queue.
    pub(super) leaves_polling: AtomicBool,
    lane_use: LaneUse,
    /// Name of the thread that opened it.
    opener: String,
    /// When the lane was last run since it gave up a request; announces nothing, so no order is needed.
    ran: AtomicU64,
    /// When it was asked to run because others wait for what only it can see.
    asked: AtomicU64,
    /// The owner sleeps until its own driver has something, which ends by itself.
    waits: AtomicBool,
    /// Count of the requests that the device still has of the lane, if any thread may read it.
    outstanding: Mutex<Option<Arc<dyn Outstanding>>>,
}

/// What a barrier has to wait for, in increasing order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Hold {
    /// Nothing.
    Nothing,
    /// The device has completed everything, but the owners of some lanes have not seen it. The barrier may pass.
    Report,
    /// The device, whose completions can be seen from here.
    Device,
    /// The device, whose completions only the owner of some lane can see.
    Unseen,
    /// The owner of some lane, which has something that the device does not have yet.
    Owner,
}

impl LaneCell {
    fn new(counters: Arc<Counters>, owner: Owner, lane_use: LaneUse, woken: Arc<Woken>) -> LaneCell {
        let opener = std::thread::current().name().unwrap_or("without a name").to_string();
        LaneCell {
            busy: Busy::new(),
            mailbox: Mailbox::new(woken),
            counters,
            owner,
            leaves_polling: AtomicBool::new(false),
            lane_use,
            opener,
            ran: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            waits: AtomicBool::new(false),
            outstanding: Mutex::new(None),
        }
    }

    /// The lane is run, and may have given up requests.
    pub(super) fn note_run(&self, now: Time) {
        self.ran.fetch_max(now.0, Ordering::Relaxed);
    }

    /// Calls `wait`, in which the owner sleeps for its driver. `doubtful`: other lanes may wait for the end of a doubt that only
    /// this lane can see.
    #[inline(always)]
    pub(super) fn while_waiting(&self, doubtful: bool, wait: impl FnOnce()) {
        if doubtful {
            self.waits.store(true, Ordering::Relaxed);
        }
        wait();
        if doubtful {
            self.waits.store(false, Ordering::Relaxed);
        }
    }

    /// When to look again at I/O that waits for what only this lane can see, because the lane has not been run. Now: it has
    /// not been run for `timeout`. It is asked to run [`GRACE`] before that, because its owner may sleep on its bell, or the
    /// whole program may have stopped for so long.
    fn fails_at(&self, now: Time, timeout: Span) -> Time {
        let ran = Time(self.ran.load(Ordering::Relaxed));
        if self.waits.load(Ordering::Relaxed) {
            return now + timeout;
        }
        let grace = GRACE.min(Span(timeout.0 / 4));
        let asked = Time(self.asked.load(Ordering::Relaxed));
        if asked > ran {
            return (ran + timeout).max(asked + grace);
        }
        if ran + timeout > now + grace {
            return ran + Span(timeout.0 - grace.0);
        }
        self.asked.store(now.0, Ordering::Relaxed);
        self.mailbox.nudge();
        now + grace
    }

    /// The lane has got a driver, or a new one.
    pub(super) fn set_driver(&self, driver: &dyn Driver) {
        *lock(&self.outstanding) = driver.outstanding();
    }

    /// Number of requests that the device has of the lane, if that can be seen.
    fn outstanding(&self) -> Option<u32> {
        lock(&self.outstanding).as_ref().map(|driver| driver.outstanding())
    }

    /// What a barrier has to wait for.
    fn hold(&self) -> Hold {
        match self.busy.look() {
            Seen::Idle => Hold::Nothing,
            Seen::Busy => Hold::Owner,
            Seen::Started => match self.outstanding() {
                Some(0) => Hold::Report,
                Some(_) => Hold::Device,
                None => Hold::Unseen,
            },
        }
    }

    /// Lets a barrier pass completions that the owner has not seen. `false`: it has to wait.
    fn count_complete(&self) -> bool {
        match self.busy.look() {
            Seen::Idle => true,
            Seen::Started => self.busy.count(|| self.outstanding() == Some(0)),
            Seen::Busy => false,
        }
    }

    fn name(&self, route: usize) -> String {
        let kind = match self.lane_use {
            LaneUse::Exclusive => "channel",
            LaneUse::Shared => "lane",
            LaneUse::Synchronous => "lane of synchronous calls",
        };
        format!("{kind} {route}, opened by thread {}", self.opener)
    }
}

impl Bell for LaneCell {
    fn ring(&self) {
        self.mailbox.nudge();
    }
}

/// An entry in the list. Its index is the route of the lane's bios.
enum Slot {
    Free,
    Open(Arc<LaneCell>),
    /// The lane is gone, but the entry is not free before its last bio has come back.
    Closing(Arc<LaneCell>),
}

struct List {
    slots: Vec<Slot>,
    /// Counters of lanes that are gone.
    retired: Snapshot,
    retired_statistics: Statistics,
}

pub(super) struct Lanes {
    list: Mutex<List>,
    /// Threads of lanes that have been woken.
    pub(super) woken: Arc<Woken>,
}

impl Lanes {
    pub(super) fn new() -> Lanes {
        let (retired, retired_statistics) = (Snapshot::default(), Statistics::default());
        let list = Mutex::new(List { slots: Vec::new(), retired, retired_statistics });
        Lanes { list, woken: Arc::new(Woken::new()) }
    }

    /// Adds a lane and returns it with its route.
    pub(super) fn add(
        &self,
        counters: Arc<Counters>,
        owner: Owner,
        lane_use: LaneUse,
    ) -> (Arc<LaneCell>, u32) {
        let cell = Arc::new(LaneCell::new(counters, owner, lane_use, Arc::clone(&self.woken)));
        let mut list = lock(&self.list);
        let free = list.slots.iter().position(|slot| matches!(slot, Slot::Free));
        let route = free.unwrap_or_else(|| {
            list.slots.push(Slot::Free);
            list.slots.len() - 1
        });
        list.slots[route] = Slot::Open(Arc::clone(&cell));
        (cell, route as u32)
    }

    /// Removes a lane while `away` of its bios are in the shared queue or on their way back from it.
    pub(super) fn remove(&self, route: u32, away: usize) {
        let mut list = lock(&self.list);
        let List { slots, retired, retired_statistics } = &mut *list;
        let Some(slot) = slots.get_mut(route as usize) else { return };
        let Slot::Open(cell) = std::mem::replace(slot, Slot::Free) else { return };
        retired.add(&cell.counters);
        retired_statistics.add(&cell.counters);
        // Its queue is gone.
        retired_statistics.gauges = Gauges::default();
        let (mail, all) = cell.mailbox.close(away);
        if !all {
            *slot = Slot::Closing(cell);
        }
        drop(list);
        // Buffers may run code of the program when they drop, so they are not dropped with the lock held.
        drop(mail);
    }

    /// Returns bios to their lanes, each with its lane's route. Lanes that sleep are added to `wakes`, to be rung once
    /// the caller has released the queue's lock; without that list they are rung now.
    pub(super) fn post(
        &self,
        bios: impl Iterator<Item = (u32, Bio)>,
        mut wakes: Option<&mut Vec<Arc<LaneCell>>>,
    ) {
        let mut list = None;
        for (route, bio) in bios {
            let list = list.get_or_insert_with(|| lock(&self.list));
            let Some(slot) = list.slots.get_mut(route as usize) else { continue };
            let (Slot::Open(cell) | Slot::Closing(cell)) = slot else { continue };
            if cell.mailbox.put(bio) {
                *slot = Slot::Free;
                continue;
            }
            match &mut wakes {
                Some(wakes) if cell.mailbox.is_asleep() => wakes.push(Arc::clone(cell)),
                Some(_) => {}
                None => cell.mailbox.ring(),
            }
        }
    }

    /// What a barrier has to wait for, over all lanes.
    pub(super) fn hold(&self) -> Hold {
        let mut most = Hold::Nothing;
        self.each(|cell| {
            most = most.max(cell.hold());
            false
        });
        most
    }

    /// Lets a barrier pass completions that owners have not seen. `false`: it has to wait.
    pub(super) fn count_complete(&self) -> bool {
        !self.each(|cell| !cell.count_complete())
    }

    /// Number of requests that the device has of a lane's own queue, if that can be seen.
    pub(super) fn outstanding(&self, owner: Owner) -> Option<u32> {
        let mut outstanding = None;
        self.each(|cell| {
            let found = cell.owner == owner;
            if found {
                outstanding = cell.outstanding();
            }
            found
        });
        outstanding
    }

    /// When to look again at I/O that waits for a queue which has given up requests (now: the queue's lane is not run), and the
    /// name of the lane. `None`: the lane is gone, or what its driver has returned can be seen without it.
    pub(super) fn stalls_at(&self, now: Time, owner: Owner, timeout: Span) -> Option<(Time, String)> {
        let list = lock(&self.list);
        let mut open = list.slots.iter().enumerate().filter_map(|(route, slot)| match slot {
            Slot::Open(cell) if cell.owner == owner => Some((route, cell)),
            _ => None,
        });
        let (route, cell) = open.next()?;
        let is_seen = cell.outstanding().is_some();
        (!is_seen).then(|| (cell.fails_at(now, timeout), cell.name(route)))
    }

    /// Names of the lanes that hold up a barrier.
    pub(super) fn that_hold(&self) -> Vec<String> {
        let list = lock(&self.list);
        let open = list.slots.iter().enumerate().filter_map(|(route, slot)| match slot {
            Slot::Open(cell) if cell.hold() >= Hold::Device => Some(cell.name(route)),
            _ => None,
        });
        open.collect()
    }

    /// Wakes all sleeping lanes.
    pub(super) fn ring_all(&self) {
        self.each(|cell| {
            cell.mailbox.ring();
            false
        });
    }

    /// Wakes the lane of a route.
    pub(super) fn ring(&self, route: u32) {
        if let Some(Slot::Open(cell)) = lock(&self.list).slots.get(route as usize) {
            cell.mailbox.ring();
        }
    }

    /// Wakes lanes that sleep on the driver of the shared queue, because it would not wake them, or not in time.
    pub(super) fn ring_pollers(&self) {
        self.each(|cell| {
            if !cell.leaves_polling.load(Ordering::SeqCst) {
                cell.mailbox.ring();
            }
            false
        });
    }

    /// Visits the open lanes until `visit` returns `true`.
    fn each(&self, mut visit: impl FnMut(&LaneCell) -> bool) -> bool {
        lock(&self.list).slots.iter().any(|slot| match slot {
            Slot::Open(cell) => visit(cell),
            _ => false,
        })
    }

    /// Sum of the counters of all lanes, including closed ones.
    pub(super) fn counters(&self) -> Snapshot {
        let list = lock(&self.list);
        let mut sum = list.retired.clone();
        for slot in &list.slots {
            if let Slot::Open(cell) = slot {
                sum.add(&cell.counters);
            }
        }
        sum
    }
    /// Statistics of all lanes, including closed ones.
    /// Has the extremes of latencies begin again.
    pub(super) fn restart_extremes(&self) {
        let mut list = lock(&self.list);
        list.retired_statistics.restart_extremes();
        for slot in &list.slots {
            if let Slot::Open(cell) = slot {
                cell.counters.restart_extremes();
            }
        }
    }

    pub(super) fn statistics(&self) -> Statistics {
        let list = lock(&self.list);
        let mut sum = list.retired_statistics.clone();
        for slot in &list.slots {
            if let Slot::Open(cell) = slot {
                sum.add(&cell.counters);
            }
        }
        sum
    }
}
