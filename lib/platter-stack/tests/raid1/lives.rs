//! Lives of mirrors, each from a seed: two callers write the same ranges, members fail, get bad sectors, do not answer, are left out
//! and come back, and power is cut. An oracle says what each sector may hold.

use crate::oracle::{Id, Moment, Oracle};
use crate::rig::{CHUNK, FRONT, Rig, SIZE, settings, text, uuid};
use platter_block::bio::{Bio, Flags, Op};
use platter_block::time::Span;
use platter_disk::channel::Channel;
use platter_disk::device::Device;
use platter_sim::fault::{BadSectors, Blow, Death, FaultPlan, Lands, Strike, When};
use platter_sim::power::Survivors;
use platter_stack::raid1::{Raid1, Settings};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

const SECTORS: usize = (SIZE / 512) as usize;

/// What a bio is for.
enum Asked {
    Write(Id, Range<usize>, bool),
    Read(Moment, Range<usize>),
    Flush(Moment),
}

/// An open array, and what is under way.
struct Open {
    raid: Raid1,
    device: Device,
    callers: Vec<Channel>,
}

struct Life {
    rig: Rig,
    random: Xoshiro256PlusPlus,
    oracle: Oracle,
    asked: BTreeMap<u64, Asked>,
    tokens: u64,
    /// The disk that may have faults at the moment.
    victim: Option<usize>,
    /// Members in sync were made the same since the last cut.
    is_agreed: bool,
    /// All devices were members in sync when the array was closed.
    is_whole: bool,
    /// How many members were in sync when that was looked at last.
    in_sync: u64,
    log: Vec<String>,
}

type Result<T = ()> = std::result::Result<T, String>;

