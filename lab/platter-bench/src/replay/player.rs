//! Decides when each I/O of a trace starts, and starts it.
//!
//! I/Os start in the order of the trace, whatever the mode, so one waits for all that came before it to have started.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use platter_block::bio::{Bio, Op};
use platter_block::time::{Span, Time};
use platter_disk::channel::Channel;
use platter_disk::device::Device;
use platter_disk::pool::PoolBuf;

use super::account::{Account, Flight};
use super::buffers::Buffers;
use super::error::ReplayError;
use super::options::{Mode, ReplayOptions};
use super::step::{Aim, Io, Step};

/// Most I/Os that start with one reading of the clock, unless they have no time to start at.
const BATCH: usize = 16;

/// Where steps come from.
pub(super) trait Feed {
    /// The next step.
    fn next(&mut self) -> Fed;
}

/// What a feed has.
pub(super) enum Fed {
    Step(Step),
    /// It has not been read yet.
    Later,
    End,
}

/// What has to happen before more can start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// Nothing.
    Again,
    /// It becomes this time.
    At(Time),
    /// An I/O completes.
    Completion,
    /// The trace is read further.
    Trace,
    /// Nothing more will start, and nothing is in flight.
    Over,
}

/// A device with its channel.
pub(super) struct Port {
    pub(super) channel: Channel,
    name: Arc<str>,
}

/// What an I/O depends on, with [`Mode::Dependency`].
#[derive(Default)]
struct Waited {
    /// I/Os in flight whose end in the trace is still to come.
    open: HashSet<u64>,
    /// I/Os that have ended, and whose end in the trace is still to come.
    ended: HashMap<u64, Time>,
}

pub(super) struct Player<'o, F> {
    options: &'o ReplayOptions,
    pub(super) feed: F,
    pub(super) ports: Vec<Port>,
    buffers: Buffers,
    /// The next step.
    head: Option<Step>,
    /// Whether the head has been held back before.
    held: bool,
    /// No more steps come.
    ended: bool,
    /// A moment of the replay, and the one of the trace that it stands for.
    base: Time,
    base_ns: Option<u64>,
    /// When nothing may start any more.
    until: Time,
    /// When the last I/O was meant to start.
    last: Time,
    waited: Waited,
    flights: Vec<Flight>,
    free: Vec<usize>,
    spare: Vec<Bio>,
    /// Flights of I/Os that wait for the clock to be read, and to be handed over.
    batch: Vec<usize>,
    in_flight: usize,
    pub(super) account: Account,
    pub(super) failure: Option<ReplayError>,
}

impl<'o, F: Feed> Player<'o, F> {
    /// A player with a channel to each device. To be called on the thread that drives it.
    pub(super) fn new(
        options: &'o ReplayOptions,
        devices: &[Device],
        classes: [u64; 2],
        feed: F,
    ) -> Result<Self, ReplayError> {
        let port = |device: &Device| -> Result<Port, ReplayError> {
            Ok(Port { channel: device.channel(options.depth as usize)?, name: device.name() })
        };
        let mut buffers = Buffers::new(devices.iter(), options.seed);
        buffers.prepare(classes)?;
        Ok(Player {
            ports: devices.iter().map(port).collect::<Result<_, _>>()?,
            buffers,
            head: None,
            held: false,
            ended: false,
            base: Time::default(),
            base_ns: None,
            until: Time(u64::MAX),
            last: Time::default(),
            waited: Waited::default(),
            flights: Vec::new(),
            free: Vec::new(),
            spare: Vec::new(),
            batch: Vec::new(),
            in_flight: 0,
            account: Account::new(options.mode, Span::from(options.late), devices.len()),
            failure: None,
            options,
            feed,
        })
    }

    /// The replay begins now.
    pub(super) fn begin(&mut self, now: Time) {
        self.base = now;
        let runtime = self.options.runtime.map_or(u64::MAX, |runtime| Span::from(runtime).0);
        self.until = Time(now.0.saturating_add(runtime));
        self.account.begin(now);
    }

