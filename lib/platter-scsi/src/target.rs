//! A logical unit that several initiators use: its task set, unit attentions, reservations and parameters.
//!
//! [`Target`] wraps a [`Unit`] with the state that the architecture model (SAM-5) and SPC-4 give it. Each initiator port
//! that is connected is a [`Nexus`]. A command is begun with [`Target::begin`]; what is to be done for it comes back at
//! once or, if it has to wait for others, as [`News`] of its nexus. The caller carries out the steps on the device, and
//! calls [`Target::end`] when the device has nothing of the command any more.
//!
//! A target does no I/O and keeps no time. A command that is aborted while its steps run is not stopped by it: the steps
//! end, no response is sent, and the task management function completes after that.

mod access;
mod parameters;
mod reservation;
mod tasks;

pub use access::{AccessState, TargetPort};
pub use reservation::Reservations;

use crate::cdb::{self, Cdb, Command};
use crate::sense::{Failure, Key};
use crate::unit::{self, Plan, Response, Status, Step, StepError, Unit, field};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use parameters::Counts;
use platter_block::driver::Geometry;
use platter_block::lane::Bell;
use reservation::Access;
use tasks::{State, Task, Tasks};

/// An initiator port that is connected to the target (an I_T nexus).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nexus(u64);

/// A command that was begun and has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskId(u64);

/// When a command may run, relative to others (SAM-5, task attributes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribute {
    /// In any order, but after ordered commands that came before it.
    Simple,
    /// After all that came before it, and before all that come after it.
    Ordered,
    /// Before all that have not begun to run.
    HeadOfQueue,
}

/// A command as an initiator sends it.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The command descriptor block.
    pub cdb: &'a [u8],
    /// Its data from the initiator.
    pub data_out: &'a [u8],
    /// Its order.
    pub attribute: Attribute,
    /// The caller's number for it, unique among those of the nexus that have not ended; comes back in [`News`].
    pub token: u64,
}

/// What is to be done for a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The command has ended; this is to be sent.
    Respond(Response),
    /// These steps are to be carried out, then the command is to be ended.
    Run(TaskId, Vec<Step>),
    /// Nothing yet: [`News::Enabled`] follows, or [`News::Dropped`].
    Wait(TaskId),
}

/// A task management function (SAM-5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// Abort the command of this token.
    AbortTask(u64),
    /// Abort all commands of the nexus.
    AbortTaskSet,
    /// Abort all commands of all nexuses.
    ClearTaskSet,
    /// The same, and parameters return to their first values.
    Reset,
}

/// The answer to a task management function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Managed {
    /// It is complete.
    Complete,
    /// There is no such command.
    NoTask,
    /// [`News::Managed`] follows when commands that run have ended.
    Wait,
}

/// What a nexus is told after a call that another one, or an earlier command, has caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// The command of this token may run: call [`Target::resume`].
    Enabled(TaskId, u64),
    /// The command of this token was aborted before it ran. There is no response.
    Dropped(u64),
    /// The task management function of this token is complete.
    Managed(u64),
}

/// An initiator port.
struct Port {
    name: Arc<str>,
    /// The port of the target that it has reached, where the target tells its ports apart.
    through: Option<TargetPort>,
    attentions: VecDeque<(u8, u8)>,
    news: VecDeque<News>,
    bell: Arc<dyn Bell>,
}

/// A task management function that waits for commands to end.
struct Waiting {
    nexus: Nexus,
    token: u64,
    on: Vec<TaskId>,
}

/// A logical unit with the state of its initiators.
pub struct Target {
    unit: Unit,
    next: u64,
    ports: BTreeMap<Nexus, Port>,
    tasks: Tasks,
    waiting: Vec<Waiting>,
    reservations: Reservations,
    stopped: bool,
    counts: Counts,
    groups: BTreeMap<u16, AccessState>,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("unit", &self.unit)
            .field("nexuses", &self.ports.len())
            .finish_non_exhaustive()
    }
}

/// Most unit attentions that are kept for a nexus; what is lost beyond is covered by a reset's.
const MAX_ATTENTIONS: usize = 8;

