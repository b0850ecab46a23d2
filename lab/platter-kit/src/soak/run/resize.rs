//! Disks that shrink, grow again, or are removed while in use, and what a program may and must see of that.
//!
//! What is checked:
//!
//! - I/O fails with [`Kind::Gone`](platter_block::fault::Kind::Gone) only where, since it was submitted, a disk that it
//!   reaches was removed or ended before it; and it does not succeed if that was so all the time.
//! - Contents that were cut off are lost: they read as zeroes when the disk has grown again, see
//!   [`Oracle::lose`](platter_sim::oracle::Oracle::lose).
//! - A disk that was seen to shrink is used beyond that end only after the program accepted its size.
//! - Each change that a device notices is reported once, in order, with the sizes before and after, by the disk and by
//!   the device above it; after a refresh no change remains unnoticed.
//!
//! Not checked, because layers complicate the rule: over a cache I/O may succeed beyond the end and may fail as gone
//! from the first change until the device is opened again, since it answers from memory and reports errors of
//! write-back late. A disk never grows beyond the size that it had at first. Sizes are restored before a device is
//! opened again, because those of partitions and arrays would follow from the smaller disk.

use super::submit::Live;
use super::{Finding, Run};
use crate::soak::plan::Node;
use crate::soak::stamp::SECTOR;
use platter_block::bio::{Flags, Op};
use platter_block::event::{DeviceEvent, Watcher};
use platter_sim::SimDisk;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Parts that the sectors of a disk are counted in for its size.
const PARTS: u64 = 256;

/// A disk at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    /// Its size in bytes, and whether it is present.
    size: u64,
    there: bool,
    /// The size that the device uses, as it reported.
    known: u64,
}

impl Extent {
    /// Whether a sector of the disk can be reached.
    fn reaches(&self, sector: u64) -> bool {
        self.there && (sector + 1) * SECTOR as u64 <= self.size.min(self.known)
    }
}

/// Most paths to a disk.
const PATHS: usize = 2;

/// Reports of the device about a disk other than its size.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// The device has reported that the disk is gone.
    gone: bool,
    /// The device has reported that the disk shrank, and the program has not accepted that.
    shrunk: bool,
    /// Paths to the disk that do not answer, as the device has reported.
    silent: usize,
}

/// The sizes of all disks since the device was opened.
struct Book {
    /// After each change of any of them; never empty.
    log: Vec<Vec<Extent>>,
    disks: Vec<Seen>,
    /// Whether the program is refreshing the sizes now.
    asked: bool,
    /// Events as the disks reported them, and as the device above did.
    below: Vec<(usize, DeviceEvent)>,
    above: Vec<DeviceEvent>,
    wrong: Option<Finding>,
}

/// A record shared by the watchers of the disks and of the device.
#[derive(Clone)]
pub(super) struct Sizes(Arc<Mutex<Book>>);

/// Watches a disk, or the device that the program has.
pub(super) struct Ear {
    sizes: Sizes,
    disk: Option<usize>,
}

impl Watcher for Ear {
    fn event(&self, event: &DeviceEvent) {
        match self.disk {
            // A layer that changes its state, such as a snapshot whose store is full, says so too.
            _ if is_status(event) => {}
            Some(at) => self.sizes.lock().told(at, event),
            // A device that has a disk in several places tells of it as often.
            None if is_silence(innermost(event)) => {}
            None => self.sizes.lock().above.push(event.clone()),
        }
    }
}

impl Book {
    fn now(&self, at: usize) -> Extent {
        self.log[self.log.len() - 1][at]
    }

    fn change(&mut self, at: usize, change: impl FnOnce(&mut Extent)) {
        let mut all = self.log[self.log.len() - 1].clone();
        change(&mut all[at]);
        self.log.push(all);
    }

