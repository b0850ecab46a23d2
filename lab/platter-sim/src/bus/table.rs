//! The buses that can be named.

use super::BusParams;
use platter_block::time::Span;

/// A bus of the table.
pub struct BusModel {
    /// Name in device specs: `sim(man3367mp, bus=ultra160:0)`.
    pub name: &'static str,
    /// One-line summary.
    pub summary: &'static str,
    /// Source of the parameters.
    pub source: &'static str,
    /// The parameters.
    pub params: BusParams,
}

const fn nanos(nanos: u64) -> Span {
    Span(nanos)
}

/// All buses.
pub static TABLE: &[BusModel] = &[
    BusModel {
        name: "fast10",
        summary: "SCSI-2, fast and narrow: 10 MB/s, 7 disks",
        source: "rate and disks: SCSI-2; phases and bursts estimated",
        params: BusParams {
            rate: 10_000_000,
            arbitration: nanos(10_000),
            command: nanos(100_000),
            burst: 16 << 10,
            exclusive: false,
            disks: Some(7),
        },
    },
    BusModel {
        name: "ultra160",
        summary: "SCSI Ultra160: 160 MB/s, 15 disks",
        source: "rate and disks: SPI-3; phases and bursts estimated",
        params: BusParams {
            rate: 160_000_000,
            arbitration: nanos(4_000),
            command: nanos(20_000),
            burst: 32 << 10,
            exclusive: false,
            disks: Some(15),
        },
    },
    BusModel {
        name: "fc2g",
        summary: "Fibre Channel arbitrated loop, 2 Gbit/s: 206 MB/s, 126 disks",
        source: "disks: FC-AL-2; rate: 2.125 Gbaud in 8b/10b, 212.5 MB/s, of which frames of 2,048 bytes leave 2,048 of 2,108 \
                 (FC-PH: 24 bytes of header, 12 of delimiters and CRC, 24 of primitive signals between frames); command: the \
                 frames of FCP_CMND and FCP_RSP, each with an arbitration; arbitration and bursts estimated",
        params: BusParams {
            rate: 206_451_613,
            arbitration: nanos(2_000),
            command: nanos(2_828),
            burst: 64 << 10,
            exclusive: false,
            disks: Some(126),
        },
    },
    BusModel {
        name: "ata100",
        summary: "IDE channel, UDMA/100: 100 MB/s, 2 disks, one command at a time",
        source: "rate and disks: ATA/ATAPI-6; phases estimated",
        params: BusParams {
            rate: 100_000_000,
            arbitration: nanos(1_000),
            command: nanos(15_000),
            burst: 128 << 10,
            exclusive: true,
            disks: Some(2),
        },
    },
    BusModel {
        name: "pci32_33",
        summary: "PCI, 32 bits at 33 MHz: 133 MB/s, of which bursts leave 121",
        source: "rate: PCI 2.2; share of bursts estimated, beside nearly 120 MB/s measured by Staelin (HPL-2002-352)",
        params: BusParams {
            rate: 133_333_333,
            arbitration: nanos(3_000),
            command: nanos(2_000),
            burst: 4 << 10,
            exclusive: false,
            disks: None,
        },
    },
    BusModel {
        name: "pci64_66",
        summary: "PCI, 64 bits at 66 MHz: 533 MB/s, of which bursts leave 445",
        source: "rate: PCI 2.2; share of bursts estimated",
        params: BusParams {
            rate: 533_333_333,
            arbitration: nanos(1_500),
            command: nanos(1_000),
            burst: 4 << 10,
            exclusive: false,
            disks: None,
        },
    },
];

/// Looks a bus up by name.
pub fn by_name(name: &str) -> Option<&'static BusModel> {
    TABLE.iter().find(|row| row.name == name)
}
