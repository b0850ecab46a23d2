//! `multipath`: one disk through several paths, of which some may fail.
//!
//! An I/O that fails because of its path is sent through another one; a path that failed is checked until it works again. A
//! change is sent through another path, and ends, only when the driver of the first one has returned it: that path cannot
//! carry it out later, over newer data.

use crate::distributed::name_of;
use crate::kit::{
    Below, Buffer, Event, Frame, Layer, LeavesSilent, Notices, Permits, Stateful, Task, Watches,
};
use crate::{LayerError, LayerType, members};
use flushes::Flushes;
use identity::{Identity, has_answered, is_of_path};
use paths::{POLICIES, Paths};
use platter_block::backend::Backend;
use platter_block::bio::Op;
use platter_block::command::CommandSets;
use platter_block::driver::Geometry;
use platter_block::fault::{Fault, Kind, Stage, Status};
use platter_block::params::{self, Param, ParamError, Unit};
use platter_block::status::Item;
use platter_block::time::{Span, Time};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

mod access;
mod flushes;
mod identity;
mod paths;
mod report;

pub use paths::Policy;

/// Most paths.
pub const MAX_PATHS: usize = 16;

pub(crate) const TYPE: LayerType = LayerType {
    name: "multipath",
    summary: "one disk through several paths, with failover",
    params: PARAMS,
    members: 1..=MAX_PATHS,
    build: |values, members| new(members, Settings::of(values)),
};

const DAY_MS: i64 = 86_400_000;

const PARAMS: &[Param] = &[
    Param::word(
        "policy",
        POLICIES,
        0,
        "which path an I/O takes: each in turn, the one with the fewest I/Os, or the one that will be done first",
    ),
    Param::number(
        "no_path_timeout",
        Unit::Millis,
        30_000,
        (0, DAY_MS),
        "how long I/O is held while no path works; then it fails",
    ),
    Param::number(
        "check_interval",
        Unit::Millis,
        5_000,
        (1, DAY_MS),
        "time between two checks of a path that has failed",
    ),
];

/// Settings of a multipath device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Which path an I/O takes.
    pub policy: Policy,
    /// How long I/O is held while no path works.
    pub no_path_timeout: Span,
    /// Time between two checks of a path that has failed.
    pub check_interval: Span,
}

impl Settings {
    fn of(values: &[i64]) -> Settings {
        let span = |at: usize| Span::from_millis(values.get(at).map_or(0, |value| value.unsigned_abs()));
        let policy = Policy::of(values.first().copied().unwrap_or_default());
        Settings { policy, no_path_timeout: span(1), check_interval: span(2) }
    }

    fn values(&self) -> [i64; 3] {
        let millis = |span: Span| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        [self.policy as i64, millis(self.no_path_timeout), millis(self.check_interval)]
    }
}

struct State {
    paths: Paths,
    settings: Settings,
    /// No path has worked for longer than I/O is held.
    hopeless: bool,
    /// Counts the times at which the last path has failed.
    outages: u64,
    /// When the target was asked last how its ports reach the unit.
    asked: Time,
    flushes: Flushes,
}

struct Multipath {
    state: Mutex<State>,
    below: Below,
    /// A path works again, or no path has worked for too long.
    turned: Arc<Event>,
    /// A path was left.
    left: Arc<Event>,
    /// One flush at a time.
    turn: Arc<Permits>,
    notices: Notices,
    commands: CommandSets,
    /// Whether the target tells how its ports reach the unit.
    tells_access: bool,
    geometry: Geometry,
    identity: Identity,
    devices: Vec<Arc<dyn Backend>>,
    watches: Watches<Multipath>,
}

