//! One run: executes a plan on one thread, in virtual time, and checks the promises.

use super::cells::{Bits, Cells};
use super::cover::Cover;
use super::memory::{Memory, ask_when_freed};
use super::plan::{Act, ElevatorPlan, Node, Plan, Reached};
use super::{Bug, Feature, Finding};
use platter_block::backend::Backend;
use platter_block::bio::{Bio, Flags};
use platter_block::elevator::{Elevator, Noop};
use platter_block::fault::Error;
use platter_block::queue::Ordered;
use platter_block::time::{Span, Time};
use platter_disk::channel::Channel;
use platter_disk::device::Device;
use platter_disk::disk_backend::{DiskBackend, DiskSettings};
use platter_disk::future::Io;
use platter_disk::handle::Handle;
use platter_scsi::disk::ScsiDisk;
use platter_sim::fault::Injected;
use platter_sim::medium::Medium;
use platter_sim::model::Command;
use platter_sim::oracle::Oracle;
use platter_sim::power::Supply;
use platter_sim::{Options, SimDisk, Stalled, World};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};

mod calls;
mod end;
mod judge;
mod lanes;
mod lent;
mod met;
mod order;
mod power;
mod resize;
mod silence;
mod submit;
mod time;

use judge::Judged;
use lent::Returned;
use order::Order;
use resize::{Ear, Sizes};
use silence::Silence;
use submit::Live;

/// Limit of the virtual time of any action. Several commands may be stuck one after the other.
const LONGEST: Span = Span::from_secs(60 * 3600);

/// Completed bios that are kept for reuse.
const SPARE: usize = 4;

/// A completed bio with its memory, its flags, and whether its memory is in small pieces.
type Spare = (Bio, (Flags, bool));

/// A channel of a run.
struct Lane {
    /// Never that of another channel.
    id: u64,
    channel: Channel,
    /// Bios in the caller's plug, which have no place in the order yet.
    held: Vec<u64>,
    /// The first step at which it is polled again.
    neglected: u64,
    /// Others have been polled since it was, and it was not.
    left: bool,
    /// When it was last polled.
    polled: Time,
}

/// A future that has not resolved.
struct Pending {
    token: u64,
    io: Io<Memory>,
}

/// What the program has open. Dropped in this order.
struct Open {
    futures: Vec<Pending>,
    /// When they were last polled.
    futures_polled: Time,
    /// Futures in the plug of the lane that they share.
    held: Vec<u64>,
    lanes: Vec<Lane>,
    handles: Vec<Handle>,
    device: Device,
    /// Of each sector of the device the disk and the sector on it, as they were when it was opened.
    map: Vec<(usize, u64)>,
    disks: Vec<Weak<dyn Backend>>,
    /// The ports of disks behind targets.
    ports: Vec<ScsiDisk>,
    /// Watchers of changes of the disks and of the device.
    _ears: Vec<Arc<Ear>>,
}

/// Called when a synchronous call never returns; must not return either.
pub(super) type OnStall = Arc<dyn Fn(Finding) + Send + Sync>;

pub(super) struct Run<'a> {
    plan: &'a Plan,
    bug: Option<&'static Bug>,
    world: Arc<World>,
    supply: Supply,
    disks: Vec<SimDisk>,
    open: Option<Open>,
    oracle: Oracle,
    live: BTreeMap<u64, Live>,
    /// Memory that is not freed.
    alive: Arc<AtomicU64>,
    spare: Vec<Spare>,
    returned: Returned,
    done: Vec<Bio>,
    pub(super) cover: Cover,
    pub(super) cells: Cells,
    /// The layers of the stack.
    layers: Bits,
    judged: Judged,
    silence: Silence,
    order: Order,
    sizes: Sizes,
    on_stall: OnStall,
    /// The current step.
    step: u64,
    /// Channels that were opened, and how often the device was.
    opened: u64,
    opens: u64,
    /// Numbers of I/Os that no step made.
    extra: u64,
    /// Counter of events of the program, which orders submissions.
    events: u64,
    /// Whether to log events on standard error.
    story: bool,
}

/// Numbers of I/Os that no step made are above this.
const EXTRA: u64 = 1 << 40;

/// Most I/Os of one step.
const PER_STEP: u64 = 8;

impl Open {
    /// Whether a sector of the device is at this sector of a disk now. Only a snapshot moves what it shows.
    fn is_at(&self, sector: u64, disk: usize, on: u64) -> bool {
        let disks: Vec<_> = self.disks.iter().filter_map(Weak::upgrade).collect();
        place(self.device.backend(), &disks, sector) == (disk, on)
    }

