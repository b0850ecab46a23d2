//! The plan of a run, generated from its seed before the run begins.
//!
//! A plan is data: disks, a stack of layers over them, and a list of steps that contain all choices. Removing a step
//! does not change the others, which makes shrinking possible.

use super::feature::{Feature, Features};
use super::memory::Layout;
use platter_block::bio::{Context, Flags, IoPrio, Op};
use platter_block::hint::Hint;
use platter_block::queue::Ordered;
use platter_block::time::Span;
use platter_sim::fault::Strike;
use platter_sim::rng::Rng;
use std::fmt;

mod disk;
mod io;
mod late;
mod stack;
mod steps;
mod transport;

pub(super) use disk::{DiskPlan, ElevatorPlan};
pub(super) use stack::{FAILURES, Node};
pub(super) use transport::{Reached, Transport};
#[cfg(test)]
pub(super) use {disk::Jitter, disk::ModelPlan, stack::Share};

/// Sectors that a run uses: few, so that I/Os overlap.
const SECTORS: u64 = 256;

/// Added to the seed for the generator of resizes.
const RESIZES: u64 = 0x7265_7369_7a65;

/// Added to the seed for the generator of snapshots.
const SNAPSHOTS: u64 = 0x736e_6170;

/// Added to the seed for the generator of ordered tags.
const TAGS: u64 = 0x7461_6773;

/// Added to the seed for the generator of targets.
const TRANSPORTS: u64 = 0x7363_7369;
/// The same for several paths to disks.
const PATHS: u64 = 0x7061_7468_735f_3032;
/// The same for the time of disks to answer.
const SILENCES: u64 = 0x7369_6c65_6e63;
/// The same for shards of caches.
const SHARDS: u64 = 0x54a8_d54a_8d54_a8d5;

/// Features of runs without targets: what a disk reports of these faults goes through sense data, which says less.
const NOT_BEHIND: [Feature; 9] = [
    Feature::Cuts,
    Feature::Stuck,
    Feature::Transient,
    Feature::Errors,
    Feature::BadSectors,
    Feature::FlushErrors,
    Feature::Death,
    Feature::Resize,
    Feature::Atomic,
];

/// Features of runs without snapshots: opening one reads and writes its disks, so a disk that fails ends the run.
const FAILING: [Feature; 9] = [
    Feature::Stuck,
    Feature::Transient,
    Feature::Errors,
    Feature::BadSectors,
    Feature::FlushErrors,
    Feature::Death,
    Feature::Timeouts,
    Feature::Resize,
    Feature::Atomic,
];

/// Most disks.
const DISKS: u64 = 4;

/// What a run does.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) features: Features,
    pub(super) disks: Vec<DiskPlan>,
    pub(super) stack: Node,
    pub(super) channels: usize,
    pub(super) steps: Vec<Step>,
}

/// One step of a run, with its number in the plan as it was made: the I/Os of a step are numbered by it.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) number: u64,
    pub(super) act: Act,
}

/// The action of a step. Its numbers select, modulo their count, among the objects that exist at that time.
#[derive(Clone, Debug)]
pub(super) enum Act {
    /// Submits I/Os as a batch.
    Submit {
        way: Way,
        ios: Vec<Io>,
        /// Leaves the batch in the caller's plug.
        hold: bool,
    },
    /// Looks at one channel or future.
    Poll(u32),
    /// Looks at all of them.
    PollAll,
    /// Advances time to the next event.
    Pass,
    /// Advances time by this much.
    Jump(Span),
    /// Waits until all I/O has completed, except on neglected channels.
    Settle,
    /// Does not poll one channel for a number of steps.
    Neglect {
        channel: u32,
        steps: u64,
    },
    /// Cancels an I/O.
    Cancel(u32),
    /// Switches the elevator of all disks.
    Switch(Option<ElevatorPlan>),
    /// Switches how all disks that can keep the order of barriers do so.
    Order(Ordered),
    /// Sets a parameter of the elevator.
    Set(&'static str, i64),
    /// Injects a fault into the next command of a disk.
    Strike(u32, Strike),
    /// Releases the stuck commands of a disk.
    Release(u32),
    /// Accepts that a flush failed.
    Acknowledge,
    OpenChannel,
    /// Drops a channel, also with I/O in flight.
    DropChannel(u32),
    /// Drops a future, also with I/O in flight.
    DropFuture(u32),
    OpenHandle,
    CloseHandle(u32),
    Advise {
        handle: u32,
        hint: Hint,
        at: u64,
        blocks: u64,
    },
    /// Plans a power cut after a number of commands or after a time.
    Cut {
        survivors: u64,
        after: Result<u64, Span>,
    },
    /// Resizes a disk to a number of 256ths of its used part; 256 restores its first size.
    Resize {
        disk: u32,
        keep: u64,
    },
    /// Removes a disk.
    Remove(u32),
    /// Returns a disk.
    Return(u32),
    /// Accepts the sizes that the disks have.
    Refresh,
    /// Closes the device and opens it again.
    Reopen,
    /// Reads everything.
    Verify,
}

/// How an I/O is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Channel(u32),
    Future,
    Call,
}