const POWER_ON: (u8, u8) = (0x29, 0x00);
const BUS_DEVICE_RESET: (u8, u8) = (0x29, 0x03);
const CLEARED_BY_ANOTHER: (u8, u8) = (0x2f, 0x00);
const CAPACITY_CHANGED: (u8, u8) = (0x2a, 0x09);

/// A command that changes or reports the state here; it needs no step.
type Handler = fn(&mut Target, (TaskId, Nexus), &Cdb, &[u8]) -> Result<Outcome, Failure>;

/// Further commands, and what answers them.
const HANDLERS: [&[(&Command, Handler)]; 3] = [access::HANDLERS, parameters::HANDLERS, reservation::HANDLERS];

/// The same as a list, for REPORT SUPPORTED OPERATION CODES.
const COMMANDS: &[&Command] = &[
    &cdb::MODE_SELECT_6,
    &cdb::MODE_SELECT_10,
    &cdb::START_STOP_UNIT,
    &cdb::LOG_SENSE,
    &cdb::PERSISTENT_RESERVE_IN_READ_KEYS,
    &cdb::PERSISTENT_RESERVE_IN_READ_RESERVATION,
    &cdb::PERSISTENT_RESERVE_IN_REPORT_CAPABILITIES,
    &cdb::PERSISTENT_RESERVE_IN_READ_FULL_STATUS,
    &cdb::PERSISTENT_RESERVE_OUT_REGISTER,
    &cdb::PERSISTENT_RESERVE_OUT_RESERVE,
    &cdb::PERSISTENT_RESERVE_OUT_RELEASE,
    &cdb::PERSISTENT_RESERVE_OUT_CLEAR,
    &cdb::PERSISTENT_RESERVE_OUT_PREEMPT,
    &cdb::PERSISTENT_RESERVE_OUT_PREEMPT_AND_ABORT,
    &cdb::PERSISTENT_RESERVE_OUT_REGISTER_AND_IGNORE_EXISTING_KEY,
];

fn handler_of(command: &Command) -> Option<Handler> {
    let mut all = HANDLERS.iter().flat_map(|table| table.iter());
    all.find(|(row, _)| *row == command).map(|(_, handler)| *handler)
}

impl Target {
    /// A target without initiators.
    pub fn new(unit: Unit) -> Target {
        Target {
            unit: unit.with_commands(COMMANDS),
            next: 0,
            ports: BTreeMap::new(),
            tasks: Tasks::default(),
            waiting: Vec::new(),
            reservations: Reservations::default(),
            stopped: false,
            counts: Counts::default(),
            groups: BTreeMap::new(),
        }
    }

    /// The unit.
    pub fn unit(&self) -> &Unit {
        &self.unit
    }

    /// Connects an initiator port of this name, which identifies it in reservations. `bell` rings when it has
    /// [`News`]. Its first command fails with the unit attention POWER ON, RESET, OR BUS DEVICE RESET OCCURRED.
    pub fn connect(&mut self, name: &str, bell: Arc<dyn Bell>) -> Nexus {
        self.connect_through(None, name, bell)
    }

    /// The same, at this port of the target, which tells of its ports and their groups from then on. A new group is
    /// active/optimized.
    pub fn connect_through(&mut self, port: Option<TargetPort>, name: &str, bell: Arc<dyn Bell>) -> Nexus {
        let nexus = Nexus(self.number());
        let attentions = VecDeque::from([POWER_ON]);
        let news = VecDeque::new();
        self.ports.insert(nexus, Port { name: name.into(), through: port, attentions, news, bell });
        if let Some(port) = port {
            self.groups.entry(port.group).or_default();
            self.unit = self.unit.clone().with_commands(access::WITH_GROUPS);
        }
        nexus
    }

