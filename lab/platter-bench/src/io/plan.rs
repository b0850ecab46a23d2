//! The state that all jobs of a run share, and the initial state of each job.

use core::sync::atomic::{AtomicBool, AtomicU64};

use platter_block::bio::{Bio, Flags, IoPrio, Op};
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::pool::{PAGE, Pool, PoolBuf, Registration};

use super::IoError;
use super::careful::{Careful, Thinking};
use super::desk::Desk;
use super::gate::StartGate;
use super::verify::Checker;
use super::worker::Worker;
use crate::stats::Seeded;
use crate::workload::{
    Arrivals, DeviceFacts, IoStream, JobError, JobOptions, Offsets, Pacer, Poisson, RateProcess, Region,
    Verifier,
};

/// The largest pool: the limit of one registered buffer of io_uring.
const MAX_POOL: u64 = 1 << 30;

/// A device that jobs run on, with their buffers.
struct Target {
    device: Device,
    region: Region,
    pools: Vec<Pool>,
    /// Unregisters the buffers at the end of the run.
    _registered: Vec<Registration>,
}

/// A run that has been checked.
pub(super) struct Plan<'a> {
    pub(super) job: &'a JobOptions,
    targets: Vec<Target>,
    pub(super) seed: u64,
    pub(super) cancel: &'a AtomicBool,
    pub(super) gate: StartGate,
    /// I/Os that each job has completed so far, as of its last look at the clock.
    pub(super) completed: Vec<AtomicU64>,
}

/// How a job decides on the next I/O.
pub(super) enum Course {
    /// One direction, closed loop.
    Uniform(Offsets),
    /// Anything else.
    Careful(Box<Careful>),
}

impl<'a> Plan<'a> {
    /// Checks the job against every device and takes the buffers.
    pub(super) fn new(
        job: &'a JobOptions,
        devices: &[Device],
        seed: u64,
        cancel: &'a AtomicBool,
    ) -> Result<Self, IoError> {
        if devices.is_empty() {
            return Err(IoError::NoDevice);
        }
        if (job.numjobs as usize) < devices.len() {
            let allowed = format!("each of the {} devices needs a job of its own", devices.len());
            let (option, value) = ("numjobs", job.numjobs.to_string());
            return Err(JobError { option, value, allowed, unfit: false }.into());
        }
        let regions: Vec<Region> =
            devices.iter().map(|device| region_on(job, device)).collect::<Result<_, _>>()?;
        let of_device = |at: usize| (job.numjobs as usize - at).div_ceil(devices.len());
        let targets = devices.iter().zip(regions).enumerate();
        let targets = targets.map(|(at, (device, region))| Target::new(job, device, region, of_device(at)));
        Ok(Self {
            job,
            targets: targets.collect::<Result<_, _>>()?,
            seed,
            cancel,
            gate: StartGate::default(),
            completed: (0..job.numjobs).map(|_| AtomicU64::new(0)).collect(),
        })
    }

    fn target(&self, index: u32) -> &Target {
        &self.targets[index as usize % self.targets.len()]
    }

    /// I/Os that the job may start, if only time does not end it.
    pub(super) fn quota(&self, index: u32) -> u64 {
        self.job.ios_per_job(self.target(index).region.blocks()).unwrap_or(u64::MAX)
    }

    /// Opens the job's channel and fills its bios. To be called on the job's thread.
    pub(super) fn open_worker(&self, index: u32) -> Result<Worker, IoError> {
        let channel = self.device(index).channel(self.job.iodepth as usize)?;
        Ok(Worker::new(channel, self.desk(index)))
    }

    /// Number of devices.
    pub(super) fn devices(&self) -> usize {
        self.targets.len()
    }

    /// The device of a job.
    pub(super) fn device(&self, index: u32) -> &Device {
        &self.target(index).device
    }

    /// The job's bios, filled, with the number of the job in the upper half of their tokens.
    pub(super) fn desk(&self, index: u32) -> Desk {
        let target = self.target(index);
        let mut noise = Seeded::stream(self.seed, u64::from(index) | 1 << 63);
        let mut bios = Vec::with_capacity(self.job.iodepth as usize);
        for place in 0..u64::from(self.job.iodepth) {
            let bio = self.new_bio(target, &mut noise);
            let mut bio = bio.expect("the pools hold a buffer for each bio of each job");
            bio.set_token(u64::from(index) << 32 | place);
            bio.set_context(self.job.context(index));
            if self.job.ioprio() != IoPrio::NONE {
                bio.set_ioprio(self.job.ioprio());
            }
            bios.push(bio);
        }
        Desk::new(target.device.name(), bios, self.job.bs, target.device.clock().now())
    }

