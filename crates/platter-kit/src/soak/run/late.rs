//! Compares the commands inside disks with the results that the program has seen.

use super::judge::Late;
use super::submit::Live;
use super::{Finding, Run};
use crate::soak::stamp::{self, SECTOR};
use platter_block::bio::{Flags, Op};
use platter_sim::Inside;

impl Run<'_> {
    /// An I/O succeeded: no command on its way to a disk may still change its result.
    pub(super) fn look_for_late(&mut self, live: &Live) -> Result<(), Finding> {
        let flushes = live.op == Op::Flush || live.has(Flags::PREFLUSH | Flags::HARD_BARRIER);
        let before = &live.before;
        let slow = self.injected();
        if !(live.op.changes() || flushes) || slow.stuck + slow.spikes == 0 || before.total() > slow.total() {
            return Ok(());
        }
        self.void_barriers();
        let cached = self.stack().writes_back();
        for disk in 0..self.disks.len() {
            for inside in self.disks[disk].inside() {
                if inside.op.changes() && !inside.landed {
                    self.look_inside(disk, &inside, live, flushes, cached)?;
                }
            }
        }
        Ok(())
    }

    fn look_inside(
        &self,
        disk: usize,
        inside: &Inside,
        live: &Live,
        flushes: bool,
        cached: bool,
    ) -> Result<(), Finding> {
        for token in self.tokens(disk, inside) {
            let Some((id, sector)) = token else { continue };
            let lands = self.oracle.may_land(sector, id, cached);
            lands.map_err(|wrong| Finding::violation(&wrong, format!("after {live:?}: {wrong}")))?;
            let told = |late: &&Late| flushes && late.event < live.event && self.covers(live, sector);
            let late = self.judged.late.get(&id).filter(told).filter(|_| !self.is_again(id, sector));
            if let Some(late) = late {
                let what =
                    format!("{live:?} ended well, and {late:?} of I/O {id} can still reach disk {disk}");
                return Err(Finding::new("late", what));
            }
        }
        Ok(())
    }

    /// Whether a command with this version changes nothing, because the disk has it: a cache reads what is between the dirty
    /// blocks of a page from the disk, and writes it again with them.
    fn is_again(&self, id: u64, sector: u64) -> bool {
        let place = self.open.as_ref().and_then(|open| open.map.get(sector as usize));
        let Some(&(disk, on)) = place.filter(|_| self.stack().has("cache")) else { return false };
        let mut data = [0; SECTOR];
        self.disks[disk].contents(on, &mut data);
        stamp::version_of(&data, sector) == id
    }

    /// Whether an I/O that flushes promises something about a sector. A cache flushes a range by itself: pages outside it
    /// may be on their way to the disk. Below it a flush is one of the whole disk.
    fn covers(&self, live: &Live, sector: u64) -> bool {
        let of_range = live.op == Op::Flush && live.count > 0 && self.stack().has("cache");
        let whole = live.has(Flags::PREFLUSH | Flags::HARD_BARRIER);
        !of_range || whole || (live.sector..live.sector + live.count).contains(&sector)
    }

    /// The writes that a command is made of, with their sectors of the device; of a discard those that are late and
    /// that it may be.
    fn tokens(&self, disk: usize, inside: &Inside) -> Vec<Option<(u64, u64)>> {
        let Some(open) = &self.open else { return Vec::new() };
        if inside.op == Op::Write {
            let tokens = (inside.sector..).zip(inside.data.chunks(SECTOR).map(stamp::parse));
            // A write that timed out leaves a slot of a snapshot's store that shows nothing, or by now other sectors.
            let moves = self.stack().has("snapshot");
            let shows = |&(on, token): &(u64, Option<(u64, u64)>)| {
                !moves || token.is_some_and(|(_, sector)| open.is_at(sector, disk, on))
            };
            return tokens.filter(shows).map(|(_, token)| token).collect();
        }
        let end = inside.sector + inside.sectors;
        // It may as well be one that is under way.
        if self.judged.dropped || self.live.values().any(|live| live.op == inside.op) {
            return Vec::new();
        }
        let here = |sector: u64| {
            open.map
                .get(sector as usize)
                .is_some_and(|&(at, on)| at == disk && inside.sector <= on && on < end)
        };
        // Of several that it may be, the last: it has waited for those before it.
        let may_be = |late: &&Late| late.op == inside.op && (late.sector..late.sector + late.count).any(here);
        let late = self.judged.late.iter().filter(|(_, late)| may_be(late));
        let last = late.max_by_key(|(_, late)| late.event);
        let sectors = last.map(|(&id, late)| (late.sector..late.sector + late.count).map(move |at| (id, at)));
        sectors.into_iter().flatten().filter(|&(_, sector)| here(sector)).map(Some).collect()
    }
}
