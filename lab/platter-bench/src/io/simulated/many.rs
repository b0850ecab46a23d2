//! Any number of jobs on any number of devices.

use platter_block::bio::{Bio, Context};
use platter_block::time::Time;
use platter_disk::channel::Channel;
use platter_disk::device::Device;

use super::{IoError, Simulation, Troubles};
use crate::io::careful::Careful;
use crate::io::desk::Desk;
use crate::io::plan::Plan;
use crate::io::tally::Tally;
use crate::load::{Load, Work};

/// A device with the channel that its jobs share.
struct Port {
    device: Device,
    channel: Channel,
}

struct Job {
    desk: Desk,
    careful: Careful,
    port: u32,
    context: Context,
    /// I/Os that have been started and have not completed.
    out: u32,
    over: bool,
}

/// The shared state of all jobs. Each device is a port of the load, each job has a timer: its next start.
pub(super) struct Many {
    ports: Vec<Port>,
    jobs: Vec<Job>,
    tally: Tally,
    /// Jobs that are not over.
    live: usize,
    /// Whether each job has a context to itself, which ends with it.
    own_contexts: bool,
}

impl Many {
    pub(super) fn new(plan: &Plan<'_>, now: Time) -> Result<Self, IoError> {
        let (devices, jobs) = (plan.devices(), plan.job.numjobs as usize);
        let mut ports = Vec::with_capacity(devices);
        for at in 0..devices {
            let device = plan.device(at as u32).clone();
            let of_device = (jobs - at).div_ceil(devices);
            let channel = device.channel(of_device * plan.job.iodepth as usize)?;
            ports.push(Port { device, channel });
        }
        let job = |index: u32| -> Result<Job, IoError> {
            Ok(Job {
                desk: plan.desk(index),
                careful: plan.careful(index, now.0)?,
                port: index % devices as u32,
                context: plan.job.context(index),
                out: 0,
                over: true,
            })
        };
        let jobs: Vec<Job> = (0..plan.job.numjobs).map(job).collect::<Result<_, _>>()?;
        Ok(Self {
            ports,
            tally: Tally::new(),
            live: 0,
            own_contexts: plan.job.contexts.is_empty() && jobs.len() > 1,
            jobs,
        })
    }

    /// Lets a job start the I/Os that are due. Its device must be polled afterwards.
    fn start_due(&mut self, load: &mut Load, index: usize) {
        let job = &mut self.jobs[index];
        let (channel, out) = (&mut self.ports[job.port as usize].channel, &mut job.out);
        job.desk.now = load.now();
        job.careful.start_due(&mut job.desk, &mut |bio| {
            channel.submit(bio)?;
            *out += 1;
            Ok(())
        });
        load.set_timer(index as u32, job.careful.next_start(&job.desk));
        if job.out == 0 && !job.over && (job.desk.left == 0 || job.desk.idle.is_empty()) {
            job.over = true;
            self.live -= 1;
            if self.own_contexts {
                self.ports[job.port as usize].device.context_exited(job.context);
            }
        }
    }

    fn wake_all(&mut self, load: &mut Load) -> Result<(), IoError> {
        for index in 0..self.jobs.len() {
            if self.jobs[index].desk.left > 0 || self.jobs[index].out == 0 {
                self.start_due(load, index);
                load.settle(self, self.jobs[index].port)?;
            }
        }
        Ok(())
    }
}

impl Work for Many {
    type Error = IoError;

    fn channels(&mut self, port: u32) -> impl Iterator<Item = &mut Channel> {
        self.ports.get_mut(port as usize).map(|port| &mut port.channel).into_iter()
    }

    fn completed(&mut self, load: &mut Load, _port: u32, done: &mut Vec<Bio>) -> Result<(), IoError> {
        for bio in done.drain(..) {
            let index = (bio.token() >> 32) as usize;
            let job = &mut self.jobs[index];
            job.out -= 1;
            job.desk.now = load.now();
            job.careful.completed(&mut job.desk, bio, &mut self.tally);
            self.start_due(load, index);
        }
        Ok(())
    }

    fn expired(&mut self, load: &mut Load, job: u32) -> Result<u32, IoError> {
        self.start_due(load, job as usize);
        Ok(self.jobs[job as usize].port)
    }

    fn is_over(&self) -> bool {
        self.live == 0
    }
}

impl Simulation for Many {
    fn allow(&mut self, load: &mut Load, quota: &dyn Fn(u32) -> u64) -> Result<(), IoError> {
        for (job, index) in self.jobs.iter_mut().zip(0..) {
            if job.desk.failure.is_none() {
                job.desk.left = quota(index).saturating_sub(u64::from(job.out));
            }
            self.live += usize::from(job.over);
            job.over = false;
        }
        self.wake_all(load)
    }

    fn missed(&self, end: Time) -> u64 {
        self.jobs.iter().map(|job| job.careful.missed(job.desk.left, end)).sum()
    }

    fn tally(&mut self) -> &mut Tally {
        &mut self.tally
    }

    fn begin_reading_back(&mut self, load: &mut Load) -> Result<bool, IoError> {
        let mut any = false;
        for job in &mut self.jobs {
            let blocks = if job.desk.failure.is_none() { job.careful.begin_reading_back() } else { 0 };
            any |= blocks > 0;
            job.desk.left = blocks;
            self.live += usize::from(job.over);
            job.over = false;
        }
        if any {
            self.wake_all(load)?;
        }
        Ok(any)
    }

    fn troubles(&mut self) -> Troubles {
        let failure = self.jobs.iter_mut().find_map(|job| job.desk.failure.take());
        let mismatch = self.jobs.iter().find_map(|job| job.careful.first_mismatch());
        Troubles { failure, mismatch }
    }
}