impl Life {
    fn new(seed: u64) -> Life {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let count = 2 + (random.next_u64() % 3 / 2) as usize;
        let rig = Rig::new(seed, count);
        rig.create(count, !random.next_u64().is_multiple_of(8));
        let oracle = Oracle::new(SECTORS);
        let (asked, log) = (BTreeMap::new(), Vec::new());
        let in_sync = count as u64;
        Life {
            rig,
            random,
            oracle,
            asked,
            tokens: 0,
            victim: None,
            is_agreed: true,
            is_whole: true,
            in_sync,
            log,
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.next_u64() % bound
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn tell(&mut self, what: impl Into<String>) {
        let at = self.rig.world.clock().now().0 / 1000;
        self.log.push(format!("{at} us: {}", what.into()));
    }

    /// A few openings, each with or without a cut.
    fn live(&mut self) -> Result {
        for _ in 0..3 + self.below(4) {
            self.one_opening()?;
        }
        self.last_opening()
    }

    fn one_opening(&mut self) -> Result {
        let leaves = self.chance(15) && self.is_whole && self.victim.is_none();
        let without = leaves.then(|| self.below(self.rig.disks.len() as u64) as usize);
        if self.chance(60) {
            let most = if self.chance(30) { 15 } else { 300 };
            let (after, seed) = (self.below(most), self.random.next_u64());
            let survivors = [Survivors::All, Survivors::None, Survivors::Seeded(seed)];
            let survivors = survivors[self.below(3) as usize].clone();
            self.tell(format!("cut after {after} commands, {survivors:?}"));
            self.rig.supply.cut_after(after, survivors);
        }
        let Some(mut open) = self.open(without)? else { return Ok(()) };
        let steps = 10 + self.below(150);
        for _ in 0..steps {
            self.step(&mut open)?;
            if !self.rig.supply.is_on() {
                break;
            }
        }
        self.drain(&mut open)?;
        if self.rig.supply.is_on() && self.chance(40) {
            self.agree(&mut open)?;
        }
        let count = open.device.backend().below().len();
        self.is_whole = count == self.rig.disks.len() && text(&open.device, "mirror") == "complete";
        drop(open);
        self.after_close();
        Ok(())
    }

    /// Power may have been cut before, or while the array was closed.
    fn after_close(&mut self) {
        self.rig.supply.cancel();
        self.rig.disks.iter().for_each(|disk| disk.settle());
        if !self.rig.supply.is_on() {
            self.tell("power was cut");
            self.oracle.cut();
            (self.is_agreed, self.is_whole) = (false, false);
            self.asked.clear();
            self.rig.supply.restore();
            self.rig.disks.iter().for_each(|disk| disk.settle());
        }
    }

    /// `None`: power was cut meanwhile.
    fn open(&mut self, without: Option<usize>) -> Result<Option<Open>> {
        if let Some(without) = without {
            self.tell(format!("opened without {without}"));
            // What counts is on the others, which are the same.
            self.rig.pass(Span::from_secs(1));
        }
        let mut settings: Settings = settings();
        settings.degraded = without.is_some() || self.victim.is_some();
        settings.readd = self.chance(50);
        let devices: Vec<_> = (0..self.rig.disks.len())
            .filter(|nth| Some(*nth) != without)
            .map(|nth| self.rig.device(nth))
            .collect();
        let raid = match Raid1::open(devices, settings) {
            Ok(raid) => raid,
            Err(_) if !self.rig.supply.is_on() => {
                self.after_close();
                return Ok(None);
            }
            Err(error) => return Err(format!("the array cannot be opened: {error}")),
        };
        let device = Device::new(Arc::clone(&raid.device));
        let callers = (0..2).map(|_| device.channel(8).map_err(|error| error.to_string()));
        let callers = callers.collect::<Result<Vec<Channel>>>()?;
        let open = Open { raid, device, callers };
        if self.rig.supply.is_on() {
            self.look(&open);
        }
        Ok(Some(open))
    }

    /// Looks whether a member was lost whose contents counted.
    fn look(&mut self, open: &Open) {
        let layers = open.device.layers();
        let in_sync = layers[0].number("mirror members in sync").unwrap_or_default();
        if in_sync < self.in_sync && !self.is_agreed {
            self.tell("a member is lost before all are the same");
            self.oracle.lost_first();
        }
        self.in_sync = in_sync;
        let is_copied = layers[0].text("copying") != Some("running");
        let condition = layers[0].text("mirror").unwrap_or_default().to_owned();
        self.is_agreed |= is_copied && (condition == "complete" || condition == "degraded");
    }

    fn range(&mut self) -> Range<usize> {
        // Most of it is where others write, too.
        let start = if self.chance(70) { self.below(24) } else { self.below(SECTORS as u64) } as usize;
        start..(start + 1 + self.below(12) as usize).min(SECTORS)
    }

    fn step(&mut self, open: &mut Open) -> Result {
        match self.below(100) {
            0..45 => self.write(open),
            45..60 => self.read(open),
            60..67 => {
                let moment = self.oracle.moment();
                self.submit(open, Bio::flush(), Asked::Flush(moment));
            }
            67..71 => self.trouble(open)?,
            71..74 => self.operate(open),
            74..76 => self.rig.pass(Span::from_millis(6)),
            _ => {
                self.rig.world.pass(None);
            }
        }
        self.take(open)?;
        self.look(open);
        Ok(())
    }

    fn submit(&mut self, open: &mut Open, mut bio: Bio, asked: Asked) {
        let caller = self.below(2) as usize;
        self.tokens += 1;
        bio.set_token(self.tokens);
        if open.callers[caller].submit(bio).is_ok() {
            open.callers[caller].flush();
            self.asked.insert(self.tokens, asked);
        } else if let Asked::Write(id, range, _) = asked {
            self.oracle.end(id, range, false, false);
        }
    }

    fn write(&mut self, open: &mut Open) {
        let range = self.range();
        let (pos, len) = (range.start as u64 * 512, (range.end - range.start) as u64 * 512);
        let is_zero = self.chance(10);
        let content = if is_zero { 0 } else { self.tokens + 1_000_000 };
        let id = self.oracle.begin(range.clone(), content);
        let mut bio = match is_zero {
            true if self.chance(50) => Bio::discard(pos, len),
            true => Bio::write_zeroes(pos, len),
            false => {
                let data: Vec<u8> = content.to_le_bytes().repeat((len / 8) as usize);
                Bio::write(pos, data).unwrap()
            }
        };
        let is_durable = self.chance(15);
        if is_durable {
            bio.add_flags(Flags::FUA);
        }
        self.submit(open, bio, Asked::Write(id, range, is_durable));
    }

    fn read(&mut self, open: &mut Open) {
        let range = self.range();
        let bio = Bio::read(range.start as u64 * 512, vec![0u8; (range.end - range.start) * 512]).unwrap();
        let moment = self.oracle.moment();
        self.submit(open, bio, Asked::Read(moment, range));
    }

    /// A fault of the victim, or the end of its faults.
    fn trouble(&mut self, open: &mut Open) -> Result {
        if let Some(victim) = self.victim {
            if self.chance(50) {
                self.tell(format!("no more faults of {victim}"));
                self.rig.disks[victim].set_faults(None);
                self.rig.disks[victim].release_stuck();
                // What has failed may be retried.
                self.drain(open)?;
                self.victim = None;
            }
            return Ok(());
        }
        if text(&open.device, "mirror") != "complete" || !self.is_agreed {
            return Ok(());
        }
        let victim = self.below(self.rig.disks.len() as u64) as usize;
        let sector = FRONT / 512 + self.below(SECTORS as u64 - 8);
        let kind = self.below(6);
        let never_aborts = FaultPlan { abort_chance: 0, ..FaultPlan::default() };
        let bad = |reads, writes| {
            let bad = vec![BadSectors { sectors: sector..sector + 8, reads, writes }];
            FaultPlan { bad, ..FaultPlan::default() }
        };
        let now = self.rig.world.clock().now();
        let plan = match kind {
            0 => bad(true, false),
            1 => bad(true, true),
            2 => FaultPlan { write_error_chance: 300_000, ..FaultPlan::default() },
            3 => FaultPlan { flush_error_chance: 700_000, ..FaultPlan::default() },
            4 => {
                let lasts = Some(Span::from_millis(1 + self.below(40)));
                FaultPlan { death: Some(Death { when: When::At(now), lasts }), ..FaultPlan::default() }
            }
            _ => never_aborts,
        };
        self.tell(format!("fault {kind} of {victim} at sector {sector}"));
        self.rig.disks[victim].set_faults(Some(plan));
        if kind == 5 {
            let blow = Blow::Stuck(Span::from_millis(20 + self.below(400)), Lands::Late);
            self.rig.disks[victim].strike(Strike { op: None, blow });
        }
        self.victim = Some(victim);
        Ok(())
    }

    fn operate(&mut self, open: &Open) {
        let count =
            open.device.layers()[0].items.iter().filter(|item| item.name.starts_with("member ")).count();
        let device = self.below(count as u64) as usize;
        // Each may be refused.
        let (what, done) = match self.below(4) {
            0 if self.is_agreed && self.victim.is_none() => ("fail", open.raid.fail(device)),
            1 if self.chance(30) => {
                let removed = open.raid.remove(device);
                let number = uuid(100 + self.below(100) as usize);
                ("remove and add", removed.and_then(|()| open.raid.add(device, number)))
            }
            _ => ("re-add", open.raid.re_add(device)),
        };
        self.tell(format!("{what} {device}: {done:?}"));
    }

    /// Takes what has completed.
    fn take(&mut self, open: &mut Open) -> Result {
        let mut done = Vec::new();
        for caller in &mut open.callers {
            caller.poll(&mut done);
        }
        for mut bio in done {
            let status = bio.status();
            let Some(asked) = self.asked.remove(&bio.token()) else { continue };
            if let Err(fault) = status
                && self.rig.supply.is_on()
            {
                self.excuse(open, &format!("{fault:?} of {:?} at {}", bio.op(), bio.pos()))?;
            }
            match asked {
                Asked::Write(id, range, is_durable) => {
                    self.oracle.end(id, range, status.is_ok(), is_durable && status.is_ok());
                }
                Asked::Flush(moment) if status.is_ok() => self.oracle.flushed(&moment),
                Asked::Read(moment, range) if status.is_ok() => {
                    // Before a look it may be that the member is lost that counted.
                    self.look(open);
                    let data: Vec<u8> = bio.take_buffer().expect("the memory of a read");
                    debug_assert!(bio.op() == Op::Read);
                    let read = self.oracle.read(&moment, range.clone(), &data);
                    read.map_err(|why| {
                        format!("a read of {range:?}: {why}; media: {}", self.media(range.clone()))
                    })?;
                }
                Asked::Flush(_) | Asked::Read(..) => {}
            }
        }
        Ok(())
    }

    /// An I/O may fail only if no member in sync is without faults.
    fn excuse(&mut self, open: &Open, what: &str) -> Result {
        self.tell(format!("failed: {what}"));
        let Some(victim) = self.victim else { return Err(format!("{what}: no disk has faults")) };
        let name = ["a", "b", "c", "d"][victim];
        let layers = open.device.layers();
        let members: Vec<String> = layers[0]
            .items
            .iter()
            .filter(|item| item.name.starts_with("member "))
            .map(|item| item.value.to_string())
            .collect();
        let others = open.device.backend().below();
        let good = members
            .iter()
            .zip(&others)
            .any(|(state, disk)| state.starts_with("in sync") && !disk.name().contains(name));
        if good { Err(format!("{what}, although another member is good: {members:?}")) } else { Ok(()) }
    }

    /// Lets everything end that is under way.
    fn drain(&mut self, open: &mut Open) -> Result {
        for _ in 0..200_000 {
            self.take(open)?;
            if self.asked.is_empty() {
                return Ok(());
            }
            if !self.rig.world.pass(None) {
                self.rig.pass(Span::from_millis(1));
            }
        }
        Err(format!("{} bios never end", self.asked.len()))
    }

    /// Ends all faults, waits until all members are in sync, and compares their media.
    fn agree(&mut self, open: &mut Open) -> Result {
        let supply = self.rig.supply.clone();
        supply.cancel();
        if let Some(victim) = self.victim.take() {
            self.rig.disks[victim].set_faults(None);
            self.rig.disks[victim].release_stuck();
        }
        let count = open.device.backend().below().len();
        let mut rounds = 0;
        while rounds < 20_000 {
            rounds += 1;
            self.take(open)?;
            self.look(open);
            let is_done = open.device.layers()[0].text("copying") != Some("running");
            let is_complete = (0..count).all(|nth| self.member(open, nth).starts_with("in sync"));
            if is_complete && is_done {
                break;
            }
            if is_done && rounds % 20 == 0 {
                for nth in 0..count {
                    if self.member(open, nth).starts_with("failed") {
                        let readded = open.raid.re_add(nth);
                        self.tell(format!("re-add {nth} at last: {readded:?}"));
                        if readded.is_err() && rounds > 4_000 {
                            // It may have failed while it was made a new member.
                            let removed = open.raid.remove(nth);
                            self.tell(format!("remove {nth} at last: {removed:?}"));
                        }
                    } else if self.member(open, nth).starts_with("no member") {
                        let number = uuid(100 + rounds);
                        let added = open.raid.add(nth, number);
                        self.tell(format!("add {nth} at last: {added:?}"));
                    }
                }
            }
            if !self.rig.world.pass(Some(self.rig.world.clock().now() + Span::from_millis(1))) {
                self.rig.pass(Span::from_micros(200));
            }
        }
        if rounds == 20_000 {
            let members: Vec<String> = (0..count).map(|nth| self.member(open, nth)).collect();
            return Err(format!("the array never becomes complete: {members:?}"));
        }
        self.is_agreed = true;
        let all = open.device.backend().below();
        let media: Vec<Vec<u8>> = (0..self.rig.disks.len())
            .filter(|nth| all.iter().any(|disk| disk.name().contains(["a", "b", "c", "d"][*nth])))
            .map(|nth| self.rig.medium(nth))
            .collect();
        for (nth, medium) in media.iter().enumerate() {
            self.oracle.check(medium).map_err(|why| format!("member {nth}: {why}"))?;
            let differs = |at: &usize| medium[at * 512..][..512] != media[0][at * 512..][..512];
            if let Some(sector) = (0..SECTORS).find(differs) {
                return Err(format!("members 0 and {nth} differ in sector {sector}"));
            }
        }
        Ok(())
    }

    /// The contents of sectors on each medium.
    fn media(&self, range: Range<usize>) -> String {
        let first = |sector: usize, medium: &[u8]| {
            u64::from_le_bytes(medium[sector * 512..][..8].try_into().unwrap())
        };
        let of = |nth: usize| {
            let medium = self.rig.medium(nth);
            format!("{:?}", range.clone().map(|sector| first(sector, &medium)).collect::<Vec<_>>())
        };
        (0..self.rig.disks.len()).map(of).collect::<Vec<_>>().join(" ")
    }

    fn member(&self, open: &Open, nth: usize) -> String {
        text(&open.device, ["member a", "member b", "member c", "member d"][nth])
    }

    /// All devices are there, and there are no more faults.
    fn last_opening(&mut self) -> Result {
        for disk in &self.rig.disks {
            disk.set_faults(None);
            disk.release_stuck();
        }
        self.victim = None;
        let Some(mut open) = self.open(None)? else { return Err("it cannot be opened".into()) };
        self.read_all(&mut open)?;
        self.agree(&mut open)?;
        self.read_all(&mut open)
    }

    fn read_all(&mut self, open: &mut Open) -> Result {
        for start in (0..SECTORS).step_by((CHUNK / 512) as usize) {
            let range = start..start + (CHUNK / 512) as usize;
            let bio = Bio::read(start as u64 * 512, vec![0u8; CHUNK as usize]).unwrap();
            let moment = self.oracle.moment();
            self.submit(open, bio, Asked::Read(moment, range));
            self.drain(open)?;
        }
        Ok(())
    }
}

fn live(seed: u64) {
    let mut life = Life::new(seed);
    if let Err(why) = life.live() {
        let last: Vec<&str> = life.log.iter().rev().take(60).rev().map(String::as_str).collect();
        panic!("seed {seed}: {why}\n{}", last.join("\n"));
    }
}

/// `PLATTER_LIVES=FIRST..LAST` runs others than the usual seeds.
#[test]
fn no_life_of_a_mirror_loses_what_was_acknowledged() {
    let range = std::env::var("PLATTER_LIVES").ok();
    let range = range.as_deref().and_then(|text| text.split_once(".."));
    let bounds = range.and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    let (first, last): (u64, u64) = bounds.unwrap_or((1, 120));
    (first..last).for_each(live);
}
