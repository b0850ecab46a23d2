//! A simulated disk: a model that says when, a medium that says what, and the channels that ask.

use crate::channel::SimChannel;
use crate::fault::{FaultPlan, Injected, Injector, Strike};
use crate::medium::{Medium, SECTOR};
use crate::model::{Command, Ended, Model};
use crate::power::Supply;
use crate::world::{Horizon, World};
use crate::wrong::Wrong;
pub use control::Inside;
use control::Observer;
use extent::Extent;
use platter_block::bio::Op;
use platter_block::driver::{Completion, Geometry};
use platter_block::time::Time;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use trouble::Trouble;

mod control;
mod cut;
mod extent;
mod mistakes;
mod trouble;

/// A simulated disk. Cheap to clone; clones are the same disk.
#[derive(Clone)]
pub struct SimDisk {
    world: Arc<World>,
    geometry: Geometry,
    depth: u32,
    horizon: Arc<Horizon>,
    state: Arc<Mutex<State>>,
}

/// What a simulated disk has beside its model.
#[derive(Default)]
pub struct Options {
    /// What is stored on it. `None`: it forgets what is written, and reads leave memory as it was.
    pub medium: Option<Medium>,
    /// What goes wrong with it.
    pub faults: Option<FaultPlan>,
    /// The supply whose power cuts it feels.
    pub supply: Option<Supply>,
}

/// Whether a disk took a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It is full.
    No,
    Yes,
    /// It will fail and touches no memory.
    Failing,
}

/// What a channel asks for, data aside.
pub(crate) struct Asked {
    pub(crate) port: u32,
    pub(crate) tag: u32,
    pub(crate) command: Command,
    /// All of it or nothing, also in a power cut.
    pub(crate) atomic: bool,
}

/// A command inside the disk.
struct Slot {
    port: u32,
    tag: u32,
    command: Command,
    /// What a write brought.
    data: Vec<u8>,
    /// The command has neither ended nor failed.
    busy: bool,
}

pub(crate) struct State {
    model: Box<dyn Model>,
    medium: Option<Medium>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    ended: Vec<Ended>,
    /// Completions by channel.
    ports: Vec<Vec<Completion>>,
    free_ports: Vec<u32>,
    /// Faults and power cuts, if there may be any.
    trouble: Option<Box<Trouble>>,
    extent: Extent,
    /// Sees each command that is taken.
    observer: Option<Observer>,
    /// Only the owner of a channel can know how many commands it has inside.
    owner_only: bool,
}

/// The channel of commands whose channel is gone.
const NOBODY: u32 = u32::MAX;

impl SimDisk {
    /// A disk in `world`. Without a medium it forgets what is written, and reads leave memory as it was.
    pub fn new(world: &Arc<World>, model: Box<dyn Model>, medium: Option<Medium>) -> SimDisk {
        SimDisk::with(world, model, Options { medium, ..Options::default() })
    }

    /// A disk in `world` with what can go wrong with it.
    pub fn with(world: &Arc<World>, model: Box<dyn Model>, options: Options) -> SimDisk {
        let (geometry, depth) = (model.geometry(), model.depth());
        let Options { medium, faults, supply } = options;
        let injector = |plan| Injector::new(plan, world.seed(), geometry.size / SECTOR as u64);
        let trouble = match (faults, supply) {
            (None, None) => None,
            (faults, supply) => {
                Some(Trouble::new(faults.map(injector), supply, geometry.features.write_cache))
            }
        };
        let state = State {
            model,
            medium,
            trouble: trouble.map(Box::new),
            extent: Extent::new(geometry.size),
            slots: Vec::new(),
            free: Vec::new(),
            ended: Vec::with_capacity(depth as usize),
            ports: Vec::new(),
            free_ports: Vec::new(),
            observer: None,
            owner_only: false,
        };
        SimDisk {
            world: Arc::clone(world),
            geometry,
            depth,
            horizon: world.add(),
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Size as it is now, limits, features.
    pub fn geometry(&self) -> Geometry {
        Geometry { size: self.lock().extent.size, ..self.geometry }
    }

    /// Most commands the disk holds at once.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// The world it is in.
    pub fn world(&self) -> &Arc<World> {
        &self.world
    }

    /// Replaces what goes wrong with the disk, or ends it. What was decided for commands that it has stays.
    pub fn set_faults(&self, plan: Option<FaultPlan>) {
        let mut state = self.lock();
        state.live(self.world.clock().now());
        let injector = plan.map(|plan| self.injector(plan));
        self.trouble(&mut state).set_injector(injector);
        self.publish(&state);
    }

    /// Does this to the next command that fits. Strikes are used up in the order in which they were given, and
    /// [`set_faults`](SimDisk::set_faults) forgets those that are left.
    pub fn strike(&self, strike: Strike) {
        let mut state = self.lock();
        let trouble = self.trouble(&mut state);
        trouble.injector.get_or_insert_with(|| self.injector(FaultPlan::default())).strike(strike);
    }

    fn injector(&self, plan: FaultPlan) -> Injector {
        Injector::new(plan, self.world.seed(), self.geometry.size / SECTOR as u64)
    }

    fn trouble<'a>(&self, state: &'a mut State) -> &'a mut Trouble {
        let cache = self.geometry.features.write_cache;
        state.trouble.get_or_insert_with(|| Box::new(Trouble::new(None, None, cache)))
    }

    /// Makes the disk wrong on purpose, or right again.
    pub fn set_wrong(&self, wrong: Option<Wrong>) {
        let mut state = self.lock();
        State::set_mistakes(self.trouble(&mut state), wrong);
    }

    /// How often what went wrong since the disk was made.
    pub fn injected(&self) -> Injected {
        self.lock().trouble.as_ref().map_or_else(Injected::default, |trouble| trouble.injected())
    }

