//! Power cuts: a supply for several disks, and what the disks retain after it failed.
//!
//! After a cut a disk holds every write that completed before the submission of a flush that has completed,
//! and every FUA write that has completed. Other data in its cache or in flight survives sector by sector as
//! the [`Survivors`] of the supply decide: each sector has one of its possible versions. A disk without a
//! write cache keeps every completed write.

use crate::rng::Rng;
use platter_block::text::excerpt;
use platter_block::time::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Sectors that a cut took back or prevented, by disk and by number of the write. Disks are numbered in the
/// order in which they were connected to the supply, writes by the commands of their disk, from 0; discards
/// and write-zeroes count as writes.
///
/// Text format: `disk/write:sector+count`, separated by commas: `0/17:2048+8,0/19:64+1`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    sectors: BTreeMap<(u32, u64), BTreeSet<u64>>,
}

impl Lost {
    /// No lost sectors.
    pub fn new() -> Lost {
        Lost::default()
    }

    /// Adds a sector of a write.
    pub fn add(&mut self, disk: u32, write: u64, sector: u64) {
        self.sectors.entry((disk, write)).or_default().insert(sector);
    }

    /// Whether a write of a disk lost this sector.
    pub fn contains(&self, disk: u32, write: u64, sector: u64) -> bool {
        self.sectors.get(&(disk, write)).is_some_and(|sectors| sectors.contains(&sector))
    }

    /// Each of the lost sectors: disk, write, sector.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u64, u64)> + '_ {
        self.sectors.iter().flat_map(|(&(disk, write), all)| all.iter().map(move |&s| (disk, write, s)))
    }

    /// Writes that lost any sector.
    pub fn writes(&self) -> usize {
        self.sectors.len()
    }

    /// Whether nothing is lost.
    pub fn is_empty(&self) -> bool {
        self.sectors.is_empty()
    }
}

impl FromIterator<(u32, u64, u64)> for Lost {
    fn from_iter<I: IntoIterator<Item = (u32, u64, u64)>>(items: I) -> Lost {
        let mut lost = Lost::new();
        items.into_iter().for_each(|(disk, write, sector)| lost.add(disk, write, sector));
        lost
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        for (&(disk, write), sectors) in &self.sectors {
            let mut rest = sectors.iter().copied().peekable();
            while let Some(first) = rest.next() {
                let mut count = 1;
                while rest.next_if_eq(&(first + count)).is_some() {
                    count += 1;
                }
                write!(f, "{comma}{disk}/{write}:{first}+{count}")?;
                comma = ",";
            }
        }
        Ok(())
    }
}

/// A text that is not a valid list of lost sectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostError(String);

impl fmt::Display for LostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}`: lost sectors are written disk/write:sector+count, such as 0/17:2048+8",
            excerpt(&self.0, 60)
        )
    }
}

impl std::error::Error for LostError {}

/// Sectors that one part of a text may name.
const MOST_LOST: u64 = 1 << 20;

impl FromStr for Lost {
    type Err = LostError;

    fn from_str(text: &str) -> Result<Lost, LostError> {
        let mut lost = Lost::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let error = || LostError(part.to_owned());
            let (disk, rest) = part.split_once('/').ok_or_else(error)?;
            let (write, rest) = rest.split_once(':').ok_or_else(error)?;
            let (first, count) = rest.split_once('+').ok_or_else(error)?;
            let number = |text: &str| text.parse::<u64>().map_err(|_| error());
            let (write, first, count) = (number(write)?, number(first)?, number(count)?);
            let disk = disk.parse::<u32>().map_err(|_| error())?;
            let end = first.checked_add(count).filter(|_| count <= MOST_LOST).ok_or_else(error)?;
            (first..end).for_each(|sector| lost.add(disk, write, sector));
        }
        Ok(lost)
    }
}

/// Which writes without a guarantee survive a cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Survivors {
    /// All of them, including those in flight.
    All,
    /// None of them.
    None,
    /// As a seed decides: all, none, some writes, or some sectors of some writes.
    Seeded(u64),
    /// All except these.
    Except(Lost),
}

/// The effects of one cut on one disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CutReport {
    /// The number of the disk on the supply.
    pub disk: u32,
    /// Reads in flight, which failed.
    pub reads: u64,
    /// Writes in flight, which failed; discards and write-zeroes count.
    pub writes: u64,
    /// Flushes in flight, which failed.
    pub flushes: u64,
    /// Sectors of which a completed version could be lost.
    pub volatile: u64,
    /// Writes of which some sectors survived and others did not.
    pub torn: u64,
    /// All sectors that were lost.
    pub lost: Lost,
    /// All sectors that could be lost.
    pub could: Lost,
}

struct SupplyState {
    on: bool,
    cuts: u64,
    at: Time,
    scheduled: Option<Time>,
    scheduled_io: Option<u64>,
    ios: u64,
    survivors: Survivors,
    disks: u32,
    reports: Vec<CutReport>,
}

/// Cuts that a disk may have missed while it was idle; several count as one.
pub(crate) struct Cut {
    pub(crate) number: u64,
    pub(crate) survivors: Survivors,
}

/// A power supply. Disks that are [made](crate::SimDisk::with) with it fail together.
///
/// ```
/// use platter_sim::ideal::Ideal;
/// use platter_sim::medium::Medium;
/// use platter_sim::power::{Supply, Survivors};
/// use platter_sim::{Options, SimDisk, World};
/// use platter_block::time::Span;
///
/// let world = World::new(7);
/// let supply = Supply::new();
/// let model = Ideal { size: 1 << 20, latency: Span::from_micros(100), depth: 8, write_cache: true };
/// let options = Options { medium: Some(Medium::new()), supply: Some(supply.clone()), faults: None };
/// let disk = SimDisk::with(&world, model.into(), options);
/// supply.cut(world.clock().now(), Survivors::Seeded(1));
/// assert!(!supply.is_on());
/// supply.restore();
/// # drop(disk);
/// ```
#[derive(Clone)]
pub struct Supply(Arc<Mutex<SupplyState>>);

