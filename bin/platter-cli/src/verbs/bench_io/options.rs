//! The options of a job as the command line has them, under fio's names.

use super::values::{micros, priority, process, rw, seconds, switch};
use crate::cli::{CliError, Size, Time};
use clap::Args;
use platter_bench::workload::{JobError, JobOptions, RateProcess, Rw};
use platter_disk::sys::Direct;

#[derive(Args, Debug)]
#[command(next_help_heading = "Workload", rename_all = "snake_case", allow_negative_numbers = true)]
pub(super) struct Options {
    /// read, write, randread, randwrite, rw, randrw, trim or randtrim
    #[arg(long, alias = "readwrite", value_name = "RW", default_value = "read", value_parser = rw)]
    rw: Rw,
    /// Percentage of reads in a mix, of rw and randrw [default: 50]
    #[arg(long, value_name = "PERCENT")]
    rwmixread: Option<u32>,
    /// Bytes per I/O
    #[arg(long, alias = "blocksize", value_name = "SIZE", default_value = "4k")]
    bs: Size,
    /// I/Os that each job keeps in flight
    #[arg(long, value_name = "N", default_value_t = 1)]
    iodepth: u32,
    /// Concurrent jobs, assigned to the devices in turn; each is a thread, except on simulated devices [default: one
    /// for each device]
    #[arg(long, value_name = "N")]
    numjobs: Option<u32>,
    /// Offset of the first byte of the workload's range
    #[arg(long, value_name = "SIZE", default_value = "0")]
    offset: Size,
    /// Bytes of that range, and bytes that each job transfers [default: up to the device's end]
    #[arg(long, value_name = "SIZE")]
    size: Option<Size>,
    /// End after this long: 2 (seconds), 2s, 500ms
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    runtime: Option<Time>,
    /// Run for all of --runtime, even when --size has been transferred
    #[arg(long, value_name = "0|1", num_args = 0..=1, require_equals = true, default_missing_value = "1",
          default_value = "0", hide_default_value = true, value_parser = switch, action = clap::ArgAction::Set)]
    time_based: bool,
    /// Run this long before measuring
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = seconds)]
    ramp_time: Time,
    /// End each job after this many I/Os
    #[arg(long, value_name = "N")]
    number_ios: Option<u64>,
    /// Open loop: start this many I/Os per second and job; latency counts from the intended start
    #[arg(long, value_name = "N")]
    rate_iops: Option<u64>,
    /// Distribution of the start times: linear or poisson
    #[arg(long, value_name = "PROCESS", default_value = "linear", value_parser = process)]
    rate_process: RateProcess,
    /// Pause each job this long after each --thinktime_blocks I/Os, once they have completed: 100 (microseconds), 100us, 1ms
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = micros)]
    thinktime: Time,
    /// I/Os between two pauses, whatever --iodepth is
    #[arg(long, value_name = "N", default_value_t = 1)]
    thinktime_blocks: u32,
    /// Write blocks with headers, read them back and check them; a read workload checks what a write workload with
    /// the same seed wrote
    #[arg(long, value_name = "0|1", num_args = 0..=1, require_equals = true, default_missing_value = "1",
          default_value = "0", hide_default_value = true, value_parser = switch, action = clap::ArgAction::Set)]
    verify: bool,
    /// Bytes from one verification header to the next [default: --bs]
    #[arg(long, value_name = "SIZE")]
    verify_interval: Option<Size>,
    /// Seed of offsets and contents [default: 1]
    #[arg(long, alias = "randseed", value_name = "N")]
    seed: Option<u64>,
    /// Whether a run without --seed repeats the offsets of the last one
    #[arg(long, value_name = "0|1", default_value = "1", value_parser = switch, action = clap::ArgAction::Set)]
    randrepeat: bool,
    /// Allow random offsets to repeat before all have been used
    #[arg(long, value_name = "0|1", num_args = 0..=1, require_equals = true, default_missing_value = "1",
          default_value = "0", hide_default_value = true, value_parser = switch, action = clap::ArgAction::Set)]
    norandommap: bool,
    /// I/O priority: none, rt/0 to rt/7, be/0 to be/7, idle
    #[arg(long, value_name = "CLASS[/LEVEL]", value_parser = priority, conflicts_with_all = ["prioclass", "prio"])]
    ioprio: Option<(u32, Option<u32>)>,
    /// Class of the I/O priority by number: 0 none, 1 real-time, 2 best effort, 3 idle
    #[arg(long, value_name = "N")]
    prioclass: Option<u32>,
    /// Level within the class, 0 (first) to 7
    #[arg(long, value_name = "N")]
    prio: Option<u32>,
    /// Process numbers that elevators see, assigned to the jobs in turn: 1,1,2 [default: one for each job]
    #[arg(long, value_name = "N", num_args = 1.., value_delimiter = ',')]
    context: Vec<u32>,
    /// Read no clock per batch: no latencies, only throughput
    #[arg(long, value_name = "0|1", num_args = 0..=1, require_equals = true, default_missing_value = "1",
          default_value = "0", hide_default_value = true, value_parser = switch, action = clap::ArgAction::Set)]
    gtod_reduce: bool,
    /// 1: direct I/O or an error, 0: through the page cache [default: as the spec says, else direct where it works]
    #[arg(long, value_name = "0|1", num_args = 0..=1, require_equals = true, default_missing_value = "1",
          value_parser = switch)]
    direct: Option<bool>,
}

