//! A simulated disk: a model for the times, a medium for the contents, and the channels that use them.

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
use ordered::LateData;
use platter_block::bio::Op;
use platter_block::disk::DiskChannel;
use platter_block::driver::{Completion, Geometry};
use platter_block::time::Time;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use trouble::Trouble;

mod control;
mod extent;
mod mistakes;
mod ordered;
mod trouble;

/// A simulated disk. Cheap to clone; clones are the same disk.
#[derive(Clone)]
pub struct SimDisk {
    world: Arc<World>,
    geometry: Geometry,
    depth: u32,
    horizon: Arc<Horizon>,
    state: Arc<Mutex<DiskState>>,
}

/// Parts of a simulated disk other than its model.
#[derive(Default)]
pub struct Options {
    /// Its contents. `None`: writes are forgotten, and reads leave memory unchanged.
    pub medium: Option<Medium>,
    /// Its faults.
    pub faults: Option<FaultPlan>,
    /// The power supply whose cuts affect it.
    pub supply: Option<Supply>,
}

/// Whether a disk took a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It is full.
    No,
    Yes,
    /// Taken: a read that gets its data when it ends.
    Later,
    /// Taken, but it will fail without touching memory.
    Failing,
}

/// A request of a channel, without its data.
pub(crate) struct Asked {
    pub(crate) port: u32,
    pub(crate) tag: u32,
    pub(crate) command: Command,
    /// All or nothing is stored, even in a power cut.
    pub(crate) atomic: bool,
    /// An ordered tag.
    pub(crate) ordered: bool,
}

/// A command inside the disk.
struct Slot {
    port: u32,
    tag: u32,
    command: Command,
    /// The data of a write.
    data: Vec<u8>,
    /// The command has neither ended nor failed.
    busy: bool,
    /// A read that gets its data when it ends.
    late_read: bool,
}

pub(crate) struct DiskState {
    model: Box<dyn Model>,
    medium: Option<Medium>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    ended: Vec<Ended>,
    /// Completions by channel.
    ports: Vec<Vec<Completion>>,
    free_ports: Vec<u32>,
    /// Data of reads whose completions were not collected.
    late_data: Vec<LateData>,
    /// Number of the last command in the order.
    order: u64,
    /// Faults and power cuts, if there may be any.
    trouble: Option<Box<Trouble>>,
    extent: Extent,
    /// Called for each command taken.
    observer: Option<Observer>,
    /// Only the owner of a channel can find out how many commands the channel has in the disk.
    owner_only: bool,
}

/// The channel number of commands whose channel was dropped.
const NO_PORT: u32 = u32::MAX;

impl SimDisk {
    /// A disk in `world`. Without a medium it forgets writes, and reads leave memory unchanged.
    pub fn new(world: &Arc<World>, model: Box<dyn Model>, medium: Option<Medium>) -> SimDisk {
        SimDisk::with(world, model, Options { medium, ..Options::default() })
    }

    /// A disk in `world`, with faults and a power supply.
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
        let state = DiskState {
            model,
            medium,
            trouble: trouble.map(Box::new),
            extent: Extent::new(geometry.size),
            slots: Vec::new(),
            free: Vec::new(),
            ended: Vec::with_capacity(depth as usize),
            ports: Vec::new(),
            free_ports: Vec::new(),
            late_data: Vec::new(),
            order: 0,
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

    /// The geometry with the current size.
    pub fn geometry(&self) -> Geometry {
        self.geometry.with_size(self.lock().extent.size)
    }

    /// Most commands the disk holds at once.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// The world it is in.
    pub fn world(&self) -> &Arc<World> {
        &self.world
    }

    /// Replaces the fault plan, or removes it. Decisions about commands that the disk already has remain.
    pub fn set_faults(&self, plan: Option<FaultPlan>) {
        let mut state = self.lock();
        state.live(self.world.clock().now());
        let injector = plan.map(|plan| self.injector(plan));
        self.trouble(&mut state).set_injector(injector);
        self.publish(&state);
    }

    /// Applies a strike to the next matching command. Strikes are used up in the order given;
    /// [`set_faults`](SimDisk::set_faults) drops those that are left.
    pub fn strike(&self, strike: Strike) {
        let mut state = self.lock();
        let trouble = self.trouble(&mut state);
        trouble.injector.get_or_insert_with(|| self.injector(FaultPlan::default())).strike(strike);
    }

    fn injector(&self, plan: FaultPlan) -> Injector {
        Injector::new(plan, self.world.seed(), self.geometry.size / SECTOR as u64)
    }

    fn trouble<'a>(&self, state: &'a mut DiskState) -> &'a mut Trouble {
        let cache = self.geometry.features.write_cache;
        state.trouble.get_or_insert_with(|| Box::new(Trouble::new(None, None, cache)))
    }

    /// Makes the disk misbehave, or behave correctly again.
    pub fn set_wrong(&self, wrong: Option<Wrong>) {
        let mut state = self.lock();
        DiskState::set_mistakes(self.trouble(&mut state), wrong);
    }

    /// How often each kind of fault has occurred.
    pub fn injected(&self) -> Injected {
        self.lock().trouble.as_ref().map_or_else(Injected::default, |trouble| trouble.injected())
    }

    /// Completes commands now that are stuck or delayed. Returns their number.
    pub fn release_stuck(&self) -> usize {
        let mut state = self.lock();
        let released = state.release(self.world.clock().now());
        self.publish(&state);
        released
    }

    /// Advances the disk to the current time: completions that are due can be reaped, and a power cut has
    /// been noticed and reported to its supply.
    pub fn settle(&self) {
        let mut state = self.lock();
        state.live(self.world.clock().now());
        self.publish(&state);
    }

    /// When a channel has completions to collect.
    pub(crate) fn next_event(&self, port: u32) -> Option<Time> {
        let mut state = self.lock();
        let now = self.world.clock().now();
        if state.trouble.is_some() || state.next_internal().is_some_and(|at| at <= now) {
            // A power cut, a death or a write from the buffer may be due while no channel has commands on the
            // disk. Without this, a caller that advances the clock to the next event would never get past it.
            state.live(now);
            self.publish(&state);
        }
        state.next_event(port)
    }

    /// Opens another channel to the disk.
    pub fn channel(&self) -> DiskChannel {
        let port = self.lock().add_port();
        DiskChannel::new(SimChannel::new(self.clone(), port))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, DiskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes the time of the disk's next event to the world.
    pub(crate) fn publish(&self, state: &DiskState) {
        self.horizon.set(state.next_internal());
    }
}