    /// A disk reported an event.
    fn told(&mut self, at: usize, event: &DeviceEvent) {
        // Of a disk with several paths each path reports that for itself.
        let (event, paths) = match event {
            DeviceEvent::Below { event, .. } if is_silence(event) => (&**event, PATHS),
            _ => (event, 1),
        };
        if !is_silence(event) {
            self.below.push((at, event.clone()));
        }
        let now = self.now(at);
        let Seen { gone, shrunk, silent } = self.disks[at];
        let right = match *event {
            DeviceEvent::Removed => !now.there && !gone,
            DeviceEvent::Returned => now.there && gone,
            DeviceEvent::Silent => silent < paths,
            DeviceEvent::Answered => silent > 0,
            DeviceEvent::Resized { from, to } => from == now.known && to == now.size && to != from,
            _ => false,
        };
        if !right {
            let what = format!("disk {at} tells {event:?}; it was told to be gone: {gone}, and is {now:?}");
            self.wrong.get_or_insert(Finding::new("event", what));
        }
        match *event {
            DeviceEvent::Silent => self.disks[at].silent += 1,
            DeviceEvent::Answered => self.disks[at].silent = silent.saturating_sub(1),
            DeviceEvent::Removed => self.disks[at].gone = true,
            DeviceEvent::Returned => self.disks[at].gone = false,
            DeviceEvent::Resized { from, to } => {
                if to > from && shrunk && !self.asked {
                    let what = format!(
                        "disk {at} shrank and is used as it grew again, which the program has not accepted: {event:?}"
                    );
                    self.wrong.get_or_insert(Finding::new("regrown", what));
                }
                self.disks[at].shrunk = to < from && !self.asked;
                self.change(at, |extent| extent.known = to);
            }
            _ => {}
        }
    }
}