impl Options {
    /// How devices are to be opened whose specs do not say.
    pub(super) fn direct(&self) -> Option<Direct> {
        self.direct.map(|direct| if direct { Direct::Require } else { Direct::Off })
    }

    /// The job, on that many devices. Whether it makes sense is checked against the devices later.
    pub(super) fn job(&self, devices: usize) -> Result<JobOptions, CliError> {
        let (prioclass, prio) = match self.ioprio {
            Some((class, level)) => (Some(class), level),
            None => (self.prioclass, self.prio),
        };
        let interval =
            self.verify_interval.as_ref().map(|interval| u32::try_from(interval.bytes)).transpose();
        let verify_interval = interval.map_err(|_| {
            self.refused("verify_interval", "below 4G: it must divide bs, which is at most 1G")
        })?;
        if self.rwmixread.is_some() && !self.rw.is_mixed() {
            let allowed =
                format!("it has no effect with rw={}; leave it out, or use rw=rw or rw=randrw", self.rw);
            return Err(self.refused("rwmixread", &allowed));
        }
        let usual = JobOptions::default();
        let devices = u32::try_from(devices).unwrap_or(u32::MAX);
        Ok(JobOptions {
            rw: self.rw,
            rwmixread: self.rwmixread.unwrap_or(usual.rwmixread),
            bs: self.bs.bytes,
            iodepth: self.iodepth,
            numjobs: self.numjobs.unwrap_or(devices),
            offset: self.offset.bytes,
            size: self.size.as_ref().map(|size| size.bytes),
            runtime: self.runtime.as_ref().map(|time| time.value),
            time_based: self.time_based,
            ramp_time: self.ramp_time.value,
            number_ios: self.number_ios,
            rate_iops: self.rate_iops,
            rate_process: self.rate_process,
            verify: self.verify,
            verify_interval,
            seed: self.seed,
            randrepeat: self.randrepeat,
            norandommap: self.norandommap,
            prioclass,
            prio,
            contexts: self.context.clone(),
            gtod_reduce: self.gtod_reduce,
            direct: self.direct.unwrap_or(true),
            thinktime: self.thinktime.value,
            thinktime_blocks: self.thinktime_blocks,
        })
    }

    fn refused(&self, option: &'static str, allowed: &str) -> CliError {
        self.wrong(JobError { option, value: String::new(), allowed: allowed.to_owned(), unfit: false })
    }

    /// The error for an option that is refused, with the value as it was typed.
    pub(super) fn wrong(&self, mut error: JobError) -> CliError {
        let typed = match error.option {
            "bs" => Some(self.bs.to_string()),
            "offset" => Some(self.offset.to_string()),
            "size" => self.size.as_ref().map(Size::to_string),
            "verify_interval" => self.verify_interval.as_ref().map(Size::to_string),
            "runtime" => self.runtime.as_ref().map(Time::to_string),
            "ramp_time" => Some(self.ramp_time.to_string()),
            "thinktime" => Some(self.thinktime.to_string()),
            "rwmixread" => self.rwmixread.map(|percent| percent.to_string()),
            _ => None,
        };
        error.value = typed.unwrap_or(error.value);
        match error.unfit {
            true => CliError::refused(error.to_string()),
            false => CliError::usage(error.to_string()),
        }
    }
}