impl DiskState {
    fn add_port(&mut self) -> u32 {
        self.free_ports.pop().unwrap_or_else(|| {
            self.ports.push(Vec::new());
            self.ports.len() as u32 - 1
        })
    }

    /// The channel was dropped: its commands continue, and their completions are discarded.
    pub(crate) fn remove_port(&mut self, port: u32) {
        for slot in &mut self.slots {
            if slot.port == port {
                slot.port = NO_PORT;
            }
        }
        self.ports[port as usize].clear();
        self.forget_late(port);
        self.free_ports.push(port);
    }

    /// Offers a command. `data` supplies the data of a write; it is called once, and only if the command is
    /// taken.
    pub(crate) fn accept(&mut self, now: Time, asked: Asked, data: impl FnOnce(&mut Vec<u8>)) -> Taken {
        self.live(now);
        let order = self.next_order(asked.ordered);
        if let Some(errno) = self.extent.refuses(&asked.command) {
            self.order = order;
            self.post(asked.port, asked.tag, -errno);
            return Taken::Failing;
        }
        if self.trouble.is_some() {
            return self.accept_troubled(now, asked, data);
        }
        let index = self.next_slot();
        let command = Command { tag: index, order, ..asked.command };
        if !self.model.accept(now, &command) {
            self.put_back(index);
            return Taken::No;
        }
        self.order = order;
        self.fill_slot(&asked, command, data);
        if command.op == Op::Read && self.note_late_read(index) { Taken::Later } else { Taken::Yes }
    }

    #[inline]
    fn next_slot(&mut self) -> u32 {
        self.free.pop().unwrap_or(self.slots.len() as u32)
    }

    /// Returns a slot that is not needed.
    fn put_back(&mut self, index: u32) {
        if index < self.slots.len() as u32 {
            self.free.push(index);
        }
    }

    #[inline]
    fn fill_slot(&mut self, asked: &Asked, command: Command, data: impl FnOnce(&mut Vec<u8>)) {
        let index = command.tag;
        if index == self.slots.len() as u32 {
            let empty =
                Slot { port: NO_PORT, tag: 0, command, data: Vec::new(), busy: false, late_read: false };
            self.slots.push(empty);
        }
        let slot = &mut self.slots[index as usize];
        (slot.port, slot.tag, slot.command, slot.busy) = (asked.port, asked.tag, command, true);
        slot.late_read = false;
        if command.op == Op::Write && self.medium.is_some() {
            data(&mut slot.data);
        }
        if let Some(observer) = &mut self.observer {
            observer(&slot.command, &slot.data);
        }
    }

    /// The contents for a read that is taken now.
    pub(crate) fn medium(&self) -> Option<&Medium> {
        self.medium.as_ref()
    }

    /// Advances the disk to `now`.
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
        if self.slots.get(end.tag as usize).is_some_and(|slot| slot.late_read) {
            self.fetch_late(end.tag, None);
        }
        let Some(slot) = self.slots.get_mut(end.tag as usize) else { return };
        let Slot { port, tag, command, data, busy, .. } = slot;
        *busy = false;
        if let Some(medium) = &mut self.medium {
            match command.op {
                Op::Write => medium.write(command.sector, data),
                Op::Discard | Op::WriteZeroes => medium.zero(command.sector, command.sectors.into()),
                Op::Read | Op::Flush | Op::Command => {}
            }
        }
        let result = if command.op.has_data() { i64::from(command.sectors) * 512 } else { 0 };
        if let Some(port) = self.ports.get_mut(*port as usize) {
            port.push(Completion { tag: *tag, result });
        }
        data.clear();
        self.free.push(end.tag);
    }

    /// Gives a channel its completions.
    #[inline]
    pub(crate) fn collect(&mut self, now: Time, port: u32, done: &mut Vec<Completion>) {
        self.live(now);
        done.append(&mut self.ports[port as usize]);
    }

    /// When a channel has completions to collect.
    pub(crate) fn next_event(&self, port: u32) -> Option<Time> {
        match self.ports[port as usize].is_empty() {
            true => self.next_internal(),
            false => Some(Time(0)),
        }
    }

    /// The time of the next internal event, without another command.
    #[inline]
    fn next_internal(&self) -> Option<Time> {
        let model = self.model.next_event();
        match &self.trouble {
            None => model,
            Some(trouble) => Time::earliest(model, trouble.next_event()),
        }
    }
}
