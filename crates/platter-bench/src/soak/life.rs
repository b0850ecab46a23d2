//! One run: a device, its workload, what goes wrong, and what must hold nevertheless.

use super::Bug;
use super::cover::Cover;
use super::setup::{self, SECTORS, Setup};
use super::workload::{self, Live, Workload};
use crate::sim;
use platter_block::bio::{Bio, Flags, Op};
use platter_block::fault::{Fault, Kind};
use platter_block::time::{Span, Time};
use platter_disk::channel::{Channel, Full};
use platter_disk::device::Device;
use platter_sim::medium::Medium;
use platter_sim::oracle::{Oracle, Outcome};
use platter_sim::power::{Supply, Survivors};
use platter_sim::rng::Rng;
use platter_sim::{Options, SimDisk, World};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Why a run found something: the end of the run.
pub(super) type Finding = String;

/// Longest virtual time that anything may take: several commands may be stuck one after the other.
const LONGEST: Span = Span::from_secs(60 * 3600);

/// Turns without a completion after which nothing more is expected.
const TURNS: u64 = 100_000;

pub(super) struct Life {
    rng: Rng,
    world: Arc<World>,
    supply: Supply,
    disk: SimDisk,
    pub(super) setup: Setup,
    bug: Option<&'static Bug>,
    device: Device,
    channels: Vec<Channel>,
    workload: Workload,
    pub(super) oracle: Oracle,
    live: BTreeMap<u64, Live>,
    done: Vec<Bio>,
    pub(super) cover: Cover,
    pub(super) errors: Errors,
    began: Time,
}

/// Failures that the program saw, to be compared with what was injected.
#[derive(Default)]
pub(super) struct Errors {
    pub(super) reads: u64,
    pub(super) writes: u64,
}

fn open(
    disk: &SimDisk,
    setup: &Setup,
    bug: Option<&'static Bug>,
    rng: &mut Rng,
) -> Result<(Device, Vec<Channel>), Finding> {
    let settings = setup.settings.clone();
    let device = sim::device(disk, "soak", settings, elevator(bug, rng));
    let device = device.map_err(|error| format!("the device cannot be opened: {error}"))?;
    let channel = |_| device.channel(256).map_err(|error| format!("no channel can be opened: {error}"));
    let channels = (0..setup.channels).map(channel).collect::<Result<_, _>>()?;
    Ok((device, channels))
}

fn elevator(bug: Option<&'static Bug>, rng: &mut Rng) -> Option<Box<dyn platter_block::elevator::Elevator>> {
    let needed = bug.is_some_and(Bug::needs_elevator);
    let made = setup::elevator(rng)
        .or_else(|| needed.then(|| Box::<platter_block::elevator::Noop>::default() as Box<_>))?;
    Some(match bug {
        Some(bug) => bug.bend(made),
        None => made,
    })
}

impl Life {
    pub(super) fn new(seed: u64, bug: Option<&'static Bug>) -> Result<Life, Finding> {
        let mut rng = Rng::new(seed);
        let (setup, model) = (Setup::new(&mut rng), setup::model(&mut rng)?);
        let (world, supply) = (World::new(seed), Supply::new());
        let faults = Some(setup.faults.clone());
        let options = Options { medium: Some(Medium::new()), faults, supply: Some(supply.clone()) };
        let disk = SimDisk::with(&world, model, options);
        disk.set_wrong(bug.and_then(Bug::wrong));
        let workload = Workload::new(&mut rng, &disk.geometry().limits);
        let (device, channels) = open(&disk, &setup, bug, &mut rng)?;
        let oracle = Oracle::new(disk.geometry().features.write_cache);
        let mut life = Life {
            rng,
            world,
            supply,
            disk,
            setup,
            bug,
            device,
            channels,
            workload,
            oracle,
            live: BTreeMap::new(),
            done: Vec::new(),
            cover: Cover::default(),
            errors: Errors::default(),
            began: Time(0),
        };
        life.plan_cut();
        Ok(life)
    }

    /// Chooses the next power cut.
    fn plan_cut(&mut self) {
        if !self.setup.cuts {
            return;
        }
        let survivors = Survivors::Seeded(self.rng.bits());
        if self.rng.below(4) == 0 {
            let after = Span(self.rng.below(50_000_000));
            self.supply.cut_at(self.now() + after, survivors);
        } else {
            self.supply.cut_after(self.rng.below(100), survivors);
        }
    }

    pub(super) fn now(&self) -> Time {
        self.world.clock().now()
    }

    /// The whole run.
    pub(super) fn run(&mut self) -> Result<(), Finding> {
        for _ in 0..self.setup.steps {
            match self.rng.below(100) {
                0..55 => self.submit()?,
                55..75 => self.poll()?,
                75..92 => self.pass()?,
                92..94 => self.switch()?,
                94..96 => self.device.acknowledge_flush_failure(),
                96 => self.settle()?,
                _ => {
                    let after = Span(self.rng.below(20_000_000));
                    self.world.clock().advance_to(self.now() + after);
                    self.poll()?;
                }
            }
            self.notice_cut()?;
        }
        self.supply.cancel();
        self.settle()?;
        self.notice_cut()?;
        self.verify()?;
        self.end()
    }

