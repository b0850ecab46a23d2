//! The unit's side of a transport: the target, and what its initiator ports share.

use super::faults::{Fate, FaultPlan, Faults};
use super::inbox::{Inbox, Note};
use super::options::Options;
use crate::target::{
    AccessState, Attribute, Function, News, Nexus, Outcome, Request, Target, TargetPort, TaskId,
};
use crate::unit::{Response, Status, Step, StepError};
use platter_block::backend::Backend;
use platter_block::lane::Bell;
use platter_block::time::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::vec::Vec;

/// A command on its way to the target.
pub(super) struct Sent<'a> {
    pub(super) cdb: &'a [u8],
    pub(super) data_out: &'a [u8],
    pub(super) attribute: Attribute,
    pub(super) token: Token,
    /// Its place in the order, if it has been sent before.
    pub(super) order: Option<u64>,
    /// The bytes of the medium that it transfers.
    pub(super) range: Option<(u64, u64)>,
}

/// The number of a command at the target: its channel and its slot there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Token {
    pub(super) channel: u32,
    pub(super) slot: u32,
}

impl Token {
    /// The number by which the target knows it.
    pub(super) fn number(self) -> u64 {
        u64::from(self.channel) << 32 | u64::from(self.slot)
    }

    fn of(number: u64) -> Token {
        Token { channel: (number >> 32) as u32, slot: number as u32 }
    }
}

/// What the target says to a command.
pub(super) enum Begun {
    /// It has ended.
    Respond(Response),
    /// These steps are to be carried out. With `false` the response is lost.
    Run(TaskId, Vec<Step>, bool),
    /// It waits for others: a [`Note`] follows.
    Wait,
    /// Nothing will be heard of it.
    Lost,
    /// A reset of the bus has ended it, and all others.
    Reset,
    /// There is no way to the target.
    Away,
    /// The queue has not been told yet that commands were ended that this one may have to follow.
    Behind,
}

/// Rung when the target has news.
#[derive(Default)]
struct HasNews(AtomicBool);

