//! Disks from published figures.

use super::params::{
    Access, After, BusParams, CacheParams, ControlParams, DiskParams, Keep, LayoutParams, Mapping,
    MechanicsParams, ReadAhead, SeekCurve, Skew, Sparing, ThreePoint, WriteBack, ZoneParams,
};

/// A disk as a data sheet describes it, times in nanoseconds. It can stand in a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyntheticDisk {
    /// Name.
    pub name: &'static str,
    /// Revolutions per minute.
    pub rpm: u32,
    /// Surfaces with data.
    pub heads: u32,
    /// Cylinders.
    pub cylinders: u32,
    /// Zones of equally many cylinders, between which the sectors of a track fall evenly.
    pub zones: u32,
    /// Sectors on the tracks of the outermost zone.
    pub outer_sectors: u32,
    /// Sectors on the tracks of the innermost zone.
    pub inner_sectors: u32,
    /// Sectors of the host, at most what the zones hold; `None`: those.
    pub sectors: Option<u64>,
    /// Seek of one cylinder, before a read.
    pub seek_one: u64,
    /// Mean of random seeks, before reads.
    pub seek_average: u64,
    /// Seek over all cylinders, before a read.
    pub seek_full: u64,
    /// Change to another surface.
    pub head_switch: u64,
    /// Added to seeks and head changes before writes.
    pub write_settle: u64,
    /// Segments of the buffer.
    pub cache_segments: u32,
    /// Sectors of a segment.
    pub segment_sectors: u32,
    /// Overhead of a read that the buffer answers.
    pub read_hit_overhead: u64,
    /// Overhead of a read from the medium.
    pub read_overhead: u64,
    /// Overhead of a write.
    pub write_overhead: u64,
    /// One sector over the bus, in picoseconds (160 MB/s: 3,200,000).
    pub bus_sector: u64,
    /// Writes complete in the buffer, which takes them while the arm is busy, in up to half of its segments.
    pub write_back: bool,
}

impl DiskParams {
    /// Builds the parameters of a disk from published figures. Skews are as large as it takes to change track
    /// and cylinder before a write without losing a revolution; there are no spares or defects.
    pub fn synthetic(disk: &SyntheticDisk) -> DiskParams {
        DiskParams {
            name: disk.name.to_string(),
            layout: LayoutParams {
                heads: disk.heads,
                cylinders: disk.cylinders,
                mapping: Mapping::Ascending,
                sparing: Sparing::ZoneEnd,
                zones: zones(disk),
                sectors: disk.sectors,
            },
            mechanics: MechanicsParams {
                access: Access::Positioned,
                rpm: disk.rpm,
                seek: SeekCurve::Settling(ThreePoint {
                    one: disk.seek_one,
                    average: disk.seek_average,
                    full: disk.seek_full,
                }),
                head_switch: disk.head_switch,
                write_settle: disk.write_settle.try_into().unwrap_or(i64::MAX),
            },
            control: ControlParams {
                read_hit: both(disk.read_hit_overhead),
                read_miss: both(disk.read_overhead),
                write_hit: both(disk.write_overhead),
                write_miss: both(disk.write_overhead),
                ..ControlParams::default()
            },
            cache: cache(disk),
            bus: BusParams { read_sector: disk.bus_sector, write_sector: disk.bus_sector, arbitration: 0 },
        }
    }
}

fn both(time: u64) -> After {
    After { read: time, write: time }
}

fn zones(disk: &SyntheticDisk) -> Vec<ZoneParams> {
    let count = disk.zones.clamp(1, disk.cylinders.max(1));
    let bound = |zone: u32| (u64::from(disk.cylinders) * u64::from(zone) / u64::from(count)) as u32;
    let (outer, inner) = (i64::from(disk.outer_sectors), i64::from(disk.inner_sectors));
    (0..count)
        .map(|zone| {
            let steps = i64::from(count - 1).max(1);
            let sectors = (outer + (inner - outer) * i64::from(zone) / steps).max(1) as u32;
            let skew = |time: u64| {
                let turns = u128::from(time) * u128::from(disk.rpm) * u128::from(sectors);
                Skew::Sectors(turns.div_ceil(60_000_000_000) as u32 + 1)
            };
            ZoneParams {
                first_cylinder: bound(zone),
                last_cylinder: bound(zone + 1).max(1) - 1,
                sectors_per_track: sectors,
                first_offset: Skew::Sectors(0),
                reserved: 0,
                track_skew: skew(disk.head_switch + disk.write_settle),
                cylinder_skew: skew(disk.seek_one.max(disk.head_switch) + disk.write_settle),
                spares: 0,
                slips: Vec::new(),
                remaps: Vec::new(),
            }
        })
        .collect()
}

fn cache(disk: &SyntheticDisk) -> CacheParams {
    CacheParams {
        enabled: true,
        segments: disk.cache_segments,
        segment_size: disk.segment_sectors,
        write_segments: (disk.cache_segments / 2).max(1),
        dedicated_write_segment: false,
        read_ahead: ReadAhead::Segment,
        read_ahead_minimum: 0,
        read_ahead_maximum: 0,
        keep: Keep::Request,
        read_ahead_on_hit: true,
        read_free_blocks: false,
        stop_in_sector: true,
        write_stops_read_ahead: true,
        read_hits_on_writes: true,
        almost_hits: true,
        sneaky_full_hits: true,
        partial_hits_at_once: true,
        write_back: if disk.write_back { WriteBack::On } else { WriteBack::Off },
        combine_writes: true,
        write_prebuffering: disk.write_back,
        zero_latency_read: false,
        zero_latency_write: false,
        read_directly: true,
        read_watermark: 0,
        write_watermark: 0,
        watermark_by_request: true,
    }
}
