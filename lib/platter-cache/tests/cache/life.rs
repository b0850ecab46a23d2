//! One random life of a cache: a stack, a workload and faults generated from a seed, checked by an oracle.

use crate::rig;
use crate::stamp::{self, SECTOR};
use crate::workload::{Form, Live, Workload};
use platter_block::bio::{Bio, Context, Flags, Op};
use platter_block::fault::{Fault, Kind};
use platter_block::hint::Hint;
use platter_block::resident::PAGE;
use platter_block::time::{Span, Time};
use platter_cache::readahead;
use platter_cache::{Settings, Write};
use platter_disk::channel::Channel;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_disk::handle::{Handle, PageRef};
use platter_sim::fault::FaultPlan;
use platter_sim::ideal::Ideal;
use platter_sim::oracle::{Oracle, Outcome, Submission};
use platter_sim::power::{Supply, Survivors};
use platter_sim::rng::Rng;
use platter_sim::{SimDisk, World};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A description of an error that was found.
pub(crate) type Finding = String;

/// Turns without a completion after which the life is considered hung. A stuck command comes back after up to 20 s, and each shard
/// looks for dirty pages every `interval`, 1 ms at least.
const TURNS: u32 = 200_000;

/// The faults of a life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) errors: bool,
    pub(crate) cuts: bool,
    /// Commands get stuck, requests time out, bios have deadlines or are cancelled.
    pub(crate) timeouts: bool,
    /// The disk is behind a SCSI target, and some reads and writes are commands.
    pub(crate) commands: bool,
    /// The cache has several shards, with small extents.
    pub(crate) shards: bool,
}

pub(crate) struct Life {
    rng: Rng,
    world: Arc<World>,
    supply: Supply,
    disk: SimDisk,
    settings: Settings,
    disk_settings: DiskSettings,
    channels: usize,
    trouble: Trouble,
    workload: Workload,
    /// Sets the size of the cache at random, with numbers of its own.
    sizes: Option<Rng>,
    oracle: Oracle,
    live: BTreeMap<u64, Live>,
    log: Vec<String>,
}

/// The device while there is power.
struct Session<'a> {
    device: &'a Device,
    channels: Vec<Channel>,
    handles: &'a [Handle],
    pins: Vec<(PageRef<'a>, Vec<u8>)>,
}

fn settings(rng: &mut Rng) -> Settings {
    platter_repro::policies::register_readahead();
    let policies = readahead::all();
    let pages = rng.pick(&[16, 17, 24, 40, 64]);
    let (background, dirty) = rng.pick(&[(0, 1), (0, 50), (10, 20), (50, 100), (100, 100)]);
    Settings {
        size: pages * PAGE,
        readahead: policies[rng.below(policies.len() as u64) as usize],
        values: Vec::new(),
        window: rng.pick(&[0, 4096, 16384, 32768]),
        write: rng.pick(&[Write::Back, Write::Back, Write::Through]),
        background,
        dirty,
        expire: rng.pick(&[Span::from_millis(1), Span::from_secs(1), Span::from_secs(30)]),
        interval: rng.pick(&[Span::from_millis(1), Span::from_secs(5)]),
        congestion: rng.pick(&[1, 112]),
        gather: rng.pick(&[0, 4, 64]),
        ..Settings::default()
    }
}

/// Gives the cache shards, each of the size that the whole had, where its policy allows that.
fn shard(settings: &mut Settings, rng: &mut Rng) {
    let policy = (settings.readahead.make)(&readahead::Settings::default());
    if policy.exclusive() {
        return;
    }
    settings.shards = rng.pick(&[2, 3, 7]);
    settings.extent = rng.pick(&[PAGE, 2 * PAGE, 4 * PAGE]);
    settings.size *= u64::from(settings.shards);
    settings.max_size *= u64::from(settings.shards);
}

fn faults(rng: &mut Rng, trouble: Trouble) -> Option<FaultPlan> {
    let plan = match trouble.errors {
        true => errors(rng),
        false if trouble.timeouts => FaultPlan { seed: rng.bits(), ..FaultPlan::default() },
        false => return None,
    };
    if !trouble.timeouts {
        return Some(plan);
    }
    let stuck = Span::from_millis(rng.pick(&[30, 300, 20_000]));
    Some(FaultPlan { stuck_chance: rng.pick(&[5_000, 50_000, 300_000]), stuck, ..plan })
}

fn errors(rng: &mut Rng) -> FaultPlan {
    let mut chance = || rng.pick(&[0, 0, 20_000, 200_000]);
    let (read_error_chance, write_error_chance, flush_error_chance) = (chance(), chance(), chance());
    let seed = rng.bits();
    FaultPlan { seed, read_error_chance, write_error_chance, flush_error_chance, ..FaultPlan::default() }
}

