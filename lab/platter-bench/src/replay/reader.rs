//! Makes the steps of a replay out of a trace.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use platter_disk::device::Device;
use platter_traces::{Arrivals, Clock, Event, Flags as Marks, Kind as Traced, Merged};

use super::aim::Aimer;
use super::error::ReplayError;
use super::fit::Fitting;
use super::options::{Mode, ReplayOptions};
use super::routes::Routes;
use super::step::{Io, Step, kind_of};
use super::survey::Survey;

/// Most I/Os of the trace whose end is still to come. Beyond, the end of an I/O is taken for unknown.
const MOST_OPEN: usize = 1 << 18;

/// Reads a trace for a replay: a step after the other, in the order of the trace.
pub struct Reader<'a, 'r> {
    arrivals: &'a mut Arrivals<'r>,
    aimer: Aimer,
    routes: Routes,
    /// I/Os that may still come.
    left: u64,
    /// The I/O that comes next.
    next: Option<Io>,
    /// Ends that come, by time and number.
    ends: BinaryHeap<Reverse<(u64, u64)>>,
    number: u64,
    elsewhere: u64,
    classes: [u64; 2],
}

impl<'a, 'r> Reader<'a, 'r> {
    /// A reader for a replay on these devices, with what a survey has found if there was one.
    ///
    /// # Errors
    /// The options need something that the trace does not have, or do not go together.
    pub fn new(
        arrivals: &'a mut Arrivals<'r>,
        options: &ReplayOptions,
        devices: &[Device],
        routes: Routes,
        survey: Option<&Survey>,
    ) -> Result<Reader<'a, 'r>, ReplayError> {
        let wrong = |text: &str| Err(ReplayError::Options(text.to_owned()));
        options.check()?;
        if options.mode == Mode::Dependency && !arrivals.has_ends() {
            return wrong(
                "the trace does not say when I/Os ended, which --mode dependency needs; use --mode open or closed",
            );
        }
        if options.mode != Mode::Closed && arrivals.merged().clock() == Clock::None {
            return wrong("the trace has no times; use --mode closed");
        }
        if options.fit == Fitting::Scale && survey.is_none() && options.trace_size.is_none() {
            return wrong(
                "--fit scale needs the size of the trace's devices, and the trace can be read only once; give --trace-size",
            );
        }
        let source = |at| options.trace_size.unwrap_or_else(|| survey.map_or(0, |survey| survey.end(at)));
        let sources = devices.iter().enumerate().map(|(at, device)| (device, source(at)));
        Ok(Reader {
            aimer: Aimer::new(options, sources),
            arrivals,
            routes,
            left: options.limit.unwrap_or(u64::MAX),
            next: None,
            ends: BinaryHeap::new(),
            number: 0,
            elsewhere: 0,
            classes: survey.map(Survey::classes).unwrap_or_default(),
        })
    }

    /// The next step; `None` at the end.
    pub(super) fn step(&mut self) -> Result<Option<Step>, ReplayError> {
        if self.next.is_none() {
            self.next = self.read()?;
        }
        let arrives = self.next.as_ref().map_or(u64::MAX, |io| io.at_ns);
        // What ends when another arrives may be what that one waited for.
        if let Some(Reverse((at_ns, number))) = self.ends.peek().copied()
            && (at_ns <= arrives || self.next.is_none())
        {
            self.ends.pop();
            return Ok(Some(Step::Ended { number, at_ns }));
        }
        let Some(mut io) = self.next.take() else { return Ok(None) };
        if let Some(latency) = io.latency_ns {
            match self.ends.len() < MOST_OPEN {
                true => self.ends.push(Reverse((io.at_ns.saturating_add(latency), io.number))),
                false => io.latency_ns = None,
            }
        }
        Ok(Some(Step::Io(io)))
    }

    /// The next I/O of the devices that are replayed.
    fn read(&mut self) -> Result<Option<Io>, ReplayError> {
        while self.left > 0 {
            let Some(event) = self.arrivals.next_io()? else { break };
            match self.routes.of(&event.device)? {
                None => self.elsewhere += 1,
                Some(target) => {
                    self.left -= 1;
                    return self.io(&event, target).map(Some);
                }
            }
        }
        self.left = 0;
        Ok(None)
    }

    fn io(&mut self, event: &Event, target: usize) -> Result<Io, ReplayError> {
        let kind = kind_of(event);
        let (fate, aim) = self.aimer.aim(event, kind, target)?;
        let number = self.number;
        self.number += 1;
        let is_write = event.kind() == Traced::Write && event.length > 0;
        let mark = |mark| is_write && event.flags.has(mark);
        let marks = [mark(Marks::PREFLUSH), mark(Marks::FUA)];
        let (at_ns, bytes, latency_ns) = (event.time_ns, event.length, event.latency_ns);
        Ok(Io { number, at_ns, kind, marks, bytes, latency_ns, fate, aim })
    }

    /// The inputs.
    pub fn merged(&self) -> &Merged<'r> {
        self.arrivals.merged()
    }

    /// I/Os of devices that are not replayed.
    pub(super) fn elsewhere(&self) -> u64 {
        self.elsewhere
    }

    pub(super) fn routes(&self) -> &Routes {
        &self.routes
    }

    /// Sizes of buffers that will be needed, as far as they are known.
    pub(super) fn classes(&self) -> [u64; 2] {
        self.classes
    }
}