/// One disk through several paths.
///
/// # Errors
/// The paths lead to different disks, or nothing tells that they lead to one; they differ in size or logical block, or in
/// their clocks.
pub fn new(paths: Vec<Arc<dyn Backend>>, settings: Settings) -> Result<Arc<dyn Backend>, LayerError> {
    members::check_clocks("multipath", &paths)?;
    let identity = identity::check(&paths)?;
    let Some(stacked) = members::stack(&paths) else {
        return Err(LayerError::Members("multipath needs at least one device".to_string()));
    };
    let shape = |path: &Arc<dyn Backend>| (path.geometry().size, path.geometry().limits.logical_block);
    let (size, block) = shape(&paths[0]);
    if let Some(other) = paths.iter().position(|path| shape(path) != (size, block)) {
        let (other_size, other_block) = shape(&paths[other]);
        return Err(LayerError::Members(format!(
            "multipath: path 0 ({}) has {size} bytes in blocks of {block}, path {other} ({}) has {other_size} bytes in blocks \
             of {other_block}; paths of one disk do not differ",
            paths[0].name(),
            paths[other].name(),
        )));
    }
    let sets = paths.iter().map(|path| path.geometry().features.commands);
    let commands = sets.reduce(CommandSets::and).unwrap_or_default();
    let limits = stacked.limits.with_chunk(0).with_atomic_write(0);
    let geometry = stacked.with_size(size).with_limits(limits);
    let below = Below::default();
    let mut all = Paths::new(paths.len(), settings.policy);
    for (number, path) in paths.iter().enumerate() {
        if let Some((group, access)) = access::of_path(path) {
            let path = all.get(number);
            (path.group, path.access) = (Some(group), access);
        }
    }
    let tells_access = all.all().iter().any(|path| path.group.is_some());
    let state = State {
        paths: all,
        settings,
        hopeless: false,
        outages: 0,
        asked: paths[0].now(),
        flushes: Flushes::default(),
    };
    let layer = Arc::new(Multipath {
        state: Mutex::new(state),
        turned: Event::new(&below),
        left: Event::new(&below),
        turn: Permits::new(&below, 1),
        notices: Notices::default(),
        below: below.clone(),
        commands,
        tells_access,
        geometry,
        identity,
        devices: paths.clone(),
        watches: Watches::default(),
    });
    let name = name_of("multipath", "", &paths);
    let frame = Frame::new(paths, 1, below, layer)?;
    frame.layer().watches.begin(&frame, &frame.layer().devices);
    Ok(Arc::new(Stateful::new(&frame, 0, name, geometry)))
}

impl Multipath {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a path that was not tried. `None`: all that work were tried, or none has worked for too long.
    async fn path(&self, len: u64, tried: &[usize]) -> Option<usize> {
        loop {
            let turned = self.turned.wait();
            {
                let mut state = self.state();
                if let Some(path) = state.paths.take(len, tried) {
                    return Some(path);
                }
                // What every working path has refused is not a matter of paths.
                if state.hopeless || state.paths.any() {
                    return None;
                }
            }
            turned.await;
        }
    }

    /// A path has failed: it is left, and checked until it works again.
    fn leave(self: &Arc<Self>, path: usize, fault: Fault) {
        let mut state = self.state();
        let left = state.paths.get(path);
        if !std::mem::replace(&mut left.is_up, false) {
            return;
        }
        left.why = fault.kind.to_string();
        left.failures += 1;
        let outage = (!state.paths.any()).then(|| {
            state.outages += 1;
            state.outages
        });
        let patience = state.settings.no_path_timeout;
        let item = report::path(path, &state.paths.all()[path]);
        drop(state);
        self.notices.tell(item);
        self.left.happen();
        self.below.spawn(Arc::clone(self).check(path));
        if let Some(outage) = outage {
            self.below.spawn(Arc::clone(self).lose_hope(outage, patience));
        }
    }

    /// Checks a path until it works.
    async fn check(self: Arc<Self>, path: usize) -> Status {
        let block = self.geometry.limits.logical_block as usize;
        loop {
            let interval = self.state().settings.check_interval;
            self.below.sleep_until(self.below.now() + interval).await;
            let read = self.below.read(path, 0, Buffer::new(block)).await;
            if has_answered(read.err()) {
                break;
            }
        }
        self.ask_access(path).await;
        let mut state = self.state();
        state.paths.get(path).is_up = true;
        state.hopeless = false;
        let item = report::path(path, &state.paths.all()[path]);
        drop(state);
        self.notices.tell(item);
        self.turned.happen();
        Ok(())
    }

    /// Asks the target how its ports reach the unit, if it tells that and was not asked for a check interval. I/O has this
    /// done, so that an idle device does not wake.
    fn look_at_access(self: &Arc<Self>) {
        if !self.tells_access {
            return;
        }
        let now = self.below.now();
        let mut state = self.state();
        if now.since(state.asked) < state.settings.check_interval {
            return;
        }
        state.asked = now;
        drop(state);
        self.below.spawn(Arc::clone(self).ask_all_access());
    }

    async fn ask_all_access(self: Arc<Self>) -> Status {
        for path in 0..self.devices.len() {
            // A path that has failed is asked when it works again.
            if self.state().paths.get(path).is_up {
                self.ask_access(path).await;
            }
        }
        Ok(())
    }

    /// Asks through a path how its target port reaches the unit.
    async fn ask_access(&self, path: usize) {
        let group = self.state().paths.get(path).group;
        let Some(group) = group else { return };
        let block = self.geometry.limits.logical_block;
        let Some(access) = access::of_group(&self.below, path, group, block).await else { return };
        let mut state = self.state();
        if std::mem::replace(&mut state.paths.get(path).access, access) != access {
            let item = report::path(path, &state.paths.all()[path]);
            drop(state);
            self.notices.tell(item);
        }
    }

    /// Ends the patience of what is held, unless a path works again in time.
    async fn lose_hope(self: Arc<Self>, outage: u64, patience: Span) -> Status {
        self.below.sleep_until(self.below.now() + patience).await;
        let mut state = self.state();
        if state.outages == outage && !state.paths.any() {
            state.hopeless = true;
            drop(state);
            self.turned.happen();
        }
        Ok(())
    }

