//! The disk: commands, the link, and the data flow into and out of the buffer.

use super::buffer::Store;
use super::collect::Collector;
use super::event::Event;
use super::events::EventQueue;
use super::extent::{all_units, edges, overlap, whole_units};
use super::ftl::{For, Ftl};
use super::meter::SsdMeter;
use super::nand::{Job, Nand, time_of};
use super::params::{Shape, SsdError, SsdParams, Start, UNIT};
use super::start::Initial;
use crate::model::{Command, Ended, Model};
use platter_block::bio::Op;
use platter_block::driver::{Features, Geometry};
use platter_block::limits::Limits;
use platter_block::time::Time;
use std::collections::VecDeque;

/// A command inside the disk.
#[derive(Clone, Copy, Debug)]
struct Inside {
    command: Command,
    /// Bytes that have to pass the link.
    left: u64,
    /// Jobs and batches it waits for.
    waits: u32,
}

/// A flash disk.
#[derive(Debug)]
pub struct Ssd {
    pub(super) params: SsdParams,
    pub(super) shape: Shape,
    pub(super) ftl: Ftl,
    pub(super) nand: Nand,
    pub(super) events: EventQueue<Event>,
    pub(super) store: Store,
    pub(super) collector: Collector,
    pub(super) meter: SsdMeter,
    commands: Vec<Option<Inside>>,
    free: Vec<u32>,
    inside: u32,
    controller: Time,
    /// When the link is free, from and to the host.
    link: [Time; 2],
    /// Writes that wait for room in the buffer.
    stalled: VecDeque<u32>,
    /// Flushes, each with the batch up to which it waits.
    flushes: VecDeque<(u64, u32)>,
    ended: Vec<Ended>,
    waiters: Vec<u32>,
    /// Commands ever taken.
    taken: u64,
    pub(super) idle: bool,
}

impl Ssd {
    /// A disk with these parameters.
    ///
    /// # Errors
    /// The first invalid parameter.
    pub fn new(params: SsdParams) -> Result<Ssd, SsdError> {
        let shape = params.shape()?;
        let initial = match params.start {
            Start::Erased => Initial::erased(shape),
            Start::Steady => Initial::steady(shape, params.seed),
        };
        let ftl = Ftl::new(shape, initial);
        Ok(Ssd {
            nand: Nand::new(&params, shape.row_units),
            events: EventQueue::new(),
            store: Store::default(),
            collector: Collector::new(shape, ftl.first_victim()),
            meter: SsdMeter::default(),
            commands: Vec::new(),
            free: Vec::new(),
            inside: 0,
            controller: Time(0),
            link: [Time(0); 2],
            stalled: VecDeque::new(),
            flushes: VecDeque::new(),
            ended: Vec::new(),
            waiters: Vec::new(),
            taken: 0,
            idle: false,
            ftl,
            params,
            shape,
        })
    }

    /// Its counters; they remain valid when the disk is given away.
    pub fn meter(&self) -> SsdMeter {
        self.meter.clone()
    }

    fn command(&self, index: u32) -> Command {
        self.inside(index).command
    }

    fn inside(&self, index: u32) -> Inside {
        self.commands[index as usize].expect("events name commands that are inside")
    }

    fn inside_mut(&mut self, index: u32) -> &mut Inside {
        self.commands[index as usize].as_mut().expect("events name commands that are inside")
    }

    /// Everything up to a time happens.
    fn catch_up(&mut self, now: Time) {
        while let Some((at, event)) = self.events.pop(now) {
            self.happen(at, event);
        }
    }

    fn happen(&mut self, now: Time, event: Event) {
        match event {
            Event::Begin(index) => self.begin(now, index),
            Event::Linked(index, bytes) => self.linked(now, index, bytes),
            Event::Sensed(die) => self.nand.sensed(now, die, &mut self.events),
            Event::Done(die) => self.job_done(now, die),
            Event::Idle(taken) if taken == self.taken && self.inside == 0 => self.rest(now),
            Event::Idle(_) => {}
        }
    }

