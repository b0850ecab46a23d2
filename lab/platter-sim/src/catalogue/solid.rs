//! Disks without mechanics.

use super::{DiskModel, Kind, Source};
use crate::cloud::{Bucket, CloudParams};
use crate::disk::Policy;
use crate::flash::{Buffer, Control, Link, Slc, SsdParams, Start};
use platter_block::time::Span;

/// What the sources do not give of the flash and the controllers.
const FLASH: Source = Source {
    of: "flash",
    source: "estimated: TLC flash of 2015 to 2020, a page of 16 KiB on each of two planes",
};
const ERASE: Source = Source {
    of: "flash.erase",
    source: "configuration published with MQSim (Tavakkol et al., FAST 2018), whose simulated disks were compared with four real ones",
};
const IDLE: Source = Source {
    of: "controller.collects garbage when idle for",
    source: "estimated: below the pauses of seconds after which disks are reported to recover",
};

/// A consumer SSD on SATA.
pub(super) const SATA_SSD: DiskModel = DiskModel {
    name: "sata_ssd",
    summary: "a flash disk on SATA: 250 GB, 32 commands, half duplex, write cache without protection, SLC cache; full and used",
    kind: Kind::Flash(sata_ssd),
    queue: Policy::None,
    sources: &[
        FLASH,
        ERASE,
        IDLE,
        Source { of: "flash.size", source: "Samsung 850 EVO 250 GB, data sheet" },
        Source { of: "flash.channels", source: "estimated: 16 dies as four times four" },
        Source {
            of: "flash.dies of a channel",
            source: "AnandTech, Samsung SSD 850 EVO review, 8 December 2014: 16 dies of 128 Gbit",
        },
        Source {
            of: "flash.over-provisioning, at least",
            source: "the same review: 256 GiB of flash, less three times the 3 GB of the SLC cache",
        },
        Source {
            of: "flash.read",
            source: "from the data sheet's 10,000 reads a second at depth 1, less the other parts",
        },
        Source {
            of: "flash.program",
            source: "from 300 MB/s of 16 dies after the cache (data sheet, from memory; \"A 128 Gb 3b/cell V-NAND\", JSSC 2016, gives 700 us)",
        },
        Source { of: "flash.channel", source: "estimated: Toggle 2.0, 400 MT/s" },
        Source {
            of: "SLC cache",
            source: "estimated: fast enough for the 520 MB/s and 88,000 writes a second of the data sheet",
        },
        Source { of: "SLC cache.size", source: "TurboWrite of 3 GB: data sheet, and the same review" },
        Source { of: "SLC cache.bits of a cell otherwise", source: "data sheet: 3-bit MLC" },
        Source {
            of: "controller",
            source: "from the data sheet's 97,000 reads a second at depth 32, and 40,000 writes at depth 1",
        },
        Source { of: "link", source: "Serial ATA 3, 32 commands (NCQ)" },
        Source { of: "link.rate", source: "the data sheet's 540 MB/s of sequential reads" },
        Source { of: "buffer", source: "estimated" },
    ],
};

fn sata_ssd() -> SsdParams {
    SsdParams {
        size: 250_059_350_016,
        channels: 4,
        dies: 4,
        planes: 2,
        page: 16_384,
        pages: 512,
        over_provisioning: 60,
        read: Span::from_micros(64),
        program: Span::from_micros(1_666),
        erase: Span::from_micros(3_800),
        channel_rate: 400_000_000,
        link: Link { rate: 540_000_000, full_duplex: false, queues: 1, depth: 32 },
        control: Control { command: Span(10_300), latency: Span::from_micros(7) },
        buffer: Buffer { bytes: 32 << 20, write_back: true, protected: false },
        slc: Slc {
            bytes: 3_000_000_000,
            bits: 3,
            read: Span::from_micros(30),
            program: Span::from_micros(400),
        },
        background: Some(Span::from_millis(100)),
        start: Start::Steady,
        seed: 0,
    }
}

/// A server's SSD on PCIe.
pub(super) const NVME_SSD: DiskModel = DiskModel {
    name: "nvme_ssd",
    summary: "a flash disk on PCIe 3.0 x4: 960 GB, 8 queues of 128, write cache protected against power cuts; full and used",
    kind: Kind::Flash(nvme_ssd),
    queue: Policy::None,
    sources: &[
        FLASH,
        ERASE,
        IDLE,
        Source { of: "flash.size", source: "Samsung PM983 960 GB, data sheet of January 2018" },
        Source {
            of: "flash.dies of a channel",
            source: "from the data sheet: 400,000 random reads a second are what 32 dies do at a read each 80 us",
        },
        Source {
            of: "flash.over-provisioning, at least",
            source: "from the data sheet: sequential over random write rate is the amplification, 6.4, which greedy collection has with 8.8 %",
        },
        Source {
            of: "flash.read",
            source: "from the data sheet's 85 us of a random read, less the other parts",
        },
        Source {
            of: "flash.program",
            source: "from the sequential write rate of 1,050 MB/s of 32 dies (from memory, not verified)",
        },
        Source { of: "flash.channel", source: "estimated: NV-DDR2 or Toggle 2.0 at 533 MT/s" },
        Source {
            of: "controller",
            source: "estimated: with the parts above 85 us for a read, and 20 us for a write (Intel P4500 1.0 TB)",
        },
        Source {
            of: "link",
            source: "PCI Express 3.0, 4 lanes: 3.9 GB/s less packets' headers; queues estimated",
        },
        Source { of: "buffer", source: "estimated" },
        Source { of: "SLC cache", source: "none in the data sheet, whose rates are sustained ones" },
    ],
};

fn nvme_ssd() -> SsdParams {
    SsdParams {
        size: 960_197_124_096,
        channels: 8,
        dies: 4,
        planes: 2,
        page: 16_384,
        pages: 512,
        over_provisioning: 88,
        read: Span::from_micros(60),
        program: Span::from_micros(937),
        erase: Span::from_micros(3_800),
        channel_rate: 533_000_000,
        link: Link { rate: 3_300_000_000, full_duplex: true, queues: 8, depth: 128 },
        control: Control { command: Span(1_500), latency: Span::from_micros(15) },
        buffer: Buffer { bytes: 128 << 20, write_back: true, protected: true },
        slc: Slc { bytes: 0, bits: 3, read: Span::from_micros(30), program: Span::from_micros(400) },
        background: Some(Span::from_millis(100)),
        start: Start::Steady,
        seed: 0,
    }
}

/// A cloud volume.
pub(super) const CLOUD: DiskModel = DiskModel {
    name: "cloud",
    summary: "a network volume: 100 GiB, 3000 I/Os and 125 MiB a second with bursts, 0.5 to 0.9 ms, a long tail",
    kind: Kind::Cloud(cloud),
    queue: Policy::None,
    sources: &[Source { of: "volume", source: "estimated: general-purpose volumes as clouds sell them" }],
};

fn cloud() -> CloudParams {
    CloudParams {
        size: 100 << 30,
        read: Span::from_micros(500),
        write: Span::from_micros(700),
        jitter: Span::from_micros(400),
        tail_per_million: 500,
        tail: Span::from_millis(20),
        iops: Bucket { per_second: 3000, burst: 30_000 },
        io_unit: 256 << 10,
        throughput: Bucket { per_second: 125 << 20, burst: 125 << 20 },
        depth: 128,
        seed: 0,
    }
}
