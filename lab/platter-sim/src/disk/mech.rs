//! The moving parts: the position of the arm, the angle under the heads, and positioning times.
//!
//! At `rpm` revolutions a minute the platters turn `rpm · t` of 60 · 10⁹ units of angle in `t` nanoseconds, an
//! integer: the angle at any time is exact and does not drift.

use super::error::ParamsError;
use super::layout::Layout;
use super::params::{Access, MechanicsParams};
use super::seek::seek_table;
use super::zones::{FINE, REVOLUTION, Run};

/// Where the arm is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arm {
    pub(crate) cylinder: u32,
    pub(crate) head: u32,
}

/// Sectors that pass under the head one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pass {
    /// First sector.
    pub(crate) sector: u64,
    /// Sectors.
    pub(crate) len: u32,
    /// Where the arm is meanwhile.
    pub(crate) arm: Arm,
    /// When the arm has arrived.
    pub(crate) settled: u64,
    /// When the first sector begins to pass.
    pub(crate) begin: u64,
    /// Nanoseconds of a sector, with [`FINE`] fraction bits.
    pub(crate) sector_time: u64,
}

impl Pass {
    /// The sector after the last.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.sector + u64::from(self.len)
    }

    /// When `count` sectors have passed.
    #[inline]
    pub(crate) fn after(&self, count: u64) -> u64 {
        self.begin + ((count * self.sector_time) >> FINE)
    }

    /// When all have passed.
    #[inline]
    pub(crate) fn done(&self) -> u64 {
        self.after(u64::from(self.len))
    }

    /// Sectors that have passed by `now`.
    pub(crate) fn passed(&self, now: u64) -> u32 {
        if now < self.begin {
            return 0;
        }
        if now >= self.done() {
            return self.len;
        }
        // Times are rounded down: the estimate may be one too low.
        let passed = ((u128::from(now - self.begin) << FINE) / u128::from(self.sector_time)) as u64;
        let passed = if self.after(passed + 1) <= now { passed + 1 } else { passed };
        (passed as u32).min(self.len)
    }
}

/// The moving parts of one disk.
#[derive(Clone, Debug)]
pub(crate) struct Mechanics {
    access: Access,
    rpm: u64,
    /// 2⁶⁴ over the rpm, rounded up: nanoseconds of an angle by one multiplication.
    inverse: u64,
    seek: Vec<u64>,
    head_switch: u64,
    write_settle: i64,
    period: u64,
}

impl Mechanics {
    pub(crate) fn new(params: &MechanicsParams, cylinders: u32) -> Result<Mechanics, ParamsError> {
        if !(1_000..=100_000).contains(&params.rpm) {
            return Err(ParamsError::new("rotation speed (in rpms)", params.rpm, "1000 to 100000"));
        }
        let rpm = u64::from(params.rpm);
        Ok(Mechanics {
            access: params.access,
            rpm,
            inverse: u64::MAX / rpm + 1,
            seek: seek_table(&params.seek, cylinders)?,
            head_switch: params.head_switch,
            write_settle: params.write_settle,
            period: REVOLUTION / rpm,
        })
    }

    /// Time of one revolution, rounded down.
    pub(crate) fn period(&self) -> u64 {
        self.period
    }

    /// Fixed time of a whole command, where nothing is modelled but that.
    pub(crate) fn constant(&self) -> Option<u64> {
        match self.access {
            Access::Constant(time) => Some(time),
            _ => None,
        }
    }

    /// The angle under the heads.
    #[inline]
    pub(crate) fn angle(&self, now: u64) -> u64 {
        (now % REVOLUTION) * self.rpm % REVOLUTION
    }

    /// Time until an angle passes next.
    #[inline]
    pub(crate) fn turn(&self, now: u64, angle: u64) -> u64 {
        if self.access != Access::Positioned {
            return self.period / 2;
        }
        let at = self.angle(now);
        let ahead = if angle >= at { angle - at } else { angle + REVOLUTION - at };
        // Times are whole nanoseconds: a sector that has just begun to pass has not passed.
        if ahead + 4 * self.rpm > REVOLUTION {
            return 0;
        }
        ((u128::from(ahead) * u128::from(self.inverse)) >> 64) as u64
    }