    /// Nothing starts any more.
    pub(super) fn stop(&mut self) {
        self.ended = true;
        self.head = None;
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Whether nothing starts any more and nothing is in flight.
    pub(super) fn is_over(&self) -> bool {
        self.ended && self.head.is_none() && self.in_flight == 0
    }

    /// Submits what is due. The channels hand it over when they are polled, after [`seal`](Player::seal).
    pub(super) fn go(&mut self, now: Time) -> Pace {
        loop {
            let pace = match self.look() {
                None if self.is_over() => Pace::Over,
                None if self.ended => Pace::Completion,
                None => {
                    self.account.waits += 1;
                    Pace::Trace
                }
                Some(_) if self.batch.len() >= BATCH && self.options.mode != Mode::Closed => Pace::Again,
                Some(Step::Ended { number, at_ns }) => match self.end_in_trace(number, at_ns) {
                    true => continue,
                    false => Pace::Completion,
                },
                Some(Step::Io(io)) => match self.try_start(now, &io) {
                    None => {
                        (self.head, self.held) = (None, false);
                        continue;
                    }
                    Some(pace) => pace,
                },
            };
            return pace;
        }
    }

    /// The next step, if it is known.
    fn look(&mut self) -> Option<Step> {
        if self.head.is_none() && !self.ended {
            match self.feed.next() {
                Fed::Step(step) => self.head = Some(step),
                Fed::Later => {}
                Fed::End => self.ended = true,
            }
        }
        self.head
    }

    /// An I/O ended in the trace; `false` if what comes behind has to wait until it ends here.
    fn end_in_trace(&mut self, number: u64, at_ns: u64) -> bool {
        if self.options.mode == Mode::Dependency {
            if self.waited.open.contains(&number) {
                return false;
            }
            // One that was left out has no end here.
            if let Some(end) = self.waited.ended.remove(&number) {
                (self.base, self.base_ns) = (self.base.max(end), Some(at_ns));
            }
        }
        self.account.end_in_trace(at_ns);
        self.head = None;
        true
    }

    /// When an I/O is meant to start. In a closed loop that is now.
    fn due(&mut self, now: Time, io: &Io) -> Time {
        let base_ns = match self.base_ns {
            Some(base_ns) => base_ns,
            None => {
                self.account.begin_trace(io.at_ns);
                *self.base_ns.insert(io.at_ns)
            }
        };
        match self.options.mode {
            Mode::Closed => now,
            Mode::Open | Mode::Dependency => {
                let span = self.options.scaled(io.at_ns.saturating_sub(base_ns));
                Time(self.base.0.saturating_add(span)).max(self.last)
            }
        }
    }

    /// Starts an I/O or leaves it out; otherwise what has to happen before.
    fn try_start(&mut self, now: Time, io: &Io) -> Option<Pace> {
        let due = self.due(now, io);
        let Some(aim) = io.aim else {
            self.account.take(io);
            return None;
        };
        if due > self.until {
            self.stop();
            return Some(if self.in_flight == 0 { Pace::Over } else { Pace::Completion });
        }
        if due > now {
            return Some(Pace::At(due));
        }
        let mut room = self.in_flight < self.options.depth as usize;
        if room {
            room = self.submit(io, &aim, due);
        }
        if !room {
            self.account.held += u64::from(!std::mem::replace(&mut self.held, true));
            return Some(Pace::Completion);
        }
        self.last = due;
        self.account.take(io);
        None
    }

    /// Hands an I/O to its channel; `false` if there is no memory for it yet.
    fn submit(&mut self, io: &Io, aim: &Aim, due: Time) -> bool {
        let buffer = match aim.op {
            Op::Read | Op::Write => {
                match self.buffers.take(aim.op == Op::Write, aim.length, self.in_flight == 0) {
                    Ok(Some(buffer)) => Some(buffer),
                    Ok(None) => return false,
                    Err(error) => {
                        self.failure.get_or_insert(error.into());
                        self.stop();
                        return false;
                    }
                }
            }
            _ => None,
        };
        let mut bio = self.spare.pop().unwrap_or_else(Bio::flush);
        let made = match (aim.op, buffer) {
            (Op::Read, Some(buffer)) => bio.reset_read(aim.offset, buffer),
            (Op::Write, Some(buffer)) => bio.reset_write(aim.offset, buffer),
            (op, _) => {
                bio.reset(op, aim.offset, aim.length);
                Ok(())
            }
        };
        debug_assert!(made.is_ok(), "one segment always fits");
        let ends = self.options.mode == Mode::Dependency && io.latency_ns.is_some();
        if ends {
            self.waited.open.insert(io.number);
        }
        let (number, kind, target, length) = (io.number, io.kind, aim.target, aim.length);
        let flight = Flight { number, kind, target, due, start: due, length, ends };
        let place = self.free.pop().unwrap_or(self.flights.len());
        match self.flights.get_mut(place) {
            Some(free) => *free = flight,
            None => self.flights.push(flight),
        }
        bio.set_token(place as u64);
        bio.set_context(aim.context);
        bio.add_flags(aim.flags);
        // The channel has room for every I/O that may be in flight.
        if let Err(full) = self.ports[target].channel.submit(bio) {
            self.spare.push(full.0);
            self.free.push(place);
            return false;
        }
        self.batch.push(place);
        self.in_flight += 1;
        true
    }

    /// The I/Os that were submitted start now. To be called right before the channels are polled; whether there are any.
    pub(super) fn seal(&mut self, now: Time) -> bool {
        let any = !self.batch.is_empty();
        for place in self.batch.drain(..) {
            let flight = &mut self.flights[place];
            flight.start = now;
            self.account.started(flight);
        }
        any
    }

    /// Takes bios that have completed.
    pub(super) fn completed(&mut self, now: Time, done: &mut Vec<Bio>) {
        for mut bio in done.drain(..) {
            let place = bio.token() as usize;
            let flight = self.flights[place];
            self.account.completed(&flight, now, &bio, &self.ports[flight.target].name);
            if flight.ends {
                self.waited.open.remove(&flight.number);
                self.waited.ended.insert(flight.number, now);
            }
            // The buffer goes back to its pool.
            drop(bio.take_buffer::<PoolBuf>());
            self.spare.push(bio);
            self.free.push(place);
            self.in_flight -= 1;
        }
        if self.account.failed() > self.options.max_errors && !self.ended {
            self.stop();
        }
    }
}
