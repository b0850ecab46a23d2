//! `linus`: one sorted list, in which each request may be passed over only a limited number of times (the
//! elevator of Linux 2.4, `elevator_linus`).
//!
//! New requests are sorted into a single list of reads and writes, which is scanned from the tail towards the
//! head. Each request has a budget, `read_latency` or `write_latency`, that counts insertions and growth in
//! front of it, not time; nothing is inserted in front of a request whose budget is used up. A request that
//! finds no place goes to the tail, so the list is a sequence of rising runs. Every operation is linear in the
//! length of the list, as in the original.
//!
//! There are two forms of accounting ([`Accounting`]): that of Linux 2.4.1 to 2.4.19, in which a scan alone
//! already costs, and the one that replaced it in 2.5.35 and 2.4.20. The parameter `kernel` sets the numbers
//! and the form of a range of kernels at once:
//!
//! | `kernel` | read | write | seek | accounting | bomb | |
//! |---|---|---|---|---|---|---|
//! | `2.4.0` | 1000000 | 2000000 | 16 | per-scan | 0 | next to no ageing |
//! | `2.4.1` | 8192 | 16384 | 16 | per-scan | 0 | to 2.4.19; the numbers of most papers |
//! | `2.5.35` | 1024 | 2048 | 16 | passover | 0 | to 2.5.37 |
//! | `2.4.20` | 2048 | 8192 | 16 | passover | 0 | and later 2.4 |
//! | `io-stalls` | 128 | 512 | 1 | passover | 0 | the short-queue patch of 2003 |
//! | `rhel3` | 2048 | 8192 | 16 | passover | 6 | with read-latency2 |
//!
//! `max_bomb_segments` is Morton's read-latency2 patch: a read that could not be merged, with no read behind
//! the place, is put behind that many writes from the head (a write counts one, and one more for each 64
//! sectors) unless its sorted place comes earlier. The budgets of the requests that it passes do not stop it,
//! but are charged.
//!
//! # Where the queue differs from the kernel's
//!
//! In 2.4 one scan looked both for a request to merge with and for a place to insert. Here the queue looks for
//! merges itself and asks [`allow_merge`](Elevator::allow_merge), which repeats the scan without changing
//! anything and returns whether the scan would have ended at the candidate: of several requests that a bio could
//! join, only the one closest to the tail is allowed, and two requests become one only as neighbours in the list
//! ([`allow_join`](Elevator::allow_join)). The cost of the scan is charged when its result is known, by `merged`
//! or by `insert`, so a budget has the kernel's value after each step. The remaining differences:
//! - A bio between two neighbours in the list joins the first, which then absorbs the second; the kernel's scan
//!   reaches the second first. The result is the same request, but the second is not charged for growing.
//! - Without `max_sectors` the elevator does not know which requests could not grow for their size: such a request
//!   also ends the scan.
//! - Under 2.4 a driver could leave the request it works on at the head of the list (`head_active`), where
//!   nothing was merged with it or put behind it. Here it has left the list, to the same effect.
//!   `protect_head` gives the next request this protection too, as for a driver that has looked ahead.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use platter_block::elevator::{Dir, Elevator, ElevatorType, RequestId, RequestInfo, Settings};
use platter_block::params::{Param, ParamError, Unit};
use platter_block::time::Time;

/// Rows of [`PARAMS`].
const KERNEL: usize = 0;
const ACCOUNTING: usize = 1;
const READ_LATENCY: usize = 2;
const WRITE_LATENCY: usize = 3;
const SEEK_COST: usize = 4;
const MAX_BOMB_SEGMENTS: usize = 5;
const PROTECT_HEAD: usize = 6;
const MAX_SECTORS: usize = 7;

/// The rows that `kernel` sets, in the order of [`PRESETS`].
const PRESET_ROWS: [usize; 5] = [ACCOUNTING, READ_LATENCY, WRITE_LATENCY, SEEK_COST, MAX_BOMB_SEGMENTS];

const KERNELS: [&str; 6] = ["2.4.0", "2.4.1", "2.5.35", "2.4.20", "io-stalls", "rhel3"];