/// One I/O.
#[derive(Clone, Debug)]
pub(super) struct Io {
    pub(super) op: Op,
    /// First block (modulo the size) and number of blocks. A flush of 0 blocks covers everything.
    pub(super) at: u64,
    pub(super) blocks: u64,
    pub(super) flags: Flags,
    pub(super) deadline: Option<Span>,
    pub(super) layout: Layout,
    pub(super) context: Context,
    pub(super) ioprio: IoPrio,
    /// Through a handle, if there is one.
    pub(super) handle: Option<u32>,
    /// Uses a completed bio and its memory again, if there is one.
    pub(super) again: bool,
    pub(super) unsound: Option<Unsound>,
    /// Its memory is lent to the device until it ends, so no deadline ends it.
    pub(super) lent: bool,
}

/// The fault of an I/O that must be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unsound {
    /// It does not begin at a sector.
    Misplaced,
    /// It reaches past the end.
    OutOfRange,
    /// It has no bytes.
    Empty,
}

impl Plan {
    /// The plan of a seed, without some features.
    pub(super) fn new(seed: u64, without: Features) -> Plan {
        let mut plan = late::deep(seed, without).unwrap_or_else(|| Plan::shallow(seed, without));
        late::twin(&mut plan, without);
        late::lend(&mut plan, without);
        plan
    }

    /// A plan over disks of which any may fail in its own way.
    fn shallow(seed: u64, without: Features) -> Plan {
        let mut rng = Rng::new(seed);
        let mut features = draw(&mut rng).without(without);
        let most = if features.has(Feature::Arrays) { 2 + rng.below(DISKS - 1) } else { 1 };
        let share = SECTORS / most / 8 * 8;
        let mut disks: Vec<DiskPlan> = (0..most)
            .map(|_| {
                let sectors = (share / 2 + rng.below(share / 2 + 1)).next_multiple_of(8);
                DiskPlan::new(&mut rng, features, sectors)
            })
            .collect();
        let parts: Vec<_> = disks.iter().map(|disk| disk.part(&mut rng, share)).collect();
        let mut planter =
            stack::Planter { rng: &mut rng, on: features, taken: 0, most: most as usize, parts: &parts };
        let stack = planter.plant();
        let taken = planter.taken;
        disks.truncate(taken);
        let channels = 1 + rng.below(3) as usize;
        let mut acts = steps::draw(&mut rng, features, taken as u32);
        // From a separate generator, so that they do not change the rest of the plan.
        let mut rng = Rng::new(seed ^ RESIZES);
        if rng.below(100) < Feature::Resize.chance() && !without.has(Feature::Resize) {
            features = features.and(Feature::Resize);
            steps::add_resizes(&mut rng, &mut acts, taken as u32);
        }
        let fails = FAILING.iter().any(|feature| features.has(*feature));
        let (mut stack, mut disks) = (stack, disks);
        if !(fails || without.has(Feature::Snapshots) || stack.has("error")) {
            features = features.and(Feature::Snapshots);
            let mut rng = Rng::new(seed ^ SNAPSHOTS);
            let disk = DiskPlan::new(&mut rng, features, 2 * SECTORS);
            let part = disk.part(&mut rng, 2 * SECTORS);
            stack = stack.with_snapshot(&mut rng, disks.len(), part);
            disks.push(disk);
        }
        let mut rng = Rng::new(seed ^ TAGS);
        if rng.below(100) < Feature::Tags.chance() && !without.has(Feature::Tags) {
            features = features.and(Feature::Tags);
            disks.iter_mut().for_each(|disk| disk.tag_barriers(&mut rng));
            if features.has(Feature::Switch) {
                steps::add_orders(&mut rng, &mut acts);
            }
        }
        let mut rng = Rng::new(seed ^ TRANSPORTS);
        let behind = !NOT_BEHIND.iter().any(|feature| features.has(*feature));
        if behind && rng.below(100) < Feature::Scsi.chance() && !without.has(Feature::Scsi) {
            features = features.and(Feature::Scsi);
            disks.iter_mut().for_each(|disk| disk.put_away(&mut rng, features));
        }
        let mut rng = Rng::new(seed ^ PATHS);
        if features.has(Feature::Scsi)
            && rng.below(100) < Feature::Paths.chance()
            && !without.has(Feature::Paths)
        {
            features = features.and(Feature::Paths);
            disks.iter_mut().filter_map(|disk| disk.transport.as_mut()).for_each(|way| way.double(&mut rng));
        }
        limit_time(seed, features, &mut disks);
        features = shard(seed, features, without, &mut stack);
        late::hasten(&stack, &mut disks, &mut acts);
        let steps = (0..).zip(acts).map(|(number, act)| Step { number, act }).collect();
        Plan { seed, features, disks, stack, channels, steps }
    }
}