impl Bell for HasNews {
    fn ring(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The commands of a port that have not ended, by their place in the order: simple ones have even numbers, ordered ones odd
/// ones of their own.
#[derive(Default)]
struct Order {
    last: u64,
    live: BTreeSet<(u64, Token)>,
}

impl Order {
    fn enter(&mut self, token: Token, ordered: bool) -> u64 {
        let after_ordered = self.last % 2;
        self.last += if ordered { 1 + after_ordered } else { after_ordered };
        self.live.insert((self.last, token));
        self.last
    }

    /// Takes out the commands that must follow one of this order. A simple one holds back others only if an ordered one is
    /// between: that may be gone, for example aborted, and what came after that runs beside the simple one.
    fn take_behind(&mut self, order: u64) -> BTreeSet<(u64, Token)> {
        let first = Token { channel: 0, slot: 0 };
        let mut behind = self.live.range((order + 1, first)..).map(|(at, _)| *at);
        let begin = behind.find(|at| order % 2 == 1 || at % 2 == 1);
        begin.map_or_else(BTreeSet::new, |begin| self.live.split_off(&(begin, first)))
    }
}

struct Port {
    inboxes: BTreeMap<u32, Arc<Inbox>>,
    channels: u32,
    order: Order,
    /// Commands that were ended because of others, and of which the queue has not been told.
    ended_behind: u64,
    /// Ordered commands that were not carried out, and of which it has not been told: what follows them must not run, also
    /// what has not been sent yet.
    broken: BTreeSet<(u64, Token)>,
    faults: Faults,
    /// The port of the target, with its access while it is not in standby.
    target_port: Option<(TargetPort, AccessState)>,
}

struct State {
    target: Target,
    ports: BTreeMap<Nexus, Port>,
}

/// A target over a device, and its ports.
pub(super) struct Hub {
    pub(super) device: Arc<dyn Backend>,
    news: Arc<HasNews>,
    state: Mutex<State>,
}

impl Hub {
    pub(super) fn new(device: Arc<dyn Backend>, target: Target) -> Hub {
        Hub { device, news: Arc::default(), state: Mutex::new(State { target, ports: BTreeMap::new() }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connects a port of this name.
    pub(super) fn connect(&self, options: &Options) -> Nexus {
        let mut state = self.state();
        let bell = Arc::clone(&self.news);
        let Options { initiator, target_port, access, faults, .. } = options.clone();
        if let Some(port) = target_port {
            state.target.set_access(port.group, access);
        }
        let nexus = state.target.connect_through(target_port, &initiator, bell);
        let block = u64::from(state.target.unit().geometry().limits.logical_block);
        let faults = Faults::new(faults, block);
        let port = Port {
            inboxes: BTreeMap::new(),
            channels: 0,
            order: Order::default(),
            ended_behind: 0,
            broken: BTreeSet::new(),
            faults,
            target_port: target_port.map(|port| (port, access)),
        };
        state.ports.insert(nexus, port);
        nexus
    }

    /// The target port of a nexus, and the others of its group, reach the unit in this way from now on.
    pub(super) fn set_access(&self, nexus: Nexus, access: AccessState) {
        let mut state = self.state();
        let port = state.ports.get_mut(&nexus).and_then(|port| port.target_port.as_mut());
        let Some((TargetPort { group, .. }, usual)) = port else { return };
        *usual = access;
        let group = *group;
        state.target.set_access(group, access);
        self.pass_news(&mut state);
    }

    /// The port is gone.
    pub(super) fn disconnect(&self, nexus: Nexus) {
        let mut state = self.state();
        let running = state.target.disconnect(nexus);
        running.into_iter().for_each(|task| _ = state.target.end(task));
        state.ports.remove(&nexus);
        self.pass_news(&mut state);
    }

    /// Changes the faults of a port.
    pub(super) fn set_faults(&self, nexus: Nexus, plan: FaultPlan) {
        let mut state = self.state();
        let Some(port) = state.ports.get_mut(&nexus) else { return };
        port.faults.set_plan(plan);
        // The new plan decides from the next command on.
        if let Some((port, usual)) = port.target_port {
            state.target.set_access(port.group, usual);
        }
    }

    /// The number of a new channel of a port.
    pub(super) fn add_channel(&self, nexus: Nexus, inbox: Arc<Inbox>) -> u32 {
        let mut state = self.state();
        let Some(port) = state.ports.get_mut(&nexus) else { return 0 };
        port.channels += 1;
        port.inboxes.insert(port.channels, inbox);
        port.channels
    }

    /// A channel is gone, whose commands the device does not carry out any more, with notes that the queue was not told of.
    pub(super) fn remove_channel(&self, nexus: Nexus, channel: u32, running: &[TaskId], untold: u64) {
        let mut state = self.state();
        if let Some(port) = state.ports.get_mut(&nexus) {
            port.ended_behind = port.ended_behind.saturating_sub(untold);
            port.inboxes.remove(&channel);
            port.order.live.retain(|(_, token)| token.channel != channel);
            port.broken.retain(|(_, token)| token.channel != channel);
        }
        for &task in running {
            state.target.end(task);
        }
        self.pass_news(&mut state);
    }

    /// A command that needs no step of the device: how a port finds out what is behind it.
    pub(super) fn ask(&self, nexus: Nexus, cdb: &[u8]) -> Option<Response> {
        let mut state = self.state();
        let request = Request { cdb, data_out: &[], attribute: Attribute::HeadOfQueue, token: u64::MAX };
        match state.target.begin(nexus, &request) {
            Outcome::Respond(response) => Some(response),
            Outcome::Run(task, _) | Outcome::Wait(task) => {
                state.target.end(task);
                None
            }
        }
    }

    /// The device may have another size.
    pub(super) fn observe(&self) {
        let geometry = self.device.geometry();
        let mut state = self.state();
        state.target.observe(&geometry);
        self.pass_news(&mut state);
    }

    /// A command arrives, or meets a fault. Returns its place in the order.
    pub(super) fn begin(&self, nexus: Nexus, now: Time, sent: &Sent<'_>) -> (u64, Begun) {
        let mut guard = self.state();
        let state = &mut *guard;
        let Some(port) = state.ports.get_mut(&nexus) else { return (0, Begun::Lost) };
        let is_broken = port.ended_behind > 0 || !port.broken.is_empty();
        if sent.order.is_none() && is_broken {
            return (0, Begun::Behind);
        }
        // It was ended with others, and its channel, which sends it again, has not read that yet.
        if let Some(order) = sent.order.filter(|order| !port.order.live.contains(&(*order, sent.token))) {
            return (order, Begun::Behind);
        }
        let ordered = sent.attribute == Attribute::Ordered;
        let order = sent.order.unwrap_or_else(|| port.order.enter(sent.token, ordered));
        let opcode = sent.cdb.first().copied().unwrap_or_default();
        if let (Some(standby), Some((port, usual))) = (port.faults.is_standby(now), port.target_port) {
            state.target.set_access(port.group, if standby { AccessState::Standby } else { usual });
        }
        let fate = port.faults.draw(now, opcode, sent.range);
        let begun = match fate {
            Fate::Lost => Begun::Lost,
            Fate::Away => Begun::Away,
            Fate::Status(status) => Begun::Respond(Response::of(status)),
            Fate::Sense(failure) => Begun::Respond(state.target.unit().refuse(failure)),
            Fate::Reset => {
                reset_all(state, nexus);
                Begun::Reset
            }
            Fate::Arrives | Fate::Unanswered => {
                let Sent { cdb, data_out, attribute, token, .. } = *sent;
                let request = Request { cdb, data_out, attribute, token: token.number() };
                match state.target.begin(nexus, &request) {
                    Outcome::Respond(_) if fate == Fate::Unanswered => Begun::Lost,
                    Outcome::Respond(response) => Begun::Respond(response),
                    Outcome::Run(task, steps) => Begun::Run(task, steps, fate == Fate::Arrives),
                    Outcome::Wait(_) => Begun::Wait,
                }
            }
        };
        end_behind_failure(state, nexus, order, &begun);
        self.pass_news(&mut guard);
        (order, begun)
    }

    /// A command that waited may run.
    pub(super) fn resume(
        &self,
        (nexus, order): (Nexus, u64),
        task: TaskId,
        cdb: &[u8],
        data_out: &[u8],
    ) -> Begun {
        let mut guard = self.state();
        let state = &mut *guard;
        let begun = match state.target.resume(task, cdb, data_out) {
            Outcome::Respond(response) => Begun::Respond(response),
            Outcome::Run(task, steps) => Begun::Run(task, steps, true),
            Outcome::Wait(_) => Begun::Wait,
        };
        end_behind_failure(state, nexus, order, &begun);
        self.pass_news(&mut guard);
        begun
    }

    /// The device has nothing of a command any more. `None`: it was aborted, and there is no response. A failure ends all
    /// commands that must follow this one, before they can run.
    pub(super) fn end(
        &self,
        (nexus, order): (Nexus, u64),
        task: TaskId,
        failed: Option<(Step, StepError)>,
    ) -> Option<Response> {
        let mut guard = self.state();
        let state = &mut *guard;
        let response = match &failed {
            None => state.target.done(),
            Some((step, error)) => state.target.failed(step, *error),
        };
        // While the task is still there, nothing that waits for it runs.
        let aborted = state.target.is_aborted(task);
        if failed.is_some() || aborted {
            end_behind(state, nexus, order);
            break_order(state, nexus, order);
        }
        state.target.end(task);
        self.pass_news(&mut guard);
        (!aborted).then_some(response)
    }

    /// A command has been reported to the queue.
    pub(super) fn forget(&self, nexus: Nexus, order: u64, token: Token) {
        if let Some(port) = self.state().ports.get_mut(&nexus) {
            port.order.live.remove(&(order, token));
        }
    }

    /// The queue has been told of commands that were ended because of others, and of ordered ones that have failed.
    pub(super) fn told(&self, nexus: Nexus, count: u64, failed: &[(u64, Token)]) {
        if let Some(port) = self.state().ports.get_mut(&nexus) {
            port.ended_behind = port.ended_behind.saturating_sub(count);
            port.broken.retain(|one| !failed.contains(one));
        }
    }

    /// Aborts a command, and ends those that must follow it.
    pub(super) fn abort(&self, (nexus, order): (Nexus, u64), token: Token) {
        let mut state = self.state();
        end_behind(&mut state, nexus, order);
        state.target.manage(nexus, Function::AbortTask(token.number()), u64::MAX);
        self.pass_news(&mut state);
    }

    /// Resets the unit: all commands of all ports are aborted.
    pub(super) fn reset(&self, nexus: Nexus) {
        let mut state = self.state();
        reset_all(&mut state, nexus);
        self.pass_news(&mut state);
    }

    /// Gives the news of each port to its channels.
    fn pass_news(&self, state: &mut State) {
        if !self.news.0.swap(false, Ordering::Relaxed) {
            return;
        }
        for (nexus, port) in &state.ports {
            while let Some(news) = state.target.news(*nexus) {
                match news {
                    News::Enabled(task, number) => {
                        let token = Token::of(number);
                        port.post(token, Note::Enabled(task, token.slot));
                    }
                    News::Dropped(number) => {
                        port.post(Token::of(number), Note::Dropped(Token::of(number).slot))
                    }
                    // The port waits for the end of the commands themselves.
                    News::Managed(_) => {}
                }
            }
        }
    }
}

impl Port {
    fn post(&self, token: Token, note: Note) {
        if let Some(inbox) = self.inboxes.get(&token.channel) {
            inbox.post(note);
        }
    }
}

/// Ends the commands that must follow one of this order, none of which runs (QErr=01b of the Control mode page).
fn end_behind(state: &mut State, nexus: Nexus, order: u64) {
    let Some(port) = state.ports.get_mut(&nexus) else { return };
    for (_, token) in port.order.take_behind(order) {
        state.target.manage(nexus, Function::AbortTask(token.number()), u64::MAX);
        port.ended_behind += 1;
        port.post(token, Note::Behind(token.slot));
    }
}

/// The same, if the target did not carry this one out.
fn end_behind_failure(state: &mut State, nexus: Nexus, order: u64, begun: &Begun) {
    let failed = match begun {
        Begun::Respond(response) => response.status != Status::Good,
        Begun::Lost | Begun::Reset | Begun::Away => true,
        Begun::Run(..) | Begun::Wait | Begun::Behind => false,
    };
    if failed {
        end_behind(state, nexus, order);
        break_order(state, nexus, order);
    }
}

/// An ordered command ends without being carried out: until its queue has been told, nothing new runs, because the queue may
/// have sent it before it knows.
fn break_order(state: &mut State, nexus: Nexus, order: u64) {
    let is_ordered = order % 2 == 1;
    if let Some(port) = state.ports.get_mut(&nexus).filter(|_| is_ordered) {
        let (first, last) = (Token { channel: 0, slot: 0 }, Token { channel: u32::MAX, slot: u32::MAX });
        let itself = port.order.live.range((order, first)..=(order, last)).next();
        port.broken.extend(itself.copied());
    }
}

/// Aborts all commands. What must follow the first of a port would have to be sent again after it, so it is ended.
fn reset_all(state: &mut State, nexus: Nexus) {
    let firsts: Vec<(Nexus, u64)> =
        state.ports.iter().filter_map(|(nexus, port)| Some((*nexus, port.order.live.first()?.0))).collect();
    firsts.into_iter().for_each(|(nexus, first)| end_behind(state, nexus, first));
    state.target.manage(nexus, Function::Reset, u64::MAX);
}