    /// Time to get from one track to another.
    #[inline]
    pub(crate) fn move_time(&self, from: Arm, to: Arm, write: bool) -> u64 {
        let distance = from.cylinder.abs_diff(to.cylinder) as usize;
        let seek = self.seek.get(distance).or(self.seek.last()).copied().unwrap_or(0);
        let time = if from.head == to.head { seek } else { seek.max(self.head_switch) };
        if write && time != 0 { time.saturating_add_signed(self.write_settle) } else { time }
    }

    /// Time until the first sector of a run is under the head.
    #[inline]
    pub(crate) fn positioning(&self, from: Arm, now: u64, run: &Run, write: bool) -> u64 {
        let moved = self.move_time(from, Arm { cylinder: run.cylinder, head: run.head }, write);
        moved + self.turn(now + moved, run.angle)
    }

    /// Moves to the first sector of a run and lets up to `most` sectors pass. The move takes at least
    /// `least_move`.
    pub(crate) fn pass(&self, job: Job, run: Run, sector: u64, most: u32) -> Pass {
        let arm = Arm { cylinder: run.cylinder, head: run.head };
        let moved = self.move_time(job.arm, arm, job.write).max(job.least_move);
        let settled = job.start + moved;
        Pass {
            sector,
            len: run.len.min(most),
            arm,
            settled,
            begin: settled + self.turn(settled, run.angle),
            sector_time: run.sector_time,
        }
    }
}

/// An access to the medium: start position, time and purpose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) arm: Arm,
    pub(crate) start: u64,
    pub(crate) write: bool,
    pub(crate) least_move: u64,
}

/// The passes of one access, in order of time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Passes {
    list: Vec<Pass>,
}

impl Passes {
    pub(crate) fn with_capacity(capacity: usize) -> Passes {
        Passes { list: Vec::with_capacity(capacity) }
    }

    pub(crate) fn clear(&mut self) {
        self.list.clear();
    }

    pub(crate) fn push(&mut self, pass: Pass) {
        self.list.push(pass);
    }

    pub(crate) fn last(&self) -> Option<&Pass> {
        self.list.last()
    }

    pub(crate) fn list(&self) -> &[Pass] {
        &self.list
    }

    /// Forgets all but the last pass.
    pub(crate) fn keep_last(&mut self) {
        let surplus = self.list.len().saturating_sub(1);
        self.list.drain(..surplus);
    }

    /// The sector up to which all sectors have passed by `now`, for an access that begins at `from`.
    pub(crate) fn reached(&self, now: u64, from: u64) -> u64 {
        let mut reached = from;
        for pass in &self.list {
            let passed = u64::from(pass.passed(now));
            if passed > 0 {
                reached = reached.max(pass.sector + passed);
            }
            if passed < u64::from(pass.len) {
                break;
            }
        }
        reached
    }

    /// When the sectors before `end` have passed; `None` if the access does not reach it.
    pub(crate) fn time_of(&self, end: u64) -> Option<u64> {
        self.list
            .iter()
            .find(|pass| pass.end() >= end)
            .map(|pass| pass.after(end.saturating_sub(pass.sector)))
    }
}

/// Lets the sectors from `from` to `to` pass in order and appends the passes.
pub(crate) fn let_pass(
    mechanics: &Mechanics,
    layout: &Layout,
    mut job: Job,
    first: Option<Run>,
    range: (u64, u64),
    passes: &mut Passes,
) {
    let (mut at, to) = range;
    let mut run = first.unwrap_or_else(|| layout.run(at));
    loop {
        let most = (to - at).min(u64::from(u32::MAX)) as u32;
        let pass = mechanics.pass(job, run, at, most);
        passes.push(pass);
        at = pass.end();
        if at >= to {
            return;
        }
        job = Job { arm: pass.arm, start: pass.done(), least_move: 0, ..job };
        run = layout.run(at);
    }
}