    /// The initiator port is gone. Its commands that wait are dropped. Those that run are returned and are still to be
    /// ended.
    pub fn disconnect(&mut self, nexus: Nexus) -> Vec<TaskId> {
        let own = self.tasks.of(|task| task.nexus == nexus);
        self.ports.remove(&nexus);
        self.waiting.retain(|waiting| waiting.nexus != nexus);
        let running = self.abort(&own);
        self.enable();
        running
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// The device has this geometry. Initiators get a unit attention if its size has changed.
    pub fn observe(&mut self, geometry: &Geometry) {
        if self.unit.geometry().size != geometry.size {
            self.attend_all(CAPACITY_CHANGED, None);
        }
        self.unit.set_geometry(*geometry);
    }

    /// Adds a unit attention for all nexuses but one.
    fn attend_all(&mut self, code: (u8, u8), except: Option<Nexus>) {
        let all = self.ports.iter_mut().filter(|(nexus, _)| Some(**nexus) != except);
        all.for_each(|(_, port)| port.attend(code));
    }

    /// Begins a command.
    ///
    /// # Panics
    /// The nexus is not connected.
    pub fn begin(&mut self, nexus: Nexus, request: &Request<'_>) -> Outcome {
        let id = TaskId(self.number());
        let Request { attribute, token, .. } = *request;
        let exclusive = Cdb::decode(request.cdb).is_ok_and(|cdb| unit::is_exclusive(cdb.command()));
        // Ranges count only beside a command that wants its own for itself; planning twice for them is rare.
        let range = if exclusive || self.tasks.has_exclusive() { self.extent(request) } else { None };
        let state = State::Running;
        let task =
            Task { nexus, token, attribute, range, exclusive, state, aborted: false, after: Vec::new() };
        if self.tasks.may_run(id, &task) {
            self.tasks.insert(id, task);
            return self.perform(id, nexus, request.cdb, request.data_out);
        }
        // One that wants its range for itself may come while this one waits.
        let range = range.or_else(|| self.extent(request));
        self.tasks.insert(id, Task { state: State::Blocked, range, ..task });
        Outcome::Wait(id)
    }

    /// Goes on with a command after [`News::Enabled`].
    pub fn resume(&mut self, id: TaskId, cdb: &[u8], data_out: &[u8]) -> Outcome {
        let Some(task) = self.tasks.get_mut(id) else {
            return Outcome::Respond(Response::of(Status::Busy));
        };
        let nexus = task.nexus;
        if core::mem::replace(&mut task.state, State::Running) == State::Answered {
            self.remove(id);
            return Outcome::Respond(Response::GOOD);
        }
        self.perform(id, nexus, cdb, data_out)
    }

    /// A command that was to run has ended: the device has nothing of it any more. `false`: it was aborted meanwhile, and
    /// no response is to be sent.
    pub fn end(&mut self, id: TaskId) -> bool {
        self.remove(id).is_some_and(|task| !task.aborted)
    }

    /// Whether a command that runs was aborted: no response will be sent.
    pub fn is_aborted(&self, id: TaskId) -> bool {
        self.tasks.is_aborted(id)
    }

    /// The response to a command all of whose steps have succeeded.
    pub fn done(&self) -> Response {
        self.unit.done()
    }

    /// The response to a command of which a step has failed.
    pub fn failed(&self, step: &Step, error: StepError) -> Response {
        self.unit.failed(step, error)
    }

    /// The next news of a nexus.
    pub fn news(&mut self, nexus: Nexus) -> Option<News> {
        self.ports.get_mut(&nexus)?.news.pop_front()
    }

    /// Carries out a task management function. `token` comes back in [`News::Managed`].
    pub fn manage(&mut self, nexus: Nexus, function: Function, token: u64) -> Managed {
        let own = |task: &Task| task.nexus == nexus;
        let chosen = match function {
            Function::AbortTask(wanted) => {
                let found = self.tasks.of(|task| own(task) && task.token == wanted && !task.aborted);
                if found.is_empty() {
                    return Managed::NoTask;
                }
                found
            }
            Function::AbortTaskSet => self.tasks.of(own),
            Function::ClearTaskSet | Function::Reset => self.tasks.of(|_| true),
        };
        match function {
            Function::ClearTaskSet => {
                let mut others: Vec<Nexus> = chosen.iter().filter_map(|id| self.tasks.nexus(*id)).collect();
                others.sort_unstable();
                others.dedup();
                others.retain(|other| *other != nexus);
                others.into_iter().for_each(|other| self.attend(other, CLEARED_BY_ANOTHER));
            }
            Function::Reset => self.reset(),
            _ => {}
        }
        let on = self.abort(&chosen);
        self.enable();
        if on.is_empty() {
            return Managed::Complete;
        }
        self.waiting.push(Waiting { nexus, token, on });
        Managed::Wait
    }

    /// Parameters return to their first values. Reservations stay, as they must.
    fn reset(&mut self) {
        self.unit.set_modes(unit::Modes::default());
        self.stopped = false;
        self.ports.values_mut().for_each(|port| port.attentions.clear());
        self.attend_all(BUS_DEVICE_RESET, None);
    }

    fn attend(&mut self, nexus: Nexus, code: (u8, u8)) {
        if let Some(port) = self.ports.get_mut(&nexus) {
            port.attend(code);
        }
    }

    /// Aborts commands; returns those that still run.
    fn abort(&mut self, ids: &[TaskId]) -> Vec<TaskId> {
        let mut running = Vec::new();
        for &id in ids {
            let Some(task) = self.tasks.get_mut(id) else { continue };
            if task.state == State::Running {
                task.aborted = true;
                running.push(id);
                continue;
            }
            let (nexus, token) = (task.nexus, task.token);
            self.tasks.remove(id);
            if let Some(port) = self.ports.get_mut(&nexus) {
                // It may have been enabled and not looked at yet.
                port.news.retain(|news| *news != News::Enabled(id, token));
            }
            self.tell(nexus, News::Dropped(token));
        }
        running
    }

    fn tell(&mut self, nexus: Nexus, news: News) {
        if let Some(port) = self.ports.get_mut(&nexus) {
            port.news.push_back(news);
            port.bell.ring();
        }
    }

    fn remove(&mut self, id: TaskId) -> Option<Task> {
        let task = self.tasks.remove(id);
        for waiting in &mut self.waiting {
            waiting.on.retain(|on| *on != id);
        }
        while let Some(at) = self.waiting.iter().position(|waiting| waiting.on.is_empty()) {
            let Waiting { nexus, token, .. } = self.waiting.remove(at);
            self.tell(nexus, News::Managed(token));
        }
        self.enable();
        task
    }

    /// Lets commands run that wait for nothing any more.
    fn enable(&mut self) {
        while let Some((id, nexus, token)) = self.tasks.enable_next() {
            self.tell(nexus, News::Enabled(id, token));
        }
    }

    /// The range that a command names, in bytes.
    fn extent(&self, request: &Request<'_>) -> Option<(u64, u64)> {
        match self.unit.plan(request.cdb, request.data_out) {
            Plan::Steps(steps) => hull(&steps),
            Plan::Done(_) => None,
        }
    }

    /// Carries out a command that may run now.
    fn perform(&mut self, id: TaskId, nexus: Nexus, bytes: &[u8], data_out: &[u8]) -> Outcome {
        let outcome = self.try_perform((id, nexus), bytes, data_out);
        match outcome.unwrap_or_else(|failure| Outcome::Respond(self.unit.refuse(failure))) {
            Outcome::Run(_, steps) => {
                self.counts.count(&steps, self.unit.geometry());
                if let Some(task) = self.tasks.get_mut(id)
                    && task.range.is_none()
                {
                    task.range = hull(&steps);
                }
                Outcome::Run(id, steps)
            }
            // It is answered when others have ended; some may have been waiting for those.
            Outcome::Wait(_) => {
                self.enable();
                Outcome::Wait(id)
            }
            respond @ Outcome::Respond(_) => {
                self.remove(id);
                respond
            }
        }
    }

    fn try_perform(
        &mut self,
        (id, nexus): (TaskId, Nexus),
        bytes: &[u8],
        data_out: &[u8],
    ) -> Result<Outcome, Failure> {
        const UNATTENDED: [u8; 3] = [cdb::INQUIRY.opcode, cdb::REPORT_LUNS.opcode, cdb::REQUEST_SENSE.opcode];
        let opcode = bytes.first().copied().unwrap_or_default();
        if !UNATTENDED.contains(&opcode)
            && let Some(failure) = self.attention(nexus)
        {
            return Err(failure);
        }
        let cdb = unit::decode(bytes, COMMANDS)?;
        let access = Access::of(&cdb);
        let name = self.ports.get(&nexus).map(|port| Arc::clone(&port.name));
        if access != Access::Free && name.is_some_and(|name| self.reservations.forbids(&name, access)) {
            return Ok(Outcome::Respond(Response::of(Status::ReservationConflict)));
        }
        let asks = *cdb.command() == cdb::TEST_UNIT_READY;
        if let Some(failure) = self.inaccessible(nexus, &cdb, asks) {
            return Err(failure);
        }
        if let Some(handler) = handler_of(cdb.command()) {
            return handler(self, (id, nexus), &cdb, data_out);
        }
        if *cdb.command() == cdb::REQUEST_SENSE {
            let pending = self.attention(nexus).unwrap_or(match self.stopped {
                true => STOPPED,
                false => Failure::new(Key::NO_SENSE, 0, 0),
            });
            return unit::sense(&cdb, pending).map(Outcome::Respond);
        }
        if self.stopped && (access != Access::Free || *cdb.command() == cdb::TEST_UNIT_READY) {
            return Err(STOPPED);
        }
        Ok(match self.unit.plan(bytes, data_out) {
            Plan::Done(response) => Outcome::Respond(response),
            Plan::Steps(steps) => match self.inaccessible(nexus, &cdb, true) {
                None => Outcome::Run(id, steps),
                Some(failure) => return Err(failure),
            },
        })
    }

    /// Takes the next unit attention of a nexus.
    fn attention(&mut self, nexus: Nexus) -> Option<Failure> {
        let (asc, ascq) = self.ports.get_mut(&nexus)?.attentions.pop_front()?;
        Some(Failure::new(Key::UNIT_ATTENTION, asc, ascq))
    }

    /// The response to a command for a logical unit that there is not.
    pub fn absent(&self, bytes: &[u8]) -> Response {
        match unit::decode(bytes, COMMANDS) {
            Ok(cdb) if *cdb.command() == cdb::INQUIRY && field(&cdb, "EVPD") == 0 => {
                let mut data = alloc::vec![0; 36];
                // Peripheral qualifier 3, device type 1Fh: no device here. The text is spaces.
                (data[0], data[2], data[3], data[4]) = (0x7f, 6, 2, 31);
                data[8..].fill(b' ');
                unit::within(&cdb, data)
            }
            Ok(cdb) if *cdb.command() == cdb::REPORT_LUNS => match self.unit.plan(bytes, &[]) {
                Plan::Done(response) => response,
                Plan::Steps(_) => self.unit.refuse(NO_UNIT),
            },
            _ => self.unit.refuse(NO_UNIT),
        }
    }

    /// The names of the initiator ports that are connected.
    pub fn ports(&self) -> Vec<String> {
        self.ports.values().map(|port| String::from(&*port.name)).collect()
    }

    /// The reservation and registrations that there are.
    pub fn reservations(&self) -> &Reservations {
        &self.reservations
    }
}

/// The smallest range that holds those of all steps.
fn hull(steps: &[Step]) -> Option<(u64, u64)> {
    let from = steps.iter().map(|step| step.pos).min();
    from.zip(steps.iter().map(|step| step.pos + step.len).max())
}

/// LOGICAL UNIT NOT READY, INITIALIZING COMMAND REQUIRED: a START STOP UNIT has stopped it.
const STOPPED: Failure = Failure::new(Key::NOT_READY, 0x04, 0x02);
const NO_UNIT: Failure = Failure::new(Key::ILLEGAL_REQUEST, 0x25, 0x00);

impl Port {
    fn attend(&mut self, code: (u8, u8)) {
        if !self.attentions.contains(&code) && self.attentions.len() < MAX_ATTENTIONS {
            self.attentions.push_back(code);
        }
    }
}

#[cfg(test)]
mod tests;
