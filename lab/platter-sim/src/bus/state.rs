//! The events of all buses and disks of a world, in order of time.

use super::MAX_PATH;
use super::wire::{Burst, Wire};
use crate::model::{Command, Ended, Model};
use platter_block::bio::Op;
use platter_block::time::Time;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The disk number of transfers whose disk was dropped.
const NO_DISK: u32 = u32::MAX;

/// A disk on buses.
pub(super) struct Attached {
    pub(super) model: Box<dyn Model>,
    /// When the model has its next event.
    next: Option<Time>,
    /// Buses from the disk to the host.
    pub(super) path: Arc<[u32]>,
    /// Commands taken and not yet reported, with the time at which the model got them.
    pub(super) inside: BTreeMap<u32, (Command, Time)>,
    /// Commands to give to the model.
    offered: VecDeque<Command>,
    /// Completed commands that were not collected yet.
    pub(super) ended: Vec<Ended>,
    /// When the model last completed a command.
    last: Time,
}

/// Data, or a command without data, in transit.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    disk: u32,
    tag: u32,
    /// To the host.
    inbound: bool,
    bytes: u64,
    /// How many of its `size()` bytes have passed each bus of its path.
    done: [u64; MAX_PATH],
    /// Whether it waits for the bus or occupies it.
    queued: [bool; MAX_PATH],
}

impl Transfer {
    /// A command without data has a size too, because it must pass the buses.
    fn size(&self) -> u64 {
        self.bytes.max(1)
    }
}

#[derive(Default)]
pub(super) struct FabricState {
    pub(super) wires: Vec<Wire>,
    pub(super) disks: Vec<Option<Attached>>,
    transfers: Vec<Option<Transfer>>,
    free: Vec<u32>,
    scratch: Vec<Ended>,
}

impl FabricState {
    pub(super) fn add(&mut self, model: Box<dyn Model>, path: Arc<[u32]>) -> u32 {
        for &wire in &*path {
            self.wires[wire as usize].disks += 1;
        }
        let next = model.next_event();
        let disk = Attached {
            model,
            next,
            path,
            inside: BTreeMap::new(),
            offered: VecDeque::new(),
            ended: Vec::new(),
            last: Time(0),
        };
        match self.disks.iter().position(Option::is_none) {
            Some(free) => {
                self.disks[free] = Some(disk);
                free as u32
            }
            None => {
                self.disks.push(Some(disk));
                self.disks.len() as u32 - 1
            }
        }
    }

    /// Detaches a disk, with all of its commands.
    pub(super) fn remove(&mut self, disk: u32) {
        let Some(gone) = self.disks[disk as usize].take() else { return };
        for transfer in self.transfers.iter_mut().flatten().filter(|transfer| transfer.disk == disk) {
            transfer.disk = NO_DISK;
        }
        for &at in &*gone.path {
            let wire = &mut self.wires[at as usize];
            wire.disks -= 1;
            wire.claims.retain(|claim| claim.0 != disk);
            if wire.holder.is_some_and(|holder| holder.0 == disk) {
                wire.holder = None;
            }
            let transfers = &self.transfers;
            wire.queue.retain(|&(transfer, _)| {
                transfers[transfer as usize].is_some_and(|transfer| transfer.disk != NO_DISK)
            });
        }
        // A burst that is on a bus stays until it ends; the rest is dropped.
        let on_wires: Vec<u32> = self.wires.iter().filter_map(|wire| Some(wire.now?.transfer)).collect();
        for index in 0..self.transfers.len() as u32 {
            let orphan = self.transfers[index as usize].is_some_and(|transfer| transfer.disk == NO_DISK);
            if orphan && !on_wires.contains(&index) {
                self.forget(index);
            }
        }
    }

    fn forget(&mut self, transfer: u32) {
        self.transfers[transfer as usize] = None;
        self.free.push(transfer);
    }

    pub(super) fn disk(&mut self, disk: u32) -> Option<&mut Attached> {
        self.disks.get_mut(disk as usize)?.as_mut()
    }

    /// The time of the next event.
    pub(super) fn next_event(&self) -> Option<Time> {
        let bursts = self.wires.iter().filter_map(|wire| Some(wire.now?.end));
        bursts.chain(self.disks.iter().flatten().filter_map(|disk| disk.next)).min()
    }

