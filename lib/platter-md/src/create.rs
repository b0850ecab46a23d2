//! Making an array: what is to be written to which device.
//!
//! Offsets and sizes are those that mdadm 4.2 chooses, compared with a table of what it made (`tests/layouts.txt`): space for a bitmap,
//! room for a later reshape, and a multiple of 1 MiB for the data. What is different: a raid5 begins with a resync of its parity, as with `--force`,
//! not with a rebuild of its last member.

use crate::bitmap::{self, Bitmap};
use crate::geometry::{Geometry, Shape};
use crate::intent::{self, Intent};
use crate::superblock::{
    Level, MAX_MEMBERS, Name, Place, Reshape, Role, SECTOR, SUPERBLOCK_BYTES, Superblock, Time, feature,
};
use crate::uuid::Uuid;

/// Chunk of an array that is given none, in bytes.
pub const DEFAULT_CHUNK: u64 = 512 << 10;
/// Largest chunk in bytes.
pub const MAX_CHUNK: u64 = 1 << 30;
/// Least chunk in bytes.
const MIN_CHUNK: u64 = 4096;

/// Sectors of 1 MiB.
const MIB: u64 = 2048;
/// Sectors of 1 GiB.
const GIB: u64 = 1 << 21;
/// Sectors to which mirrors are rounded down.
const MIRROR_UNIT: u64 = 128;
/// Sectors of a list of bad blocks.
const BAD_SECTORS: u64 = 8;
/// Sectors of a superblock.
const SUPER: u64 = SUPERBLOCK_BYTES as u64 / SECTOR;
/// Most sectors that are kept for a later reshape.
const HEADROOM: u64 = 128 * MIB;

/// A device of a new array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDevice {
    /// Its size in bytes.
    pub size: u64,
    /// The number that it gets.
    pub uuid: Uuid,
}

/// An array to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewArray {
    /// Where the superblocks lie.
    pub place: Place,
    /// The level.
    pub level: Level,
    /// The number of the layout; `None` for the usual one.
    pub layout: Option<u32>,
    /// Size of a chunk in bytes; `None` for [`DEFAULT_CHUNK`], or none at all.
    pub chunk: Option<u64>,
    /// Its name.
    pub name: Name,
    /// Its number.
    pub array: Uuid,
    /// The members in their order.
    pub members: Vec<NewDevice>,
    /// The spares.
    pub spares: Vec<NewDevice>,
    /// Whether it gets a bitmap.
    pub has_bitmap: bool,
    /// Whether mirrors are equal, and parity right, as the devices are. Otherwise all of it is to be resynchronized.
    pub is_clean: bool,
    /// When.
    pub created: Time,
    /// The largest logical block of the devices in bytes.
    pub block: u32,
}

/// What to write to a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Its superblock, to be written last: without it there is no array.
    pub superblock: Superblock,
    /// What else is to be written: positions in bytes, and bytes.
    pub beside: Vec<(u64, Vec<u8>)>,
}

/// A new array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Where its bytes are. Its size is that of the array.
    pub geometry: Geometry,
    /// Bytes of a chunk of the bitmap, if there is one.
    pub bitmap_chunk: Option<u64>,
    /// The members in their order, then the spares.
    pub devices: Vec<Planned>,
}

