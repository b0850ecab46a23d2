//! The mechanical disk against three real disks and against DiskSim 4.0's queueing.
//!
//! The parameters and traces of the real disks are part of DiskSim 4.0. They are looked up in
//! `PLATTER_DISKS`, otherwise in a directory `reference/disks` next to the workspace.

use platter_block::bio::{IoPrio, Op};
use platter_block::time::Time;
use platter_sim::disk::{DiskParams, MechanicalDisk, Options, Policy, SyntheticDisk};
use platter_sim::import;
use platter_sim::model::{Command, Model};
use platter_sim::validate::{self, Compared};
use std::path::PathBuf;

fn disks() -> Option<PathBuf> {
    let has_disks = |dir: &PathBuf| dir.join("cheetah9LP.diskspecs").exists();
    let found = match std::env::var_os("PLATTER_DISKS") {
        Some(dir) => Some(PathBuf::from(dir)).filter(has_disks),
        None => {
            let above = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../..");
            let neighbours = std::fs::read_dir(above).into_iter().flatten().flatten();
            neighbours.map(|neighbour| neighbour.path().join("reference/disks")).find(has_disks)
        }
    };
    if found.is_none() {
        println!("skipped: no parameters of disks (set PLATTER_DISKS)");
    }
    found
}

/// Bounds of one disk: RMS distances in milliseconds of all, reads and writes; errors of the means of reads and
/// writes in percent; share of reads within 0.25 ms; DiskSim's own mean in milliseconds.
struct Bounds {
    disk: &'static str,
    rms_ms: [f64; 3],
    mean_pct: [f64; 2],
    within_pct: f64,
    disksim_mean_ms: f64,
}

const BOUNDS: [Bounds; 3] = [
    Bounds {
        disk: "hp_c2247a",
        rms_ms: [0.095, 0.150, 0.129],
        mean_pct: [1.0, 1.0],
        within_pct: 91.5,
        disksim_mean_ms: 15.312,
    },
    Bounds {
        disk: "cheetah9LP",
        rms_ms: [0.107, 0.123, 0.162],
        mean_pct: [1.5, 1.0],
        within_pct: 30.5,
        disksim_mean_ms: 4.231,
    },
    // The parameter file puts a write after a write 0.09 ms too high.
    Bounds {
        disk: "ibm18es",
        rms_ms: [0.137, 0.166, 0.062],
        mean_pct: [1.0, 5.0],
        within_pct: 33.0,
        disksim_mean_ms: 5.236,
    },
];

#[test]
fn service_times_are_those_of_the_real_disks() {
    let Some(dir) = disks() else { return };
    for bounds in &BOUNDS {
        let params = import::load(&dir.join(format!("{}.diskspecs", bounds.disk))).unwrap();
        let disk = validate::disk(params).unwrap();
        let trace = dir.join(format!("{}.trace", bounds.disk));
        let trace = validate::load_trace(&trace, disk.sectors()).unwrap();
        let result = validate::replay(disk, &trace);
        let report =
            format!("{} {result:?}", bounds.disk, result = (result.all, result.reads, result.writes));
        println!("{report} within {:.1} %, r {:.3}", result.within_250us_read_pct, result.correlation);
        let parts: [Compared; 3] = [result.all, result.reads, result.writes];
        for (part, bound) in parts.iter().zip(bounds.rms_ms) {
            assert!(part.rms_ms <= bound, "{report}");
        }
        for (part, bound) in parts[1..].iter().zip(bounds.mean_pct) {
            assert!(part.mean_error_pct().abs() <= bound, "{report}");
        }
        assert!(result.within_250us_read_pct >= bounds.within_pct, "{report}");
        assert!((result.all.sim_mean_ms / bounds.disksim_mean_ms - 1.0).abs() < 0.001, "{report}");
    }
}

/// Random reads of 4 KiB, `depth` at a time; IOPS.
fn random_reads(params: &DiskParams, queue: Policy, depth: u32) -> f64 {
    const REQUESTS: u32 = 10_000;
    let mut disk = MechanicalDisk::new(params.clone(), Options { queue, depth }).unwrap();
    let blocks = disk.sectors() / 8;
    let mut state = 88_172_645_463_325_252_u64;
    let mut read = |tag: u32| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let sector = state % blocks * 8;
        Command { tag, op: Op::Read, sector, sectors: 8, fua: false, ioprio: IoPrio::default(), order: 0 }
    };
    let mut tags = 0..;
    let mut now = Time(0);
    let mut ended = Vec::new();
    for tag in tags.by_ref().take(depth as usize) {
        assert!(disk.accept(now, &read(tag)));
    }
    let mut done = 0;
    while done < REQUESTS {
        now = disk.next_event().unwrap();
        disk.advance(now, &mut ended);
        for _ in ended.drain(..) {
            done += 1;
            assert!(disk.accept(now, &read(tags.next().unwrap())));
        }
    }
    f64::from(done) / (now.0 as f64 / 1e9)
}

const DEPTHS: [u32; 5] = [4, 8, 16, 32, 64];

fn check_queueing(params: &DiskParams, queue: Policy, fcfs: f64, expected: [f64; 5], tolerance: f64) {
    let base = random_reads(params, Policy::Fcfs, 4);
    assert!((base / fcfs - 1.0).abs() < tolerance, "{}: FCFS {base}", params.name);
    for (depth, expected) in DEPTHS.into_iter().zip(expected) {
        let found = random_reads(params, queue, depth);
        let (ratio, wanted) = (found / base, expected / fcfs);
        println!("{} {queue:?} depth {depth}: {found:.1} IOPS, {ratio:.3} of FCFS", params.name);
        assert!((ratio / wanted - 1.0).abs() < tolerance, "{} {queue:?} depth {depth}: {ratio}", params.name);
    }
}

#[test]
fn queueing_in_an_atlas_from_its_data_sheet_pays_as_in_disksim() {
    let atlas = DiskParams::synthetic(&SyntheticDisk {
        name: "atlas10k",
        rpm: 10_025,
        heads: 6,
        cylinders: 10_042,
        zones: 24,
        outer_sectors: 334,
        inner_sectors: 229,
        sectors: None,
        seek_one: 1_245_000,
        seek_average: 5_600_000,
        seek_full: 10_830_000,
        head_switch: 176_000,
        write_settle: 487_000,
        cache_segments: 10,
        segment_sectors: 374,
        read_hit_overhead: 30_000,
        read_overhead: 50_000,
        write_overhead: 50_000,
        bus_sector: 6_400_000,
        write_back: false,
    });
    check_queueing(&atlas, Policy::Sptf, 114.3, [146.2, 172.4, 200.1, 229.8, 261.4], 0.05);
    check_queueing(&atlas, Policy::Sstf, 114.3, [135.9, 151.4, 166.7, 179.9, 190.1], 0.05);
}

#[test]
fn queueing_in_measured_disks_pays_as_in_disksim() {
    let Some(dir) = disks() else { return };
    for (disk, fcfs, expected) in [
        ("cheetah9LP", 114.3, [147.1, 174.7, 203.5, 236.0, 267.9]),
        ("ibm18es", 86.3, [110.2, 129.9, 153.6, 180.0, 207.0]),
    ] {
        let mut params = import::load(&dir.join(format!("{disk}.diskspecs"))).unwrap();
        // 80 MB/s: the slow bus of the test bed is no part of those figures.
        params.bus.read_sector = 6_400_000;
        check_queueing(&params, Policy::Sptf, fcfs, expected, 0.03);
    }
}
