//! Which jobs make sense on which device.

use core::fmt::Display;
use core::ops::RangeInclusive;
use core::time::Duration;

use platter_block::bio::Class;

use super::{DeviceFacts, JobError, JobOptions, class};
use crate::report::units::{bytes, bytes_short as short};
use crate::workload::{MAX_RATE_IOPS, Region};

/// The largest I/O.
const MAX_BS: u64 = 1 << 30;
/// The largest queue depth: the order of magnitude of the limit of io_uring.
const MAX_IODEPTH: u32 = 1 << 15;
/// Jobs that are threads.
const MAX_NUMJOBS: u32 = 1 << 10;
/// Jobs on simulated devices, which are not.
const MAX_SIMULATED_JOBS: u32 = 1 << 17;
/// Largest number of a process: contexts keep 24 bits of it.
const MAX_PROCESS: u32 = (1 << 24) - 1;
/// The most memory that buffers may take over all jobs.
const MAX_BUFFERS: u128 = 1 << 36;
/// The longest time that fits in 64-bit nanoseconds with room to spare: about 146 years.
const MAX_TIME: Duration = Duration::from_nanos(u64::MAX / 4);

impl JobOptions {
    /// Checks the job for a device with these `facts`.
    ///
    /// # Errors
    /// The first invalid option, with its value and the allowed values.
    pub fn check(&self, facts: &DeviceFacts) -> Result<(), JobError> {
        self.region(facts)?;
        self.check_load(facts)?;
        self.check_end()?;
        self.check_rate()?;
        self.check_access(facts)?;
        self.check_verify()?;
        self.check_priority()
    }

    /// The blocks that the job touches on a device of these `facts`.
    ///
    /// # Errors
    /// A `bs`, `offset` or `size` that does not fit the device.
    pub fn region(&self, facts: &DeviceFacts) -> Result<Region, JobError> {
        self.check_bs(facts)?;
        let DeviceFacts { size: device, logical_block: block, .. } = *facts;
        if !self.offset.is_multiple_of(block) {
            let allowed = format!("a multiple of the logical block of the device ({})", short(block));
            return Err(JobError::new("offset", short(self.offset), allowed).unfit());
        }
        let Some(last) = device.checked_sub(self.bs) else {
            let allowed = format!(
                "the device holds {}, less than one block; give a smaller bs or a larger device",
                bytes(device)
            );
            return Err(JobError::new("bs", short(self.bs), allowed).unfit());
        };
        if self.offset > last {
            let (last, bs) = (short(last), short(self.bs));
            let allowed = format!("0 to {last}, so that one block of bs={bs} fits before the end");
            return Err(JobError::new("offset", short(self.offset), allowed).unfit());
        }
        let rest = device - self.offset;
        let size = self.size.unwrap_or(rest);
        if !(self.bs..=rest).contains(&size) {
            let allowed = format!(
                "{} (one block) to {} (what the device holds from offset={} on)",
                short(self.bs),
                short(rest),
                short(self.offset)
            );
            let refused = JobError::new("size", short(size), allowed);
            return Err(if size > rest { refused.unfit() } else { refused });
        }
        Region::new(self.offset, size, self.bs)
            .ok_or_else(|| JobError::new("size", short(size), "offset + size must be below 2^64"))
    }

    fn check_bs(&self, facts: &DeviceFacts) -> Result<(), JobError> {
        let block = facts.logical_block;
        if block == 0 {
            return Err(
                JobError::new("bs", short(self.bs), "the device reports logical blocks of 0 bytes").unfit()
            );
        }
        if !(block..=MAX_BS).contains(&self.bs) {
            let allowed = format!("{} (the logical block of the device) to {}", short(block), short(MAX_BS));
            let refused = JobError::new("bs", short(self.bs), allowed);
            return Err(if (1..block).contains(&self.bs) { refused.unfit() } else { refused });
        }
        if !self.bs.is_multiple_of(block) {
            let near = self.bs.next_multiple_of(block);
            let allowed = format!(
                "a multiple of the logical block of the device ({}); try {}",
                short(block),
                short(near)
            );
            return Err(JobError::new("bs", short(self.bs), allowed).unfit());
        }
        Ok(())
    }

    fn check_load(&self, facts: &DeviceFacts) -> Result<(), JobError> {
        within("iodepth", self.iodepth, 1..=MAX_IODEPTH)?;
        let most = if facts.simulated { MAX_SIMULATED_JOBS } else { MAX_NUMJOBS };
        within("numjobs", self.numjobs, 1..=most)?;
        within("rwmixread", self.rwmixread, 0..=100)?;
        let buffers = u128::from(self.bs) * u128::from(self.iodepth) * u128::from(self.numjobs);
        // Trims carry no data.
        if !self.rw.trims() && buffers > MAX_BUFFERS {
            let allowed = format!(
                "bs × iodepth × numjobs would take {} of buffers, at most {} are allowed; lower one of them",
                bytes(u64::try_from(buffers).unwrap_or(u64::MAX)),
                bytes(MAX_BUFFERS as u64)
            );
            return Err(JobError::new("iodepth", self.iodepth, allowed));
        }
        Ok(())
    }