/// Plans a new array.
///
/// # Errors
/// What is impossible, and what is possible. Devices are told by their number, from 0, with the spares behind the members.
pub fn plan(new: &NewArray) -> Result<Plan, String> {
    check_numbers(new)?;
    let chunk = chunk(new)?;
    let layout = layout(new)?;
    let (begin, count) = (data_offset(new, chunk), new.members.len() + new.spares.len());
    let room: Vec<Room> = (0..count).map(|at| room(new, chunk, begin, at)).collect::<Result<_, _>>()?;
    let component = component(new, chunk, &room)?;
    let shape = Shape {
        level: new.level,
        layout,
        has_raid0_layout: new.level == Level::Raid0,
        chunk,
        members: room[..new.members.len()]
            .iter()
            .map(|room| if new.level.is_bare() { room.last(0, new.place) } else { component } * SECTOR)
            .collect(),
    };
    let geometry = Geometry::new(&shape)?;
    let intent = intent(new, component, geometry.size() / SECTOR)?;
    // Kept without a bitmap too, so that one can be added.
    let kept = match &intent {
        Some(intent) => (intent.encode().len() as u64).next_multiple_of(4096) / SECTOR,
        None => space(component),
    };
    let unequal = shape.members.iter().any(|size| size / chunk.max(1) != shape.members[0] / chunk.max(1));
    let features = if intent.is_some() { feature::BITMAP } else { 0 }
        | if new.level == Level::Raid0 && unequal { feature::RAID0_LAYOUT } else { 0 };
    let array = Array { new, chunk, layout, component, features, kept };
    let devices = (0..).zip(&room).map(|(at, room)| array.device(at, room, intent.as_ref())).collect();
    Ok(Plan { geometry, bitmap_chunk: intent.map(|intent| intent.header().chunk), devices })
}

/// The members that a level takes.
fn check_numbers(new: &NewArray) -> Result<(), String> {
    let least = match new.level {
        Level::Raid6 => 4,
        Level::Raid4 | Level::Raid5 | Level::Raid10 => 2,
        Level::Linear | Level::Raid0 | Level::Raid1 => 1,
        Level::Other(_) => {
            return Err(format!("{} cannot be made; linear, 0, 1, 4, 5, 6 and 10 can", new.level));
        }
    };
    let most = if new.level == Level::Raid6 { 257 } else { MAX_MEMBERS as usize };
    let (members, spares) = (new.members.len(), new.spares.len());
    if !(least..=most).contains(&members) {
        return Err(format!("a {} of {members} members is not possible; {least} to {most} are", new.level));
    }
    if spares > 0 && new.level.is_bare() {
        return Err(format!(
            "a {} has no spares: what a member has is nowhere else; {spares} were named",
            new.level
        ));
    }
    if members + spares > MAX_MEMBERS as usize {
        return Err(format!(
            "{members} members and {spares} spares are too many; {MAX_MEMBERS} devices are possible"
        ));
    }
    if new.has_bitmap && new.level.is_bare() {
        return Err(format!("a {} has no bitmap: there is nothing that could differ", new.level));
    }
    Ok(())
}

/// The chunk in bytes; 0 if there is none.
fn chunk(new: &NewArray) -> Result<u64, String> {
    let chunk = match (new.level, new.chunk) {
        // That of a linear array only rounds the sizes of its members.
        (Level::Linear | Level::Raid1, None) => return Ok(0),
        (Level::Raid1, Some(chunk)) => {
            return Err(format!("a {} has no chunk; one of {chunk} bytes was given", new.level));
        }
        (_, chunk) => chunk.unwrap_or(DEFAULT_CHUNK),
    };
    let (is_possible, what) = match new.level {
        Level::Raid0 => (chunk.is_multiple_of(MIN_CHUNK), "multiples of"),
        _ => (chunk.is_power_of_two(), "powers of two from"),
    };
    if !is_possible || !(MIN_CHUNK..=MAX_CHUNK).contains(&chunk) {
        return Err(format!(
            "the chunk of a {} cannot have {chunk} bytes; {what} {MIN_CHUNK} to {MAX_CHUNK} are possible",
            new.level
        ));
    }
    if chunk < u64::from(new.block) {
        return Err(format!(
            "the chunk has {chunk} bytes, and a logical block of the members has {}; it takes as many at least",
            new.block
        ));
    }
    Ok(chunk)
}

