//! Commands of a disk with faults and power cuts.

use super::{Asked, DiskState, NO_PORT, Taken};
use crate::fault::{Delay, Fate, Injected, Injector};
use crate::medium::Volatile;
use crate::model::{Command, Ended};
use crate::power::{CutReport, Judge, Supply};
use crate::rng::Rng;
use crate::wrong::{Mistakes, Wrong};
use platter_block::bio::Op;
use platter_block::driver::Completion;
use platter_block::time::{Span, Time};
use std::collections::{BTreeSet, VecDeque};

pub(super) const EIO: i64 = 5;
const ENODEV: i64 = 19;
pub(super) const ECANCELED: i64 = 125;

/// Decisions about the command in a slot.
#[derive(Clone, Copy, Default)]
pub(super) struct Note {
    pub(super) fate: Fate,
    delay: Delay,
    /// It has taken effect, and only its completion is late.
    pub(super) landed: bool,
    pub(super) taken: Time,
    /// The command's number on this disk.
    pub(super) number: u64,
    /// The writes that a flush covers.
    mark: u64,
    /// It has already failed, which the model does not know.
    pub(super) ghost: bool,
    /// Of a write: all of it or nothing is stored.
    pub(super) atomic: bool,
    /// Of a write with FUA: it is stored as one without.
    drops_fua: bool,
}

/// Faults and power cuts of one disk.
pub(crate) struct Trouble {
    pub(super) injector: Option<Injector>,
    /// Faults injected by earlier plans.
    earlier: Injected,
    /// Flushes that were aborted.
    aborted_flushes: u64,
    pub(super) supply: Option<Supply>,
    /// Its number on the supply, and the number of cuts that it has noticed.
    pub(super) number: u32,
    pub(super) cuts: u64,
    cache: bool,
    pub(super) volatile: Volatile,
    pub(super) notes: Vec<Note>,
    /// Commands that the model has completed and that have not ended.
    pub(super) late: BTreeSet<(Time, u32)>,
    /// Commands that the model has no room for because of ghosts.
    pub(super) parked: VecDeque<u32>,
    pub(super) ghosts: usize,
    commands: u64,
    pub(super) mistakes: Option<Mistakes>,
}

impl Trouble {
    pub(super) fn new(injector: Option<Injector>, supply: Option<Supply>, cache: bool) -> Trouble {
        Trouble {
            injector,
            earlier: Injected::default(),
            aborted_flushes: 0,
            number: supply.as_ref().map_or(0, Supply::connect),
            cuts: supply.as_ref().map_or(0, Supply::cuts),
            supply,
            cache,
            volatile: Volatile::default(),
            notes: Vec::new(),
            late: BTreeSet::new(),
            parked: VecDeque::new(),
            ghosts: 0,
            commands: 0,
            mistakes: None,
        }
    }

    pub(super) fn set_injector(&mut self, injector: Option<Injector>) {
        self.earlier = self.injected_by_plans();
        self.injector = injector;
    }

    pub(super) fn injected(&self) -> Injected {
        Injected { aborted_flushes: self.aborted_flushes, ..self.injected_by_plans() }
    }

    pub(super) fn count_abort(&mut self, op: Op) {
        self.aborted_flushes += u64::from(op == Op::Flush);
    }

    fn injected_by_plans(&self) -> Injected {
        match &self.injector {
            Some(injector) => self.earlier.plus(&injector.counts),
            None => self.earlier,
        }
    }

    pub(super) fn next_event(&self) -> Option<Time> {
        let late = self.late.first().map(|&(at, _)| at);
        let cut = self.supply.as_ref().and_then(|supply| supply.next_event(self.cuts));
        let death = self.injector.as_ref().and_then(Injector::next_event);
        Time::earliest(late, Time::earliest(cut, death))
    }

    fn is_away(&self) -> bool {
        let dark = self.supply.as_ref().is_some_and(|supply| !supply.is_on());
        dark || self.injector.as_ref().is_some_and(Injector::is_dead)
    }

    pub(super) fn note(&mut self, index: u32) -> &mut Note {
        let index = index as usize;
        if index >= self.notes.len() {
            self.notes.resize_with(index + 1, Note::default);
        }
        &mut self.notes[index]
    }

