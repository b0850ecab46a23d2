//! Faults of a simulated disk: the plan, its execution, and counters.

use crate::model::Command;
use crate::rng::Rng;
use platter_block::bio::Op;
use platter_block::time::{Span, Time};
use std::ops::Range;

/// A chance in parts of a million.
pub type Ppm = u32;

/// When a fault happens to a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At a time.
    At(Time),
    /// When it takes this command, counted from 0.
    Io(u64),
}

/// Sectors that cannot be read, or written, or either.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSectors {
    /// Which.
    pub sectors: Range<u64>,
    /// Reads of them fail.
    pub reads: bool,
    /// Writes of them fail.
    pub writes: bool,
}

/// A disk that disappears for a while. All commands that it has, and all that it gets meanwhile, fail with
/// ENODEV; its contents remain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Death {
    /// When.
    pub when: When,
    /// For how long; `None`: forever.
    pub lasts: Option<Span>,
}

/// When a stuck command takes effect on the medium.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lands {
    /// When it ends: a write that the host gave up long ago can still change the medium.
    #[default]
    Late,
    /// At its normal time; only the completion is late.
    Early,
    /// Either, as the seed decides.
    Either,
}

/// A fault of one command; see [`SimDisk::strike`](crate::SimDisk::strike).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blow {
    /// It takes longer by this.
    Spike(Span),
    /// It is held for this long, or until [`release_stuck`](crate::SimDisk::release_stuck).
    Stuck(Span, Lands),
    /// It fails with EIO; a write may have changed each of its sectors.
    Error,
    /// It fails with this errno, without any effect: one of [`TRANSIENT`].
    Transient(i32),
}

/// A fault of the next matching command, whatever the chances of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strike {
    /// Only a command of this operation; `None`: any command.
    pub op: Option<Op>,
    /// The fault.
    pub blow: Blow,
}

/// Flushes that a disk acknowledges although it makes nothing durable. A write with FUA counts as a flush of itself: if
/// it is dropped, the write goes to the cache as one without FUA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DroppedFlushes {
    /// None of them.
    #[default]
    None,
    /// This one, counted from 0 since the plan was set.
    Nth(u64),
    /// All of them.
    All,
}

/// EINTR, EAGAIN, ENOMEM and ECANCELED: errors that do not indicate a fault of the disk.
pub const TRANSIENT: [i32; 4] = [4, 11, 12, 125];

/// The faults of a disk, and how often they happen. The default is no faults.
///
/// All chances are per command, and the seeds of world and plan decide. If several faults are drawn for one
/// command, a transient error takes precedence over EIO, EIO over a lost write, and a lost write over a
/// misdirected one; delays are added to any of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultPlan {
    /// Makes disks of one world with the same plan differ.
    pub seed: u64,
    /// A command takes longer by [`spike`](FaultPlan::spike).
    pub spike_chance: Ppm,
    /// How much longer.
    pub spike: Span,
    /// A command is held for [`stuck`](FaultPlan::stuck), or until
    /// [`release_stuck`](crate::SimDisk::release_stuck).
    pub stuck_chance: Ppm,
    /// How long.
    pub stuck: Span,
    /// When a command that was held takes effect.
    pub stuck_lands: Lands,
    /// A command that the host asks to abort is aborted; otherwise it continues.
    pub abort_chance: Ppm,
    /// A command fails with one of [`TRANSIENT`] and has no effect.
    pub transient_chance: Ppm,
    /// A read fails with EIO.
    pub read_error_chance: Ppm,
    /// A write, discard or write-zeroes fails with EIO; each of its sectors may have been changed.
    pub write_error_chance: Ppm,
    /// A flush fails with EIO and makes nothing durable.
    pub flush_error_chance: Ppm,
    /// This flush fails, counted from 0.
    pub flush_error_nth: Option<u64>,
    /// Flushes that are acknowledged and make nothing durable.
    pub dropped_flushes: DroppedFlushes,
    /// Sectors that fail with EIO.
    pub bad: Vec<BadSectors>,
    /// A write is acknowledged and not stored.
    pub lost_chance: Ppm,
    /// A write is acknowledged and stored elsewhere.
    pub misdirected_chance: Ppm,
    /// Before a read, one of the bits that it will read changes permanently.
    pub rot_chance: Ppm,
    /// The disk disappears for a while.
    pub death: Option<Death>,
}