/// The layout, which is checked with the geometry.
fn layout(new: &NewArray) -> Result<u32, String> {
    let usual = match new.level {
        Level::Raid0 => 1,
        Level::Raid5 | Level::Raid6 => 2,
        Level::Raid10 => 0x102,
        _ => 0,
    };
    let layout = new.layout.unwrap_or(usual);
    if matches!(new.level, Level::Linear | Level::Raid1 | Level::Raid4) && layout != 0 {
        return Err(format!("{} has the layout {layout}; 0 is the only one", new.level));
    }
    if new.level == Level::Raid10 && (layout & 0xff) * (layout >> 8 & 0xff) < 2 {
        return Err(format!("raid10 has the layout {layout:#x}, with fewer than 2 copies; 2 are the least"));
    }
    Ok(layout)
}

/// Sectors that mdadm keeps for a bitmap on a device of this size; none for a member of which all is used.
fn space(sectors: u64) -> u64 {
    match sectors {
        0 => 0,
        _ if sectors >= 200 * GIB + 128 => 256,
        _ if sectors > 8 * GIB + 8 => 128,
        _ => 8,
    }
}

/// What a device has room for. Numbers are sectors.
struct Room {
    /// Position of the superblock.
    place: u64,
    data_offset: u64,
    /// Size of the device.
    sectors: u64,
}

impl Room {
    /// Size of the data, with `kept` sectors for a bitmap behind it if the superblock is there.
    fn last(&self, kept: u64, place: Place) -> u64 {
        match place {
            Place::End => self.place.saturating_sub(BAD_SECTORS + kept),
            Place::Start | Place::Offset4K => self.sectors - self.data_offset,
        }
    }
}

/// Where the data begins, in sectors: the same place on all devices, as the size of the first one has it. If that leaves the smallest
/// without data, as its size has it.
fn data_offset(new: &NewArray, chunk: u64) -> u64 {
    let chunk = chunk / SECTOR;
    let of = |device: &NewDevice| {
        let sectors = device.size / SECTOR;
        let mut headroom = HEADROOM;
        while headroom << 10 > sectors && (chunk == 0 || headroom > 2 * chunk) {
            headroom >>= 1;
        }
        (24 + space(sectors) + headroom).next_multiple_of(MIB)
    };
    let all = || new.members.iter().chain(&new.spares);
    let (Some(first), Some(least)) = (all().next(), all().min_by_key(|device| device.size)) else { return 0 };
    match new.place {
        Place::End => 0,
        Place::Start | Place::Offset4K if of(first) + unit(chunk) <= least.size / SECTOR => of(first),
        Place::Start | Place::Offset4K => of(least),
    }
}

/// Sectors to which the data of members is rounded down.
fn unit(chunk: u64) -> u64 {
    if chunk == 0 { MIRROR_UNIT } else { chunk }
}

fn room(new: &NewArray, chunk: u64, data_offset: u64, at: usize) -> Result<Room, String> {
    let size = new.members.iter().chain(&new.spares).nth(at).map_or(0, |device| device.size);
    let sectors = size / SECTOR;
    let kept = if new.level.is_bare() { 0 } else { space(sectors) };
    let behind = if new.place == Place::End { 16 + BAD_SECTORS + kept } else { 0 };
    let least = data_offset + unit(chunk / SECTOR) + behind;
    match new.place.offset(size).filter(|_| sectors >= least) {
        Some(place) => Ok(Room { place: place / SECTOR, data_offset, sectors }),
        None => Err(format!(
            "device {at} has {size} bytes; a member of this array takes {} at least",
            least * SECTOR
        )),
    }
}

/// Sectors of each member that are used; 0 for levels that use what there is.
fn component(new: &NewArray, chunk: u64, room: &[Room]) -> Result<u64, String> {
    if new.level.is_bare() {
        return Ok(0);
    }
    let unit = unit(chunk / SECTOR);
    let of = |room: &Room| room.last(space(room.sectors), new.place) / unit * unit;
    let members = room[..new.members.len()].iter().map(of).min().unwrap_or(0);
    for (at, spare) in (0..).zip(room).skip(new.members.len()) {
        if of(spare) < members {
            return Err(format!(
                "device {at}, a spare, has room for {} bytes of data; the members have {}",
                of(spare) * SECTOR,
                members * SECTOR
            ));
        }
    }
    Ok(members)
}

