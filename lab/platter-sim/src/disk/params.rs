//! What describes a mechanical disk: plain data, times in nanoseconds, sizes in sectors of 512 bytes.
//!
//! The meaning of each field follows the parameters of DiskSim 4.0 of the same name.

/// A mechanical disk: where its sectors lie, how it moves, what its controller costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskParams {
    /// Name, for messages.
    pub name: String,
    /// Where the sectors lie.
    pub layout: LayoutParams,
    /// How the arm and the platters move.
    pub mechanics: MechanicsParams,
    /// What the electronics cost for each command.
    pub control: ControlParams,
    /// The buffer and what is kept in it.
    pub cache: CacheParams,
    /// The way to the host.
    pub bus: BusParams,
}

/// Cylinders, heads and zones, and how logical sectors are laid on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutParams {
    /// Surfaces with data.
    pub heads: u32,
    /// Cylinders.
    pub cylinders: u32,
    /// The order of the heads within a cylinder.
    pub mapping: Mapping,
    /// Where spare sectors lie and what slipped ones use.
    pub sparing: Sparing,
    /// From the outer edge inwards.
    pub zones: Vec<ZoneParams>,
    /// Fewer sectors than the zones hold (what the label says); `None`: all.
    pub sectors: Option<u64>,
}

/// Cylinders that have the same number of sectors on each track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneParams {
    /// First cylinder.
    pub first_cylinder: u32,
    /// Last cylinder, inclusive.
    pub last_cylinder: u32,
    /// Sectors on each track.
    pub sectors_per_track: u32,
    /// Angle of the zone's first sector.
    pub first_offset: Skew,
    /// Sectors at the front that hold no data of the host.
    pub reserved: u32,
    /// Angle by which each track lies behind the one before it in the cylinder.
    pub track_skew: Skew,
    /// Angle by which the first track of a cylinder lies behind the last of the cylinder before it.
    pub cylinder_skew: Skew,
    /// Spare places in each unit of the sparing scheme: sectors, or tracks for [`Sparing::Tracks`].
    pub spares: u32,
    /// Defective places that the numbering skips, counted from the zone's front: sectors or tracks.
    pub slips: Vec<u64>,
    /// Defective places and the spare that each was moved to, counted likewise.
    pub remaps: Vec<(u64, u64)>,
}

/// An angle along a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skew {
    /// Whole sectors of the zone.
    Sectors(u32),
    /// Parts of a revolution, in units of 2⁻³².
    Revolution(u32),
}

/// The order of heads in a cylinder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// Each cylinder begins with head 0.
    Ascending,
    /// Cylinder changes stay on the same surface; the first cylinder of each zone ascends.
    SerpentineZone,
    /// Cylinder changes stay on the same surface; even cylinders ascend.
    SerpentineDisk,
}

/// Where the spare sectors lie. In a scheme "past the end" slipped sectors push all that follow, up to the
/// zone's end; in the others they use the spares of their own unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sparing {
    /// No spares (scheme 0).
    None,
    /// Whole tracks at the end of the zone (scheme 1).
    Tracks,
    /// Sectors at the end of each cylinder (scheme 2).
    CylinderEnd,
    /// Sectors at the end of each track (scheme 3).
    TrackEnd,
    /// Sectors at the end of each cylinder; slips past the end (scheme 4).
    CylinderEndSlipPast,
    /// Sectors at the front of each cylinder (scheme 5).
    CylinderFront,
    /// Sectors at the front of each cylinder; slips past the end (scheme 6).
    CylinderFrontSlipPast,
    /// Sectors at the end of the disk; slips past the end (scheme 7).
    DiskEnd,
    /// Sectors at the end of each range of this many cylinders (scheme 8).
    Range(u32),
    /// Sectors at the end of the zone (scheme 9).
    ZoneEnd,
    /// Sectors at the end of the zone; slips past the end (scheme 10).
    ZoneEndSlipPast,
}