    /// Decides the fate of a command that was taken.
    fn judge(&mut self, now: Time, command: &Command, atomic: bool) {
        let mut mark = self.volatile.mark();
        if let Some(mistakes) = &self.mistakes {
            match mistakes.wrong {
                Wrong::FlushCoversNothing => mark = 0,
                Wrong::FlushMissesTheLast => mark = self.volatile.mark_before_last(),
                _ => {}
            }
        }
        let ((fate, delay), drops_fua) = match &mut self.injector {
            Some(injector) => (injector.decide(command), injector.drops_fua()),
            None => ((Fate::Good, Delay::default()), false),
        };
        let number = self.commands;
        let note =
            Note { fate, delay, landed: false, taken: now, number, mark, ghost: false, atomic, drops_fua };
        self.commands += 1;
        *self.note(command.tag) = note;
    }
}

impl DiskState {
    /// [`DiskState::accept`] for a disk with faults.
    #[cold]
    pub(super) fn accept_troubled(
        &mut self,
        now: Time,
        asked: Asked,
        data: impl FnOnce(&mut Vec<u8>),
    ) -> Taken {
        let Some(mut trouble) = self.trouble.take() else { return Taken::No };
        let taken = self.take_troubled(&mut trouble, now, asked, data);
        self.trouble = Some(trouble);
        taken
    }

    fn take_troubled(
        &mut self,
        trouble: &mut Trouble,
        now: Time,
        asked: Asked,
        data: impl FnOnce(&mut Vec<u8>),
    ) -> Taken {
        let order = self.next_order(asked.ordered);
        if trouble.is_away() {
            self.order = order;
            if let Some(injector) = &mut trouble.injector {
                injector.counts.gone += u64::from(injector.is_dead());
            }
            self.post(asked.port, asked.tag, -ENODEV);
            return Taken::Failing;
        }
        let index = self.next_slot();
        let command = Command { tag: index, order, ..asked.command };
        if !trouble.parked.is_empty() || !self.model.accept(now, &command) {
            if trouble.ghosts == 0 {
                self.put_back(index);
                return Taken::No;
            }
            trouble.parked.push_back(index);
        }
        self.order = order;
        self.fill_slot(&asked, command, data);
        trouble.judge(now, &command, asked.atomic);
        if command.op == Op::Read
            && let (Some(injector), Some(medium)) = (&mut trouble.injector, &mut self.medium)
            && let Some((sector, bit)) = injector.rot(&command)
        {
            medium.flip(sector, bit);
        }
        if trouble.injector.as_mut().is_some_and(|injector| injector.count(now)) {
            self.fail_all(trouble);
        }
        if trouble.supply.as_ref().is_some_and(|supply| supply.count(now)) {
            self.notice_cut(trouble, now);
        }
        let note = *trouble.note(index);
        if note.ghost || trouble.is_away() || matches!(note.fate, Fate::Error(_) | Fate::Transient(_)) {
            return Taken::Failing;
        }
        if command.op == Op::Read && self.note_late_read(index) { Taken::Later } else { Taken::Yes }
    }

    pub(super) fn post(&mut self, port: u32, tag: u32, result: i64) {
        if let Some(port) = self.ports.get_mut(port as usize) {
            port.push(Completion { tag, result });
        }
    }

    /// [`DiskState::live`] for a disk with faults.
    #[cold]
    pub(super) fn live_troubled(&mut self, now: Time) {
        let Some(mut trouble) = self.trouble.take() else { return };
        while let Some(at) =
            Time::earliest(self.model.next_event(), trouble.next_event()).filter(|&at| at <= now)
        {
            self.notice_cut(&mut trouble, at);
            if trouble.injector.as_mut().is_some_and(|injector| injector.advance(at)) {
                self.fail_all(&mut trouble);
            }
            while let Some((due, index)) = trouble.late.first().copied().filter(|&(due, _)| due <= at) {
                trouble.late.remove(&(due, index));
                self.finish_troubled(&mut trouble, index);
            }
            self.advance_model(&mut trouble, at);
        }
        self.trouble = Some(trouble);
    }

