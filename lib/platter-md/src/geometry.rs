//! Where the bytes of an array are.

use crate::gf::Block;
use crate::mirrors;
use crate::rows::{self, Row};
use crate::superblock::{Level, SECTOR};
use crate::zones::Zones;

/// Largest array and member, in bytes.
pub const MAX_SIZE: u64 = 1 << 62;

/// What an array is made of. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Level.
    pub level: Level,
    /// Number of the layout.
    pub layout: u32,
    /// Whether `layout` says how a raid0 is striped.
    pub has_raid0_layout: bool,
    /// Size of a chunk; 0 if there is none.
    pub chunk: u64,
    /// Data of each member; except for raid0 and linear the same for all.
    pub members: Vec<u64>,
}

/// A place on a member, counted from the start of its data, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Number of the member.
    pub member: u32,
    /// First byte.
    pub pos: u64,
}

/// Where a byte is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spot {
    /// On each of these places.
    Copies(Vec<Place>),
    /// In a row with parity, at the same `pos` of all members.
    Row {
        /// The row.
        row: Row,
        /// Which block of data it is.
        data: u32,
        /// Position on each member.
        pos: u64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Map {
    Zones(Zones),
    Mirror,
    Mirrors(mirrors::Layout),
    Rows(rows::Layout),
}

/// Where the bytes of an array are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    level: Level,
    /// Unit of the map in bytes.
    chunk: u64,
    members: u32,
    /// Part of each member that is used; of raid0 and linear, of the largest.
    component: u64,
    size: u64,
    map: Map,
}

impl Geometry {
    /// Checks a shape.
    ///
    /// # Errors
    /// The level, its layout, the chunk or the members are impossible, or not known here.
    pub fn new(shape: &Shape) -> Result<Geometry, String> {
        let (level, count) = (shape.level, shape.members.len());
        let largest = shape.members.iter().copied().max().unwrap_or(0);
        if count == 0 || count > 1920 {
            return Err(format!("the array has {count} members; 1 to 1920 are possible"));
        }
        if largest > MAX_SIZE {
            return Err(format!("a member has {largest} bytes; at most 2^62 are possible"));
        }
        let needs_chunk = !matches!(level, Level::Linear | Level::Raid1);
        let unit = match shape.chunk {
            0 if needs_chunk => return Err(format!("{level} has no chunk; 512 bytes are the least")),
            0 => SECTOR,
            _ if level == Level::Raid1 => SECTOR,
            chunk if !chunk.is_multiple_of(SECTOR) || chunk > 1 << 40 => {
                return Err(format!("the chunk is {chunk} bytes; multiples of 512 up to 2^40 are possible"));
            }
            chunk => chunk,
        };
        let chunks: Vec<u64> = shape.members.iter().map(|size| size / unit).collect();
        let members = count as u32;
        let least = chunks.iter().copied().min().unwrap_or(0);
        let (map, size) = match level {
            Level::Linear => {
                let zones = Zones::linear(&chunks);
                let size = zones.size();
                (Map::Zones(zones), size)
            }
            Level::Raid0 => {
                let zones = striped(shape, &chunks)?;
                let size = zones.size();
                (Map::Zones(zones), size)
            }
            Level::Raid1 => (Map::Mirror, least),
            Level::Raid10 => {
                let layout = mirrors::Layout::new(shape.layout, members, least)?;
                (Map::Mirrors(layout), layout.size())
            }
            Level::Raid4 | Level::Raid5 | Level::Raid6 => {
                let layout = rows::Layout::new(level, shape.layout, members)?;
                (Map::Rows(layout), least.saturating_mul(u64::from(layout.data())))
            }
            Level::Other(_) => return Err(format!("{level} is not known; linear, 0, 1, 4, 5, 6 and 10 are")),
        };
        let size = size.checked_mul(unit).filter(|&size| size <= MAX_SIZE);
        let Some(size) = size else { return Err("the array has more than 2^62 bytes".to_owned()) };
        let size = if level == Level::Raid0 { size.min(presented(&chunks, unit)) } else { size };
        if size == 0 {
            return Err(format!("the array is empty: its smallest member has {} bytes", least * unit));
        }
        let component = if level.is_bare() { largest } else { least * unit };
        Ok(Geometry { level, chunk: unit, members, component, size, map })
    }

