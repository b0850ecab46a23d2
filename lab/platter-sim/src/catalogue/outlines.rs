//! Mechanical disks of which only the data sheet is known.

use super::{DiskModel, Kind, Source};
use crate::disk::params::{Keep, Preseek};
use crate::disk::{DiskParams, Policy, SyntheticDisk};

/// Microseconds.
const fn us(micros: u64) -> u64 {
    micros * 1000
}

/// A disk of which only the data sheet is known. As usual for its time, its arm moves on while data is still
/// being sent to the host, and read-ahead may overwrite all data that was sent.
fn outline(disk: &SyntheticDisk) -> DiskParams {
    let mut params = DiskParams::synthetic(disk);
    params.control.preseek = Preseek::AfterMedium;
    params.cache.keep = Keep::Nothing;
    params
}

/// Picoseconds of a sector at `rate` bytes a second.
const fn sector_at(rate: u64) -> u64 {
    512 * 1_000_000_000_000 / rate
}

const MODELLED: Source = Source { of: "control", source: "estimated: electronics of the time" };

/// Values that depend on each other in the model, for every disk.
const LAYOUT: &str = "estimated: zones in equal steps that hold the disk's size";

/// Quantum Atlas 10K.
pub(super) const ATLAS10K: DiskModel = DiskModel {
    name: "atlas10k",
    summary: "Quantum Atlas 10K: 8.7 GB, 10,025 rpm, Ultra2 SCSI, 1999",
    kind: Kind::Mechanical(atlas10k),
    queue: Policy::Sptf,
    sources: &[
        Source { of: "layout", source: LAYOUT },
        Source { of: "layout.heads", source: DISKSIM },
        Source { of: "layout.cylinders", source: DISKSIM },
        Source { of: "layout.outer track", source: DISKSIM },
        Source { of: "layout.inner track", source: DISKSIM },
        Source { of: "mechanics", source: DISKSIM },
        MODELLED,
        Source { of: "cache", source: "estimated: a buffer with read-ahead, written through" },
        Source { of: "cache.segments", source: DISKSIM },
        Source { of: "cache.segment size", source: DISKSIM },
        Source { of: "interface", source: "Ultra2 SCSI: 80 MB/s" },
    ],
};

const DISKSIM: &str = "validation suite of DiskSim 4.0";

fn atlas10k() -> DiskParams {
    outline(&SyntheticDisk {
        name: "atlas10k",
        rpm: 10_025,
        heads: 6,
        cylinders: 10_042,
        zones: 24,
        outer_sectors: 334,
        inner_sectors: 229,
        sectors: None,
        seek_one: us(1245),
        seek_average: us(5600),
        seek_full: us(10_830),
        head_switch: us(176),
        write_settle: us(487),
        read_hit_overhead: us(100),
        read_overhead: us(200),
        write_overhead: us(250),
        cache_segments: 10,
        segment_sectors: 374,
        write_back: false,
        bus_sector: sector_at(80_000_000),
    })
}

/// Fujitsu MAN3367MP.
pub(super) const MAN3367MP: DiskModel = DiskModel {
    name: "man3367mp",
    summary: "Fujitsu MAN3367MP: 36.7 GB, 10,025 rpm, Ultra160 SCSI, 2001",
    kind: Kind::Mechanical(man3367mp),
    queue: Policy::Sptf,
    sources: &[
        Source {
            of: "layout",
            source: "estimated: zones in equal steps that hold the disk's size; about 40 MB/s measured (Staelin, HPL-2002-352)",
        },
        Source { of: "layout.heads", source: MANUAL },
        Source { of: "layout.sectors", source: MANUAL },
        Source {
            of: "mechanics",
            source: "estimated: 4.5 ms for reads, 5.0 for writes, as remembered of the data sheet",
        },
        Source { of: "mechanics.rotation", source: MANUAL },
        MODELLED,
        Source { of: "cache", source: "estimated: 8 MB, as remembered of the data sheet; written through" },
        Source { of: "interface", source: "Ultra160 SCSI: 160 MB/s" },
    ],
};

const MANUAL: &str = "product manual of Fujitsu";

fn man3367mp() -> DiskParams {
    outline(&SyntheticDisk {
        name: "man3367mp",
        rpm: 10_025,
        heads: 4,
        cylinders: 34_900,
        zones: 16,
        outer_sectors: 620,
        inner_sectors: 410,
        sectors: Some(71_771_688),
        seek_one: us(400),
        seek_average: us(4500),
        seek_full: us(10_500),
        head_switch: us(400),
        write_settle: us(500),
        read_hit_overhead: us(60),
        read_overhead: us(120),
        write_overhead: us(150),
        cache_segments: 16,
        segment_sectors: 1024,
        write_back: false,
        bus_sector: sector_at(160_000_000),
    })
}

