//! A scripted device, which records the bios that it gets.

use platter_block::backend::{Backend, LaneUse};
use platter_block::bio::{Bio, Flags, Op};
use platter_block::driver::{Completion, Driver, Features, Geometry, Started};
use platter_block::fault::{Error, Fault, Stage, Status};
use platter_block::lane::{Cancel, Lane};
use platter_block::limits::{LimitSource, Limits};
use platter_block::time::{Span, Time};
use std::sync::{Arc, Mutex, MutexGuard};

/// A bio as the device got it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) op: Op,
    pub(crate) pos: u64,
    pub(crate) len: u64,
    pub(crate) flags: Flags,
}

#[derive(Default)]
struct State {
    seen: Vec<Seen>,
    held: Vec<Bio>,
    /// Bios are held until the test ends them.
    holds: bool,
    /// Only those of this operation.
    only: Option<Op>,
    /// A driver has them, which cannot cancel them.
    keeps: bool,
    /// Runs until they are held no longer, if that is to be by itself.
    runs_left: Option<u32>,
    status: Option<Fault>,
    /// Bios at this position fail.
    bad: Option<(u64, Fault)>,
    /// Bios that succeed are done to their half only.
    is_short: bool,
}

/// The device: bios end at the next run, or when the test says so.
#[derive(Clone)]
pub(crate) struct Script {
    name: &'static str,
    geometry: Geometry,
    state: Arc<Mutex<State>>,
}

impl Script {
    pub(crate) fn new(name: &'static str, size: u64) -> Script {
        let limits = Limits::unlimited(512).with_atomic_write(16384);
        let features = Features::default().with_write_cache(true).with_fua(true);
        Script { name, geometry: Geometry::new(size, limits).with_features(features), state: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn backend(&self) -> Arc<dyn Backend> {
        Arc::new(self.clone())
    }

    /// Sets whether the device holds bios or ends them at the next run.
    pub(crate) fn hold(&self, holds: bool) {
        let mut state = self.state();
        (state.holds, state.only, state.keeps) = (holds, None, false);
    }

    /// What the device holds is with a driver, which cannot cancel it, until it holds no more.
    #[allow(dead_code, reason = "only tests of arrays use it")]
    pub(crate) fn keep(&self) {
        self.state().keeps = true;
    }

    /// The device holds no bios from the run of this number on, counted from 1, if only one of its lanes has any.
    #[allow(dead_code, reason = "only tests of the cache use it")]
    pub(crate) fn release_in(&self, runs: u32) {
        self.state().runs_left = Some(runs);
    }

    /// The device holds bios of one operation, and ends others at the next run.
    pub(crate) fn hold_only(&self, op: Op) {
        let mut state = self.state();
        (state.holds, state.only) = (true, Some(op));
    }

    /// Sets the fault with which bios fail from now on.
    pub(crate) fn fail(&self, fault: Option<Fault>) {
        self.state().status = fault;
    }

    /// Sets a position, and the fault with which bios fail there from now on.
    #[allow(dead_code, reason = "only tests of the cache use it")]
    pub(crate) fn fail_at(&self, bad: Option<(u64, Fault)>) {
        self.state().bad = bad;
    }

    /// Sets whether bios end with half of their bytes left, and without an error.
    pub(crate) fn cut_short(&self, is_short: bool) {
        self.state().is_short = is_short;
    }

    /// The bios that the device got since the last call.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.state().seen)
    }
}

impl LimitSource for Script {
    fn limits_at(&self, _pos: u64) -> (Limits, u64) {
        (self.geometry.limits, u64::MAX)
    }
}

impl Backend for Script {
    fn name(&self) -> Arc<str> {
        Arc::from(self.name)
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn open_lane(&self, _lane_use: LaneUse) -> Result<Box<dyn Lane>, Error> {
        Ok(Box::new(ScriptLane { script: self.clone(), own: Vec::new(), done: Vec::new() }))
    }
}

struct ScriptLane {
    script: Script,
    /// Bios of this lane, by address: others belong to other lanes.
    own: Vec<usize>,
    done: Vec<Bio>,
}

impl ScriptLane {
    fn end(&mut self, mut bio: Bio, status: Status) {
        match status {
            Ok(()) if self.script.state().is_short => bio.advance(bio.len() / 2),
            Ok(()) => bio.advance(bio.len()),
            Err(fault) => bio.fail(fault),
        }
        self.own.retain(|&own| own != bio.identity());
        self.done.push(bio);
    }