    /// Processes all events until `now`.
    pub(super) fn live(&mut self, now: Time) {
        while let Some(at) = self.next_event().filter(|&at| at <= now) {
            let due = |wire: &Wire| wire.now.is_some_and(|burst| burst.end == at);
            match self.wires.iter().position(due) {
                Some(wire) => self.burst_ended(at, wire as u32),
                None => {
                    let due =
                        |disk: &Option<Attached>| disk.as_ref().is_some_and(|disk| disk.next == Some(at));
                    let Some(disk) = self.disks.iter().position(due) else { return };
                    self.run_model(at, disk as u32);
                }
            }
        }
    }

    /// Gives a command to a disk. `false`: its queue is full.
    pub(super) fn accept(&mut self, now: Time, disk: u32, command: &Command) -> bool {
        self.live(now);
        let Some(to) = self.disk(disk) else { return false };
        if to.inside.len() >= to.model.depth() as usize {
            return false;
        }
        to.inside.insert(command.tag, (*command, now));
        let path = Arc::clone(&to.path);
        match path.iter().copied().find(|&wire| self.wires[wire as usize].params.exclusive) {
            Some(wire) => {
                self.wires[wire as usize].claims.push_back((disk, command.tag));
                self.hand_over(now, wire);
            }
            None => self.send_out(now, disk, command.tag),
        }
        true
    }

    /// Passes an exclusive bus to the next command that waits for it.
    fn hand_over(&mut self, now: Time, wire: u32) {
        let bus = &mut self.wires[wire as usize];
        if bus.holder.is_none()
            && let Some((disk, tag)) = bus.claims.pop_front()
        {
            bus.holder = Some((disk, tag));
            self.send_out(now, disk, tag);
        }
    }

    /// Sends a command to its disk, with the data of a write.
    fn send_out(&mut self, now: Time, disk: u32, tag: u32) {
        let Some(&(command, _)) = self.disk(disk).and_then(|disk| disk.inside.get(&tag)) else { return };
        let bytes = if command.op == Op::Write { u64::from(command.sectors) * 512 } else { 0 };
        self.transfer(now, disk, tag, false, bytes);
    }

    fn transfer(&mut self, now: Time, disk: u32, tag: u32, inbound: bool, bytes: u64) {
        let transfer = Transfer { disk, tag, inbound, bytes, done: [0; MAX_PATH], queued: [false; MAX_PATH] };
        let index = self.free.pop().unwrap_or_else(|| {
            self.transfers.push(None);
            self.transfers.len() as u32 - 1
        });
        self.transfers[index as usize] = Some(transfer);
        self.queue(now, index, 0);
    }

    /// Bus number `hop` on the path of a transfer, and whether it is the last.
    fn wire_at(&self, transfer: &Transfer, hop: usize) -> Option<(u32, bool)> {
        let path = &self.disks.get(transfer.disk as usize)?.as_ref()?.path;
        let last = hop + 1 == path.len();
        let at = if transfer.inbound { hop } else { path.len() - 1 - hop };
        Some((*path.get(at)?, last))
    }

    /// Queues a transfer for a bus if it has a burst ready for it.
    fn queue(&mut self, now: Time, index: u32, hop: usize) {
        let Some(mut transfer) = self.transfers[index as usize] else { return };
        let ready = if hop == 0 { transfer.size() } else { transfer.done[hop - 1] };
        if transfer.queued[hop] || transfer.done[hop] >= ready {
            return;
        }
        let Some((wire, _)) = self.wire_at(&transfer, hop) else { return };
        transfer.queued[hop] = true;
        self.transfers[index as usize] = Some(transfer);
        self.wires[wire as usize].queue.push_back((index, hop));
        self.grant(now, wire);
    }

    /// Gives a free bus to the burst that was ready first.
    fn grant(&mut self, now: Time, wire: u32) {
        let bus = &mut self.wires[wire as usize];
        if bus.now.is_some() {
            return;
        }
        let Some((index, hop)) = bus.queue.pop_front() else { return };
        let Some(transfer) = self.transfers[index as usize] else { return };
        let ready = if hop == 0 { transfer.size() } else { transfer.done[hop - 1] };
        let bytes = (ready - transfer.done[hop]).min(bus.params.burst.into());
        let moved = bus.time_of(bytes.min(transfer.bytes));
        let first = transfer.done[hop] == 0 && !transfer.inbound;
        let command = if first { bus.params.command.0 } else { 0 };
        let end = Time(now.0 + bus.params.arbitration.0 + command + moved.0);
        bus.begin(now, Burst { transfer: index, hop, bytes, end });
    }

