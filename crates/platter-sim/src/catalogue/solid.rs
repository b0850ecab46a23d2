//! Disks without mechanics.

use super::{DiskModel, Kind, Source};
use crate::cloud::{Bucket, CloudParams};
use crate::disk::Policy;
use crate::flash::{Buffer, Control, Link, SsdParams, Start};
use platter_block::time::Span;

const FLASH: Source =
    Source { of: "flash", source: "estimated: TLC flash as described in papers of 2015 to 2020" };
const CONTROLLER: Source =
    Source { of: "controller", source: "estimated: from published rates of the class" };

/// A consumer SSD on SATA.
pub(super) const SATA_SSD: DiskModel = DiskModel {
    name: "sata_ssd",
    summary: "a flash disk on SATA: 240 GB, 32 commands, half duplex, write cache without protection; full and used",
    kind: Kind::Flash(sata_ssd),
    queue: Policy::None,
    sources: &[
        FLASH,
        CONTROLLER,
        Source { of: "link", source: "Serial ATA 3: 6 Gbit/s in 8b/10b less frames, 32 commands (NCQ)" },
        Source { of: "buffer", source: "estimated" },
    ],
};

fn sata_ssd() -> SsdParams {
    SsdParams {
        size: 240_057_409_536,
        channels: 4,
        dies: 4,
        planes: 2,
        page: 16_384,
        pages: 512,
        over_provisioning: 73,
        read: Span::from_micros(60),
        program: Span::from_micros(800),
        erase: Span::from_millis(5),
        channel_rate: 400_000_000,
        link: Link { rate: 560_000_000, full_duplex: false, queues: 1, depth: 32 },
        control: Control { command: Span::from_micros(8), latency: Span::from_micros(20) },
        buffer: Buffer { bytes: 32 << 20, write_back: true, protected: false },
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
        CONTROLLER,
        Source {
            of: "link",
            source: "PCI Express 3.0, 4 lanes: 3.9 GB/s less packets' headers; queues estimated",
        },
        Source { of: "buffer", source: "estimated" },
    ],
};

fn nvme_ssd() -> SsdParams {
    SsdParams {
        size: 960_197_124_096,
        channels: 8,
        dies: 8,
        planes: 2,
        page: 16_384,
        pages: 512,
        over_provisioning: 150,
        read: Span::from_micros(60),
        program: Span::from_micros(700),
        erase: Span::from_millis(5),
        channel_rate: 533_000_000,
        link: Link { rate: 3_300_000_000, full_duplex: true, queues: 8, depth: 128 },
        control: Control { command: Span(1_500), latency: Span::from_micros(8) },
        buffer: Buffer { bytes: 128 << 20, write_back: true, protected: true },
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
