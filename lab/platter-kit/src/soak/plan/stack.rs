//! The stack of a run: layers over its disks, as a tree.

use super::super::feature::{Feature, Features};
use platter_block::backend::Backend;
use platter_block::resident::PAGE;
use platter_cache::readahead;
use platter_sim::rng::Rng;
use platter_stack::LayerType;
use std::fmt;
use std::sync::Arc;

/// A device: a disk, or a layer over others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Node {
    /// The disk of this number.
    Disk(usize),
    /// A part of a device: where it begins and ends, in 256th of the device or in sectors.
    Part { from: u64, to: u64, of: Share, below: Box<Node> },
    /// A row of the table of layers, with values, over others.
    Layer { row: &'static str, values: Vec<(&'static str, i64)>, members: Vec<Node> },
}

/// What the ends of a partition count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Share {
    Sectors,
    Parts,
}

/// Most layers above one another.
const DEPTH: u32 = 3;

/// Failures that a layer `error` may inject before it lets everything pass.
pub(in super::super) const FAILURES: i64 = 6;

/// Makes a tree, taking disks in order as it needs them.
pub(super) struct Planter<'a> {
    pub(super) rng: &'a mut Rng,
    pub(super) on: Features,
    /// Disks that were taken.
    pub(super) taken: usize,
    /// Most of them.
    pub(super) most: usize,
    /// Of each disk the part to use, in sectors; `None`: all of it.
    pub(super) parts: &'a [Option<(u64, u64)>],
}

impl Planter<'_> {
    pub(super) fn plant(&mut self) -> Node {
        self.node(DEPTH)
    }

    fn node(&mut self, depth: u32) -> Node {
        if depth == 0 || self.rng.below(4) == 0 {
            return self.disk();
        }
        match self.rng.below(10) {
            0..3 if self.on.has(Feature::Arrays) && self.taken + 2 <= self.most => self.array(depth),
            3..6 if self.on.has(Feature::Cache) => {
                let values = self.cache();
                self.layer("cache", values, depth)
            }
            6 if self.on.has(Feature::Layers) => {
                let (from, to) = (self.rng.below(100), 156 + self.rng.below(101));
                let below = Box::new(self.node(depth - 1));
                Node::Part { from, to, of: Share::Parts, below }
            }
            7..10 if self.on.has(Feature::Layers) => self.filter(depth),
            _ => self.node(depth - 1),
        }
    }

    fn disk(&mut self) -> Node {
        let at = self.taken;
        self.taken += 1;
        match self.parts[at] {
            None => Node::Disk(at),
            Some((from, to)) => Node::Part { from, to, of: Share::Sectors, below: Box::new(Node::Disk(at)) },
        }
    }

    fn layer(&mut self, row: &'static str, values: Vec<(&'static str, i64)>, depth: u32) -> Node {
        Node::Layer { row, values, members: vec![self.node(depth - 1)] }
    }

    fn array(&mut self, depth: u32) -> Node {
        let room = (self.most - self.taken) as u64;
        let count = 2 + self.rng.below(room.min(3) - 1);
        let mut members = Vec::new();
        for at in 0..count {
            // A member may take more disks than one, but leaves one for each of those to come.
            let most = std::mem::replace(&mut self.most, 0);
            self.most = most - (count - 1 - at) as usize;
            members.push(self.node(depth - 1));
            self.most = most;
        }
        if self.rng.below(3) == 0 {
            return Node::Layer { row: "concat", values: Vec::new(), members };
        }
        let chunk = self.rng.pick(&[4096, 8192, 16384, 65536]);
        let sizes = self.rng.below(3) as i64;
        Node::Layer { row: "raid0", values: vec![("chunk", chunk), ("sizes", sizes)], members }
    }

    fn filter(&mut self, depth: u32) -> Node {
        let rng = &mut *self.rng;
        let seed = ("seed", rng.below(1 << 32) as i64);
        let (row, values) = match rng.below(4) {
            0 => {
                let bw = rng.pick(&[0, 10 << 20]);
                let iops = rng.pick(&[0, 2000]);
                let values = vec![
                    ("bw", bw),
                    ("iops", iops),
                    ("latency", rng.pick(&[0, 300, 5000])),
                    ("burst", rng.pick(&[0, 1000])),
                    ("depth", rng.pick(&[0, 1, 2, 16])),
                ];
                ("limit", values)
            }
            1 => {
                let mut span = || rng.pick(&[0, 0, 200, 5000]);
                let values =
                    vec![("read", span()), ("write", span()), ("flush", span()), ("jitter", span()), seed];
                ("delay", values)
            }
            2 => {
                let values = vec![
                    ("op", rng.below(6) as i64),
                    ("chance", rng.pick(&[50_000, 300_000])),
                    ("times", 1 + rng.below(FAILURES as u64) as i64),
                    seed,
                ];
                ("error", values)
            }
            _ => ("verify", Vec::new()),
        };
        self.layer(row, values, depth)
    }

    pub(super) fn cache(&mut self) -> Vec<(&'static str, i64)> {
        let rng = &mut *self.rng;
        let (background, dirty) = rng.pick(&[(0, 1), (0, 50), (10, 20), (50, 100), (100, 100)]);
        // A cache that wakes every millisecond while a command is stuck for an hour takes seconds to simulate.
        let shortest = if self.on.has(Feature::Stuck) { 1000 } else { 1 };
        vec![
            ("size", rng.pick(&[16, 17, 24, 40]) * PAGE as i64),
            ("readahead", policy(rng)),
            ("window", rng.pick(&[0, 4096, 16384, 32768])),
            ("write", rng.pick(&[0, 0, 1])),
            ("background", background),
            ("dirty", dirty),
            ("expire", rng.pick(&[1, 1000, 30_000])),
            ("interval", rng.pick(&[shortest, 5000])),
            ("congestion", rng.pick(&[1, 112])),
            ("gather", rng.pick(&[0, 4, 64])),
        ]
    }
}