/// Movement of arm and platters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MechanicsParams {
    /// What is modelled of an access.
    pub access: Access,
    /// Revolutions per minute, 1,000 to 100,000.
    pub rpm: u32,
    /// Time to move the arm.
    pub seek: SeekCurve,
    /// Time to change to another surface.
    pub head_switch: u64,
    /// Added to each seek and head change before a write. Negative where the times of seeks are those of writes and
    /// reads take longer; no move takes less than 0.
    pub write_settle: i64,
}

/// What is modelled of an access to the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Seek and rotation.
    Positioned,
    /// Seek, and half a revolution for each positioning.
    AverageRotation,
    /// Each command takes this long in all.
    Constant(u64),
}

/// Time of a seek by its distance in cylinders, before reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeekCurve {
    /// The same for each distance but 0.
    Constant(u64),
    /// Straight from one cylinder to a third of the disk (the average), and on to the whole of it.
    Linear(ThreePoint),
    /// The three points joined by `a·√(d−1) + b·(d−1) + c` (Lee and Katz, 1993).
    Curve(ThreePoint),
    /// For disks of which only the three points are known: accelerating (`√d`) up to a distance and at full speed
    /// from there, with the published mean of random seeks and the full seek met. All but the seek of one
    /// cylinder settle for a fifth longer than that takes, as measured disks do.
    Settling(ThreePoint),
    /// `v₂ + v₃·√d` below `v₁` cylinders, `v₄ + v₅·d` from there (Ruemmler and Wilkes, 1994).
    Hpl(Hpl),
    /// The first ten distances as given, the others as [`SeekCurve::Hpl`].
    FirstTenHpl([u64; 10], Hpl),
    /// Distances and times, straight in between and past the last two. Distances rise.
    Table(Vec<(u32, u64)>),
}

/// Three published points of a seek curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreePoint {
    /// One cylinder.
    pub one: u64,
    /// Mean of random seeks: a third of the cylinders.
    pub average: u64,
    /// All cylinders.
    pub full: u64,
}

/// The six values of the curve of Ruemmler and Wilkes, times in picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hpl {
    /// Distance at which the straight part begins.
    pub divide: u32,
    /// Constant of the root part.
    pub root_base: u64,
    /// Factor of the root of the distance.
    pub root_factor: u64,
    /// Constant of the straight part.
    pub line_base: u64,
    /// Factor of the distance.
    pub line_factor: u64,
    /// Time of a seek of one cylinder, when it is off the curve.
    pub one: Option<u64>,
}

/// A time that depends on what the command before was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct After {
    /// After a read.
    pub read: u64,
    /// After a write.
    pub write: u64,
}

/// What the controller costs and allows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlParams {
    /// Before anything else.
    pub per_request: u64,
    /// Read whose data begin in the buffer.
    pub read_hit: After,
    /// Read from the medium.
    pub read_miss: After,
    /// Write that completes in the buffer.
    pub write_hit: After,
    /// Write that completes on the medium.
    pub write_miss: After,
    /// Before a read completes.
    pub read_complete: u64,
    /// Before a write completes.
    pub write_complete: u64,
    /// Before data go over the bus.
    pub data_preparation: u64,
    /// Taking the bus again for the first time.
    pub reselect_first: u64,
    /// Taking the bus again after that.
    pub reselect_other: u64,
    /// Leaving the bus during a read.
    pub read_disconnect: After,
    /// Leaving the bus during a write.
    pub write_disconnect: u64,
    /// The disk leaves the bus between command and data of a write that follows a write elsewhere.
    pub extra_disconnect: Option<ExtraDisconnect>,
    /// Least time of positioning before a write.
    pub minimum_seek: u64,
    /// The bus is kept until all data of a read are through.
    pub hold_bus_read: bool,
    /// The bus is kept until all data of a write are through.
    pub hold_bus_write: bool,
    /// The bus is never left during a command.
    pub never_disconnect: bool,
    /// When the arm may leave for the next command.
    pub preseek: Preseek,
    /// Most sectors of a command (`None`: 8192).
    pub most_sectors: Option<u32>,
}