/// A 9.1 GB disk of IBM's.
pub(super) const IBM9G10K: DiskModel = DiskModel {
    name: "ibm9g10k",
    summary: "an IBM of 9.1 GB and 10,000 rpm, Ultra160 SCSI, 2000, as in the paper of OLS 2002",
    kind: Kind::Mechanical(ibm9g10k),
    queue: Policy::Sptf,
    sources: &[
        Source { of: "layout", source: LAYOUT },
        Source { of: "layout.sectors", source: "estimated: the usual number of sectors of 9.1 GB" },
        Source { of: "mechanics", source: "estimated: 4.9 ms on average, as remembered of the class" },
        Source {
            of: "mechanics.rotation",
            source: "Wong and others, Improving Linux Block I/O for Enterprise Workloads, OLS 2002",
        },
        MODELLED,
        Source { of: "cache", source: "estimated: 4 MB, as remembered of the class; written through" },
        Source { of: "interface", source: "estimated: Ultra160 SCSI, 160 MB/s" },
    ],
};

fn ibm9g10k() -> DiskParams {
    outline(&SyntheticDisk {
        name: "ibm9g10k",
        rpm: 10_000,
        heads: 5,
        cylinders: 12_900,
        zones: 12,
        outer_sectors: 350,
        inner_sectors: 210,
        sectors: Some(17_916_240),
        seek_one: us(600),
        seek_average: us(4900),
        seek_full: us(10_500),
        head_switch: us(400),
        write_settle: us(400),
        read_hit_overhead: us(80),
        read_overhead: us(150),
        write_overhead: us(200),
        cache_segments: 16,
        segment_sectors: 512,
        write_back: false,
        bus_sector: sector_at(160_000_000),
    })
}

/// The class of Seagate's Cheetah X15.
pub(super) const X15: DiskModel = DiskModel {
    name: "x15",
    summary: "class of the Seagate Cheetah X15: 18 GB, 15,000 rpm, 2 Gbit/s Fibre Channel, 2001",
    kind: Kind::Mechanical(x15),
    queue: Policy::Sptf,
    sources: &[
        Source {
            of: "layout",
            source: "estimated: zones in equal steps that hold the disk's size and give 37 to 49 MB/s of media rate, as remembered of the data sheet",
        },
        Source { of: "layout.heads", source: "press: 5 platters" },
        Source {
            of: "mechanics",
            source: "estimated: 3.9 ms for reads, 4.5 for writes, as remembered of the data sheet",
        },
        Source { of: "mechanics.rotation", source: "press" },
        MODELLED,
        Source { of: "cache", source: "press: 4 MB; its division is estimated" },
        Source { of: "interface", source: "Fibre Channel: 2 Gbit/s" },
    ],
};

fn x15() -> DiskParams {
    outline(&SyntheticDisk {
        name: "x15",
        rpm: 15_000,
        heads: 10,
        cylinders: 10_720,
        zones: 10,
        outer_sectors: 383,
        inner_sectors: 289,
        sectors: Some(35_843_670),
        seek_one: us(500),
        seek_average: us(3900),
        seek_full: us(7500),
        head_switch: us(300),
        write_settle: us(600),
        read_hit_overhead: us(60),
        read_overhead: us(100),
        write_overhead: us(120),
        cache_segments: 16,
        segment_sectors: 512,
        write_back: false,
        bus_sector: sector_at(200_000_000),
    })
}

/// An IDE disk.
pub(super) const IDE2004: DiskModel = DiskModel {
    name: "ide2004",
    summary: "an IDE disk of 2004: 80 GB, 7200 rpm, 8.5 ms, 2 MB with read-ahead and write cache, no queue",
    kind: Kind::Mechanical(ide2004),
    queue: Policy::None,
    sources: &[
        Source {
            of: "layout",
            source: "estimated: about 40 MB/s at the outer edge, the usual number of sectors of 80 GB",
        },
        Source { of: "mechanics", source: "estimated: 8.5 ms on average, 7200 rpm, as was usual" },
        MODELLED,
        Source { of: "cache", source: "estimated: 2 MB, write cache on, as was usual" },
        Source {
            of: "control.most sectors of a command",
            source: "ATA-5: a command with a 28-bit address counts its sectors in 8 bits, 0 for 256",
        },
        Source { of: "interface", source: "UDMA/100: 100 MB/s" },
    ],
};

fn ide2004() -> DiskParams {
    let mut params = outline(&SyntheticDisk {
        name: "ide2004",
        rpm: 7200,
        heads: 4,
        cylinders: 73_800,
        zones: 16,
        outer_sectors: 680,
        inner_sectors: 380,
        sectors: Some(156_301_488),
        seek_one: us(1000),
        seek_average: us(8500),
        seek_full: us(18_000),
        head_switch: us(1000),
        write_settle: us(500),
        read_hit_overhead: us(100),
        read_overhead: us(200),
        write_overhead: us(200),
        cache_segments: 8,
        segment_sectors: 512,
        write_back: true,
        bus_sector: sector_at(100_000_000),
    });
    params.control.most_sectors = Some(256);
    params
}