    /// Lets commands that are stuck, or take longer than their time, end now. Returns how many there were.
    pub fn release_stuck(&self) -> usize {
        let mut state = self.lock();
        let released = state.release(self.world.clock().now());
        self.publish(&state);
        released
    }

    /// Lets the disk live until now: completions that are due are there to be reaped, and a power cut has been
    /// noticed and reported to its supply.
    pub fn settle(&self) {
        let mut state = self.lock();
        state.live(self.world.clock().now());
        self.publish(&state);
    }

    /// When a channel has something to collect.
    pub(crate) fn next_event(&self, port: u32) -> Option<Time> {
        let mut state = self.lock();
        let now = self.world.clock().now();
        if state.trouble.is_some() || state.next_internal().is_some_and(|at| at <= now) {
            // A cut, a death or a write from the buffer may be due that nobody has noticed, since nobody has anything
            // on the disk. Who moves the clock to the next event would never get past it.
            state.live(now);
            self.publish(&state);
        }
        state.next_event(port)
    }

    /// Another way to the disk.
    pub fn channel(&self) -> SimChannel {
        let port = self.lock().add_port();
        SimChannel::new(self.clone(), port)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the world when the disk is to be looked at next.
    pub(crate) fn publish(&self, state: &State) {
        self.horizon.set(state.next_internal());
    }
}

impl State {
    fn add_port(&mut self) -> u32 {
        self.free_ports.pop().unwrap_or_else(|| {
            self.ports.push(Vec::new());
            self.ports.len() as u32 - 1
        })
    }

    /// The channel is gone: what it asked for goes on and ends for nobody.
    pub(crate) fn remove_port(&mut self, port: u32) {
        for slot in &mut self.slots {
            if slot.port == port {
                slot.port = NOBODY;
            }
        }
        self.ports[port as usize].clear();
        self.free_ports.push(port);
    }

    /// Offers a command. `data` fills in what a write brings; it is called once, and only if it is taken.
    pub(crate) fn accept(&mut self, now: Time, asked: Asked, data: impl FnOnce(&mut Vec<u8>)) -> Taken {
        self.live(now);
        if let Some(errno) = self.extent.refuses(&asked.command) {
            self.post(asked.port, asked.tag, -errno);
            return Taken::Failing;
        }
        if self.trouble.is_some() {
            return self.accept_troubled(now, asked, data);
        }
        let index = self.next_slot();
        let command = Command { tag: index, ..asked.command };
        if !self.model.accept(now, &command) {
            self.put_back(index);
            return Taken::No;
        }
        self.fill_slot(&asked, command, data);
        Taken::Yes
    }

    #[inline]
    fn next_slot(&mut self) -> u32 {
        self.free.pop().unwrap_or(self.slots.len() as u32)
    }

    /// A slot is not needed after all.
    fn put_back(&mut self, index: u32) {
        if index < self.slots.len() as u32 {
            self.free.push(index);
        }
    }

    #[inline]
    fn fill_slot(&mut self, asked: &Asked, command: Command, data: impl FnOnce(&mut Vec<u8>)) {
        let index = command.tag;
        if index == self.slots.len() as u32 {
            self.slots.push(Slot { port: NOBODY, tag: 0, command, data: Vec::new(), busy: false });
        }
        let slot = &mut self.slots[index as usize];
        (slot.port, slot.tag, slot.command, slot.busy) = (asked.port, asked.tag, command, true);
        if command.op == Op::Write && self.medium.is_some() {
            data(&mut slot.data);
        }
        if let Some(observer) = &mut self.observer {
            observer(&slot.command, &slot.data);
        }
    }

    /// The contents as a read finds them that is taken now.
    pub(crate) fn medium(&self) -> Option<&Medium> {
        self.medium.as_ref()
    }

    /// Lives until `now`.
    pub(crate) fn live(&mut self, now: Time) {
        if self.trouble.is_some() {
            return self.live_troubled(now);
        }
        if self.model.next_event().is_none_or(|at| at > now) {
            return;
        }
        let mut ended = std::mem::take(&mut self.ended);
        self.model.advance(now, &mut ended);
        for end in ended.drain(..) {
            self.finish(end);
        }
        self.ended = ended;
    }

    fn finish(&mut self, end: Ended) {
        let Some(slot) = self.slots.get_mut(end.tag as usize) else { return };
        let Slot { port, tag, command, data, busy } = slot;
        *busy = false;
        if let Some(medium) = &mut self.medium {
            match command.op {
                Op::Write => medium.write(command.sector, data),
                Op::Discard | Op::WriteZeroes => medium.zero(command.sector, command.sectors.into()),
                Op::Read | Op::Flush => {}
            }
        }
        let result = if command.op.has_data() { i64::from(command.sectors) * 512 } else { 0 };
        if let Some(port) = self.ports.get_mut(*port as usize) {
            port.push(Completion { tag: *tag, result });
        }
        data.clear();
        self.free.push(end.tag);
    }

    /// Hands a channel what has completed.
    #[inline]
    pub(crate) fn collect(&mut self, now: Time, port: u32, done: &mut Vec<Completion>) {
        self.live(now);
        done.append(&mut self.ports[port as usize]);
    }

    /// When a channel has something to collect.
    pub(crate) fn next_event(&self, port: u32) -> Option<Time> {
        match self.ports[port as usize].is_empty() {
            true => self.next_internal(),
            false => Some(Time(0)),
        }
    }

    /// When something happens inside the disk without another command.
    #[inline]
    fn next_internal(&self) -> Option<Time> {
        let model = self.model.next_event();
        match &self.trouble {
            None => model,
            Some(trouble) => Time::earliest(model, trouble.next_event()),
        }
    }
}