impl Default for Supply {
    fn default() -> Supply {
        Supply::new()
    }
}

impl Supply {
    /// A supply that is on.
    pub fn new() -> Supply {
        Supply(Arc::new(Mutex::new(SupplyState {
            on: true,
            cuts: 0,
            at: Time(0),
            scheduled: None,
            scheduled_io: None,
            ios: 0,
            survivors: Survivors::All,
            disks: 0,
            reports: Vec::new(),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, SupplyState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cuts the power now. Each disk notices at its next use.
    pub fn cut(&self, now: Time, survivors: Survivors) {
        self.lock().cut(now, survivors);
    }

    /// Cuts the power at a time, unless another cut comes first.
    pub fn cut_at(&self, at: Time, survivors: Survivors) {
        let mut state = self.lock();
        state.scheduled = Some(at);
        state.survivors = survivors;
    }

    /// Cuts the power when the disks have taken this many more commands: 0 cuts with the next one, which is
    /// then in flight.
    pub fn cut_after(&self, commands: u64, survivors: Survivors) {
        let mut state = self.lock();
        state.scheduled_io = Some(state.ios.saturating_add(commands));
        state.survivors = survivors;
    }

    /// Cancels a scheduled cut.
    pub fn cancel(&self) {
        let mut state = self.lock();
        (state.scheduled, state.scheduled_io) = (None, None);
    }

    /// Restores power. Disks serve the data that survived.
    pub fn restore(&self) {
        self.lock().on = true;
    }

    /// Whether there is power.
    pub fn is_on(&self) -> bool {
        self.lock().on
    }

    /// Cuts until now.
    pub fn cuts(&self) -> u64 {
        self.lock().cuts
    }

    /// Commands that its disks have taken while there was power.
    pub fn ios(&self) -> u64 {
        self.lock().ios
    }

    /// Reports of cuts since the last call, from disks that have noticed; see
    /// [`SimDisk::settle`](crate::SimDisk::settle).
    pub fn take_reports(&self) -> Vec<CutReport> {
        std::mem::take(&mut self.lock().reports)
    }

    pub(crate) fn connect(&self) -> u32 {
        let mut state = self.lock();
        state.disks += 1;
        state.disks - 1
    }

    /// The last cut, if a disk that has noticed `seen` cuts has missed it; `None` also if it is after `now`.
    pub(crate) fn missed(&self, seen: u64, now: Time) -> Option<Cut> {
        let mut state = self.lock();
        if let Some(at) = state.scheduled.filter(|&at| at <= now && state.on) {
            let survivors = state.survivors.clone();
            state.cut(at, survivors);
        }
        let missed = state.cuts > seen && state.at <= now;
        missed.then(|| Cut { number: state.cuts, survivors: state.survivors.clone() })
    }

    /// When a disk that has noticed `seen` cuts has to check again.
    pub(crate) fn next_event(&self, seen: u64) -> Option<Time> {
        let state = self.lock();
        if state.cuts > seen { Some(state.at) } else { state.scheduled.filter(|_| state.on) }
    }

    /// Counts a command that a disk has taken. `true`: power fails now.
    pub(crate) fn count(&self, now: Time) -> bool {
        let mut state = self.lock();
        let nth = state.ios;
        state.ios += 1;
        if !state.on || state.scheduled_io.is_none_or(|io| nth < io) {
            return false;
        }
        let survivors = state.survivors.clone();
        state.cut(now, survivors);
        true
    }

    pub(crate) fn report(&self, report: CutReport) {
        self.lock().reports.push(report);
    }
}

impl SupplyState {
    fn cut(&mut self, at: Time, survivors: Survivors) {
        if !self.on {
            return;
        }
        self.on = false;
        self.cuts += 1;
        self.at = at;
        self.survivors = survivors;
        (self.scheduled, self.scheduled_io) = (None, None);
    }
}

/// Decides the fate of each sector of each write without a guarantee; called in order of the writes.
pub(crate) struct Judge<'a> {
    survivors: &'a Survivors,
    disk: u32,
    rng: Rng,
    /// From the seed: the chance that a write is lost as a whole, that it is torn, and that each of its
    /// sectors is then lost.
    whole: u32,
    torn: u32,
    sector: u32,
    write: Option<u64>,
    fate: WriteFate,
}

#[derive(Clone, Copy)]
enum WriteFate {
    Kept,
    Lost,
    Torn,
}

impl<'a> Judge<'a> {
    pub(crate) fn new(survivors: &'a Survivors, disk: u32) -> Judge<'a> {
        let seed = if let Survivors::Seeded(seed) = survivors { *seed } else { 0 };
        let mut rng = Rng::stream(seed, disk.into());
        const HALF: u32 = 500_000;
        let (whole, torn) =
            rng.pick(&[(0, 0), (2 * HALF, 0), (HALF, 0), (HALF, HALF), (0, HALF), (0, 2 * HALF)]);
        let sector = rng.pick(&[HALF / 5, HALF, 2 * HALF - HALF / 5]);
        Judge { survivors, disk, rng, whole, torn, sector, write: None, fate: WriteFate::Kept }
    }

    /// Whether this sector of this write is lost.
    pub(crate) fn loses(&mut self, write: u64, sector: u64) -> bool {
        match self.survivors {
            Survivors::All => false,
            Survivors::None => true,
            Survivors::Except(lost) => lost.contains(self.disk, write, sector),
            Survivors::Seeded(_) => self.draw(write),
        }
    }

    fn draw(&mut self, write: u64) -> bool {
        if self.write != Some(write) {
            self.write = Some(write);
            self.fate = match (self.rng.chance(self.whole), self.rng.chance(self.torn)) {
                (true, _) => WriteFate::Lost,
                (false, true) => WriteFate::Torn,
                (false, false) => WriteFate::Kept,
            };
        }
        match self.fate {
            WriteFate::Kept => false,
            WriteFate::Lost => true,
            WriteFate::Torn => self.rng.chance(self.sector),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_sectors_are_written_and_read() {
        let lost: Lost = [(0, 17, 8), (0, 17, 9), (0, 17, 11), (1, 3, 0)].into_iter().collect();
        assert_eq!(lost.to_string(), "0/17:8+2,0/17:11+1,1/3:0+1");
        assert_eq!(lost.to_string().parse::<Lost>(), Ok(lost));
        assert_eq!("".parse::<Lost>(), Ok(Lost::new()));
        for wrong in
            ["1", "1/2", "1/2:3", "a/2:3+4", "1/2:3+18446744073709551615", "1/2:18446744073709551615+2"]
        {
            assert!(wrong.parse::<Lost>().unwrap_err().to_string().contains("disk/write"), "{wrong}");
        }
    }

    #[test]
    fn seeds_lose_all_and_nothing_and_tear() {
        let mut seen = [false; 3];
        for seed in 0..100 {
            let survivors = Survivors::Seeded(seed);
            let mut judge = Judge::new(&survivors, 0);
            for write in 0..4 {
                let lost = (0..8).filter(|&sector| judge.loses(write, sector)).count();
                seen[usize::from(lost > 0) + usize::from(lost == 8)] = true;
            }
        }
        assert_eq!(seen, [true; 3]);
    }
}