impl Default for FaultPlan {
    fn default() -> FaultPlan {
        FaultPlan {
            seed: 0,
            spike_chance: 0,
            spike: Span::from_millis(100),
            stuck_chance: 0,
            stuck: Span::from_secs(3600),
            stuck_lands: Lands::Late,
            abort_chance: 500_000,
            transient_chance: 0,
            read_error_chance: 0,
            write_error_chance: 0,
            flush_error_chance: 0,
            flush_error_nth: None,
            dropped_flushes: DroppedFlushes::None,
            bad: Vec::new(),
            lost_chance: 0,
            misdirected_chance: 0,
            rot_chance: 0,
            death: None,
        }
    }
}

/// How often each fault has occurred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Injected {
    /// Commands that took longer.
    pub spikes: u64,
    /// Commands that were held.
    pub stuck: u64,
    /// Commands that failed with a transient error.
    pub transient: u64,
    /// Commands that were aborted at the driver's request.
    pub aborted: u64,
    /// Reads that failed with EIO.
    pub read_errors: u64,
    /// Writes, discards and write-zeroes that failed with EIO.
    pub write_errors: u64,
    /// Flushes that failed with EIO.
    pub flush_errors: u64,
    /// Flushes that were aborted: at the driver's request, or behind a command that they had to follow. Also in `aborted` if
    /// the driver asked.
    pub aborted_flushes: u64,
    /// Flushes that failed with a transient error; also in `transient`.
    pub transient_flushes: u64,
    /// Flushes and writes with FUA that were acknowledged and made nothing durable.
    pub dropped_flushes: u64,
    /// Writes that were acknowledged and not stored.
    pub lost: u64,
    /// Writes that were stored elsewhere.
    pub misdirected: u64,
    /// Bits that changed.
    pub rotten: u64,
    /// Times that the disk disappeared.
    pub deaths: u64,
    /// Commands that failed with ENODEV because the disk was away.
    pub gone: u64,
}

impl Injected {
    /// Number of commands with any fault.
    pub fn total(&self) -> u64 {
        let slow = self.spikes + self.stuck;
        let failed = self.read_errors + self.write_errors + self.flush_errors + self.gone;
        let false_success = self.lost + self.misdirected + self.rotten + self.dropped_flushes;
        slow + failed + self.transient + self.aborted + false_success
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: &Injected) -> Injected {
        Injected {
            spikes: self.spikes + other.spikes,
            stuck: self.stuck + other.stuck,
            transient: self.transient + other.transient,
            aborted: self.aborted + other.aborted,
            read_errors: self.read_errors + other.read_errors,
            write_errors: self.write_errors + other.write_errors,
            flush_errors: self.flush_errors + other.flush_errors,
            aborted_flushes: self.aborted_flushes + other.aborted_flushes,
            transient_flushes: self.transient_flushes + other.transient_flushes,
            dropped_flushes: self.dropped_flushes + other.dropped_flushes,
            lost: self.lost + other.lost,
            misdirected: self.misdirected + other.misdirected,
            rotten: self.rotten + other.rotten,
            deaths: self.deaths + other.deaths,
            gone: self.gone + other.gone,
        }
    }
}

/// The fate of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fate {
    #[default]
    Good,
    /// EIO. A write may have changed any of its sectors, as this seed decides.
    Error(u64),
    /// This errno, and no effect.
    Transient(i32),
    /// Acknowledged, and without effect.
    Lost,
    /// Stored at this sector instead.
    Misdirected(u64),
}

/// How much longer a command takes, and whether it takes effect before that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delay {
    pub(crate) span: Span,
    pub(crate) early: bool,
}

/// Executes a plan.
pub(crate) struct Injector {
    plan: FaultPlan,
    /// In the order given.
    strikes: Vec<Strike>,
    rng: Rng,
    /// Sectors of the disk.
    sectors: u64,
    ios: u64,
    flushes: u64,
    /// Flushes and writes with FUA so far.
    durables: u64,
    /// The last of the commands is one of these, and is dropped.
    drops: bool,
    death: Life,
    pub(crate) counts: Injected,
}

/// The state of a disk's death.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Ahead,
    Until(Option<Time>),
    Over,
}