    fn job_done(&mut self, now: Time, die: u32) {
        match self.nand.done(now, die, &mut self.events) {
            Some(Job::Read { command, bytes, .. }) => self.send(now, command, bytes),
            Some(Job::Fill { command, .. }) => self.filled(now, command),
            Some(Job::Collect { block, row, .. }) => self.copy_row(now, die, block, row),
            Some(Job::Program { batch }) => self.programmed(now, batch),
            Some(Job::Erase { block }) => self.erased(now, die, block),
            None => {}
        }
    }

    /// Whether a command waits for nothing else.
    fn waited(&mut self, index: u32) -> bool {
        let inside = self.inside_mut(index);
        inside.waits -= 1;
        inside.waits == 0
    }

    fn begin(&mut self, now: Time, index: u32) {
        let command = self.command(index);
        match command.op {
            Op::Read => self.read(now, index),
            Op::Write => {
                self.stalled.push_back(index);
                self.unstall(now);
            }
            Op::Discard => {
                self.trim(command);
                self.end(now, index);
            }
            Op::WriteZeroes => {
                self.trim(command);
                self.store.used += edges(command).iter().flatten().count() as u64 * UNIT;
                self.absorb(now, index);
            }
            Op::Flush | Op::Command => self.flush(now, index),
        }
    }

    /// Requests the rows of a read; units that are in memory or not mapped are sent at once.
    fn read(&mut self, now: Time, index: u32) {
        let command = self.command(index);
        let mut memory = 0;
        // The row that is being put together: die, row, units, bytes of the command.
        let mut row: Option<(u32, u32, u32, u32)> = None;
        for unit in all_units(command) {
            let bytes = overlap(command, unit);
            let place = self.row_on_flash(unit);
            match (&mut row, place) {
                (_, None) => memory += bytes,
                (Some(row), Some(place)) if (row.0, row.1) == place => {
                    row.2 += 1;
                    row.3 += bytes;
                }
                (_, Some((die, at))) => {
                    let before = row.replace((die, at, 1, bytes));
                    self.ask(now, index, before);
                }
            }
        }
        self.ask(now, index, row);
        if memory > 0 {
            self.send(now, index, memory);
        }
    }

    /// The row of a unit, unless its data is in memory or nowhere.
    fn row_on_flash(&self, unit: u32) -> Option<(u32, u32)> {
        if self.store.holds(unit) {
            return None;
        }
        self.ftl.row_of(unit).filter(|&row| !self.store.copies(row))
    }

    fn ask(&mut self, now: Time, command: u32, row: Option<(u32, u32, u32, u32)>) {
        let Some((die, at, units, bytes)) = row else { return };
        self.meter.count_read();
        let cache = self.ftl.is_cache(self.ftl.block_of(at));
        self.nand.push(now, die, (Job::Read { command, units, bytes }, cache), &mut self.events);
    }

    /// Sends bytes over the link, behind those that were ready before.
    fn send(&mut self, now: Time, index: u32, bytes: u32) {
        let write = self.command(index).op == Op::Write;
        let way = usize::from(self.params.link.full_duplex && write);
        let free = now.max(self.link[way]) + time_of(bytes.into(), self.params.link.rate);
        self.link[way] = free;
        self.events.plan(free, Event::Linked(index, bytes));
    }

    fn linked(&mut self, now: Time, index: u32, bytes: u32) {
        let inside = self.inside_mut(index);
        inside.left -= u64::from(bytes);
        if inside.left > 0 {
            return;
        }
        match inside.command.op {
            Op::Write => self.fill_edges(now, index),
            _ => self.end(now, index),
        }
    }

    /// Admits stalled writes to the buffer while there is room.
    fn unstall(&mut self, now: Time) {
        while let Some(&index) = self.stalled.front() {
            let command = self.command(index);
            let room = all_units(command).count() as u64 * UNIT;
            if self.store.used > 0 && self.store.used + room > self.params.buffer.bytes {
                return;
            }
            self.stalled.pop_front();
            self.store.used += room;
            self.send(now, index, command.sectors * 512);
        }
    }