    fn burst_ended(&mut self, now: Time, wire: u32) {
        let bus = &mut self.wires[wire as usize];
        let Some(Burst { transfer: index, hop, bytes, .. }) = bus.now else { return };
        bus.end(now);
        if let Some(transfer) = &mut self.transfers[index as usize] {
            transfer.done[hop] += bytes;
            transfer.queued[hop] = false;
            let transfer = *transfer;
            match self.wire_at(&transfer, hop) {
                None => self.forget(index),
                Some((_, true)) if transfer.done[hop] == transfer.size() => {
                    self.arrived(now, index, transfer)
                }
                Some((_, last)) => {
                    self.queue(now, index, hop);
                    if !last {
                        self.queue(now, index, hop + 1);
                    }
                }
            }
        }
        self.grant(now, wire);
    }

    fn arrived(&mut self, now: Time, index: u32, transfer: Transfer) {
        self.forget(index);
        if transfer.inbound {
            return self.complete(now, transfer.disk, transfer.tag);
        }
        self.run_model(now, transfer.disk);
        let Some(disk) = self.disk(transfer.disk) else { return };
        if let Some((command, since)) = disk.inside.get_mut(&transfer.tag) {
            *since = now;
            disk.offered.push_back(*command);
        }
        self.offer(now, transfer.disk);
    }

    /// Gives a model the commands that have arrived.
    fn offer(&mut self, now: Time, disk: u32) {
        let Some(disk) = self.disk(disk) else { return };
        while let Some(command) = disk.offered.front() {
            if !disk.model.accept(now, command) {
                break;
            }
            disk.offered.pop_front();
        }
        disk.next = disk.model.next_event();
    }

    /// Advances a model to `now`.
    fn run_model(&mut self, now: Time, disk: u32) {
        let mut ended = std::mem::take(&mut self.scratch);
        if let Some(disk) = self.disk(disk) {
            disk.model.advance(now, &mut ended);
            disk.next = disk.model.next_event();
        }
        for end in ended.drain(..) {
            self.model_ended(end.at, disk, end.tag);
        }
        self.scratch = ended;
        self.offer(now, disk);
    }

    /// A model has completed a command: the data of a read goes to the host.
    fn model_ended(&mut self, now: Time, disk: u32, tag: u32) {
        let Some(at) = self.disk(disk) else { return };
        let Some(&(command, since)) = at.inside.get(&tag) else { return };
        let from = since.max(at.last);
        at.last = now;
        match command.op {
            Op::Read => {
                let bytes = u64::from(command.sectors) * 512;
                let sent = self.streamed(from, now, disk, bytes);
                self.transfer(now, disk, tag, true, bytes - sent);
            }
            _ => self.complete(now, disk, tag),
        }
    }

    /// How much of a read was sent while the disk was still reading.
    fn streamed(&mut self, from: Time, now: Time, disk: u32, bytes: u64) -> u64 {
        let Some(path) = self.disk(disk).map(|disk| Arc::clone(&disk.path)) else { return 0 };
        let burst = path.first().map_or(0, |&wire| self.wires[wire as usize].params.burst);
        let mut sent = bytes.saturating_sub(burst.into());
        for &wire in &*path {
            if sent > 0 {
                sent = sent.min(self.wires[wire as usize].idle_bytes(from, now));
            }
        }
        if sent > 0 {
            path.iter().for_each(|&wire| self.wires[wire as usize].use_idle(from, sent));
        }
        sent
    }

    fn complete(&mut self, now: Time, disk: u32, tag: u32) {
        let Some(at) = self.disk(disk) else { return };
        at.inside.remove(&tag);
        at.ended.push(Ended { tag, at: now });
        for &wire in &*Arc::clone(&at.path) {
            if self.wires[wire as usize].holder == Some((disk, tag)) {
                self.wires[wire as usize].holder = None;
                self.hand_over(now, wire);
            }
        }
    }
}