impl Life {
    pub(crate) fn new(seed: u64, trouble: Trouble) -> Life {
        let mut rng = Rng::new(seed);
        let world = World::new(seed);
        let ideal = Ideal {
            size: rng.pick(&[128, 129, 400, 1001]) * SECTOR as u64,
            latency: Span::from_micros(rng.pick(&[1, 100, 3000])),
            depth: rng.pick(&[1, 4, 32]),
            write_cache: rng.below(4) > 0,
        };
        let plan = faults(&mut rng, trouble);
        let (disk, supply) = rig::disk(&world, ideal, plan);
        let mut settings = settings(&mut rng);
        let mut own = Rng::new(seed ^ 0x5126);
        let sizes = (own.below(2) == 0).then_some(own);
        if let Some(sizes) = sizes.clone().as_mut() {
            settings.max_size = settings.size + sizes.pick(&[0, 3, 30, 200]) * PAGE;
        }
        if trouble.shards {
            shard(&mut settings, &mut Rng::new(seed ^ 0x54a8d));
        }
        let mut disk_settings = DiskSettings::default();
        disk_settings.queue.depth = rng.pick(&[1, 2, 32]);
        if trouble.timeouts {
            disk_settings.queue.timeout = Some(Span::from_millis(rng.pick(&[10, 100])));
        }
        let commands = if trouble.commands { rng.pick(&[5, 20, 50]) } else { 0 };
        let workload = Workload::new(&mut rng, ideal.size / SECTOR as u64).with_commands(commands);
        let channels = rng.pick(&[1, 1, 2, 3]);
        Life {
            oracle: Oracle::new(ideal.write_cache || settings.write == Write::Back)
                .that_drops(settings.write == Write::Through),
            rng,
            world,
            supply,
            disk,
            settings,
            disk_settings,
            channels,
            trouble,
            workload,
            sizes,
            live: BTreeMap::new(),
            log: Vec::new(),
        }
    }

    /// The setup of the life, and all its operations.
    pub(crate) fn story(&self) -> String {
        let (settings, disk_settings) = (&self.settings, &self.disk_settings.queue);
        let head = format!(
            "{} pages of {} in {} shards by {}, {:?}, {} window {}, background {} dirty {}, expire {:?} interval {:?}, depth {}, {:?}, disk {:?}",
            settings.size / PAGE,
            settings.max_size / PAGE,
            settings.shards,
            settings.extent,
            settings.write,
            settings.readahead.name,
            settings.window,
            settings.background,
            settings.dirty,
            settings.expire,
            settings.interval,
            disk_settings.depth,
            self.trouble,
            self.disk.geometry(),
        );
        format!("{head}\n{}", self.log.join("\n"))
    }

    fn now(&self) -> Time {
        self.world.clock().now()
    }

    fn say(&mut self, what: impl FnOnce() -> String) {
        if std::env::var_os("PLATTER_CACHE_STORY").is_some() {
            let line = format!("{:>12} {}", self.now().0, what());
            self.log.push(line);
        }
    }

    /// Runs all of it: sessions that each end in a power cut, and a final check of the contents.
    pub(crate) fn run(&mut self) -> Result<(), Finding> {
        let sessions = if self.trouble.cuts { 3 } else { 1 };
        for session in 0..=sessions {
            let below = match self.trouble.commands {
                true => rig::behind_target(&self.disk, self.disk_settings.clone()),
                false => rig::backend(&self.disk, self.disk_settings.clone()),
            };
            let device = rig::cached(below, &self.settings);
            let handles: Vec<Handle> = (0..2).map(|_| device.handle()).collect();
            let survivors = Survivors::Seeded(self.rng.bits());
            if session == sessions {
                self.disk.set_faults(None);
                let mut open = self.open(&device, &handles);
                self.verify(&mut open)?;
                continue;
            }
            if self.trouble.cuts {
                self.supply.cut_after(self.rng.below(60), survivors.clone());
            }
            let mut open = self.open(&device, &handles);
            let ended = self.session(&mut open);
            self.supply.cancel();
            ended?;
            if self.supply.is_on() {
                let now = self.now();
                self.supply.cut(now, survivors);
            }
            self.settle(&mut open)?;
            drop(open);
            drop((handles, device));
            self.say(|| "power is cut".to_string());
            self.oracle.cut();
            self.supply.restore();
        }
        Ok(())
    }

    fn open<'a>(&self, device: &'a Device, handles: &'a [Handle]) -> Session<'a> {
        let channels = (0..self.channels).map(|_| device.channel(256).unwrap()).collect();
        Session { device, channels, handles, pins: Vec::new() }
    }