    /// Reads the units that a write changes in part.
    fn fill_edges(&mut self, now: Time, index: u32) {
        for unit in edges(self.command(index)).into_iter().flatten() {
            let Some((die, row)) = self.row_on_flash(unit) else { continue };
            self.inside_mut(index).waits += 1;
            self.meter.count_read();
            let cache = self.ftl.is_cache(self.ftl.block_of(row));
            self.nand.push(now, die, (Job::Fill { command: index, units: 1 }, cache), &mut self.events);
        }
        if self.inside(index).waits == 0 {
            self.absorb(now, index);
        }
    }

    /// A unit that a write changes in part was read.
    fn filled(&mut self, now: Time, index: u32) {
        if self.waited(index) {
            self.absorb(now, index);
        }
    }

    /// All of a write is in memory: its units go into batches.
    fn absorb(&mut self, now: Time, index: u32) {
        let command = self.command(index);
        let buffer = self.params.buffer;
        let durable = !buffer.protected && (command.fua || !buffer.write_back);
        let whole = command.op == Op::Write;
        let units: Vec<u32> = match whole {
            true => all_units(command).collect(),
            false => edges(command).into_iter().flatten().collect(),
        };
        self.meter.count_host(units.len() as u64);
        for unit in units {
            let batch = self.store.filling();
            if !self.store.add(batch, unit) {
                self.store.used -= UNIT;
            }
            let waiters = &mut self.store.batch(batch).waiters;
            if durable && waiters.last() != Some(&index) {
                waiters.push(index);
                self.inside_mut(index).waits += 1;
            }
            if self.store.batch(batch).units.len() as u32 == self.shape.row_units {
                self.seal(now);
            }
        }
        match durable && self.inside(index).waits > 0 {
            true => self.seal(now),
            false => self.end(now, index),
        }
    }

    /// Passes the batch that is being filled to the flash.
    pub(super) fn seal(&mut self, now: Time) {
        if let Some(batch) = self.store.open.take() {
            self.store.homeless.push_back(batch);
            self.house(now);
        }
    }

    /// Finds rows for batches: on the die with the least work among those with a row to give, in the cache first.
    pub(super) fn house(&mut self, now: Time) {
        while let Some(&batch) = self.store.homeless.front() {
            let Some((die, row)) = self.find_row(now) else { return };
            self.store.homeless.pop_front();
            let number = self.store.batch(batch).number;
            let units = std::mem::take(&mut self.store.batch(batch).units);
            for (within, &unit) in units.iter().enumerate() {
                // A unit that was overwritten or discarded meanwhile fills a place and is not valid.
                if self.store.is_newest(unit, number) {
                    self.ftl.put(die, row, within as u32, unit);
                }
            }
            self.store.batch(batch).units = units;
            let cache = self.ftl.is_cache(self.ftl.block_of(row));
            self.nand.push(now, die, (Job::Program { batch }, cache), &mut self.events);
            self.collect_if_short(now, die);
        }
    }

    fn find_row(&mut self, now: Time) -> Option<(u32, u32)> {
        let cached = match self.shape.slc_blocks {
            0 => None,
            _ => self.least_busy(|die| self.ftl.can_cache(die)).map(|die| (die, For::Cache)),
        };
        let (die, who) = match cached {
            Some(cached) => cached,
            None => match self.least_busy(|die| self.ftl.can_take(die) && self.keeps_up(die)) {
                Some(die) => (die, For::Host),
                None => {
                    (0..self.shape.dies).for_each(|die| self.collect_if_short(now, die));
                    return None;
                }
            },
        };
        self.collector.next_die = (die + 1) % self.shape.dies;
        Some((die, self.ftl.take_row(die, who)?))
    }