    /// Submits a batch on one of the channels.
    fn submit(&mut self) -> Result<(), Finding> {
        let mut batch = Vec::new();
        for _ in 0..1 + self.rng.below(4) {
            let (bio, live) = self.workload.bio(&mut self.rng).map_err(unmakeable)?;
            let contents = vec![bio.token(); live.count as usize];
            let brings = if live.op == Op::Write { &contents[..] } else { &[] };
            self.oracle.submit(bio.token(), &live.submission(brings));
            self.live.insert(bio.token(), live);
            batch.push(bio);
        }
        if let Some(bug) = self.bug {
            bug.leak(&mut batch);
        }
        let channel = self.rng.below(self.channels.len() as u64) as usize;
        self.send(channel, batch)
    }

    fn send(&mut self, channel: usize, batch: Vec<Bio>) -> Result<(), Finding> {
        self.began = self.now();
        for bio in batch {
            self.cover.bios += 1;
            if let Err(Full(bio)) = self.channels[channel].submit(bio) {
                self.cover.bios -= 1;
                self.live.remove(&bio.token());
                self.oracle.complete(bio.token(), Outcome::Failed);
            }
        }
        self.channels[channel].flush();
        Ok(())
    }

    /// Looks at all channels once.
    fn poll(&mut self) -> Result<(), Finding> {
        let mut done = std::mem::take(&mut self.done);
        for channel in &mut self.channels {
            channel.poll(&mut done);
        }
        for bio in done.drain(..) {
            self.complete(bio)?;
        }
        self.done = done;
        Ok(())
    }

    fn complete(&mut self, mut bio: Bio) -> Result<(), Finding> {
        let token = bio.token();
        let Some(live) = self.live.remove(&token) else {
            return Err(format!("a bio completed twice, or none had the number {token}: {bio:?}"));
        };
        match bio.status() {
            Err(fault) => {
                let outcome = self.excuse(&live, fault)?;
                self.cover.failed += 1;
                self.oracle.complete(token, outcome);
            }
            Ok(()) if live.op == Op::Read => {
                self.count(&live);
                let found = workload::contents(&mut bio, live.sector);
                if found.len() as u64 != live.count {
                    return Err(format!("a read of {} sectors came back with {}", live.count, found.len()));
                }
                self.cover.sectors_checked += live.count;
                self.oracle.complete_read(token, &found).map_err(|wrong| wrong.to_string())?;
            }
            Ok(()) => {
                self.count(&live);
                self.oracle.complete(token, Outcome::Done);
            }
        }
        Ok(())
    }

    fn count(&mut self, live: &Live) {
        let has = |flag| u64::from(live.flags.contains(flag));
        self.cover.hard_barriers += has(Flags::HARD_BARRIER);
        self.cover.soft_barriers += has(Flags::SOFT_BARRIER);
        self.cover.preflushes += has(Flags::PREFLUSH);
        self.cover.fua += if live.op == Op::Write { has(Flags::FUA) } else { 0 };
        self.cover.flushes += u64::from(live.op == Op::Flush);
        self.cover.discards += u64::from(matches!(live.op, Op::Discard | Op::WriteZeroes));
    }

    /// Whether an I/O may fail so, and what that means for what it did.
    fn excuse(&mut self, live: &Live, fault: Fault) -> Result<Outcome, Finding> {
        let injected = self.disk.injected();
        let flush_failed = injected.flush_errors > 0 || injected.deaths > 0 || self.supply.cuts() > 0;
        // An elevator may hold a request back for longer than a timeout, by its parameters.
        let slow = self.setup.settings.queue.timeout.is_some();
        let excused = match fault.kind {
            Kind::Gone if !self.supply.is_on() => return Ok(Outcome::CutOff),
            Kind::Gone => injected.deaths > 0,
            Kind::FlushFailed => flush_failed || slow,
            Kind::TimedOut if slow => return Ok(Outcome::Abandoned),
            // What follows from that for others: those that overlap, that wait behind a barrier, that find no place.
            Kind::InDoubt | Kind::Cancelled | Kind::Stuck => slow,
            Kind::WouldBlock => live.flags.contains(Flags::READAHEAD),
            Kind::Io if injected.flush_errors > 0 => true,
            Kind::Io if live.op == Op::Read => {
                self.errors.reads += 1;
                self.errors.reads <= injected.read_errors
            }
            Kind::Io => {
                self.errors.writes += 1;
                self.errors.writes <= injected.write_errors
            }
            _ => false,
        };
        match excused {
            // Another piece of it may have timed out, and still be with the disk.
            true if slow => Ok(Outcome::Abandoned),
            true => Ok(Outcome::Failed),
            false => Err(format!(
                "a {} of {} sectors at {} with {:?} failed for no reason: {fault}",
                live.op, live.count, live.sector, live.flags
            )),
        }
    }

