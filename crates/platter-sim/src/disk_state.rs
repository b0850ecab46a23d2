//! A simulated disk: a model that says when, a medium that says what, and the channels that ask.

use crate::channel::SimChannel;
use crate::medium::Medium;
use crate::model::{Command, Ended, Model};
use crate::world::{Horizon, World};
use platter_block::bio::Op;
use platter_block::driver::{Completion, Geometry};
use platter_block::time::Time;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A simulated disk. Cheap to clone; clones are the same disk.
#[derive(Clone)]
pub struct SimDisk {
    world: Arc<World>,
    geometry: Geometry,
    depth: u32,
    horizon: Arc<Horizon>,
    state: Arc<Mutex<State>>,
}

/// What a channel asks for, data aside.
pub(crate) struct Asked {
    pub(crate) port: u32,
    pub(crate) tag: u32,
    pub(crate) command: Command,
}

/// A command inside the disk.
struct Slot {
    port: u32,
    tag: u32,
    command: Command,
    /// What a write brought.
    data: Vec<u8>,
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
}

/// The channel of commands whose channel is gone.
const NOBODY: u32 = u32::MAX;

impl SimDisk {
    /// A disk in `world`. Without a medium it forgets what is written, and reads leave memory as it was.
    pub fn new(world: &Arc<World>, model: Box<dyn Model>, medium: Option<Medium>) -> SimDisk {
        let (geometry, depth) = (model.geometry(), model.depth());
        let state = State {
            model,
            medium,
            slots: Vec::new(),
            free: Vec::new(),
            ended: Vec::with_capacity(depth as usize),
            ports: Vec::new(),
            free_ports: Vec::new(),
        };
        SimDisk {
            world: Arc::clone(world),
            geometry,
            depth,
            horizon: world.add(),
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Size, limits, features.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Most commands the disk holds at once.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// The world it is in.
    pub fn world(&self) -> &Arc<World> {
        &self.world
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
        self.horizon.set(state.model.next_event());
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
    pub(crate) fn accept(&mut self, now: Time, asked: Asked, data: impl FnOnce(&mut Vec<u8>)) -> bool {
        self.live(now);
        let index = self.free.pop().unwrap_or(self.slots.len() as u32);
        let command = Command { tag: index, ..asked.command };
        if !self.model.accept(now, &command) {
            if index < self.slots.len() as u32 {
                self.free.push(index);
            }
            return false;
        }
        if index == self.slots.len() as u32 {
            self.slots.push(Slot { port: asked.port, tag: asked.tag, command, data: Vec::new() });
        }
        let slot = &mut self.slots[index as usize];
        (slot.port, slot.tag, slot.command) = (asked.port, asked.tag, command);
        if command.op == Op::Write && self.medium.is_some() {
            data(&mut slot.data);
        }
        true
    }

    /// The contents as a read finds them that is taken now.
    pub(crate) fn medium(&self) -> Option<&Medium> {
        self.medium.as_ref()
    }

    /// Lives until `now`.
    pub(crate) fn live(&mut self, now: Time) {
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
        let Slot { port, tag, command, data } = slot;
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
            true => self.model.next_event(),
            false => Some(Time(0)),
        }
    }
}