    /// Works until power is cut or enough is done. If power lasts, everything is flushed at the end.
    fn session(&mut self, open: &mut Session<'_>) -> Result<(), Finding> {
        for _ in 0..self.rng.pick(&[20, 60, 150]) {
            match self.rng.below(100) {
                0..50 => {
                    let bio = self.workload.next(&mut self.rng);
                    // With several channels the order would depend on the order in which they are flushed.
                    let hold = self.channels == 1 && self.rng.below(3) == 0;
                    self.send(open, bio, hold);
                }
                50..70 => drop(self.poll(open)?),
                70..88 => drop(self.pass(open)?),
                88..92 if self.trouble.timeouts && self.rng.below(2) == 0 => self.cancel(open),
                88..92 => self.advise(open),
                92..95 => self.pin(open)?,
                95..97 => drop(open.pins.pop()),
                97 => {
                    let after = self.rng.pick(&[1_000_000, 2_000_000_000]);
                    self.world.clock().advance_to(self.now() + Span(after));
                }
                _ => self.settle(open)?,
            }
            self.resize(open);
            for (page, bytes) in &open.pins {
                if page[..] != bytes[..] {
                    return Err(format!("the page at {} changed while it was held", page.pos()));
                }
            }
            if !self.supply.is_on() {
                return Ok(());
            }
        }
        open.pins.clear();
        self.settle(open)?;
        if self.rng.below(2) == 0 {
            self.verify(open)?;
            let flush = self.workload.flush();
            self.send(open, flush, false);
            self.settle(open)?;
        }
        Ok(())
    }

    /// Submits a bio on one of the channels.
    fn send(&mut self, open: &mut Session<'_>, (mut bio, live): (Bio, Live), hold: bool) {
        let contents = vec![bio.token(); live.count as usize];
        let brings = if live.op == Op::Write { &contents[..] } else { &[] };
        self.say(|| format!("submit {} {live:?}", bio.token()));
        self.live.insert(bio.token(), live);
        if !live.is_ranged() {
            let submission = live.submission(brings);
            // A barrier that times out or is cancelled does not order anything, and the oracle cannot know
            // which ones will be.
            let hard = submission.hard && !self.trouble.timeouts;
            self.oracle.submit(bio.token(), &Submission { hard, ..submission });
        }
        if self.trouble.timeouts && self.rng.below(4) == 0 {
            bio.set_deadline(Some(self.now() + Span::from_micros(self.rng.pick(&[0, 50, 5_000, 200_000]))));
        }
        if self.sizes.is_some() {
            bio.set_context(Context::new(bio.token() as u32 % 3));
        }
        bio.set_handle(self.rng.pick(open.handles.iter().map(Handle::id).collect::<Vec<_>>().as_slice()));
        let channel = self.rng.below(open.channels.len() as u64) as usize;
        assert!(open.channels[channel].submit(bio).is_ok(), "there is room for all of a life's bios");
        if !hold {
            open.channels[channel].flush();
        }
    }

    /// Cancels a bio in flight.
    fn cancel(&mut self, open: &mut Session<'_>) {
        let tokens: Vec<u64> = self.live.keys().copied().collect();
        if !tokens.is_empty() {
            let token = self.rng.pick(&tokens);
            self.say(|| format!("cancel {token}"));
            open.channels.iter_mut().for_each(|channel| channel.cancel(token));
        }
    }

    /// Sets another size, now and then.
    fn resize(&mut self, open: &Session<'_>) {
        let shards = u64::from(self.settings.shards);
        let (window, size) = (self.settings.window, self.settings.size / shards);
        let max = self.settings.max_size / shards;
        let Some(sizes) = &mut self.sizes else { return };
        if sizes.below(10) > 0 {
            return;
        }
        let least = (2 * window / PAGE).max(16);
        let pages = shards * (least + sizes.below(max.max(size) / PAGE - least + 1));
        self.say(|| format!("size {pages} pages"));
        open.device.set_layer_param(None, "size", (pages * PAGE).cast_signed()).unwrap();
    }

    fn advise(&mut self, open: &mut Session<'_>) {
        let hints =
            [Hint::WillNeed, Hint::DontNeed, Hint::NoReuse, Hint::Normal, Hint::Sequential, Hint::Random];
        let (hint, pos) = (self.rng.pick(&hints), self.rng.below(64) * PAGE);
        self.say(|| format!("advise {hint:?} {pos}"));
        let _ = open.handles[0].advise(hint, pos, 8 * PAGE);
    }