const PRESETS: [[i64; PRESET_ROWS.len()]; KERNELS.len()] = [
    [Accounting::PerScan as i64, 1_000_000, 2_000_000, 16, 0],
    [Accounting::PerScan as i64, 8192, 16384, 16, 0],
    [Accounting::Passover as i64, 1024, 2048, 16, 0],
    [Accounting::Passover as i64, 2048, 8192, 16, 0],
    [Accounting::Passover as i64, 128, 512, 1, 0],
    [Accounting::Passover as i64, 2048, 8192, 16, 6],
];

/// Index of the last form in the main line.
const DEFAULT: usize = 3;

const fn count(name: &'static str, preset: usize, help: &'static str) -> Param {
    Param::number(name, Unit::Count, PRESETS[DEFAULT][preset], (0, i32::MAX as i64), help)
}

static PARAMS: [Param; 8] = {
    let mut all = [Param::number("", Unit::Count, 0, (0, 0), ""); 8];
    all[KERNEL] = Param::word(
        "kernel",
        &KERNELS,
        DEFAULT,
        "sets accounting, latencies, seek_cost and max_bomb_segments to a kernel's values",
    );
    all[ACCOUNTING] = Param::word(
        "accounting",
        &["per-scan", "passover"],
        Accounting::Passover as usize,
        "what uses up budgets: per-scan (each look at a request 1, growing before it its sectors) as in \
         2.4.1 to 2.4.19, passover (growing before it 1, a new request before it seek_cost) as in 2.4.20",
    );
    all[READ_LATENCY] = count("read_latency", 1, "budget of a read");
    all[WRITE_LATENCY] = count("write_latency", 2, "budget of a write");
    all[SEEK_COST] = count("seek_cost", 3, "passover: what a new request costs those it is put before");
    all[MAX_BOMB_SEGMENTS] = count(
        "max_bomb_segments",
        4,
        "how many writes (fewer if large) may stay before a new read; 0: as many as the order has",
    );
    all[PROTECT_HEAD] = Param::number(
        "protect_head",
        Unit::Switch,
        0,
        (0, 1),
        "the next request to leave is never merged, and nothing is put right behind it",
    );
    all[MAX_SECTORS] = Param::number(
        "max_sectors",
        Unit::Count,
        0,
        (0, i32::MAX as i64),
        "most sectors of 512 bytes of a request that grows (2.4: 255); 0: as many as the device takes",
    );
    all
};

pub(crate) const TYPE: ElevatorType = ElevatorType {
    name: "linus",
    summary: "the elevator of Linux 2.4: one sorted list, in which each request is passed over a limited number of times",
    params: &PARAMS,
    make: || Box::new(Linus::default()),
};

/// What is charged to the budget of a waiting request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Accounting {
    /// Linux 2.4.1 to 2.4.19. A scan costs each request it examines 1. A bio that joins a request costs all
    /// requests behind it the bio's sectors; if it joins at the front, it costs that request too. A request
    /// whose budget is less than the sectors of a bio in its direction does not grow, and ends the scan.
    PerScan = 0,
    /// Linux 2.4.20 and 2.5.35. A bio that joins a request costs all requests behind it 1; if it joins at the
    /// front, it costs that request too. A new request costs the requests that it is put before `seek_cost`;
    /// scans are free. The request that ends the scan may still grow at its end.
    Passover = 1,
}

/// A queued request; positions and lengths in sectors.
#[derive(Clone, Copy, Debug)]
struct Entry {
    id: RequestId,
    sector: u64,
    sectors: u64,
    dir: Dir,
    budget: i64,
}

/// The elevator of Linux 2.4.
#[derive(Clone, Debug)]
pub struct Linus {
    settings: Settings<8>,
    /// In the order of dispatch.
    list: VecDeque<Entry>,
    /// A request that has just absorbed another one: its growth costs no other request anything.
    joined: Option<RequestId>,
    /// Requests that the scans for a place have looked at.
    scanned: u64,
}

impl Default for Linus {
    fn default() -> Self {
        Linus { settings: Settings::new(TYPE.name, &PARAMS), list: VecDeque::new(), joined: None, scanned: 0 }
    }
}

fn sectors(bytes: u64) -> u64 {
    bytes.div_ceil(512)
}

