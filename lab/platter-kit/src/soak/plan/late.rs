//! What puts late requests where they are hardest to deal with: below a cache over `raid0` over several paths, below two arrays
//! over the same disks, and over memory that the program lends.

use super::super::feature::{Feature, Features};
use super::disk::{DiskPlan, ElevatorPlan};
use super::stack::{Node, Planter, Share};
use super::{Act, NOT_BEHIND, Plan, SECTORS, Step, Way, limit_time, shard, steps};
use platter_block::bio::Op;
use platter_block::time::Span;
use platter_disk::disk_backend::OnReturn;
use platter_sim::fault::{Blow, Lands, Strike};
use platter_sim::rng::Rng;

/// Added to the seed for the generator of whole plans.
const DEEP: u64 = 0x6465_6570;

/// The same for arrays over the same disks.
const TWINS: u64 = 0x7477_696e_7376;

/// The same for memory that the program lends.
const GUESTS: u64 = 0x6775_6573_7473;

/// What a cache over `raid0` over several paths needs.
const NEEDED: [Feature; 5] =
    [Feature::Cache, Feature::Arrays, Feature::Scsi, Feature::Paths, Feature::Spikes];

fn draws(rng: &mut Rng, feature: Feature, without: Features) -> bool {
    rng.below(100) < feature.chance() && !without.has(feature)
}

/// A plan over a cache over `raid0` over several paths to slow disks, in some runs.
pub(super) fn deep(seed: u64, without: Features) -> Option<Plan> {
    let mut rng = Rng::new(seed ^ DEEP);
    if !draws(&mut rng, Feature::Deep, without) || NEEDED.iter().any(|feature| without.has(*feature)) {
        return None;
    }
    let mut features = super::draw(&mut rng).and(Feature::Deep);
    for refused in NOT_BEHIND {
        features = features.without(Features::default().and(refused));
    }
    features = NEEDED.iter().fold(features.without(without), |features, needed| features.and(*needed));
    let most = 2 + rng.below(2) as usize;
    let share = SECTORS / most as u64 / 8 * 8;
    let mut disks: Vec<DiskPlan> = Vec::new();
    while disks.len() < most {
        let mut disk = DiskPlan::new(&mut rng, features, share);
        // UNMAP leaves what is not a whole unit of a disk of the catalogue.
        if disk.is_small() && disk.put_behind_paths(&mut rng, features) {
            (disk.faults.spike_chance, disk.faults.spike) =
                (rng.pick(&[20_000, 100_000]), Span::from_secs(40));
            disks.push(disk);
        }
    }
    // A cache that wakes every millisecond takes seconds to simulate.
    let (on, parts) = (features.and(Feature::Stuck), vec![None; most]);
    let values = Planter { rng: &mut rng, on, taken: 0, most, parts: &parts }.cache();
    let chunk = rng.pick(&[4096, 8192, 16384]);
    let members = (0..most).map(Node::Disk).collect();
    let array = Node::Layer { row: "raid0", values: vec![("chunk", chunk), ("sizes", 0)], members };
    let mut stack = Node::Layer { row: "cache", values, members: vec![array] };
    let mut acts = steps::draw(&mut rng, features, most as u32);
    strike(&mut rng, &mut acts, most as u32);
    limit_time(seed, features, &mut disks);
    let features = shard(seed, features, without, &mut stack);
    hasten(&stack, &mut disks, &mut acts);
    let channels = 1 + rng.below(3) as usize;
    let steps = (0..).zip(acts).map(|(number, act)| Step { number, act }).collect();
    Some(Plan { seed, features, disks, stack, channels, steps })
}

/// Has a disk keep some commands until the end of the run, in half of the cases.
fn strike(rng: &mut Rng, acts: &mut Vec<Act>, disks: u32) {
    for _ in 0..rng.pick(&[0, 0, 1, 2]) {
        let (disk, op) =
            (rng.below(disks.into()) as u32, rng.pick(&[Op::Write, Op::Write, Op::Read, Op::Flush]));
        let blow = Blow::Stuck(Span::from_secs(3600), rng.pick(&[Lands::Late, Lands::Early]));
        let at = rng.below(acts.len() as u64 + 1) as usize;
        acts.insert(at, Act::Strike(disk, Strike { op: Some(op), blow }));
    }
}

/// Bounds the times of elevators below a cache that wakes up often, and has disks behind paths work again when they answer: a call
/// without a deadline waits for that, and the cache wakes up a million times meanwhile.
pub(super) fn hasten(stack: &Node, disks: &mut [DiskPlan], acts: &mut [Act]) {
    if !stack.wakes_often() {
        return;
    }
    let switched = acts.iter_mut().filter_map(|act| match act {
        Act::Switch(elevator) => elevator.as_mut(),
        _ => None,
    });
    let first = disks.iter_mut().filter_map(|disk| disk.elevator.as_mut());
    first.chain(switched).for_each(ElevatorPlan::hasten);
    for disk in disks.iter_mut().filter(|disk| disk.transport.is_some()) {
        disk.settings.on_return = OnReturn::Refresh;
    }
}

/// Puts two arrays over the first two disks, one after the other, in some runs: one over the first halves, and one over the second
/// halves with the disks in opposite order.
pub(super) fn twin(plan: &mut Plan, without: Features) {
    let mut rng = Rng::new(plan.seed ^ TWINS);
    let chosen = draws(&mut rng, Feature::Twins, without) && !without.has(Feature::Arrays);
    // A disk that both have tells them both of its size.
    let refused = [Feature::Resize, Feature::Snapshots, Feature::Scsi];
    if !chosen || plan.disks.len() < 2 || refused.iter().any(|feature| plan.features.has(*feature)) {
        return;
    }
    plan.disks.truncate(2);
    let halves: Vec<[Node; 2]> = (0..2).map(|at| plan.disks[at].halves(&mut rng, at)).collect();
    let [[a, b], [c, d]] = [halves[0].clone(), halves[1].clone()];
    let mut array = |members| {
        let chunk = rng.pick(&[4096, 8192, 16384]);
        Node::Layer { row: "raid0", values: vec![("chunk", chunk), ("sizes", 0)], members }
    };
    let members = vec![array(vec![a, c]), array(vec![d, b])];
    plan.stack = Node::Layer { row: "concat", values: Vec::new(), members };
    plan.features = plan.features.and(Feature::Arrays).and(Feature::Twins);
}

/// Has channels lend the memory of some I/O, as guests do, in some runs.
pub(super) fn lend(plan: &mut Plan, without: Features) {
    let mut rng = Rng::new(plan.seed ^ GUESTS);
    if !draws(&mut rng, Feature::Guests, without) {
        return;
    }
    plan.features = plan.features.and(Feature::Guests);
    for step in &mut plan.steps {
        if let Act::Submit { way: Way::Channel(_), ios, .. } = &mut step.act {
            ios.iter_mut().for_each(|io| io.lent = io.op.has_data() && rng.below(2) == 0);
        }
    }
}

impl DiskPlan {
    /// The first and the second half of the disk of this number.
    fn halves(&self, rng: &mut Rng, at: usize) -> [Node; 2] {
        let (from, to) = self.part(rng, SECTORS / 2).unwrap_or((0, self.sectors()));
        let middle = from + (to - from) / 16 * 8;
        [(from, middle), (middle, to)].map(|(from, to)| Node::Part {
            from,
            to,
            of: Share::Sectors,
            below: Box::new(Node::Disk(at)),
        })
    }
}
