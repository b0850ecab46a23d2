//! The gains of changes to readahead, in virtual time.

use super::timed::{Policy, cached, time};
use super::{CHANGES, EUROSYS, claim};
use crate::cells::run_all;
use crate::claim::{Claim, Rule};
use crate::disk::{DiskPlan, IDE, open};
use crate::kind::Kind;
use crate::seeds::{interval, other_seeds};
use crate::{Hooks, Options, ReproError};
use platter_bench::readahead::{Pattern, Workload};
use platter_bench::report::units::fixed;
use platter_bench::report::{Column, Table};
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_sim::ideal::Ideal;
use platter_sim::{SimDisk, World};
use platter_stack::limit::{self, Rate};

const MIB: u64 = 1 << 20;

/// The device that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    /// The IDE disk of 2004.
    Ide,
    /// A server: 140 MB/s, 1 ms until an answer, 8 KiB each.
    Server,
    /// A flash disk.
    Flash,
}

/// A program, before and after a change.
struct Scene {
    id: &'static str,
    on: On,
    /// Before and after.
    policies: [Policy; 2],
    /// Bytes of the cache.
    memory: u64,
    /// The reads, for a scale.
    reads: fn(u64) -> Workload,
}

const fn policy(name: &'static str, values: &'static [i64]) -> Policy {
    Policy { name, values }
}

const SCENES: [Scene; 4] = [
    Scene {
        id: "dss",
        on: On::Ide,
        policies: [policy("2.6.0", &[]), policy("2.6.1", &[])],
        memory: 64 * MIB,
        reads: large,
    },
    Scene {
        id: "nfs",
        on: On::Server,
        policies: [policy("2.6.0", &[]), policy("2.6.1", &[])],
        memory: 64 * MIB,
        reads: sequential,
    },
    Scene {
        id: "unaligned",
        on: On::Ide,
        policies: [policy("2.6.11", &[0]), policy("2.6.11", &[1])],
        memory: 64 * MIB,
        reads: unaligned,
    },
    Scene {
        id: "conservative-context",
        on: On::Flash,
        policies: [policy("context", &[0]), policy("context", &[1])],
        memory: 128 * MIB,
        reads: flash,
    },
];

/// Queries that scan parts of tables: 8 programs, each with reads of 64 KiB at its own random positions.
fn large(scale: u64) -> Workload {
    let base = Workload { request: 64 << 10, span: 16 << 30, threads: 8, handles: 8, ..Workload::default() };
    Workload { pattern: Pattern::Random, count: (8000 / scale).max(80), ..base }
}

/// A file of 512 MB.
fn sequential(scale: u64) -> Workload {
    Workload { request: 32 << 10, count: (16_384 / scale).max(256), ..Workload::default() }
}

/// A file of 256 MB in reads of 4.5 KiB.
fn unaligned(scale: u64) -> Workload {
    Workload { request: 4608, count: (256 * MIB / 4608 / scale).max(1000), ..Workload::default() }
}

/// 16 threads that read 64 KiB at random places of one file of 256 MB, half of which has room in memory.
fn flash(scale: u64) -> Workload {
    let base = Workload { request: 64 << 10, span: 256 * MIB, threads: 16, ..Workload::default() };
    Workload { pattern: Pattern::Random, count: (32_000 / scale).max(4000), ..base }
}

/// Readahead policies of all kernels are compared over the elevators of one.
const KERNEL: &str = "2.6.16";

impl On {
    fn open(self, seed: u64) -> Result<Device, ReproError> {
        match self {
            On::Ide => open(IDE, (KERNEL, "anticipatory"), seed),
            On::Flash => {
                let plan = DiskPlan { disk: "sata_ssd", depth: 32, plug: true, max_transfer: 512 << 10 };
                open(plan, (KERNEL, "noop"), seed)
            }
            On::Server => {
                let ideal = Ideal { size: 1 << 40, latency: Span::ZERO, depth: 64, write_cache: false };
                let disk = SimDisk::new(&World::new(seed), ideal.into(), None);
                let settings = DiskSettings::default().with_caller_plug(false);
                let mut geometry = disk.geometry();
                // One call of NFS each.
                geometry.limits.max_transfer = 8 << 10;
                let server = Device::from_disk(disk.attach("server").with_geometry(geometry), settings, None)
                    .map_err(|error| ReproError::Stack(error.to_string()))?;
                let rate = Rate {
                    bandwidth: 140_000_000,
                    iops: 0,
                    latency: Span::from_millis(1),
                    burst: Span::ZERO,
                    depth: 64,
                };
                Ok(Device::new(limit::new(std::sync::Arc::clone(server.backend()), rate)))
            }
        }
    }
}