impl Linus {
    /// The form of accounting in use.
    #[inline]
    pub fn accounting(&self) -> Accounting {
        if self.settings.at(ACCOUNTING) == 0 { Accounting::PerScan } else { Accounting::Passover }
    }

    /// The number of requests that the scans for a place of new requests have looked at so far. For experiments that
    /// count the work of elevators.
    #[inline]
    pub fn scanned(&self) -> u64 {
        self.scanned
    }

    /// Number of requests at the head that are excluded from merges and insertions.
    fn protected(&self) -> usize {
        usize::from(self.settings.at(PROTECT_HEAD) != 0).min(self.list.len())
    }

    fn place_of(&self, id: RequestId) -> Option<usize> {
        self.list.iter().rposition(|entry| entry.id == id)
    }

    /// Whether a request at `sector` may stand between the one at this place and the one behind it: in rising
    /// order, or where the order wraps around.
    fn fits_behind(&self, place: usize, sector: u64) -> bool {
        let (Some(here), Some(next)) = (self.list.get(place), self.list.get(place + 1)) else { return false };
        let (after, before) = (sector > here.sector, sector < next.sector);
        if next.sector > here.sector { after && before } else { after || before }
    }

    /// Whether a bio may join a request by direction and size.
    fn may_grow(&self, entry: &Entry, dir: Dir, count: u64) -> bool {
        let most = self.settings.unsigned(MAX_SECTORS);
        entry.dir == dir && (most == 0 || entry.sectors + count <= most)
    }

    /// Scans for a request that a bio can join: its place, and whether the bio joins its end.
    fn scan_for_merge(&self, bio: &RequestInfo) -> Option<(usize, bool)> {
        let per_scan = self.accounting() == Accounting::PerScan;
        let (start, count) = (bio.pos / 512, sectors(bio.len));
        for place in (self.protected()..self.list.len()).rev() {
            let entry = &self.list[place];
            let used_up = entry.budget <= 0;
            if used_up && per_scan {
                return None;
            }
            if self.may_grow(entry, bio.dir, count) {
                if per_scan && entry.budget - 1 < count as i64 {
                    return None;
                }
                if entry.sector + entry.sectors == start {
                    return Some((place, true));
                }
                if start + count == entry.sector && !used_up {
                    return Some((place, false));
                }
            }
            if used_up {
                return None;
            }
        }
        None
    }

    /// Scans for the place of a new request: returns the request that it goes behind, if any fits, and whether
    /// a read was passed on the way. Charges for the scan.
    fn scan(&mut self, new: &Entry) -> (Option<usize>, bool) {
        let accounting = self.accounting();
        let (mut found, mut passed_read) = (None, false);
        for place in (self.protected()..self.list.len()).rev() {
            self.scanned += 1;
            let entry = &mut self.list[place];
            if entry.budget <= 0 {
                entry.budget -= i64::from(accounting == Accounting::PerScan);
                break;
            }
            let mut left = i64::MAX;
            if accounting == Accounting::PerScan {
                entry.budget -= 1;
                left = entry.budget;
            }
            passed_read |= entry.dir == Dir::Read;
            if found.is_none() && self.fits_behind(place, new.sector) {
                found = Some(place);
            }
            let grows = self.may_grow(&self.list[place], new.dir, new.sectors);
            if grows && left < new.sectors as i64 {
                break;
            }
        }
        (found, passed_read)
    }

    /// The write behind which a new read is put so that no more than the allowed number stay before it, if
    /// that place comes before its sorted place.
    fn bomb(&self, sorted: Option<usize>) -> Option<usize> {
        let limit = self.settings.unsigned(MAX_BOMB_SEGMENTS);
        let mut before = 0;
        let end = sorted.unwrap_or(self.list.len());
        (self.protected()..end).find(|&place| {
            let entry = &self.list[place];
            if entry.dir == Dir::Write {
                before += 1 + entry.sectors / 64;
            }
            entry.dir == Dir::Write && before >= limit
        })
    }

    /// Subtracts `cost` from the budgets of all requests from this place to the tail.
    fn charge_from(&mut self, place: usize, cost: i64) {
        self.list.range_mut(place..).for_each(|entry| entry.budget -= cost);
    }
}