    fn advance_model(&mut self, trouble: &mut Trouble, at: Time) {
        if self.model.next_event().is_none_or(|due| due > at) {
            return;
        }
        let mut ended = std::mem::take(&mut self.ended);
        self.model.advance(at, &mut ended);
        for Ended { tag, at } in ended.drain(..) {
            let note = trouble.note(tag);
            let delay = std::mem::take(&mut note.delay);
            if std::mem::take(&mut note.ghost) {
                trouble.ghosts -= 1;
                self.free.push(tag);
                continue;
            }
            let floor = self.not_before(trouble, self.slots[tag as usize].command.order);
            if delay.span > Span::ZERO || floor.is_some() {
                if delay.early && floor.is_none() {
                    self.land_early(trouble, tag);
                }
                let due = at + delay.span;
                trouble.late.insert((floor.map_or(due, |floor| due.max(floor)), tag));
            } else {
                self.finish_troubled(trouble, tag);
            }
        }
        self.ended = ended;
        while let Some(&index) = trouble.parked.front() {
            let command = self.slots[index as usize].command;
            if !self.model.accept(at, &command) {
                break;
            }
            trouble.parked.pop_front();
        }
    }

    /// A stuck command takes effect before its completion.
    fn land_early(&mut self, trouble: &mut Trouble, index: u32) {
        let note = *trouble.note(index);
        if note.fate != Fate::Good || trouble.mistakes.is_some() {
            return;
        }
        let slot = &mut self.slots[index as usize];
        let (command, data) = (slot.command, std::mem::take(&mut slot.data));
        self.store(trouble, &note, &command, &data);
        self.slots[index as usize].data = data;
        trouble.note(index).landed = true;
    }

    /// Ends a command as was decided for it.
    fn finish_troubled(&mut self, trouble: &mut Trouble, index: u32) {
        let note = *trouble.note(index);
        let Some(slot) = self.slots.get_mut(index as usize) else { return };
        let (port, tag, command) = (slot.port, slot.tag, slot.command);
        let data = std::mem::take(&mut slot.data);
        if slot.late_read && !matches!(note.fate, Fate::Error(_) | Fate::Transient(_)) {
            self.fetch_late(index, Some(&mut *trouble));
        }
        let result = match note.fate {
            Fate::Error(seed) => {
                if let Some(mistakes) = &mut trouble.mistakes {
                    mistakes.write_failed(&command);
                }
                self.store_some(trouble, &note, &command, &data, seed);
                -EIO
            }
            Fate::Transient(errno) => -i64::from(errno),
            Fate::Lost => i64::from(command.sectors) * 512,
            Fate::Misdirected(sector) => {
                self.store(trouble, &note, &Command { sector, ..command }, &data);
                i64::from(command.sectors) * 512
            }
            Fate::Good if trouble.mistakes.is_some() => {
                return self.finish_wrong(trouble, index, data);
            }
            Fate::Good => {
                if !note.landed {
                    self.store(trouble, &note, &command, &data);
                }
                if command.op.has_data() { i64::from(command.sectors) * 512 } else { 0 }
            }
        };
        self.post(port, tag, result);
        self.release_slot(index, data);
        if result < 0 {
            self.abort_behind(trouble, command.order);
        }
    }

    /// Gives a slot and its memory back.
    pub(super) fn release_slot(&mut self, index: u32, mut data: Vec<u8>) {
        data.clear();
        let slot = &mut self.slots[index as usize];
        (slot.data, slot.busy) = (data, false);
        self.free.push(index);
    }

    pub(super) fn store(&mut self, trouble: &mut Trouble, note: &Note, command: &Command, data: &[u8]) {
        let (sector, count) = (command.sector, u64::from(command.sectors));
        if self.medium.is_none() {
            return;
        }
        match command.op {
            Op::Read | Op::Command => return,
            Op::Flush => {
                let mark = self.covered(trouble, command, note.mark);
                return trouble.volatile.flushed(mark);
            }
            Op::Write | Op::Discard | Op::WriteZeroes => {}
        }
        let Some(medium) = &mut self.medium else { return };
        let volatile = trouble.cache && (!command.fua || note.drops_fua);
        // Only a disk that can lose power needs to record data that may be lost.
        if volatile && trouble.supply.is_some() {
            if note.atomic {
                trouble.volatile.keep_whole(note.number);
            }
            trouble.volatile.record(medium, note.number, sector, count, data);
        }
        match command.op {
            Op::Write => medium.write(sector, data),
            _ => medium.zero(sector, count),
        }
        if !volatile {
            trouble.volatile.durable(sector, count);
        }
    }