/// The policies that a plan may have. Those of past kernels are chosen only where the program has registered them; a
/// plan is the same for the same seed as long as the same are registered.
const POLICIES: [&str; 14] = [
    "none",
    "linux-2.4",
    "2.6.0",
    "2.6.1",
    "2.6.2",
    "2.6.5",
    "2.6.6+private",
    "2.6.6+size",
    "2.6.6+lock",
    "2.6.7",
    "simple",
    "ondemand",
    "context",
    "platter",
];

/// A readahead policy, as the value of the cache's parameter.
fn policy(rng: &mut Rng) -> i64 {
    #[cfg(test)]
    platter_repro::policies::register_readahead();
    let known = readahead::all();
    let place = |name: &&str| known.iter().position(|row| row.name == *name);
    let places: Vec<usize> = POLICIES.iter().filter_map(place).collect();
    places[rng.below(places.len() as u64) as usize] as i64
}

/// Gives a page cache with these parameters shards with small extents.
fn shard_cache(values: &mut Vec<(&'static str, i64)>, rng: &mut Rng) {
    let known = readahead::all();
    let value = |name| values.iter().find(|(key, _)| *key == name).map(|&(_, value)| value);
    let policy = value("readahead").and_then(|place| known.get(place.unsigned_abs() as usize));
    let (shards, extent) = (rng.pick(&[1, 2, 7]), rng.pick(&[1, 2, 4]) * PAGE as i64);
    if policy.is_none_or(|row| (row.make)(&readahead::Settings::default()).exclusive()) {
        return;
    }
    values.iter_mut().filter(|(key, _)| *key == "size").for_each(|(_, size)| *size *= shards);
    values.extend([("shards", shards), ("extent", extent)]);
}

impl Node {
    /// A random stack over disks, of each of which a part is used, in sectors, or all of it.
    pub(in super::super) fn over(rng: &mut Rng, on: Features, parts: &[Option<(u64, u64)>]) -> Node {
        Planter { rng, on, taken: 0, most: parts.len(), parts }.plant()
    }

    /// Gives the page caches of the stack shards, each of the size that the whole had, where their policies allow that.
    pub(super) fn shard(&mut self, rng: &mut Rng) {
        match self {
            Node::Disk(_) => {}
            Node::Part { below, .. } => below.shard(rng),
            Node::Layer { row, values, members } => {
                if *row == "cache" {
                    shard_cache(values, rng);
                }
                members.iter_mut().for_each(|member| member.shard(rng));
            }
        }
    }

    /// The stack as a snapshot, or as the origin of one, whose store is a part of a disk, in sectors, or all of it.
    pub(super) fn with_snapshot(self, rng: &mut Rng, store: usize, part: Option<(u64, u64)>) -> Node {
        let disk = Node::Disk(store);
        let store = match part {
            Some((from, to)) => Node::Part { from, to, of: Share::Sectors, below: Box::new(disk) },
            None => disk,
        };
        let row = rng.pick(&["snapshot", "snapshot-origin"]);
        let values = vec![("chunk", rng.pick(&[4096, 8192, 16384]))];
        Node::Layer { row, values, members: vec![self, store] }
    }

    /// Makes the device over its disks.
    ///
    /// # Errors
    /// A layer that cannot be made of what is below it.
    pub(in super::super) fn build(&self, disks: &[Arc<dyn Backend>]) -> Result<Arc<dyn Backend>, String> {
        let make = |row: &str, values: &[(&str, i64)], members| {
            let known: &LayerType = platter_cache::layers()
                .find(|known| known.name == row)
                .ok_or_else(|| format!("there is no layer `{row}`"))?;
            // A parameter that the layer no longer has is left out.
            let has = |name: &str| known.params.iter().any(|param| param.name == name);
            let values: Vec<(&str, i64)> = values.iter().filter(|(name, _)| has(name)).copied().collect();
            known.make(&values, members).map_err(|error| format!("{self} cannot be made: {error}"))
        };
        match self {
            Node::Disk(at) => disks.get(*at).cloned().ok_or_else(|| format!("there is no disk {at}")),
            Node::Part { from, to, of, below } => {
                let below = below.build(disks)?;
                let geometry = below.geometry();
                let block = u64::from(geometry.limits.logical_block);
                let place = |at: u64| match of {
                    Share::Sectors => at * 512,
                    Share::Parts => (geometry.size * at / 256).next_multiple_of(block),
                };
                // At least a page, so that whatever is above can be made of it.
                let (least, end) = (block.max(PAGE), geometry.size / block * block);
                let begin = place(*from).min(end.saturating_sub(least));
                let length = (place(*to).min(end) - begin).max(least.min(end));
                make("partition", &[("offset", begin as i64), ("length", length as i64)], vec![below])
            }
            Node::Layer { row, values, members } => {
                let members: Vec<_> =
                    members.iter().map(|member| member.build(disks)).collect::<Result<_, _>>()?;
                let mut values = values.clone();
                for (_, chunk) in values.iter_mut().filter(|(name, _)| *name == "chunk") {
                    let least = members.iter().map(|member| member.geometry().size).min().unwrap_or(PAGE);
                    *chunk = (*chunk).min(1 << least.max(PAGE).ilog2());
                }
                make(row, &values, members)
            }
        }
    }

    /// The devices directly below.
    pub(in super::super) fn members(&self) -> &[Node] {
        match self {
            Node::Disk(_) => &[],
            Node::Part { below, .. } => std::slice::from_ref(below),
            Node::Layer { members, .. } => members,
        }
    }

    /// The name of the layer; `disk` at the bottom.
    pub(in super::super) fn kind(&self) -> &'static str {
        match self {
            Node::Disk(_) => "disk",
            Node::Part { .. } => "partition",
            Node::Layer { row, .. } => row,
        }
    }

    /// Whether it leaves the order of barriers to the device below it.
    pub(in super::super) fn leaves_order(&self) -> bool {
        match self {
            Node::Layer { row: "limit", values, .. } => values.contains(&("depth", 0)),
            _ => ["delay", "error"].contains(&self.kind()),
        }
    }

    /// Whether it uses the disk of this number.
    pub(in super::super) fn uses(&self, disk: usize) -> bool {
        self.ways_to(disk) > 0
    }

    /// How many ways lead down to the disk of this number.
    pub(in super::super) fn ways_to(&self, disk: usize) -> usize {
        let below = self.members().iter().map(|member| member.ways_to(disk)).sum::<usize>();
        usize::from(*self == Node::Disk(disk)) + below
    }

    /// Whether any node is of this kind.
    pub(in super::super) fn has(&self, kind: &str) -> bool {
        self.kind() == kind || self.members().iter().any(|member| member.has(kind))
    }

    /// The most caches that are one over the other.
    pub(in super::super) fn caches_deep(&self) -> u32 {
        let below = self.members().iter().map(Node::caches_deep).max();
        u32::from(self.kind() == "cache") + below.unwrap_or(0)
    }

    /// Whether any node is a write-back cache.
    pub(in super::super) fn writes_back(&self) -> bool {
        let through = matches!(self, Node::Layer { values, .. } if values.contains(&("write", 1)));
        (self.kind() == "cache" && !through) || self.members().iter().any(Node::writes_back)
    }

    /// Whether acknowledged writes may be only in memory until a flush: pages of a write-back cache, or the table of a
    /// snapshot.
    pub(in super::super) fn holds_unflushed(&self) -> bool {
        self.writes_back() || self.has("snapshot")
    }

    /// Whether any node is a cache that wakes up more often than every second.
    pub(super) fn wakes_often(&self) -> bool {
        let often = |&(name, value): &(&str, i64)| name == "interval" && value < 1000;
        let own = matches!(self, Node::Layer { values, .. } if values.iter().any(often));
        own || self.members().iter().any(Node::wakes_often)
    }

    /// Whether any node is a write-through cache.
    pub(in super::super) fn writes_through(&self) -> bool {
        let through = matches!(self, Node::Layer { values, .. } if values.contains(&("write", 1)));
        (self.kind() == "cache" && through) || self.members().iter().any(Node::writes_through)
    }

    /// Whether one I/O may be carried out by several disks.
    pub(in super::super) fn spreads(&self) -> bool {
        self.members().len() > 1 || self.members().iter().any(Node::spreads)
    }

    /// Most failures that its layers `error` inject.
    pub(in super::super) fn failures(&self) -> u64 {
        let own = if self.kind() == "error" { FAILURES.unsigned_abs() } else { 0 };
        own + self.members().iter().map(Node::failures).sum::<u64>()
    }

    /// The same without the layers over one device that `drops` names, by their place in the walk.
    pub(in super::super) fn without(&self, place: &mut usize, drops: usize) -> Node {
        let own = *place;
        *place += 1;
        let members: Vec<Node> = self.members().iter().map(|member| member.without(place, drops)).collect();
        // A part of a large disk stays a part of it.
        let stays = matches!(self, Node::Part { of: Share::Sectors, .. });
        if own == drops && !members.is_empty() && !stays {
            return members.into_iter().next().unwrap_or(Node::Disk(0));
        }
        match self {
            Node::Disk(at) => Node::Disk(*at),
            Node::Part { from, to, of, .. } => {
                let below = members.into_iter().next().unwrap_or(Node::Disk(0));
                Node::Part { from: *from, to: *to, of: *of, below: Box::new(below) }
            }
            Node::Layer { row, values, .. } => Node::Layer { row, values: values.clone(), members },
        }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Node::Disk(at) => return write!(f, "disk{at}"),
            Node::Part { from, to, of, .. } => write!(f, "partition({from}..{to} {of:?}")?,
            Node::Layer { row, values, .. } => {
                write!(f, "{row}(")?;
                let mut comma = "";
                for (name, value) in values {
                    write!(f, "{comma}{name}={value}")?;
                    comma = ", ";
                }
            }
        }
        for member in self.members() {
            write!(f, ", {member}")?;
        }
        write!(f, ")")
    }
}