    /// The die with the least work, in turn, among those with room.
    fn least_busy(&self, with: impl Fn(u32) -> bool) -> Option<u32> {
        let (dies, next) = (self.shape.dies, self.collector.next_die);
        let in_turn = (0..dies).map(|at| (next + at) % dies).filter(|&die| self.ftl.has_room(die));
        in_turn.filter(|&die| with(die)).min_by_key(|&die| self.nand.backlog(die))
    }

    fn programmed(&mut self, now: Time, batch: u32) {
        self.meter.count_programmed(self.shape.row_units.into());
        let mut waiters = std::mem::take(&mut self.waiters);
        let units = self.store.end(batch, &mut waiters);
        self.store.used -= u64::from(units) * UNIT;
        for index in waiters.drain(..) {
            if self.waited(index) {
                self.end(now, index);
            }
        }
        self.waiters = waiters;
        while let Some(&(number, index)) = self.flushes.front() {
            if !self.store.is_durable(number) {
                break;
            }
            self.flushes.pop_front();
            self.end(now, index);
        }
        self.unstall(now);
    }

    fn trim(&mut self, command: Command) {
        let (first, end) = whole_units(command);
        let mut unit = first;
        while unit < end {
            let skip = self.ftl.never_written(unit).min(end - unit);
            if skip > 0 && self.store.is_empty() {
                unit += skip;
                continue;
            }
            let held = self.store.forget(unit);
            if self.ftl.unmap(unit) || held {
                self.meter.count_trimmed(1);
            }
            unit += 1;
        }
    }

    fn flush(&mut self, now: Time, index: u32) {
        if self.params.buffer.protected {
            return self.end(now, index);
        }
        self.seal(now);
        let number = self.store.newest_number();
        match self.store.is_durable(number) {
            true => self.end(now, index),
            false => self.flushes.push_back((number, index)),
        }
    }

    fn end(&mut self, now: Time, index: u32) {
        let tag = self.command(index).tag;
        self.ended.push(Ended { tag, at: now });
        self.commands[index as usize] = None;
        self.free.push(index);
        self.inside -= 1;
        if let (0, Some(after)) = (self.inside, self.params.background) {
            self.events.plan(now + after, Event::Idle(self.taken));
        }
    }
}

impl Model for Ssd {
    fn geometry(&self) -> Geometry {
        let buffer = self.params.buffer;
        let limits = Limits::unlimited(512)
            .with_physical_block(UNIT as u32)
            .with_max_transfer(1 << 20)
            .with_max_segments(256)
            .with_discard_granularity(UNIT as u32)
            .with_max_discard(1 << 31);
        let write_cache = buffer.write_back && !buffer.protected;
        Geometry::new(self.params.size, limits).with_features(
            Features::default().with_write_cache(write_cache).with_fua(true).with_prebuild(true),
        )
    }

    fn depth(&self) -> u32 {
        self.params.link.queues * self.params.link.depth
    }

    fn accept(&mut self, now: Time, command: &Command) -> bool {
        if self.inside >= self.depth() {
            return false;
        }
        if self.inside == 0 {
            self.catch_up(now);
        }
        let left = if command.op.has_data() { u64::from(command.sectors) * 512 } else { 0 };
        let inside = Inside { command: *command, left, waits: 0 };
        let index = self.free.pop().unwrap_or(self.commands.len() as u32);
        if index as usize == self.commands.len() {
            self.commands.push(None);
        }
        self.commands[index as usize] = Some(inside);
        self.inside += 1;
        self.taken += 1;
        self.idle = false;
        self.controller = now.max(self.controller) + self.params.control.command;
        self.events.plan(self.controller + self.params.control.latency, Event::Begin(index));
        true
    }

    /// What the disk does on its own has no event here: it is caught up with when a command comes.
    fn next_event(&self) -> Option<Time> {
        if self.inside == 0 { None } else { self.events.next() }
    }

    fn advance(&mut self, now: Time, ended: &mut Vec<Ended>) {
        self.catch_up(now);
        ended.append(&mut self.ended);
    }
}