    /// Holds a page by reference.
    fn pin(&mut self, open: &mut Session<'_>) -> Result<(), Finding> {
        let size = self.disk.geometry().size;
        let page = self.rng.below(size.div_ceil(PAGE));
        let sectors = ((size - page * PAGE).min(PAGE) / SECTOR as u64, page * 8);
        let live =
            Live { op: Op::Read, sector: sectors.1, count: sectors.0, flags: Flags::NONE, form: Form::Io };
        let number = self.workload.number();
        self.say(|| format!("pin {number} page {page}"));
        if open.pins.len() >= 4 {
            return Ok(());
        }
        // A blocking call would wait for a barrier of a channel that no thread runs meanwhile.
        self.settle(open)?;
        self.oracle.submit(number, &live.submission(&[]));
        match open.handles[0].page(page * PAGE) {
            Ok(held) => {
                let bytes = held.to_vec();
                let found = stamp::versions(&bytes, live.sector);
                open.pins.push((held, bytes));
                self.oracle.complete_read(number, &found).map_err(|wrong| format!("pin {number}: {wrong}"))
            }
            Err(_) => {
                self.oracle.complete(number, Outcome::Failed);
                Ok(())
            }
        }
    }

    fn poll(&mut self, open: &mut Session<'_>) -> Result<u32, Finding> {
        let mut done = Vec::new();
        for channel in &mut open.channels {
            channel.poll(&mut done);
        }
        let count = done.len() as u32;
        done.into_iter().try_for_each(|bio| self.complete(bio))?;
        Ok(count)
    }

    fn complete(&mut self, mut bio: Bio) -> Result<(), Finding> {
        let token = bio.token();
        let Some(live) = self.live.remove(&token) else { return Err(format!("{token} completed twice")) };
        self.say(|| format!("complete {token} {:?}", bio.status()));
        match bio.status() {
            Err(fault) => {
                let outcome = self.excuse(&live, fault)?;
                self.oracle.complete(token, outcome);
            }
            Ok(()) if live.op == Op::Read => {
                let memory: Vec<u8> = bio.take_buffer().unwrap();
                let found = stamp::versions(&memory, live.sector);
                self.oracle.complete_read(token, &found).map_err(|wrong| format!("read {token}: {wrong}"))?;
            }
            Ok(()) => self.oracle.complete(token, Outcome::Done),
        }
        Ok(())
    }

    fn excuse(&self, live: &Live, fault: Fault) -> Result<Outcome, Finding> {
        let expected = match fault.kind {
            Kind::Gone if !self.supply.is_on() => return Ok(Outcome::CutOff),
            // The flush that failed before failed because there was no power.
            Kind::FlushFailed => self.trouble.errors || self.trouble.timeouts || !self.supply.is_on(),
            Kind::WouldBlock => live.flags.contains(Flags::READAHEAD),
            Kind::Io => self.trouble.errors,
            // Pages are dirty.
            Kind::Unsupported if live.form == Form::Unknown => true,
            // A command that reaches several shards.
            Kind::Unsupported => self.settings.shards > 1 && live.form != Form::Io,
            // A bio that was started may be done in part, and a command that the disk has may be carried out
            // at any time.
            Kind::TimedOut | Kind::Unsettled | Kind::Gone | Kind::Cancelled if self.trouble.timeouts => {
                return Ok(if live.op.changes() { Outcome::Abandoned } else { Outcome::Failed });
            }
            _ => false,
        };
        if expected { Ok(Outcome::Failed) } else { Err(format!("{live:?} failed: {fault:?}")) }
    }

    /// Lets time pass until something happens.
    fn pass(&mut self, open: &mut Session<'_>) -> Result<bool, Finding> {
        if self.poll(open)? > 0 {
            return Ok(true);
        }
        let wakeup = open.channels.iter().filter_map(Channel::next_wakeup).min();
        match (wakeup, self.world.next_event()) {
            (Some(at), event) if event.is_none_or(|event| at <= event) => {
                self.world.clock().advance_to(at.max(self.now()));
            }
            _ => {
                self.world.pass(None);
            }
        }
        Ok(self.poll(open)? > 0)
    }

    /// Runs until nothing is in flight.
    fn settle(&mut self, open: &mut Session<'_>) -> Result<(), Finding> {
        let mut turns = 0;
        open.channels.iter_mut().for_each(Channel::flush);
        while !self.live.is_empty() {
            turns = if self.pass(open)? { 0 } else { turns + 1 };
            if turns > 100 {
                open.channels.iter_mut().for_each(Channel::unplug);
                // A disk may have completions for bios that no longer exist.
                let wakeup = open.channels.iter().filter_map(Channel::next_wakeup).min();
                wakeup.into_iter().for_each(|at| self.world.clock().advance_to(at.max(self.now())));
            }
            if turns > TURNS {
                return Err(format!(
                    "nothing happens any more, and these bios are not complete: {:?}",
                    self.live
                ));
            }
        }
        Ok(())
    }

    /// Reads the whole device.
    fn verify(&mut self, open: &mut Session<'_>) -> Result<(), Finding> {
        let sectors = self.disk.geometry().size / SECTOR as u64;
        for first in (0..sectors).step_by(32) {
            let bio = self.workload.read(first, (sectors - first).min(32));
            self.send(open, bio, false);
            self.settle(open)?;
        }
        Ok(())
    }
}