    /// Sends a bio through one path after the other, until one has carried it out.
    async fn send(self: &Arc<Self>, task: &Task) -> Status {
        let (mut tried, mut forgiven, mut earlier) = (Vec::new(), 0, None);
        let mut last = Fault::new(Kind::Gone, Stage::Layer);
        let len = task.len();
        while let Some(path) = self.path(len, &tried).await {
            if task.is_taken_back() {
                self.state().paths.give_back(path, len, None);
                return Err(task.fail_as(after(earlier, Fault::new(Kind::TimedOut, Stage::Layer))));
            }
            self.look_at_access();
            let began = self.below.now();
            let io = match task.op() {
                Op::Command => task.pass(path, 0),
                _ => task.part(0, len, path, task.pos()),
            };
            let status = io.await;
            let took = self.below.now().since(began);
            let mut state = self.state();
            state.paths.give_back(path, len, status.is_ok().then_some(took));
            state.paths.get(path).dirty |= task.changes();
            drop(state);
            let Err(fault) = status else { return Ok(()) };
            self.look_at_durable(task, path, fault);
            last = fault;
            if self.forgives(path, fault, &mut forgiven) {
                task.forget_failure();
                continue;
            }
            let is_of_path = is_of_path(fault) && !self.is_past_the_end(task, path, fault);
            // What ended because nothing waits for it any more says nothing about the path.
            if is_of_path && !(task.is_taken_back() && fault.kind == Kind::TimedOut) {
                self.leave(path, fault);
            }
            let may_go_on = match task.op() {
                // Only what was not delivered: only the submitter knows what a second time would do.
                Op::Command => fault.kind == Kind::Gone && fault.stage == Stage::Queue,
                _ => is_of_path || matches!(fault.kind, Kind::Io | Kind::Short | Kind::Refused),
            };
            if task.is_taken_back() || !may_go_on {
                return Err(task.fail_as(after(earlier, fault)));
            }
            earlier = earlier.or(task.changes().then_some(fault));
            if !is_of_path {
                tried.push(path);
            }
            task.forget_failure();
        }
        Err(task.fail_as(after(earlier, last)))
    }

    /// Whether a path has failed an I/O because its disk has shrunk meanwhile, and not because it is gone itself.
    fn is_past_the_end(&self, task: &Task, path: usize, fault: Fault) -> bool {
        let has_range = task.op() != Op::Command;
        fault.kind == Kind::Gone && has_range && self.devices[path].geometry().size < task.pos() + task.len()
    }
}

/// The fault of a change that fails after an `earlier` path has failed with it: a part of it may have been carried out, so a
/// fault which says that it was not would be wrong.
fn after(earlier: Option<Fault>, fault: Fault) -> Fault {
    let Some(earlier) = earlier else { return fault };
    match fault.kind {
        Kind::TimedOut => Fault { stage: Stage::Layer, ..fault },
        Kind::Cancelled => Fault { stage: Stage::Disk, ..fault },
        Kind::Unsettled | Kind::Unsupported | Kind::BadSegments => earlier,
        _ => fault,
    }
}

impl LeavesSilent for Multipath {
    /// For example, a flush that the path has is sent through another one.
    async fn is_silent(self: Arc<Self>, path: usize) -> Status {
        self.leave(path, Fault::new(Kind::Gone, Stage::Layer));
        Ok(())
    }
}

impl Layer for Multipath {
    fn commands(&self, _port: usize) -> CommandSets {
        self.commands
    }

    async fn run(self: Arc<Self>, task: Task) -> Status {
        self.send(&task).await
    }

    async fn flush(self: Arc<Self>, _below: Below, _port: usize) -> Status {
        self.flush_in_turn().await
    }

    fn acknowledge_flush_failure(&self) {
        self.state().flushes.acknowledge();
    }

    fn locate(&self, _port: usize, pos: u64) -> Option<(usize, u64, u64)> {
        let path = self.state().paths.all().iter().position(|path| path.is_up).unwrap_or(0);
        Some((path, pos, self.geometry.size - pos))
    }

    fn status(&self, _port: usize) -> Vec<Item> {
        let state = self.state();
        report::items(&self.identity.to_string(), state.paths.all())
    }

    fn params(&self, _port: usize) -> Vec<(Param, i64)> {
        PARAMS.iter().copied().zip(self.state().settings.values()).collect()
    }

    fn set_param(&self, _port: usize, name: &str, value: i64) -> Result<(), ParamError> {
        let index = params::check("multipath", PARAMS, name, value)?;
        let mut state = self.state();
        let mut values = state.settings.values();
        values[index] = value;
        state.settings = Settings::of(&values);
        state.paths.policy = state.settings.policy;
        Ok(())
    }

    fn notices(&self) -> Option<&Notices> {
        Some(&self.notices)
    }
}