/// Says how long disks with a timeout may take to answer.
fn limit_time(seed: u64, features: Features, disks: &mut [DiskPlan]) {
    if features.has(Feature::Timeouts) {
        let mut rng = Rng::new(seed ^ SILENCES);
        disks.iter_mut().for_each(|disk| disk.limit_time(&mut rng));
    }
}

/// Gives the caches of a stack shards, in some runs. Returns the features of the run.
fn shard(seed: u64, features: Features, without: Features, stack: &mut Node) -> Features {
    let mut rng = Rng::new(seed ^ SHARDS);
    if !stack.has("cache") || without.has(Feature::Shards) || rng.below(100) >= Feature::Shards.chance() {
        return features;
    }
    stack.shard(&mut rng);
    features.and(Feature::Shards)
}

/// The features of a run.
fn draw(rng: &mut Rng) -> Features {
    let mut features = Features::default();
    for feature in Feature::ALL.iter().filter(|feature| {
        !matches!(
            feature,
            Feature::Resize
                | Feature::Snapshots
                | Feature::Tags
                | Feature::Scsi
                | Feature::Paths
                | Feature::Shards
                | Feature::Deep
                | Feature::Twins
                | Feature::Guests
        )
    }) {
        if rng.below(100) < feature.chance() {
            features = features.and(*feature);
        }
    }
    // A failed disk recovers with its contents. Combined with a power cut these contents would not be defined.
    match features.has(Feature::Death) {
        true => features.without(Features::default().and(Feature::Cuts)),
        false => features,
    }
}

impl Step {
    /// I/Os of the step.
    pub(super) fn ios(&self) -> usize {
        if let Act::Submit { ios, .. } = &self.act { ios.len() } else { 0 }
    }

    /// Leaves one I/O out.
    pub(super) fn remove(&mut self, at: usize) {
        if let Act::Submit { ios, .. } = &mut self.act {
            ios.remove(at);
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "device: {}, {} channels", self.stack, self.channels)?;
        for (at, disk) in self.disks.iter().enumerate().filter(|&(at, _)| self.stack.uses(at)) {
            writeln!(f, "disk{at}: {disk}")?;
        }
        self.steps.iter().try_for_each(|step| writeln!(f, "{step}"))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>4} ", self.number)?;
        match &self.act {
            Act::Submit { way, ios, hold } => {
                write!(f, "{way:?}{}", if *hold { ", held" } else { "" })?;
                ios.iter().try_for_each(|io| write!(f, "; {io}"))
            }
            act => write!(f, "{act:?}"),
        }
    }
}

impl fmt::Display for Io {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} blocks at {}", self.op, self.blocks, self.at)?;
        if self.flags != Flags::NONE {
            write!(f, " {:?}", self.flags)?;
        }
        if let Some(span) = self.deadline {
            write!(f, " within {} ms", span.as_millis())?;
        }
        if self.layout != Layout::Whole && self.op.has_data() {
            write!(f, " {:?}", self.layout)?;
        }
        if self.again {
            f.write_str(" (bio used again)")?;
        }
        if self.lent {
            f.write_str(" (memory lent)")?;
        }
        if let Some(unsound) = self.unsound {
            write!(f, " ({unsound:?})")?;
        }
        Ok(())
    }
}