/// Times of the additional disconnect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtraDisconnect {
    /// In place of the write's overhead.
    pub command: u64,
    /// Leaving the bus.
    pub disconnect: u64,
    /// Until the bus is taken again.
    pub between: u64,
    /// Leaving it once more, after the data.
    pub second_disconnect: u64,
    /// Until the arm moves.
    pub seek_delay: u64,
}

/// How early the arm leaves for the next command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preseek {
    /// When the host has the completion.
    #[default]
    AfterCompletion,
    /// When the completion is being sent.
    DuringCompletion,
    /// When the medium is done with the last sector.
    AfterMedium,
}

/// The buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheParams {
    /// Whether segments are kept after use.
    pub enabled: bool,
    /// Segments.
    pub segments: u32,
    /// Sectors of a segment.
    pub segment_size: u32,
    /// Most segments with data to be written.
    pub write_segments: u32,
    /// One segment is for writes and nothing else.
    pub dedicated_write_segment: bool,
    /// How far reads go on.
    pub read_ahead: ReadAhead,
    /// Sectors read ahead before anything else is begun.
    pub read_ahead_minimum: u32,
    /// Most sectors read ahead (0: what the segment holds).
    pub read_ahead_maximum: u32,
    /// What read-ahead may overwrite.
    pub keep: Keep,
    /// A full hit begins read-ahead anew.
    pub read_ahead_on_hit: bool,
    /// Sectors before the wanted ones are kept when they pass under the head.
    pub read_free_blocks: bool,
    /// A sector in the middle of being read ahead is left for the next command.
    pub stop_in_sector: bool,
    /// A write over what is being read ahead ends the read-ahead.
    pub write_stops_read_ahead: bool,
    /// Reads may be served from written data.
    pub read_hits_on_writes: bool,
    /// A read of what is being read just now counts as a hit.
    pub almost_hits: bool,
    /// Full hits are served while the arm works for another command.
    pub sneaky_full_hits: bool,
    /// Partial hits begin to transfer at once, whatever the watermark.
    pub partial_hits_at_once: bool,
    /// Writes complete in the buffer.
    pub write_back: WriteBack,
    /// Writes that follow each other share a segment.
    pub combine_writes: bool,
    /// Writes are taken into the buffer while the arm works for another command.
    pub write_prebuffering: bool,
    /// Sectors are read in the order in which they pass.
    pub zero_latency_read: bool,
    /// Sectors are written in the order in which they pass.
    pub zero_latency_write: bool,
    /// Space must be free before a sector is read, not after.
    pub read_directly: bool,
    /// Share of a request (or segment) that must be in the buffer before the bus is taken, in millionths.
    pub read_watermark: u32,
    /// Share of a request (or segment) at which the bus is taken for more write data, in millionths.
    pub write_watermark: u32,
    /// Watermarks are shares of the request, not of the segment.
    pub watermark_by_request: bool,
}

/// How far reads go on by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadAhead {
    /// Not at all.
    Off,
    /// To the end of the track.
    TrackEnd,
    /// To the end of the cylinder.
    CylinderEnd,
    /// Until the segment is full.
    Segment,
    /// To the end of the track, and of the next one for reads that come from the track before.
    NextTrack,
}

/// What read-ahead may overwrite in its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// All that was delivered.
    Nothing,
    /// Not the last request's data.
    Request,
    /// Data are gone as soon as they are delivered.
    Discard,
}

/// Whether writes complete in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteBack {
    /// On the medium.
    Off,
    /// In the buffer, as long as nothing but sequential writes comes.
    Sequential,
    /// In the buffer.
    On,
}

/// The bus next to the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusParams {
    /// One sector to the host, in picoseconds.
    pub read_sector: u64,
    /// One sector to the disk, in picoseconds.
    pub write_sector: u64,
    /// Each time the bus is taken, in nanoseconds.
    pub arbitration: u64,
}
