//! Any number of jobs on any number of devices.

use platter_block::bio::{Bio, Context};
use platter_block::time::{Time, VirtualClock};
use platter_disk::channel::Channel;
use platter_disk::device::Device;

use super::solo::STALL;
use super::{IoError, Simulation, Troubles};
use crate::agenda::Agenda;
use crate::io::careful::Careful;
use crate::io::desk::Desk;
use crate::io::plan::Plan;
use crate::io::tally::Tally;

/// Events between two looks at the real clock.
const EVENTS: u32 = 1024;

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

/// The shared state of all jobs. Devices have the first numbers of the agenda, jobs the following ones.
pub(super) struct Many<'a> {
    clock: &'a VirtualClock,
    ports: Vec<Port>,
    jobs: Vec<Job>,
    agenda: Agenda,
    now: Time,
    tally: Tally,
    done: Vec<Bio>,
    outstanding: usize,
    /// Jobs that are not over.
    live: usize,
    /// Whether each job has a context to itself, which ends with it.
    own_contexts: bool,
}

impl<'a> Many<'a> {
    pub(super) fn new(plan: &Plan<'_>, clock: &'a VirtualClock) -> Result<Self, IoError> {
        let (devices, jobs) = (plan.devices(), plan.job.numjobs as usize);
        let now = clock.now();
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
            clock,
            agenda: Agenda::new(ports.len() + jobs.len()),
            ports,
            now,
            tally: Tally::new(),
            done: Vec::new(),
            outstanding: 0,
            live: 0,
            own_contexts: plan.job.contexts.is_empty() && jobs.len() > 1,
            jobs,
        })
    }

    /// Lets a job start the I/Os that are due. Must be followed by [`turn`](Self::turn) of its device.
    fn start_due(&mut self, index: usize) {
        let job = &mut self.jobs[index];
        let (channel, out) = (&mut self.ports[job.port as usize].channel, &mut job.out);
        let before = *out;
        job.desk.now = self.now;
        job.careful.start_due(&mut job.desk, &mut |bio| {
            channel.submit(bio)?;
            *out += 1;
            Ok(())
        });
        self.outstanding += (job.out - before) as usize;
        let timer = job.careful.next_start(&job.desk);
        self.agenda.set((self.ports.len() + index) as u32, timer);
        if job.out == 0 && !job.over && (job.desk.left == 0 || job.desk.idle.is_empty()) {
            job.over = true;
            self.live -= 1;
            if self.own_contexts {
                self.ports[job.port as usize].device.context_exited(job.context);
            }
        }
    }

    /// Looks at a device until nothing more happens on it at this time.
    fn turn(&mut self, port: usize) {
        let mut done = core::mem::take(&mut self.done);
        let mut empty = 0;
        loop {
            self.ports[port].channel.poll_at(self.now, &mut done);
            if done.is_empty() {
                let channel = &mut self.ports[port].channel;
                // Time is about to pass: the jobs wait.
                channel.unplug();
                let next = channel.next_wakeup();
                empty += 1;
                // An I/O that completes at once is only found by the next poll.
                if empty < 2 && channel.outstanding() > 0 && next.is_none_or(|at| at <= self.now) {
                    continue;
                }
                self.agenda.set(port as u32, next.map(|at| at.max(self.now + STALL)));
                break;
            }
            empty = 0;
            self.outstanding -= done.len();
            for bio in done.drain(..) {
                let index = (bio.token() >> 32) as usize;
                let job = &mut self.jobs[index];
                job.out -= 1;
                job.desk.now = self.now;
                job.careful.completed(&mut job.desk, bio, &mut self.tally);
                self.start_due(index);
            }
        }
        self.done = done;
    }

    fn wake_all(&mut self) {
        for index in 0..self.jobs.len() {
            if self.jobs[index].desk.left > 0 || self.jobs[index].out == 0 {
                self.start_due(index);
                self.turn(self.jobs[index].port as usize);
            }
        }
    }
}

impl Simulation for Many<'_> {
    fn run(&mut self, until: Time) -> Result<(), IoError> {
        for _ in 0..EVENTS {
            let Some((at, number)) = self.agenda.first() else {
                return match self.outstanding {
                    0 => Ok(()),
                    ios => Err(IoError::Stuck { ios }),
                };
            };
            self.now = at.min(until);
            self.clock.advance_to(self.now);
            if at >= until {
                return Ok(());
            }
            self.agenda.set(number, None);
            let number = number as usize;
            match number.checked_sub(self.ports.len()) {
                None => self.turn(number),
                Some(job) => {
                    self.start_due(job);
                    self.turn(self.jobs[job].port as usize);
                }
            }
        }
        Ok(())
    }

    fn now(&self) -> Time {
        self.now
    }

    fn outstanding(&self) -> usize {
        self.outstanding
    }

    fn is_over(&self) -> bool {
        self.live == 0
    }

    fn allow(&mut self, quota: &dyn Fn(u32) -> u64) {
        for (job, index) in self.jobs.iter_mut().zip(0..) {
            if job.desk.failure.is_none() {
                job.desk.left = quota(index).saturating_sub(u64::from(job.out));
            }
            self.live += usize::from(job.over);
            job.over = false;
        }
        self.wake_all();
    }

    fn tally(&mut self) -> &mut Tally {
        &mut self.tally
    }

    fn begin_reading_back(&mut self) -> bool {
        let mut any = false;
        for job in &mut self.jobs {
            let blocks = if job.desk.failure.is_none() { job.careful.begin_reading_back() } else { 0 };
            any |= blocks > 0;
            job.desk.left = blocks;
            self.live += usize::from(job.over);
            job.over = false;
        }
        if any {
            self.wake_all();
        }
        any
    }

    fn troubles(&mut self) -> Troubles {
        let failure = self.jobs.iter_mut().find_map(|job| job.desk.failure.take());
        let mismatch = self.jobs.iter().find_map(|job| job.careful.first_mismatch());
        Troubles { failure, mismatch }
    }
}