impl Sizes {
    pub(super) fn new(disks: &[SimDisk]) -> Sizes {
        let extent = |disk: &SimDisk| {
            let size = disk.geometry().size;
            Extent { size, there: true, known: size }
        };
        Sizes(Arc::new(Mutex::new(Book {
            log: vec![disks.iter().map(extent).collect()],
            disks: vec![Seen::default(); disks.len()],
            asked: false,
            below: Vec::new(),
            above: Vec::new(),
            wrong: None,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something that watches a disk, or the device.
    pub(super) fn ear(&self, disk: Option<usize>) -> Arc<Ear> {
        Arc::new(Ear { sizes: self.clone(), disk })
    }

    /// Changes so far, from which an I/O counts.
    pub(super) fn changes(&self) -> usize {
        self.lock().log.len()
    }
}

/// An ear as a watcher.
pub(super) fn watcher(ear: &Arc<Ear>) -> Weak<dyn Watcher> {
    Arc::downgrade(ear) as Weak<dyn Watcher>
}

impl Run<'_> {
    /// Sectors of a disk that the device is made of; `None`: it is not made of this disk.
    fn used(&self, disk: usize) -> Option<Range<u64>> {
        let sectors = || self.map().iter().filter(|(at, _)| *at == disk).map(|(_, sector)| *sector);
        Some(sectors().min()?..sectors().max()? + 1)
    }

    pub(super) fn map(&self) -> &[(usize, u64)] {
        self.open.as_ref().map_or(&[], |open| &open.map)
    }

    /// Resizes a disk, so that it ends within the range in use, or to its first size.
    pub(super) fn resize(&mut self, pick: u32, keep: u64) {
        let disk = pick as usize % self.disks.len();
        let Some(used) = self.used(disk) else { return };
        let book = self.sizes.lock();
        let (first, now) = (book.log[0][disk].size, book.now(disk));
        drop(book);
        let block = u64::from(self.disks[disk].geometry().limits.logical_block) / SECTOR as u64;
        let end = used.start + ((used.end - used.start) * keep / PARTS).max(1);
        let size = match keep {
            PARTS.. => first,
            _ => (end.next_multiple_of(block) * SECTOR as u64).min(first),
        };
        if size == now.size || !self.disks[disk].resize(size) {
            return;
        }
        self.say(|| format!("disk {disk} has {} sectors, after {}", size / 512, now.size / 512));
        self.sizes.lock().change(disk, |extent| extent.size = size);
        self.cover.resizes += 1;
        self.cover.late_resizes += u64::from(self.is_slow_now());
        let cut_off = size / SECTOR as u64..now.size / SECTOR as u64;
        let is_lost = |&(_, (at, on)): &(u64, (usize, u64))| at == disk && cut_off.contains(&on);
        let lost: Vec<u64> =
            (0..).zip(self.map().iter().copied()).filter(is_lost).map(|(sector, _)| sector).collect();
        self.extra += 1;
        self.oracle.lose(self.extra, &lost);
    }

    /// Removes or returns a disk.
    pub(super) fn remove(&mut self, pick: u32, away: bool) {
        let disk = pick as usize % self.disks.len();
        if self.used(disk).is_none() || self.sizes.lock().now(disk).there != away {
            return;
        }
        self.disks[disk].set_removed(away);
        self.sizes.lock().change(disk, |extent| extent.there = !away);
        self.cover.removals += u64::from(away);
    }

    /// The program accepts the present sizes.
    pub(super) fn refresh(&mut self) -> Result<(), Finding> {
        self.cover.refreshes += 1;
        self.sizes.lock().asked = true;
        let asked = self.device()?.refresh();
        self.sizes.lock().asked = false;
        asked.map_err(|error| Finding::new("refresh", format!("the device cannot be refreshed: {error}")))?;
        self.accept_disks();
        self.hear()?;
        let mut book = self.sizes.lock();
        for disk in (0..self.disks.len()).filter(|&disk| self.stack().uses(disk)) {
            let (now, seen) = (book.now(disk), &mut book.disks[disk]);
            if seen.gone == now.there || (now.there && now.known != now.size) {
                let what = format!(
                    "disk {disk} is {now:?} after a refresh, and told that it is gone: {}",
                    seen.gone
                );
                return Err(Finding::new("unnoticed", what));
            }
            // The size of a removed disk cannot be accepted.
            seen.shrunk &= !now.there;
        }
        Ok(())
    }

    /// Restores all disks to their first size, which the program accepts.
    pub(super) fn restore_sizes(&mut self) -> Result<(), Finding> {
        if self.sizes.changes() == 1 {
            return Ok(());
        }
        for disk in 0..self.disks.len() {
            self.remove(disk as u32, false);
            self.resize(disk as u32, PARTS);
        }
        self.refresh()
    }

    /// Restores all disks to their first size while the device is closed.
    pub(super) fn restore_disks(&mut self) {
        let first = self.sizes.lock().log[0].clone();
        for (disk, extent) in self.disks.iter().zip(first) {
            disk.set_removed(false);
            disk.resize(extent.size);
        }
        self.sizes = Sizes::new(&self.disks);
    }

    /// Checks the events of the disks, and that the device reported the same events.
    pub(super) fn hear(&mut self) -> Result<(), Finding> {
        let mut book = self.sizes.lock();
        if let Some(wrong) = book.wrong.take() {
            return Err(wrong);
        }
        if book.above.is_empty() && book.below.is_empty() {
            return Ok(());
        }
        let (above, below) = (std::mem::take(&mut book.above), std::mem::take(&mut book.below));
        let known: Vec<u64> = (0..self.disks.len()).map(|disk| book.now(disk).known).collect();
        drop(book);
        let expected: Vec<(String, DeviceEvent)> =
            below.iter().map(|(at, event)| (format!("disk{at}"), event.clone())).collect();
        let follows = follows(self.stack());
        let told: Vec<(String, DeviceEvent)> = above.iter().map(|event| unwrapped(event, follows)).collect();
        let same = |a: &(String, DeviceEvent), b: &(String, DeviceEvent)| {
            a.1 == b.1 && (a.0.is_empty() || a.0.contains(&b.0))
        };
        // Events of one disk are told in order; those of several may overtake each other on their way through layers.
        let mut left = expected.clone();
        let mut take = |event: &(String, DeviceEvent)| {
            let at = left.iter().position(|other| same(event, other));
            let first = at.filter(|&at| left[..at].iter().all(|before| before.0 != left[at].0));
            first.map(|at| left.remove(at)).is_some()
        };
        if !told.iter().all(&mut take) || !left.is_empty() {
            let what = format!("the disks told {expected:?}, and the device {above:?}");
            return Err(Finding::new("event", what));
        }
        let size = self.device()?.size();
        match follows {
            Some(disk) if size != known[disk] => {
                let what = format!("the device has {size} bytes, and the disk below {}", known[disk]);
                Err(Finding::new("event", what))
            }
            None if size != self.map().len() as u64 * SECTOR as u64 => {
                let what = format!("a device that keeps its size has {size} bytes now");
                Err(Finding::new("event", what))
            }
            _ => Ok(()),
        }
    }

    /// Where an I/O is on the disks; `around`: with what a call reads and writes to begin and end inside blocks.
    fn places(&self, live: &Live, around: bool) -> &[(usize, u64)] {
        let limits = self.open.as_ref().map(|open| open.device.geometry().limits);
        let block = limits.map_or(1, |limits| u64::from(limits.logical_block) / SECTOR as u64);
        let (begin, end) = (live.sector, live.sector + live.count);
        let wide = (begin / block * block, end.next_multiple_of(block));
        let (begin, end) = if around { wide } else { (begin, end) };
        let (map, end) = (self.map(), (end as usize).min(self.map().len()));
        map.get(begin as usize..end).unwrap_or_default()
    }

    /// Whether an I/O may fail because a disk is away, or ends before it, or did so since it was submitted.
    pub(super) fn may_be_gone(&self, live: &Live) -> bool {
        let book = self.sizes.lock();
        if self.stack().has("cache") {
            return book.log.len() > 1;
        }
        let flushes = Flags::PREFLUSH | Flags::FUA | Flags::HARD_BARRIER | Flags::SOFT_BARRIER;
        let everywhere = live.op == Op::Flush || live.has(flushes);
        let places = self.places(live, true);
        let gone = |now: &Vec<Extent>| {
            let away = everywhere && now.iter().any(|extent| !extent.there);
            away || places.iter().any(|&(disk, sector)| !now[disk].reaches(sector))
        };
        book.log[live.changes.saturating_sub(1)..].iter().any(gone)
    }

    /// Whether an I/O of data cannot have succeeded, because a part of it was beyond the end or on a removed disk all
    /// the time.
    pub(super) fn look_for_gone(&self, token: u64, live: &Live) -> Result<(), Finding> {
        if live.op == Op::Flush || live.unsound.is_some() || self.stack().has("cache") {
            return Ok(());
        }
        let book = self.sizes.lock();
        let since = &book.log[live.changes.saturating_sub(1)..];
        // Bios that a queue took before the device noticed that its disk shrank are still sent to the disk, which may
        // have grown again.
        let gone = |&&(disk, sector): &&(usize, u64)| {
            let end = |size: u64| size / SECTOR as u64;
            let refused = since.iter().all(|now| end(now[disk].known) <= sector);
            refused || since.iter().all(|now| !now[disk].there || end(now[disk].size) <= sector)
        };
        match self.places(live, false).iter().find(gone) {
            None => Ok(()),
            Some(&(disk, sector)) => {
                let now = book.now(disk);
                let what = format!(
                    "{token} ended well, and sector {sector} of disk {disk} was gone all the time: {now:?}, {live:?}"
                );
                Err(Finding::new("beyond", what))
            }
        }
    }

    /// Whether an I/O may have been refused: a barrier that is refused orders nothing.
    pub(super) fn is_beyond(&self, live: &Live) -> bool {
        let book = self.sizes.lock();
        live.op != Op::Flush
            && book.log.len() > 1
            && (book.log[live.changes.saturating_sub(1)..].iter())
                .any(|now| self.places(live, true).iter().any(|&(disk, sector)| !now[disk].reaches(sector)))
    }

    /// Whether a range was cut off since the device was opened.
    pub(super) fn was_cut_off(&self, disk: usize, sector: u64) -> bool {
        let end = |now: &Vec<Extent>| now[disk].size / SECTOR as u64;
        self.sizes.lock().log.iter().any(|now| end(now) <= sector)
    }

    /// Whether a disk was away, or smaller than at first, since the device was opened.
    pub(super) fn has_resized(&self) -> bool {
        self.sizes.changes() > 1
    }
}

/// The disk that a device is as large as, if layers do not keep its size.
fn follows(node: &Node) -> Option<usize> {
    match node {
        Node::Disk(at) => Some(*at),
        Node::Layer { row: "limit" | "delay" | "error" | "verify", members, .. } => follows(&members[0]),
        _ => None,
    }
}

fn innermost(event: &DeviceEvent) -> &DeviceEvent {
    if let DeviceEvent::Below { event, .. } = event { innermost(event) } else { event }
}

fn is_silence(event: &DeviceEvent) -> bool {
    matches!(event, DeviceEvent::Silent | DeviceEvent::Answered)
}

fn is_status(event: &DeviceEvent) -> bool {
    matches!(innermost(event), DeviceEvent::Status(_))
}

/// What happened to the disk at the bottom, and the name of the lowest device that was named with it.
fn unwrapped(event: &DeviceEvent, follows: Option<usize>) -> (String, DeviceEvent) {
    match event {
        DeviceEvent::Below { event, .. } if matches!(**event, DeviceEvent::Below { .. }) => {
            unwrapped(event, follows)
        }
        DeviceEvent::Below { device, event } => (device.to_string(), DeviceEvent::clone(event)),
        // A device that keeps its size does not pass on the event of its disk.
        _ if follows.is_none() => ("the device itself".to_owned(), event.clone()),
        _ => (String::new(), event.clone()),
    }
}