impl Elevator for Linus {
    fn name(&self) -> &'static str {
        TYPE.name
    }

    fn reserve(&mut self, requests: usize) {
        self.list.reserve(requests.saturating_sub(self.list.len()));
    }

    fn insert(&mut self, _now: Time, id: RequestId, info: &RequestInfo) {
        self.joined = None;
        let latency = if info.dir == Dir::Read { READ_LATENCY } else { WRITE_LATENCY };
        let new = Entry {
            id,
            sector: info.pos / 512,
            sectors: sectors(info.len),
            dir: info.dir,
            budget: self.settings.at(latency),
        };
        let (mut found, passed_read) = self.scan(&new);
        if self.settings.at(MAX_BOMB_SEGMENTS) > 0 && new.dir == Dir::Read && !passed_read {
            found = self.bomb(found).or(found);
        }
        let Some(place) = found else { return self.list.push_back(new) };
        if self.accounting() == Accounting::Passover {
            self.charge_from(place + 1, self.settings.at(SEEK_COST));
        }
        self.list.insert(place + 1, new);
    }

    fn front_merges(&self) -> bool {
        true
    }

    fn allow_merge(&self, id: RequestId, request: &RequestInfo, bio: &RequestInfo) -> bool {
        let Some((place, at_end)) = self.scan_for_merge(bio) else { return false };
        let back = request.end() == bio.pos;
        if self.list[place].id == id {
            return back == at_end;
        }
        // The scan found the start of the neighbour behind: with the bio both become one.
        let before = place.checked_sub(1).filter(|&before| before >= self.protected());
        before.and_then(|before| self.list.get(before)).is_some_and(|entry| {
            let all = sectors(bio.len) + self.list[place].sectors;
            back && !at_end && entry.id == id && entry.budget > 0 && self.may_grow(entry, bio.dir, all)
        })
    }

    fn allow_join(&self, front: RequestId, back: RequestId) -> bool {
        let Some(place) = self.place_of(front).filter(|&place| place >= self.protected()) else {
            return false;
        };
        let (first, next) = (&self.list[place], self.list.get(place + 1));
        next.is_some_and(|next| next.id == back && self.may_grow(first, next.dir, next.sectors))
    }

    fn merged(&mut self, id: RequestId, old: &RequestInfo, new: &RequestInfo) {
        let Some(place) = self.place_of(id) else { return };
        let entry = &mut self.list[place];
        (entry.sector, entry.sectors) = (new.pos / 512, sectors(new.len));
        if self.joined.take() == Some(id) {
            return;
        }
        let first = if new.pos < old.pos { place } else { place + 1 };
        match self.accounting() {
            Accounting::PerScan => {
                self.charge_from(place, 1);
                self.charge_from(first, sectors(new.len.saturating_sub(old.len)) as i64);
            }
            Accounting::Passover => self.charge_from(first, 1),
        }
    }

    fn absorbed(&mut self, survivor: RequestId, absorbed: RequestId, _info: &RequestInfo) {
        if survivor == absorbed {
            return;
        }
        let Some(gone) = self.place_of(absorbed).and_then(|place| self.list.remove(place)) else { return };
        if let Some(place) = self.place_of(survivor) {
            let budget = &mut self.list[place].budget;
            *budget = gone.budget.min(*budget);
            self.joined = Some(survivor);
        }
    }

    fn dispatch(&mut self, _now: Time, _force: bool) -> Option<RequestId> {
        self.list.pop_front().map(|entry| entry.id)
    }

    fn len(&self) -> usize {
        self.list.len()
    }

    fn params(&self) -> &'static [Param] {
        &PARAMS
    }

    fn get(&self, name: &str) -> Option<i64> {
        self.settings.get(name)
    }

    fn set(&mut self, name: &str, value: i64) -> Result<(), ParamError> {
        self.settings.set(name, value)?;
        if name == PARAMS[KERNEL].name {
            let preset = usize::try_from(value).ok().and_then(|kernel| PRESETS.get(kernel));
            for (&row, &value) in PRESET_ROWS.iter().zip(preset.into_iter().flatten()) {
                self.settings.put(row, value);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