    /// Size of the array.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The level.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Number of members.
    pub fn members(&self) -> u32 {
        self.members
    }

    /// Part of each member that is used; of raid0 and linear, of the largest.
    pub fn component(&self) -> u64 {
        self.component
    }

    /// Unit of the map: the chunk, or a sector.
    pub fn chunk(&self) -> u64 {
        self.chunk
    }

    /// Where a byte of the array is, and how many from it on are contiguous there. `pos` is below the size.
    pub fn find(&self, pos: u64) -> (Spot, u64) {
        let (chunk, within) = (pos / self.chunk, pos % self.chunk);
        let left = self.chunk - within;
        let place = |(member, chunk): (u32, u64)| Place { member, pos: chunk * self.chunk + within };
        match &self.map {
            Map::Zones(zones) => {
                let (member, at, contiguous) = zones.find(chunk);
                (Spot::Copies(vec![place((member, at))]), contiguous * self.chunk - within)
            }
            Map::Mirror => {
                let copies = (0..self.members).map(|member| Place { member, pos }).collect();
                (Spot::Copies(copies), self.size - pos)
            }
            Map::Mirrors(layout) => (Spot::Copies(layout.find(chunk).into_iter().map(place).collect()), left),
            Map::Rows(layout) => {
                let (row, data) = (chunk / u64::from(layout.data()), chunk % u64::from(layout.data()));
                let pos = row * self.chunk + within;
                (Spot::Row { row: layout.row(row), data: data as u32, pos }, left)
            }
        }
    }

    /// The row at a position of the members; `None` for levels without parity.
    pub fn row(&self, pos: u64) -> Option<Row> {
        match &self.map {
            Map::Rows(layout) => Some(layout.row(pos / self.chunk)),
            _ => None,
        }
    }

    /// Where a block of a row is on the array, if it is data: `pos` is a position of the members.
    pub fn whence(&self, pos: u64, block: Block) -> Option<u64> {
        let Map::Rows(layout) = &self.map else { return None };
        let Block::Data(number) = block else { return None };
        let chunk = pos / self.chunk * u64::from(layout.data()) + u64::from(number);
        Some(chunk * self.chunk + pos % self.chunk)
    }

    /// Whether all of the array can be read without these members.
    pub fn survives(&self, is_lost: impl Fn(u32) -> bool) -> bool {
        let lost = (0..self.members).filter(|&member| is_lost(member)).count();
        match &self.map {
            _ if lost == 0 => true,
            Map::Zones(_) => false,
            Map::Mirror => lost < self.members as usize,
            Map::Rows(layout) => lost <= (self.members - layout.data()) as usize,
            Map::Mirrors(layout) => {
                // The members of copies repeat with the chunks that begin on the same member.
                let turns = u64::from(self.members).min(layout.size());
                (0..turns).all(|chunk| layout.find(chunk).iter().any(|&(member, _)| !is_lost(member)))
            }
        }
    }
}

/// The size of a raid0 as the kernel presents it: it rounds the sectors of each member down with the bits of the chunk as a mask, so
/// that with a chunk that is no power of two some chunks at the end are not to be seen.
fn presented(chunks: &[u64], unit: u64) -> u64 {
    let sectors = unit / SECTOR;
    let of = |&chunks: &u64| chunks.saturating_mul(sectors) & !(sectors - 1);
    chunks.iter().map(of).fold(0u64, u64::saturating_add).saturating_mul(SECTOR)
}

fn striped(shape: &Shape, chunks: &[u64]) -> Result<Zones, String> {
    let original = match (shape.has_raid0_layout, shape.layout) {
        (true, 1) => true,
        (true, 2) => false,
        (true, other) => {
            return Err(format!("raid0 has the layout {other}; 1 (original) and 2 (alternate) are known"));
        }
        (false, _) if Zones::is_ambiguous(chunks) => {
            return Err("the superblock does not say by which rule its unequal members are striped: say layout=original \
                        (arrays made before Linux 3.14) or layout=alternate"
                .to_owned());
        }
        (false, _) => false,
    };
    Ok(Zones::striped(chunks, original))
}