    fn check_end(&self) -> Result<(), JobError> {
        if self.time_based && self.runtime.is_none() {
            let allowed = "time_based needs a runtime, or the job would never end; give runtime";
            return Err(JobError::new("runtime", "unset", allowed));
        }
        if let Some(time) = self.runtime.filter(|&time| time.is_zero() || time > MAX_TIME) {
            let allowed = format!("above 0, at most {} s; leave it out for no limit", MAX_TIME.as_secs());
            return Err(JobError::new("runtime", format!("{time:?}"), allowed));
        }
        for (option, time) in [("ramp_time", self.ramp_time), ("thinktime", self.thinktime)] {
            if time > MAX_TIME {
                let allowed = format!("at most {} s", MAX_TIME.as_secs());
                return Err(JobError::new(option, format!("{time:?}"), allowed));
            }
        }
        if self.thinktime_blocks == 0 {
            return Err(JobError::new("thinktime_blocks", 0, "at least 1 I/O between two pauses"));
        }
        if self.thinktime.is_zero() && self.thinktime_blocks != 1 {
            let allowed = "it does nothing without thinktime; give thinktime too, or leave it out";
            return Err(JobError::new("thinktime_blocks", self.thinktime_blocks, allowed));
        }
        if self.number_ios == Some(0) {
            return Err(JobError::new("number_ios", 0, "at least 1; leave it out for no limit"));
        }
        Ok(())
    }

    fn check_rate(&self) -> Result<(), JobError> {
        let Some(rate) = self.rate_iops else { return Ok(()) };
        if !(1..=MAX_RATE_IOPS).contains(&rate) {
            let allowed = format!("1 to {MAX_RATE_IOPS} I/Os per second; leave it out for no limit");
            return Err(JobError::new("rate_iops", rate, allowed));
        }
        if !self.thinktime.is_zero() {
            let allowed = format!(
                "with rate_iops={rate} the starts are fixed, so a job cannot also pause; leave one of the two out"
            );
            return Err(JobError::new("thinktime", format!("{:?}", self.thinktime), allowed));
        }
        Ok(())
    }

    fn check_access(&self, facts: &DeviceFacts) -> Result<(), JobError> {
        if (self.rw.writes() || self.rw.trims()) && !facts.writable {
            let allowed = "the device is open for reading only; allow writing, or use read or randread";
            return Err(JobError::new("rw", self.rw, allowed).unfit());
        }
        Ok(())
    }

    fn check_verify(&self) -> Result<(), JobError> {
        let unit = u64::from(self.verify_interval.unwrap_or(0));
        if let Some(interval) = self.verify_interval {
            if !self.verify {
                let allowed = "it does nothing without verify; give verify too, or leave it out";
                return Err(JobError::new("verify_interval", interval, allowed));
            }
            if unit == 0 || !unit.is_multiple_of(512) || !self.bs.is_multiple_of(unit) {
                let allowed = format!("a multiple of 512 that divides bs={}", short(self.bs));
                return Err(JobError::new("verify_interval", interval, allowed));
            }
        }
        if !self.verify {
            return Ok(());
        }
        let refuse = |allowed: &str| Err(JobError::new("verify", 1, allowed));
        if self.rw.trims() {
            return refuse("a trim leaves nothing to verify; use rw=write or rw=randwrite");
        }
        if !self.bs.is_multiple_of(512) {
            return refuse("needs a bs that is a multiple of 512");
        }
        if !self.rw.writes() && self.seed.is_none() {
            return refuse(
                "a read job can only verify what an earlier job wrote; give the seed of that job, or write first \
                 with rw=write",
            );
        }
        if self.rw.is_mixed() && self.rwmixread >= 100 {
            return refuse(
                "with rwmixread=100 nothing is written, and reads of a mix are not checked; lower rwmixread, or use \
                 rw=read or rw=randread with the seed of the job that wrote",
            );
        }
        if self.rw.writes() && self.numjobs > 1 {
            return refuse("several jobs would write over each other's blocks; use numjobs=1");
        }
        if self.rw.writes() && self.rw.is_random() && self.norandommap && self.iodepth > 1 {
            return refuse(
                "with norandommap two writes to one block may be in flight at once; leave norandommap out or use \
                 iodepth=1",
            );
        }
        Ok(())
    }

    fn check_priority(&self) -> Result<(), JobError> {
        let number = self.prioclass.unwrap_or(0);
        let Some(class) = class(number) else {
            let allowed = "0 (none), 1 (real-time), 2 (best effort) or 3 (idle)";
            return Err(JobError::new("prioclass", number, allowed));
        };
        for &process in &self.contexts {
            within("context", process, 1..=MAX_PROCESS)?;
        }
        let Some(level) = self.prio else { return Ok(()) };
        within("prio", level, 0..=7)?;
        match class {
            Class::None => Err(JobError::new("prio", level, "a level needs a class; give prioclass=1 or 2")),
            Class::Idle if level != 0 => {
                Err(JobError::new("prio", level, "class idle has no levels; leave prio out"))
            }
            _ => Ok(()),
        }
    }
}

fn within<T: PartialOrd + Display>(
    option: &'static str,
    value: T,
    allowed: RangeInclusive<T>,
) -> Result<(), JobError> {
    if allowed.contains(&value) {
        return Ok(());
    }
    Err(JobError::new(option, value, format!("{} to {}", allowed.start(), allowed.end())))
}