    /// A write that fails may have changed some of its sectors; an atomic one all of them or none.
    pub(super) fn store_some(
        &mut self,
        trouble: &mut Trouble,
        note: &Note,
        command: &Command,
        data: &[u8],
        seed: u64,
    ) {
        if !command.op.changes() {
            return;
        }
        let mut rng = Rng::new(seed);
        if note.atomic {
            if rng.chance(500_000) {
                self.store(trouble, note, command, data);
            }
            return;
        }
        for index in 0..u64::from(command.sectors) {
            let at = index as usize * 512;
            let piece = Command { sector: command.sector + index, sectors: 1, fua: false, ..*command };
            if rng.chance(500_000) {
                self.store(trouble, note, &piece, data.get(at..at + 512).unwrap_or_default());
            }
        }
    }

    /// Fails all commands of the disk, including completed ones that were not reaped.
    pub(super) fn fail_all(&mut self, trouble: &mut Trouble) {
        for port in &mut self.ports {
            port.iter_mut().filter(|done| done.result >= 0).for_each(|done| done.result = -ENODEV);
        }
        let inside = self.inside(trouble);
        if let Some(injector) = trouble.injector.as_mut().filter(|injector| injector.is_dead()) {
            injector.counts.gone += inside.len() as u64;
        }
        let late: BTreeSet<u32> = std::mem::take(&mut trouble.late).into_iter().map(|(_, i)| i).collect();
        let parked: BTreeSet<u32> = trouble.parked.drain(..).collect();
        for index in inside {
            let slot = &mut self.slots[index as usize];
            let (port, tag) = (std::mem::replace(&mut slot.port, NO_PORT), slot.tag);
            slot.data.clear();
            slot.busy = false;
            self.post(port, tag, -ENODEV);
            if late.contains(&index) || parked.contains(&index) {
                self.free.push(index);
            } else {
                trouble.note(index).ghost = true;
                trouble.ghosts += 1;
            }
        }
    }

    /// Slots of commands that have not ended, in the order of arrival.
    pub(super) fn inside(&self, trouble: &Trouble) -> Vec<u32> {
        let mut used: Vec<u32> = (0..self.slots.len() as u32).filter(|i| !self.free.contains(i)).collect();
        let note = |index: u32| trouble.notes.get(index as usize).copied().unwrap_or_default();
        used.retain(|&index| !note(index).ghost);
        used.sort_by_key(|&index| note(index).number);
        used
    }

    /// Ends stuck commands.
    pub(super) fn release(&mut self, now: Time) -> usize {
        self.live(now);
        let Some(mut trouble) = self.trouble.take() else { return 0 };
        let mut released = 0;
        while let Some((_, index)) = trouble.late.pop_first() {
            self.finish_troubled(&mut trouble, index);
            released += 1;
        }
        for note in trouble.notes.iter_mut().filter(|note| note.delay.span > Span::ZERO) {
            note.delay = Delay::default();
            released += 1;
        }
        self.trouble = Some(trouble);
        released
    }

    /// Checks whether power was cut since the last check, until `now`.
    pub(super) fn notice_cut(&mut self, trouble: &mut Trouble, now: Time) {
        let Some(supply) = trouble.supply.clone() else { return };
        let Some(cut) = supply.missed(trouble.cuts, now) else { return };
        trouble.cuts = cut.number;
        let mut report = CutReport { disk: trouble.number, ..CutReport::default() };
        report.volatile = trouble.volatile.len() as u64;
        self.keep_in_flight(trouble, &mut report);
        if let Some(medium) = &mut self.medium {
            let mut judge = Judge::new(&cut.survivors, trouble.number);
            trouble.volatile.cut(medium, &mut judge, &mut report);
        }
        self.fail_all(trouble);
        supply.report(report);
    }

    /// Any part of the data in flight may survive.
    fn keep_in_flight(&mut self, trouble: &mut Trouble, report: &mut CutReport) {
        let begun = self.first_order(trouble);
        for index in self.inside(trouble) {
            let slot = &self.slots[index as usize];
            let (command, note) = (slot.command, trouble.notes[index as usize]);
            match command.op {
                Op::Read => report.reads += 1,
                Op::Flush | Op::Command => report.flushes += 1,
                Op::Write | Op::Discard | Op::WriteZeroes => {
                    report.writes += 1;
                    if note.fate == Fate::Good
                        && !note.landed
                        && command.order <= begun
                        && let Some(medium) = &mut self.medium
                    {
                        let count = u64::from(command.sectors);
                        if note.atomic {
                            trouble.volatile.keep_whole(note.number);
                        }
                        trouble.volatile.record(medium, note.number, command.sector, count, &slot.data);
                    }
                }
            }
        }
    }
}
