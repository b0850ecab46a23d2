//! The list of a disk's lanes, and how bios are routed back to them.

use super::gate::Seen;
use super::woken::Woken;
use super::{Busy, Mailbox};
use crate::sync::{AtomicBool, Mutex, Ordering, lock};
use platter_block::backend::LaneUse;
use platter_block::bio::Bio;
use platter_block::counters::{Counters, Snapshot};
use platter_block::driver::{Driver, Outstanding};
use platter_block::lane::{Bell, Left};
use platter_block::statistics::{Gauges, Statistics};
use std::sync::Arc;

/// The part of a lane that its device knows.
pub(super) struct LaneCell {
    pub(super) busy: Busy,
    pub(super) mailbox: Mailbox,
    pub(super) counters: Arc<Counters>,
    /// The lane sleeps only on its bell: another lane polls the driver of the shared queue.
    pub(super) leaves_polling: AtomicBool,
    lane_use: LaneUse,
    /// Name of the thread that opened it.
    opener: String,
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
    fn new(counters: Arc<Counters>, lane_use: LaneUse, woken: Arc<Woken>) -> LaneCell {
        let opener = std::thread::current().name().unwrap_or("without a name").to_string();
        LaneCell {
            busy: Busy::new(),
            mailbox: Mailbox::new(woken),
            counters,
            leaves_polling: AtomicBool::new(false),
            lane_use,
            opener,
            outstanding: Mutex::new(None),
        }
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
    /// The lane is gone, but the entry is not free before its last bio has come back. Then what it left is not late any more.
    Closing(
        Arc<LaneCell>,
        #[expect(dead_code, reason = "it is dropped with the entry")] Option<Arc<dyn Left>>,
    ),
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
    pub(super) fn add(&self, counters: Arc<Counters>, lane_use: LaneUse) -> (Arc<LaneCell>, u32) {
        let cell = Arc::new(LaneCell::new(counters, lane_use, Arc::clone(&self.woken)));
        let mut list = lock(&self.list);
        let free = list.slots.iter().position(|slot| matches!(slot, Slot::Free));
        let route = free.unwrap_or_else(|| {
            list.slots.push(Slot::Free);
            list.slots.len() - 1
        });
        list.slots[route] = Slot::Open(Arc::clone(&cell));
        (cell, route as u32)
    }

    /// Removes a lane while `away` of its bios are in the shared queue or on their way back from it. `left` is kept until they are back.
    pub(super) fn remove(&self, route: u32, away: usize, left: impl FnOnce() -> Option<Arc<dyn Left>>) {
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
            *slot = Slot::Closing(cell, left());
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
            let (Slot::Open(cell) | Slot::Closing(cell, _)) = slot else { continue };
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