impl Injector {
    pub(crate) fn new(plan: FaultPlan, world_seed: u64, sectors: u64) -> Injector {
        let rng = Rng::stream(world_seed, plan.seed);
        let death = if plan.death.is_some() { Life::Ahead } else { Life::Over };
        Injector {
            plan,
            strikes: Vec::new(),
            rng,
            sectors,
            ios: 0,
            flushes: 0,
            durables: 0,
            drops: false,
            death,
            counts: Injected::default(),
        }
    }

    /// Whether the disk has disappeared.
    pub(crate) fn is_dead(&self) -> bool {
        matches!(self.death, Life::Until(_))
    }

    /// When the disk disappears or returns.
    pub(crate) fn next_event(&self) -> Option<Time> {
        match (self.death, self.plan.death) {
            (Life::Ahead, Some(Death { when: When::At(at), .. })) => Some(at),
            (Life::Until(until), _) => until,
            _ => None,
        }
    }

    /// Advances to `now`. `true`: the disk has just disappeared.
    pub(crate) fn advance(&mut self, now: Time) -> bool {
        if self.next_event().is_none_or(|at| at > now) {
            return false;
        }
        if self.death == Life::Ahead {
            self.die(now);
            return true;
        }
        self.death = Life::Over;
        false
    }

    fn die(&mut self, now: Time) {
        self.counts.deaths += 1;
        let lasts = self.plan.death.and_then(|death| death.lasts);
        self.death = Life::Until(lasts.map(|span| now + span));
    }

    /// Counts a command that is about to be offered. `true`: the disk disappears with it.
    pub(crate) fn count(&mut self, now: Time) -> bool {
        let nth = self.ios;
        self.ios += 1;
        let due = matches!(self.plan.death, Some(Death { when: When::Io(io), .. }) if io <= nth);
        if self.death == Life::Ahead && due {
            self.die(now);
            return true;
        }
        false
    }

    pub(crate) fn strike(&mut self, strike: Strike) {
        self.strikes.push(strike);
    }

    /// Decides the fate of a command that was taken, and its delay.
    pub(crate) fn decide(&mut self, command: &Command) -> (Fate, Delay) {
        self.drops = self.drops_next(command);
        let fits = |strike: &Strike| strike.op.is_none_or(|op| op == command.op);
        let struck = self.strikes.iter().position(fits).map(|at| self.strikes.remove(at).blow);
        let fate = match struck {
            Some(Blow::Error) => {
                self.count_error(command.op);
                Fate::Error(self.rng.bits())
            }
            Some(Blow::Transient(errno)) => {
                self.count_transient(command.op);
                Fate::Transient(errno)
            }
            _ => self.fate(command),
        };
        let delay = match struck {
            Some(Blow::Spike(span)) => {
                self.counts.spikes += 1;
                Delay { span, early: false }
            }
            Some(Blow::Stuck(span, lands)) => self.hold(span, lands),
            _ => self.delay(),
        };
        (fate, delay)
    }

    fn hold(&mut self, span: Span, lands: Lands) -> Delay {
        self.counts.stuck += 1;
        let early = match lands {
            Lands::Late => false,
            Lands::Early => true,
            Lands::Either => self.rng.chance(500_000),
        };
        Delay { span, early }
    }

    /// How much longer a command takes.
    fn delay(&mut self) -> Delay {
        if self.rng.chance(self.plan.stuck_chance) {
            return self.hold(self.plan.stuck, self.plan.stuck_lands);
        }
        if self.rng.chance(self.plan.spike_chance) {
            self.counts.spikes += 1;
            return Delay { span: self.plan.spike, early: false };
        }
        Delay::default()
    }

    /// Whether the disk aborts a command as requested; if so, the seed for the part that was stored.
    pub(crate) fn aborts(&mut self) -> Option<u64> {
        let aborts = self.rng.chance(self.plan.abort_chance);
        self.counts.aborted += u64::from(aborts);
        aborts.then(|| self.rng.bits())
    }

    /// Whether a read of these sectors is to see a changed bit: the sector and the bit.
    pub(crate) fn rot(&mut self, command: &Command) -> Option<(u64, usize)> {
        if !self.rng.chance(self.plan.rot_chance) {
            return None;
        }
        self.counts.rotten += 1;
        let sector = command.sector + self.rng.below(command.sectors.into());
        Some((sector, self.rng.below(512 * 8) as usize))
    }