/// Seconds before and after, and the amount read.
pub(super) struct Speed {
    id: &'static str,
    seconds: [f64; 2],
    bytes: u64,
    reads: [u64; 2],
}

/// The speeds with the seed of the options, and with the others.
pub(super) fn run(options: &Options, hooks: Hooks<'_>) -> Result<Vec<Vec<Speed>>, ReproError> {
    let seeds: Vec<u64> = std::iter::once(options.seed).chain(other_seeds(options.seed)).collect();
    let with = |seed| SCENES.iter().flat_map(move |scene| [(seed, scene, 0), (seed, scene, 1)]);
    let cells: Vec<(u64, &Scene, usize)> = seeds.iter().flat_map(|&seed| with(seed)).collect();
    let found = run_all(options, hooks, &cells, |&(seed, scene, which), _| {
        let below = scene.on.open(seed)?;
        let device = cached(&below, scene.policies[which], scene.memory)?;
        let reads = Workload { seed, ..(scene.reads)(options.scale) }.reads();
        let span = time(&device, &reads)?;
        let ios = device.cache_counters().map_or(0, |counters| counters.reads.iter().sum());
        Ok((span.0 as f64 / 1e9, reads.iter().map(|read| read.len).sum(), ios))
    })?;
    let speed = |(scene, pair): (&Scene, &[(f64, u64, u64)])| Speed {
        id: scene.id,
        seconds: [pair[0].0, pair[1].0],
        bytes: pair[0].1,
        reads: [pair[0].2, pair[1].2],
    };
    let of_a_seed = |found: &[(f64, u64, u64)]| SCENES.iter().zip(found.chunks_exact(2)).map(speed).collect();
    Ok(found.chunks_exact(2 * SCENES.len()).map(of_a_seed).collect())
}

pub(super) fn table(speeds: &[Speed]) -> Table {
    let mut table = Table::new([
        Column::text("program"),
        Column::text("before"),
        Column::text("after"),
        Column::number("before", "s"),
        Column::number("after", "s"),
        Column::number("before", "MB/s"),
        Column::number("after", "MB/s"),
        Column::number("before", "I/Os"),
        Column::number("after", "I/Os"),
    ]);
    for (scene, speed) in SCENES.iter().zip(speeds) {
        let name = |policy: &Policy| match policy.values {
            [] => policy.name.to_owned(),
            values => format!("{} {values:?}", policy.name),
        };
        let mut row = vec![speed.id.to_owned(), name(&scene.policies[0]), name(&scene.policies[1])];
        row.extend(speed.seconds.map(|seconds| fixed(seconds, 2)));
        row.extend(speed.seconds.map(|seconds| fixed(speed.bytes as f64 / seconds / 1e6, 1)));
        row.extend(speed.reads.map(|ios| ios.to_string()));
        table.row(row);
    }
    table
}

/// How many times as fast a program is after the change.
fn faster(speeds: &[Speed], id: &str) -> Option<f64> {
    let speed = speeds.iter().find(|speed| speed.id == id)?;
    Some(speed.seconds[0] / speed.seconds[1])
}

/// The claims from the speeds with each seed, the first of which are ours.
pub(super) fn claims(seeds: &[Vec<Speed>]) -> Vec<Claim> {
    let of = |speeds: &Vec<Speed>| lazy(speeds).into_iter().chain(later(speeds)).collect();
    let mut found = seeds.iter().map(of);
    let mut claims: Vec<Claim> = found.next().unwrap_or_default();
    let others: Vec<Vec<Claim>> = found.collect();
    for (place, claim) in claims.iter_mut().enumerate() {
        let near = claim.ours.filter(|value| claim.rule.is_near(*value));
        claim.interval = near.and_then(|value| interval(value, others.iter().map(|other| other[place].ours)));
    }
    claims.push(competitive());
    claims
}