fn intent(new: &NewArray, component: u64, array: u64) -> Result<Option<Intent>, String> {
    if !new.has_bitmap {
        return Ok(None);
    }
    let sync_size = if new.level == Level::Raid10 { array } else { component };
    let chunk = bitmap::choose_chunk(sync_size, space(component) * SECTOR);
    // What is not known to be in sync may differ.
    Intent::new(Bitmap::new(new.array, sync_size, chunk), new.block, !new.is_clean).map(Some)
}

/// What is the same for all devices.
struct Array<'a> {
    new: &'a NewArray,
    chunk: u64,
    layout: u32,
    component: u64,
    features: u32,
    /// Sectors for a bitmap.
    kept: u64,
}

impl Array<'_> {
    fn device(&self, at: u32, room: &Room, intent: Option<&Intent>) -> Planned {
        let superblock = self.superblock(at, room);
        let beside =
            |sectors: i32| superblock.super_offset.saturating_add_signed(i64::from(sectors)) * SECTOR;
        let mut writes = Vec::new();
        if let (Some(intent), Some(offset)) = (intent, superblock.bitmap_offset) {
            writes.push((beside(offset), intent.encode()));
        }
        // An entry of all ones ends the list.
        let bad = vec![0xff; (BAD_SECTORS * SECTOR) as usize];
        writes.push((beside(superblock.bad_offset), bad));
        Planned { superblock, beside: writes }
    }

    fn superblock(&self, at: u32, room: &Room) -> Superblock {
        let new = self.new;
        let (all, members) = (new.members.len() + new.spares.len(), new.members.len() as u32);
        let is_end = new.place == Place::End;
        // With 128 more the table ends with a sector.
        let mut roles = vec![Role::Spare; (all + 128).next_multiple_of(256) - 128];
        for (number, role) in (0..members).zip(&mut roles) {
            *role = Role::Member(number);
        }
        let device = new.members.iter().chain(&new.spares).nth(at as usize);
        let kept = self.kept as i32;
        Superblock {
            place: new.place,
            super_offset: room.place,
            features: self.features,
            array: new.array,
            name: new.name,
            created: new.created,
            updated: new.created,
            level: new.level,
            layout: self.layout,
            component: self.component,
            chunk: self.chunk / SECTOR,
            members,
            bitmap_offset: new.has_bitmap.then_some(if is_end {
                -(BAD_SECTORS as i32) - kept
            } else {
                SUPER as i32
            }),
            ppl: None,
            reshape: Reshape::default(),
            data_offset: room.data_offset,
            data_size: room.last(self.kept, new.place),
            recovery_offset: 0,
            number: at,
            device: device.map(|device| device.uuid).unwrap_or_default(),
            corrected_reads: 0,
            write_mostly: false,
            fails_fast: false,
            bad_shift: 0,
            bad_size: BAD_SECTORS as u16,
            bad_offset: if is_end { -(BAD_SECTORS as i32) } else { SUPER as i32 + kept },
            events: 0,
            resync_offset: if new.is_clean || new.level.is_bare() { u64::MAX } else { 0 },
            logical_block: 0,
            roles,
        }
    }
}

impl Plan {
    /// Size of the array in bytes.
    pub fn size(&self) -> u64 {
        self.geometry.size()
    }

    /// Sectors that a bitmap of it covers.
    pub fn sync_size(&self) -> u64 {
        let first = self.devices.first();
        first.map_or(0, |first| intent::sync_size(&first.superblock, self.size() / SECTOR))
    }
}
