//! HP C2247A: 1 GB, 5400 rpm, narrow SCSI-2, 1992.
//!
//! The numbers are those of the parameter files with which DiskSim 4.0 is validated (Carnegie Mellon University, Parallel
//! Data Laboratory); a test compares them with the files where those are at hand.

use super::notation::{Zone, zones};
use super::{DiskModel, Kind, Source};
use crate::disk::Policy;
use crate::disk::params::*;

/// First and last cylinder; sectors of a track; angle of the first, reserved, skew of tracks and of cylinders, all in sectors;
/// spares; places that are skipped.
const ZONES: &[Zone] = &[
    Zone(
        [0, 558, 96, 0, 1632, 14, 32, 325],
        &[468, 526, 1204, 1861, 2447, 2680, 3098, 3683, 4880, 4919, 6952, 7095],
    ),
    Zone([559, 760, 92, 14, 0, 13, 30, 130], &[231, 868, 1125, 1458, 1479, 1492]),
    Zone([761, 901, 88, 73, 0, 13, 29, 65], &[585, 996, 1401, 1810]),
    Zone([902, 1051, 84, 80, 0, 12, 28, 78], &[582, 595, 699]),
    Zone([1052, 1193, 80, 52, 0, 12, 27, 52], &[569, 1098, 1518]),
    Zone([1194, 1519, 72, 0, 0, 11, 24, 104], &[693, 1489, 3102, 3115]),
    Zone([1520, 1793, 64, 32, 0, 10, 22, 78], &[1980, 1993, 3505]),
    Zone([1794, 2050, 56, 30, 0, 9, 19, 65], &[1512, 2506, 3320]),
];

/// The disk.
pub(super) const MODEL: DiskModel = DiskModel {
    name: "hp_c2247a",
    summary: "HP C2247A: 1.05 GB, 5400 rpm, SCSI-2, 1992; validated against a trace",
    kind: Kind::Mechanical(params),
    queue: Policy::None,
    sources: &[
        Source { of: "layout", source: DISKSIM },
        Source { of: "mechanics", source: DISKSIM },
        Source { of: "control", source: DISKSIM },
        Source { of: "cache", source: DISKSIM },
        Source {
            of: "interface",
            source: "the bus on which it was validated (DiskSim 4.0); a bus of the spec takes its place",
        },
    ],
};

const DISKSIM: &str = "extracted from the disk and validated by the authors of DiskSim 4.0";

fn params() -> DiskParams {
    DiskParams {
        name: "hp_c2247a".to_owned(),
        layout: LayoutParams {
            heads: 13,
            cylinders: 2051,
            mapping: Mapping::Ascending,
            sparing: Sparing::Tracks,
            zones: zones(ZONES),
            sectors: Some(2_054_864),
        },
        mechanics: MechanicsParams {
            access: Access::Positioned,
            rpm: 5400,
            seek: SeekCurve::FirstTenHpl(
                [
                    2_890_000, 3_680_000, 3_810_000, 3_980_000, 4_270_000, 4_650_000, 4_520_000, 4_650_000,
                    4_820_000, 4_990_000,
                ],
                Hpl {
                    divide: 300,
                    root_base: 3_810_000_000,
                    root_factor: 330_000_000,
                    line_base: 7_750_000_000,
                    line_factor: 5_900_000,
                    one: None,
                },
            ),
            head_switch: 890_000,
            write_settle: 650_000,
        },
        control: control(),
        cache: cache(),
        bus: BusParams { read_sector: 170_100_000, write_sector: 186_860_000, arbitration: 0 },
    }
}

fn control() -> ControlParams {
    ControlParams {
        per_request: 0,
        read_hit: After { read: 953_430, write: 953_430 },
        read_miss: After { read: 558_210, write: 558_210 },
        write_hit: After { read: 823_910, write: 823_910 },
        write_miss: After { read: 823_910, write: 823_910 },
        read_complete: 56_650,
        write_complete: 50_450,
        data_preparation: 25_190,
        reselect_first: 162_490,
        reselect_other: 128_830,
        read_disconnect: After { read: 22_660, write: 45_510 },
        write_disconnect: 165_650,
        extra_disconnect: Some(ExtraDisconnect {
            command: 642_440,
            disconnect: 45_510,
            between: 428_850,
            second_disconnect: 134_370,
            seek_delay: 250_000,
        }),
        minimum_seek: 600_000,
        hold_bus_read: true,
        hold_bus_write: false,
        never_disconnect: false,
        preseek: Preseek::AfterCompletion,
        most_sectors: None,
    }
}

fn cache() -> CacheParams {
    CacheParams {
        enabled: true,
        segments: 2,
        segment_size: 256,
        write_segments: 1,
        dedicated_write_segment: true,
        read_ahead: ReadAhead::Segment,
        read_ahead_minimum: 0,
        read_ahead_maximum: 128,
        keep: Keep::Nothing,
        read_ahead_on_hit: true,
        read_free_blocks: false,
        stop_in_sector: true,
        write_stops_read_ahead: true,
        read_hits_on_writes: true,
        almost_hits: false,
        sneaky_full_hits: false,
        partial_hits_at_once: true,
        write_back: WriteBack::Off,
        combine_writes: true,
        write_prebuffering: false,
        zero_latency_read: false,
        zero_latency_write: false,
        read_directly: true,
        read_watermark: 750_000,
        write_watermark: 750_000,
        watermark_by_request: true,
    }
}