/// Lazy readahead.
fn lazy(speeds: &[Speed]) -> Vec<Claim> {
    vec![
        Claim {
            published: Some(1.28),
            ours: faster(speeds, "dss"),
            reason: Some(
                "which database, on which disks, is not published: programs that read 64 KiB at random stand for it. \
                 2.6.0 reads single pages from the second read on"
                    .to_owned(),
            ),
            ..claim(
                "dss",
                (CHANGES, "lazy readahead (R. Pai, 2.6.1), 28 %"),
                "decision support is 28 % faster with 2.6.1 than with 2.6.0",
                "times the speed",
                Rule::near(1.28).within(1.1, 1.6),
            )
        },
        Claim {
            published: Some(10.0),
            ours: faster(speeds, "nfs").map(|faster| 1.0 / faster),
            reason: Some(
                "a window that is only asked for when the last page of the one before is looked for leaves the server \
                 idle for the time of an answer. With one window in flight instead of two that is a factor of 2 at most; \
                 what made it 10 with NFS is not published and not modelled"
                    .to_owned(),
            ),
            ..claim(
                "nfs",
                (CHANGES, "revert of lazy readahead (2.6.2), 140 and 14 MB/s"),
                "a sequential read from a server falls to a tenth with 2.6.1",
                "times as long",
                Rule::near(10.0),
            )
        },
    ]
}

/// Claims about later changes.
fn later(speeds: &[Speed]) -> Vec<Claim> {
    vec![
        Claim {
            published: Some(370.0 / 234.0),
            ours: faster(speeds, "unaligned"),
            reason: Some(
                "there are far fewer I/Os (see unaligned-ios), but one program alone on a disk that reads ahead in its own \
                 buffer does not wait for them: 35 MB/s either way. 1 GB in 234 s is 4.6 MB/s: what slowed that machine is \
                 not published"
                    .to_owned(),
            ),
            ..claim(
                "unaligned",
                (CHANGES, "a page that is read twice in a row (2.6.12), 370 and 234 s for 1 GB"),
                "reads of 4.5 KiB in sequence are faster once a page may be read twice in a row",
                "times the speed",
                Rule::near(370.0 / 234.0).within(1.3, 1.9),
            )
        },
        Claim {
            kind: Kind::Ours,
            ours: fewer(speeds, "unaligned"),
            ..claim(
                "unaligned-ios",
                (CHANGES, "the same change; no figure is given"),
                "... and with fewer I/Os",
                "times as many before",
                Rule::AtLeast(2.0),
            )
        },
        Claim {
            published: Some(121.0 / 104.0),
            ours: faster(speeds, "conservative-context"),
            reason: Some("the size of memory is not published; here half of the file has room".to_owned()),
            ..claim(
                "conservative-context",
                (CHANGES, "more conservative context readahead (3.12), ext4, 104 and 121 MB/s"),
                "random reads of 64 KiB from flash are faster if a request's length before it is no context",
                "times the speed",
                Rule::near(121.0 / 104.0).within(1.0, 1.4),
            )
        },
    ]
}

/// How many times as many I/Os a program made before the change.
fn fewer(speeds: &[Speed], id: &str) -> Option<f64> {
    let speed = speeds.iter().find(|speed| speed.id == id)?;
    Some(speed.reads[0] as f64 / speed.reads[1] as f64)
}

/// A claim for which this experiment has no figure.
fn competitive() -> Claim {
    Claim {
        published: Some(1.47),
        reason: Some(
            "competitive prefetching decides by seek and transfer times of the disk; no policy here does"
                .to_owned(),
        ),
        ..claim(
            "competitive",
            (EUROSYS, "abstract, 15 to 47 %"),
            "reading ahead as much as a seek costs makes programs up to 47 % faster",
            "times the speed",
            Rule::Between(1.15, 1.47),
        )
    }
}