    fn new_bio(&self, target: &Target, noise: &mut Seeded) -> Option<Bio> {
        if self.job.rw.trims() {
            return Some(Bio::new(Op::Discard, 0, self.job.bs));
        }
        let mut buffer: PoolBuf = target.pools.iter().find_map(Pool::take)?;
        if !self.job.rw.writes() {
            return Bio::read(0, buffer).ok();
        }
        for part in buffer.chunks_mut(8) {
            part.copy_from_slice(&noise.next_u64().to_le_bytes()[..part.len()]);
        }
        let mut bio = Bio::write(0, buffer).ok()?;
        // The job waits for a direct write, as for a read; elevators are told so.
        bio.add_flags(Flags::SYNC);
        Some(bio)
    }

    /// The course of job number `index`, if it starts at `start_ns`.
    pub(super) fn course(&self, index: u32, start_ns: u64) -> Result<Course, IoError> {
        let job = self.job;
        let plain = job.rate_iops.is_none() && !job.verify && job.thinktime.is_zero();
        if plain && let Some(offsets) = self.stream(index).into_offsets() {
            return Ok(Course::Uniform(offsets));
        }
        Ok(Course::Careful(Box::new(self.careful(index, start_ns)?)))
    }

    fn stream(&self, index: u32) -> IoStream {
        IoStream::new(self.job, self.target(index).region, self.seed, index)
    }

    /// The course of job number `index` that decides on each I/O.
    pub(super) fn careful(&self, index: u32, start_ns: u64) -> Result<Careful, IoError> {
        let job = self.job;
        let region = self.target(index).region;
        let arrivals = job.rate_iops.and_then(|rate| match job.rate_process {
            RateProcess::Linear => {
                let pacer = Pacer::new(rate, start_ns)?;
                Some(Arrivals::Linear(pacer.staggered(index, job.numjobs), 0))
            }
            RateProcess::Poisson => {
                let rng = Seeded::stream(self.seed, u64::from(index) | 1 << 62);
                Poisson::new(rate, start_ns, rng).map(Arrivals::Poisson)
            }
        });
        let checker = match self.verifier() {
            None => None,
            Some(verifier) if job.rw.writes() => Some(Checker::of_writes(verifier, region)?),
            Some(verifier) => Some(Checker::of_reads(verifier, region)),
        };
        let thinking = Thinking::new(span(job.thinktime), job.thinktime_blocks);
        Ok(Careful::new(self.stream(index), arrivals, thinking, checker, !job.gtod_reduce))
    }

    fn verifier(&self) -> Option<Verifier> {
        let interval = self.job.verify_interval.or_else(|| u32::try_from(self.job.bs).ok())?;
        if self.job.verify { Verifier::new(self.seed, interval) } else { None }
    }
}

fn region_on(job: &JobOptions, device: &Device) -> Result<Region, JobError> {
    let geometry = device.geometry();
    let facts = DeviceFacts {
        size: geometry.size,
        logical_block: u64::from(geometry.limits.logical_block),
        writable: !geometry.features.read_only,
        simulated: device.clock().simulated().is_some(),
    };
    job.check(&facts)?;
    if job.rw.trims() && geometry.limits.discard_granularity == 0 {
        let allowed = format!("{} cannot discard; use another device or another rw", device.name());
        return Err(JobError { option: "rw", value: job.rw.to_string(), allowed, unfit: true });
    }
    job.region(&facts)
}

impl Target {
    fn new(job: &JobOptions, device: &Device, region: Region, jobs: usize) -> Result<Self, IoError> {
        let mut left = if job.rw.trims() { 0 } else { jobs * job.iodepth as usize };
        let align = PAGE.max(device.geometry().limits.memory_align as usize);
        let stride = job.bs.next_multiple_of(align as u64);
        let per_pool = (MAX_POOL / stride).max(1) as usize;
        let mut pools = Vec::new();
        while left > 0 {
            let count = left.min(per_pool);
            pools.push(Pool::new(count, job.bs as usize, align)?);
            left -= count;
        }
        let registered = pools.iter().map(|pool| pool.register(device.backend())).collect();
        Ok(Self { device: device.clone(), region, pools, _registered: registered })
    }
}

/// The same length of time; the longest one there is if it is longer.
pub(super) fn span(duration: core::time::Duration) -> Span {
    Span(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}