    /// The fate of a command that was taken.
    fn fate(&mut self, command: &Command) -> Fate {
        if self.rng.chance(self.plan.transient_chance) {
            self.count_transient(command.op);
            return Fate::Transient(self.rng.pick(&TRANSIENT));
        }
        if self.fails(command) {
            return Fate::Error(self.rng.bits());
        }
        self.counts.dropped_flushes += u64::from(self.drops);
        if command.op == Op::Flush && self.drops {
            return Fate::Lost;
        }
        if command.op != Op::Write {
            return Fate::Good;
        }
        if self.rng.chance(self.plan.lost_chance) {
            self.counts.lost += 1;
            return Fate::Lost;
        }
        if self.rng.chance(self.plan.misdirected_chance) {
            return self.misdirect(command);
        }
        Fate::Good
    }

    /// Whether the command that was decided last is a write whose FUA is acknowledged and not carried out.
    pub(crate) fn drops_fua(&self) -> bool {
        self.drops
    }

    /// Whether this command makes something durable, and does not.
    fn drops_next(&mut self, command: &Command) -> bool {
        if command.op != Op::Flush && !command.fua {
            return false;
        }
        let nth = self.durables;
        self.durables += 1;
        match self.plan.dropped_flushes {
            DroppedFlushes::None => false,
            DroppedFlushes::Nth(dropped) => nth == dropped,
            DroppedFlushes::All => true,
        }
    }

    fn misdirect(&mut self, command: &Command) -> Fate {
        let places = self.sectors - u64::from(command.sectors);
        let elsewhere = self.rng.below(places);
        if places == 0 {
            return Fate::Good;
        }
        self.counts.misdirected += 1;
        Fate::Misdirected(elsewhere + u64::from(elsewhere >= command.sector))
    }

    fn count_transient(&mut self, op: Op) {
        self.counts.transient += 1;
        self.counts.transient_flushes += u64::from(op == Op::Flush);
    }

    fn count_error(&mut self, op: Op) {
        match op {
            Op::Read => self.counts.read_errors += 1,
            Op::Flush => self.counts.flush_errors += 1,
            _ => self.counts.write_errors += 1,
        }
    }

    fn fails(&mut self, command: &Command) -> bool {
        let chance = match command.op {
            Op::Read => self.plan.read_error_chance,
            Op::Flush => self.plan.flush_error_chance,
            _ => self.plan.write_error_chance,
        };
        let mut fails = self.rng.chance(chance);
        if command.op == Op::Flush {
            fails |= self.plan.flush_error_nth == Some(self.flushes);
            self.flushes += 1;
        }
        let end = command.sector + u64::from(command.sectors);
        fails |= self.plan.bad.iter().any(|bad| {
            let hit = bad.sectors.start < end && command.sector < bad.sectors.end;
            hit && if command.op == Op::Read { bad.reads } else { bad.writes }
        });
        if fails {
            self.count_error(command.op);
        }
        fails
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_block::bio::IoPrio;

    fn command(op: Op, sector: u64) -> Command {
        Command { tag: 0, op, sector, sectors: 8, fua: false, ioprio: IoPrio::NONE, order: 0 }
    }

    #[test]
    fn a_misdirected_write_stays_on_the_disk_and_misses_its_place() {
        let plan = FaultPlan { misdirected_chance: 1_000_000, ..FaultPlan::default() };
        let mut injector = Injector::new(plan, 1, 32);
        for _ in 0..1000 {
            match injector.fate(&command(Op::Write, 10)) {
                Fate::Misdirected(at) => assert!(at != 10 && at + 8 <= 32, "{at}"),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn bad_sectors_fail_in_their_directions_only() {
        let bad = vec![BadSectors { sectors: 17..18, reads: true, writes: false }];
        let mut injector = Injector::new(FaultPlan { bad, ..FaultPlan::default() }, 1, 1 << 20);
        for (op, sector, fails) in
            [(Op::Read, 10, true), (Op::Read, 9, false), (Op::Read, 18, false), (Op::Write, 10, false)]
        {
            let fate = injector.fate(&command(op, sector));
            assert_eq!(matches!(fate, Fate::Error(_)), fails, "{op} {sector}");
        }
        assert_eq!(injector.counts, Injected { read_errors: 1, ..Injected::default() });
    }
}