    fn lane(&mut self, pick: u32) -> Option<usize> {
        let count = self.lanes.len();
        (count > 0).then(|| pick as usize % count)
    }
}

impl<'a> Run<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        bug: Option<&'static Bug>,
        on_stall: OnStall,
        story: bool,
    ) -> Result<Run<'a>, Finding> {
        let (world, supply) = (World::by_hand(plan.seed), Supply::new());
        let disk = |disk: &super::plan::DiskPlan| {
            let faults = Some(disk.faults.clone());
            let options = Options { medium: Some(Medium::new()), faults, supply: Some(supply.clone()) };
            let made = SimDisk::with(&world, disk.model.make()?, options);
            made.set_owner_only(disk.owner_only);
            made.set_wrong(bug.and_then(Bug::wrong));
            Ok(made)
        };
        let disks: Vec<SimDisk> =
            plan.disks.iter().map(disk).collect::<Result<_, String>>().map_err(Finding::setup)?;
        let sizes = Sizes::new(&disks);
        let mut run = Run {
            plan,
            bug,
            world,
            supply,
            disks,
            open: None,
            oracle: Oracle::new(false),
            live: BTreeMap::new(),
            alive: Arc::new(AtomicU64::new(0)),
            spare: Vec::new(),
            returned: Returned::default(),
            done: Vec::new(),
            cover: Cover::default(),
            cells: Cells::default(),
            layers: met::layers(plan),
            judged: Judged::default(),
            silence: Silence::default(),
            order: Order::default(),
            sizes,
            on_stall,
            step: 0,
            opened: 0,
            opens: 0,
            extra: EXTRA,
            events: 0,
            story,
        };
        run.open()?;
        let write_cache = run.device()?.geometry().features.write_cache;
        run.oracle = Oracle::new(write_cache)
            .that_remembers(plan.stack.has("cache"))
            .that_drops(plan.stack.writes_through());
        run.cover.stack(&plan.stack);
        run.cover.twins += u64::from(plan.features.has(Feature::Twins));
        if run.orders_commands() {
            run.disks.iter().for_each(|disk| run.order.watch(disk));
        } else if story {
            run.disks.iter().zip(0..).for_each(|(disk, at)| run.tell_commands(disk, at));
        }
        Ok(run)
    }

    fn device(&self) -> Result<&Device, Finding> {
        self.open.as_ref().map(|open| &open.device).ok_or_else(|| Finding::setup("the device is not open"))
    }

    /// Opens the device on its disks.
    fn open(&mut self) -> Result<(), Finding> {
        self.restore_disks();
        let mut ports = Vec::new();
        let backend = |(at, plan): (usize, &super::plan::DiskPlan)| {
            let disk = self.disks[at].attach(&format!("disk{at}"));
            let failed = |error| format!("disk {at} cannot be opened: {error}");
            let elevator = || self.elevator(plan.elevator.as_ref());
            let unreached = |error| format!("disk {at} cannot be reached: {error}");
            let Some(transport) = &plan.transport else {
                let backend = DiskBackend::new(disk, plan.settings.clone(), elevator());
                return Ok(Arc::new(backend.map_err(failed)?) as Arc<dyn Backend>);
            };
            let below = DiskBackend::new(disk, DiskSettings::default(), None).map_err(failed)?;
            let reached = transport.reach(Arc::new(below), &plan.settings, &elevator);
            let Reached { backend, ports: reached } = reached.map_err(unreached)?;
            ports.extend(reached.into_iter().map(|port| (at, port)));
            Ok(backend)
        };
        let disks: Vec<_> = self
            .plan
            .disks
            .iter()
            .enumerate()
            .map(backend)
            .collect::<Result<_, String>>()
            .map_err(Finding::setup)?;
        let device = Device::new(self.plan.stack.build(&disks).map_err(Finding::setup)?);
        for (at, disk) in self.plan.disks.iter().enumerate() {
            let its: Vec<ScsiDisk> =
                ports.iter().filter(|(of, _)| *of == at).map(|(_, port)| port.clone()).collect();
            disk.transport.iter().for_each(|transport| transport.begin(&its, self.now()));
        }
        let ports = ports.into_iter().map(|(_, port)| port).collect();
        let map = (0..device.size() / 512).map(|sector| place(device.backend(), &disks, sector)).collect();
        self.opens += 1;
        let mut ears: Vec<_> = (0..disks.len()).map(|at| self.sizes.ear(Some(at))).collect();
        disks.iter().zip(&ears).for_each(|(backend, ear)| backend.watch(resize::watcher(ear)));
        ears.push(self.sizes.ear(None));
        ears.last().into_iter().for_each(|ear| device.watch(resize::watcher(ear)));
        ask_when_freed(self.plan.features.has(Feature::Destructors).then(|| device.backend()));
        let (futures, held, lanes, handles) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let futures_polled = self.now();
        let disks = disks.iter().map(Arc::downgrade).collect();
        self.open = Some(Open {
            futures,
            futures_polled,
            held,
            lanes,
            handles,
            device,
            map,
            disks,
            ports,
            _ears: ears,
        });
        (0..self.plan.channels).try_for_each(|_| self.open_channel())
    }

    fn elevator(&self, plan: Option<&ElevatorPlan>) -> Option<Box<dyn Elevator>> {
        let needed = self.bug.is_some_and(Bug::needs_elevator);
        let made = plan.and_then(ElevatorPlan::make);
        let made = made.or_else(|| needed.then(|| Box::<Noop>::default() as Box<_>))?;
        Some(match self.bug {
            Some(bug) => bug.bend(made),
            None => made,
        })
    }

    /// Logs an event, if logging is on.
    fn say(&self, what: impl FnOnce() -> String) {
        if self.story {
            eprintln!("{:>14} us {}", self.now().0 / 1000, what());
        }
    }

    /// Logs the commands that a disk takes.
    fn tell_commands(&self, disk: &SimDisk, at: usize) {
        let world = Arc::clone(&self.world);
        disk.observe(move |command, _| {
            let (now, Command { op, sector, sectors, fua, .. }) = (world.clock().now().0 / 1000, *command);
            eprintln!("{now:>14} us disk{at} takes {op} of {sectors} sectors at {sector}, fua {fua}");
        });
    }

    fn now(&self) -> Time {
        self.world.clock().now()
    }

    fn injected(&self) -> Injected {
        self.disks.iter().fold(Injected::default(), |sum, disk| sum.plus(&disk.injected()))
    }

    /// Number of the current event.
    fn event(&mut self) -> u64 {
        self.events += 1;
        self.events
    }

    /// Carries out the whole plan.
    pub(super) fn run(&mut self) -> Result<(), Finding> {
        let plan = self.plan;
        for step in &plan.steps {
            self.step = step.number;
            self.say(|| step.to_string());
            self.act(&step.act)?;
            self.hear()?;
            self.notice_cut()?;
            self.cover.faults(&self.injected());
        }
        self.step = u64::MAX;
        self.say(|| "the end".to_owned());
        self.end()
    }

    fn act(&mut self, act: &Act) -> Result<(), Finding> {
        match act {
            Act::Submit { way, ios, hold } => self.submit(*way, ios, *hold),
            Act::Poll(pick) => self.poll_one(*pick),
            Act::PollAll => self.poll().map(drop),
            Act::Pass => self.pass(),
            Act::Jump(span) => {
                self.world.clock().advance_to(self.now() + *span);
                self.poll().map(drop)
            }
            Act::Settle => self.settle(),
            Act::Verify => self.verify(),
            Act::Cut { survivors, after } => {
                self.plan_cut(*survivors, *after);
                Ok(())
            }
            Act::Resize { disk, keep } => {
                self.resize(*disk, *keep);
                Ok(())
            }
            Act::Remove(pick) => {
                self.remove(*pick, true);
                Ok(())
            }
            Act::Return(pick) => {
                self.remove(*pick, false);
                Ok(())
            }
            Act::Refresh => self.refresh(),
            Act::Reopen => self.reopen(),
            Act::DropChannel(pick) => self.drop_channel(*pick),
            Act::DropFuture(pick) => self.drop_future(*pick),
            Act::OpenChannel => self.open_channel(),
            Act::Cancel(pick) => self.cancel(*pick),
            _ => self.adjust(act),
        }
    }

    /// Steps that issue no I/O.
    fn adjust(&mut self, act: &Act) -> Result<(), Finding> {
        let step = self.step;
        let Some(open) = &mut self.open else { return Ok(()) };
        match act {
            Act::Neglect { channel, steps } => {
                // I/O of a channel counts against a `limit` until the channel is polled.
                if !self.plan.stack.has("limit")
                    && let Some(at) = open.lane(*channel)
                {
                    open.lanes[at].neglected = step + steps;
                    open.lanes[at].left = true;
                    self.cover.neglected += 1;
                }
            }
            Act::Switch(plan) => return self.switch(plan.as_ref()),
            Act::Order(ordered) => {
                let switched = order(open.device.backend(), *ordered);
                switched
                    .map_err(|error| Finding::new("switch", format!("the order of barriers: {error}")))?;
            }
            Act::Set(name, value) => {
                // The current elevator may not have the parameter.
                let _ = open.device.backend().set_elevator_param(name, *value);
            }
            Act::Strike(pick, strike) => self.disks[*pick as usize % self.disks.len()].strike(*strike),
            Act::Release(pick) => {
                self.disks[*pick as usize % self.disks.len()].release_stuck();
            }
            Act::Acknowledge => return self.acknowledge(),
            Act::OpenHandle => open.handles.push(open.device.handle()),
            Act::CloseHandle(pick) if !open.handles.is_empty() => {
                open.handles.swap_remove(*pick as usize % open.handles.len());
            }
            Act::Advise { handle, hint, at, blocks } if !open.handles.is_empty() => {
                let handle = &open.handles[*handle as usize % open.handles.len()];
                let block = u64::from(open.device.geometry().limits.logical_block);
                let pos = at * block % open.device.size();
                // An error of a cache is not checked here.
                let _ = handle.advise(*hint, pos, (blocks * block).min(open.device.size() - pos));
                self.cover.hints += 1;
            }
            _ => {}
        }
        Ok(())
    }

    fn acknowledge(&mut self) -> Result<(), Finding> {
        self.device()?.acknowledge_flush_failure();
        let (event, failed) = (self.event(), self.injected().flush_errors);
        self.judged.acknowledge(event, failed);
        Ok(())
    }

    /// Switches the elevator of all disks, also with I/O in flight.
    fn switch(&mut self, plan: Option<&ElevatorPlan>) -> Result<(), Finding> {
        self.look_at_elevators()?;
        self.cover.late_switches += u64::from(self.is_slow_now());
        let make = || self.elevator(plan);
        let switched = self.device()?.backend().switch_elevator(&make);
        switched
            .map_err(|error| Finding::new("switch", format!("the elevator cannot be switched: {error}")))?;
        self.cover.switches += 1;
        self.cover.switches_in_flight += u64::from(!self.live.is_empty());
        Ok(())
    }

    /// A faulty elevator is replaced and reported.
    fn look_at_elevators(&mut self) -> Result<(), Finding> {
        let facts = self.device()?.facts();
        match facts.into_iter().find(|(key, _)| *key == "elevator fault") {
            None => Ok(()),
            Some((_, fault)) => {
                self.cover.elevator_faults += 1;
                Err(Finding::new("elevator", format!("a wrong elevator: {fault}")))
            }
        }
    }

    /// Has the world report a call that never returns.
    fn watch_call(&self, what: String) {
        let (act, step) = (Arc::clone(&self.on_stall), self.step);
        // A lane over a cache asks its own lane below and the shared one when they wake: three times the looks for each level.
        let levels = self.stack().caches_deep().saturating_sub(1);
        self.world.watch_call(5_000 * 3_u32.pow(levels), self.now() + LONGEST, move |stalled: Stalled| {
            act(Finding::new("call", format!("step {step}: {what} does not return: {stalled}")));
        });
    }

    fn stack(&self) -> &'a Node {
        &self.plan.stack
    }
}

/// Switches the order of barriers on the disks that take ordered tags.
fn order(device: &Arc<dyn Backend>, ordered: Ordered) -> Result<(), Error> {
    match device.tunable() {
        Some(_) if !device.geometry().features.ordered_tags => Ok(()),
        Some(disk) => disk.switch_ordered(ordered),
        None => device.below().iter().try_for_each(|below| order(below, ordered)),
    }
}

/// Which disk has a sector of a device, and where.
fn place(device: &Arc<dyn Backend>, disks: &[Arc<dyn Backend>], sector: u64) -> (usize, u64) {
    let (mut device, mut pos) = (Arc::clone(device), sector * 512);
    loop {
        // A disk behind a target is as large as the disk.
        let is = |backend: &Arc<dyn Backend>| Arc::as_ptr(backend).addr() == Arc::as_ptr(&device).addr();
        if let Some(disk) = disks.iter().position(is) {
            return (disk, pos / 512);
        }
        let Some((number, below)) = device.locate(pos) else { return (usize::MAX, pos / 512) };
        (device, pos) = (device.below().swap_remove(number), below);
    }
}