    /// When something happens next.
    fn next(&self) -> Option<Time> {
        self.channels.iter().filter_map(Channel::next_wakeup).min()
    }

    /// Lets time pass to the next thing that happens.
    fn pass(&mut self) -> Result<(), Finding> {
        if let Some(at) = self.next() {
            self.world.clock().advance_to(at);
        }
        self.poll()
    }

    /// Lives until everything has completed.
    fn settle(&mut self) -> Result<(), Finding> {
        let (mut turns, mut left) = (0, self.live.len());
        while !self.live.is_empty() {
            self.poll()?;
            if self.live.len() < left {
                (turns, left) = (0, self.live.len());
                continue;
            }
            turns += 1;
            let stands = match self.next() {
                Some(at) => {
                    self.world.clock().advance_to(at);
                    turns > TURNS
                }
                None => turns > 100,
            };
            let took = self.now().since(self.began);
            if stands || took > LONGEST {
                let oldest = self.live.values().next();
                let took = took.as_millis();

                return Err(format!("{left} bios never end; after {took} ms there still is {oldest:?}"));
            }
        }
        Ok(())
    }

    fn switch(&mut self) -> Result<(), Finding> {
        if !self.setup.switches {
            return Ok(());
        }
        self.look_at_elevator()?;
        self.cover.switches += 1;
        self.cover.switches_in_flight += u64::from(!self.live.is_empty());
        let next = std::sync::Mutex::new(elevator(self.bug, &mut self.rng));
        let make = || next.lock().ok().and_then(|mut next| next.take());
        let backend = self.device.backend();
        backend.switch_elevator(&make).map_err(|error| format!("the elevator cannot be switched: {error}"))
    }

    /// A wrong elevator is replaced and reported.
    fn look_at_elevator(&mut self) -> Result<(), Finding> {
        let facts = self.device.facts();
        match facts.into_iter().find(|(key, _)| *key == "elevator fault") {
            None => Ok(()),
            Some((_, fault)) => {
                self.cover.elevator_faults += 1;
                Err(format!("a wrong elevator: {fault}"))
            }
        }
    }

    /// If power was cut: lets everything fail, opens the device again, and looks at what is left.
    fn notice_cut(&mut self) -> Result<(), Finding> {
        if self.supply.is_on() {
            return Ok(());
        }
        self.settle()?;
        self.oracle.cut();
        self.close()?;
        self.disk.settle();
        for report in self.supply.take_reports() {
            self.cover.cuts += 1;
            self.cover.cuts_in_flush += u64::from(report.flushes > 0);
            self.cover.cuts_in_write += u64::from(report.writes > 0);
            self.cover.torn_writes += report.torn;
            self.cover.sectors_lost += report.lost.iter().count() as u64;
        }
        self.supply.restore();
        (self.device, self.channels) = open(&self.disk, &self.setup, self.bug, &mut self.rng)?;
        if self.rng.below(4) > 0 {
            self.verify()?;
        }
        if self.rng.below(2) == 0 {
            self.plan_cut();
        }
        Ok(())
    }

    /// Reads everything, in pieces in some order.
    fn verify(&mut self) -> Result<(), Finding> {
        let piece = SECTORS / 16;
        let first = self.rng.below(16);
        for turn in 0..16 {
            let at = (first + turn * 5) % 16 * piece;
            let (bio, live) = self.workload.read(at, piece).map_err(unmakeable)?;
            self.oracle.submit(bio.token(), &live.submission(&[]));
            self.live.insert(bio.token(), live);
            let channel = self.rng.below(self.channels.len() as u64) as usize;
            self.send(channel, vec![bio])?;
        }
        self.settle()
    }

    /// Gives up the handles, after a look at what they have counted.
    fn close(&mut self) -> Result<(), Finding> {
        self.look_at_elevator()?;
        let counts = self.device.counters();
        self.cover.merges += counts.back_merges + counts.front_merges + counts.request_merges;
        self.cover.splits += counts.splits;
        self.cover.requeues += counts.requeues;
        self.cover.timeouts += counts.timeouts;
        self.cover.flushes_coalesced += counts.flushes_coalesced;
        self.cover.bytes_bounced += counts.bytes_bounced;
        self.channels.clear();
        match counts.bios == counts.bios_completed {
            true => Ok(()),
            false => Err(format!("{} bios went in, {} came out", counts.bios, counts.bios_completed)),
        }
    }

    fn end(&mut self) -> Result<(), Finding> {
        self.close()?;
        let injected = self.disk.injected();
        self.cover.errors += injected.read_errors + injected.write_errors;
        self.cover.flush_errors += injected.flush_errors;
        self.cover.spikes += injected.spikes;
        self.cover.stuck += injected.stuck;
        self.cover.deaths += injected.deaths;
        self.cover.virtual_ms += self.now().0 / 1_000_000;
        Ok(())
    }
}

fn unmakeable(fault: Fault) -> Finding {
    format!("a bio cannot be made: {fault}")
}