    fn take(&mut self, fits: impl Fn(&Bio) -> bool) -> Vec<Bio> {
        let mut state = self.script.state();
        let own = &self.own;
        state.held.extract_if(.., |bio| own.contains(&bio.identity()) && fits(bio)).collect()
    }
}

impl Lane for ScriptLane {
    fn submit(&mut self, _now: Time, bio: Bio) {
        self.own.push(bio.identity());
        let (op, pos, len, flags) = (bio.op(), bio.pos(), bio.len(), bio.flags());
        let mut state = self.script.state();
        state.seen.push(Seen { op, pos, len, flags });
        state.held.push(bio);
    }

    fn run(&mut self, _now: Time) {
        let (holds, only, status, bad) = {
            let mut state = self.script.state();
            state.runs_left = state.runs_left.map(|runs| runs.saturating_sub(1));
            if state.runs_left == Some(0) {
                (state.holds, state.runs_left) = (false, None);
            }
            (state.holds, state.only, state.status.map_or(Ok(()), Err), state.bad)
        };
        for bio in self.take(|bio| !holds || only.is_some_and(|op| op != bio.op())) {
            let own = bad.filter(|&(pos, _)| pos == bio.pos()).map(|(_, fault)| Err(fault));
            self.end(bio, own.unwrap_or(status));
        }
    }

    fn take_done(&mut self, out: &mut Vec<Bio>) {
        out.append(&mut self.done);
    }

    fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    fn in_flight(&self) -> u32 {
        self.own.len() as u32
    }

    fn cancel(&mut self, _now: Time, which: &Cancel) {
        if self.script.state().keeps {
            return;
        }
        for bio in self.take(|bio| which.matches(bio)) {
            self.end(bio, Err(Fault::new(which.kind(), Stage::Queue)));
        }
    }

    fn is_idle(&self) -> bool {
        self.own.is_empty()
    }
}

/// A lane of a device that is run by hand.
pub(crate) struct Hand {
    pub(crate) lane: Box<dyn Lane>,
    done: Vec<Bio>,
}

impl Hand {
    pub(crate) fn on(device: &Arc<dyn Backend>) -> Hand {
        Hand::by(device, LaneUse::Exclusive)
    }

    /// As `on`, with a lane that is opened for this use.
    pub(crate) fn by(device: &Arc<dyn Backend>, lane_use: LaneUse) -> Hand {
        Hand { lane: device.open_lane(lane_use).unwrap(), done: Vec::new() }
    }

    /// Submits a bio.
    pub(crate) fn submit(&mut self, now: u64, bio: Bio) {
        self.lane.submit(Time(now), bio);
    }

    /// Takes bios back.
    pub(crate) fn cancel(&mut self, now: u64, which: Cancel) {
        self.lane.cancel(Time(now), &which);
    }

    /// Runs the lane. Returns the bios that have ended, with their status; checks that each has its memory.
    pub(crate) fn ended(&mut self, now: u64) -> Vec<(u64, Status)> {
        self.lane.run(Time(now));
        self.lane.take_done(&mut self.done);
        let mut ended: Vec<(u64, Status)> = self
            .done
            .drain(..)
            .map(|mut bio| {
                let memory: Option<Vec<u8>> = bio.take_buffer();
                assert!(!bio.op().has_data() || memory.is_some(), "{} came without its memory", bio.token());
                (bio.token(), bio.status())
            })
            .collect();
        ended.sort_by_key(|&(token, _)| token);
        ended
    }

    /// The kinds of the faults of bios that have ended.
    pub(crate) fn kinds(&mut self, now: u64) -> Vec<(u64, Option<platter_block::fault::Kind>)> {
        self.ended(now)
            .into_iter()
            .map(|(token, status)| (token, status.err().map(|fault| fault.kind)))
            .collect()
    }
}

/// A driver that cannot cancel commands.
pub(crate) struct IgnoresCancel<D>(pub(crate) D);

impl<D: Driver> Driver for IgnoresCancel<D> {
    fn queue(&mut self, now: Time, request: &Started<'_>) -> bool {
        self.0.queue(now, request)
    }

    fn submit(&mut self, now: Time) {
        self.0.submit(now);
    }

    fn reap(&mut self, now: Time, done: &mut Vec<Completion>) {
        self.0.reap(now, done);
    }

    fn next_event(&self) -> Option<Time> {
        self.0.next_event()
    }

    fn wait(&mut self, now: Time, timeout: Option<Span>) {
        self.0.wait(now, timeout);
    }
}
