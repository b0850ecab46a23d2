//! The page cache.

use super::{Io, Machine};
use platter_cache::readahead::{Fate, Pages, Window};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// A page in the cache.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The round in which the page becomes available.
    ready: u64,
    marked: bool,
    /// Read from the device, and not used yet.
    fresh: bool,
    /// The handle that it was read ahead for.
    ahead_for: Option<u32>,
    /// Its place in the order of use.
    stamp: u64,
}

/// The result of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing.
    Missing,
    /// The page is available from this round on, which may be in the future; `marked`: it had the marker.
    Page { ready: u64, marked: bool },
}

/// Cached pages, and the I/Os that read them.
pub(super) struct Cache {
    slots: HashMap<u64, Slot>,
    /// The pages in the order of use, by stamp; kept only if the cache is bounded.
    order: BTreeMap<u64, u64>,
    stamps: u64,
    capacity: Option<usize>,
    end: u64,
    latency: u64,
    requests: usize,
    /// When each I/O in flight completes.
    in_flight: Vec<u64>,
    pub(super) round: u64,
    pub(super) ios: Vec<Io>,
    pub(super) windows: Vec<Window>,
    pub(super) pages_read: u64,
    pub(super) pages_used: u64,
    pub(super) evicted_unused: u64,
    /// What became of the pages that were read ahead for each handle.
    fates: HashMap<u32, Fate>,
    /// The handle of the read that runs, and its pages.
    pub(super) caller: (u32, Range<u64>),
}

impl Cache {
    pub(super) fn new(machine: &Machine) -> Cache {
        let mut cache = Cache {
            slots: HashMap::new(),
            order: BTreeMap::new(),
            stamps: 0,
            capacity: machine.cache,
            end: machine.pages,
            latency: machine.latency,
            requests: machine.requests,
            in_flight: Vec::new(),
            round: 0,
            ios: Vec::new(),
            windows: Vec::new(),
            pages_read: 0,
            pages_used: 0,
            evicted_unused: 0,
            fates: HashMap::new(),
            caller: (0, 0..0),
        };
        for &page in &machine.cached {
            cache.insert(page, Slot { ready: 0, marked: false, fresh: false, ahead_for: None, stamp: 0 });
        }
        cache
    }

    /// Looks a page up and takes its marker off.
    pub(super) fn look(&mut self, page: u64) -> Found {
        match self.slots.get_mut(&page) {
            None => Found::Missing,
            Some(slot) => Found::Page { ready: slot.ready, marked: std::mem::take(&mut slot.marked) },
        }
    }

    /// A thread takes a page's contents.
    pub(super) fn take(&mut self, page: u64) {
        self.stamps += 1;
        let Some(slot) = self.slots.get_mut(&page) else { return };
        if std::mem::take(&mut slot.fresh) {
            self.pages_used += 1;
            slot.ahead_for.into_iter().for_each(|handle| self.fates.entry(handle).or_default().used += 1);
        }
        if self.capacity.is_some() {
            self.order.remove(&slot.stamp);
            self.order.insert(self.stamps, page);
            slot.stamp = self.stamps;
        }
    }

    fn insert(&mut self, page: u64, slot: Slot) {
        self.stamps += 1;
        self.slots.insert(page, Slot { stamp: self.stamps, ..slot });
        if self.capacity.is_some() {
            self.order.insert(self.stamps, page);
        }
    }

    /// Makes room for one page. Pages that are being read cannot go; if there are only such the cache grows.
    fn make_room(&mut self) {
        if self.capacity.is_none_or(|capacity| self.slots.len() < capacity) {
            return;
        }
        let is_there = |page: &u64| self.slots.get(page).is_some_and(|slot| slot.ready <= self.round);
        let oldest = self.order.iter().find(|(_, page)| is_there(page));
        let Some((&stamp, &page)) = oldest else { return };
        self.order.remove(&stamp);
        if let Some(slot) = self.slots.remove(&page).filter(|slot| slot.fresh) {
            self.evicted_unused += 1;
            slot.ahead_for.into_iter().for_each(|handle| self.fates.entry(handle).or_default().unused += 1);
        }
    }

    /// Starts an I/O for pages none of which is cached.
    fn start(&mut self, first: u64, count: u32, mark: Option<u64>, sync: bool) {
        let ready = self.round + self.latency;
        for page in first..first + u64::from(count) {
            self.make_room();
            let ahead_for = (!self.caller.1.contains(&page)).then_some(self.caller.0);
            ahead_for.into_iter().for_each(|handle| self.fates.entry(handle).or_default().read += 1);
            self.insert(page, Slot { ready, marked: mark == Some(page), fresh: true, ahead_for, stamp: 0 });
        }
        self.pages_read += u64::from(count);
        self.ios.push(Io { page: first, pages: count, sync, round: self.round });
        self.in_flight.retain(|&done| done > self.round);
        self.in_flight.push(ready);
    }
}

impl Pages for Cache {
    fn is_cached(&self, page: u64) -> bool {
        self.slots.contains_key(&page)
    }

    fn end(&self) -> u64 {
        self.end
    }

    fn is_congested(&self) -> bool {
        let in_flight = self.in_flight.iter().filter(|&&done| done > self.round).count();
        in_flight * 8 > self.requests * 7
    }

    fn fate(&self) -> Fate {
        self.fates.get(&self.caller.0).copied().unwrap_or_default()
    }

    fn read(&mut self, window: Window) -> u32 {
        self.windows.push(window);
        let end = window.first.saturating_add(u64::from(window.count)).min(self.end);
        let missing: Vec<u64> = (window.first..end).filter(|&page| !self.is_cached(page)).collect();
        // One I/O for each run of pages; the call waits for the first.
        let mut sync = window.sync;
        for run in missing.chunk_by(|a, b| a + 1 == *b) {
            self.start(run[0], run.len() as u32, window.mark, sync);
            sync = false;
        }
        missing.len() as u32
    }
}
