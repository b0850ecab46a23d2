//! Arrays of Linux' md: what is on a device, and opening the array.

use super::RaidError;
use platter_disk::device::Device;
use platter_md::assembly::Candidate;
use platter_md::bad_blocks::{self, BadRange};
use platter_md::bitmap::{self, Bitmap};
use platter_md::superblock::{
    self, Level, NoSuperblock, Place, Role, SECTOR, SUPERBLOCK_BYTES, Superblock, feature,
};
use platter_md::{journal, ppl};

/// What is on a member beside its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MdMember {
    /// Its superblock.
    pub superblock: Superblock,
    /// Its bad blocks, or why the list cannot be used.
    pub bad: Result<Vec<BadRange>, String>,
    /// Its bitmap and the bits or states, or why it cannot be used; `None` if it has none.
    pub bitmap: Option<Result<(Bitmap, Vec<u8>), String>>,
    /// Its log of partial parity, or why it cannot be used; `None` if it has none.
    pub ppl: Option<Result<Box<ppl::Log>, String>>,
    /// What it has of a journal, or why that cannot be used; `None` if it is no journal device.
    pub journal: Option<Result<Box<journal::Log>, String>>,
}

/// What a device has of md.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    Member(Box<MdMember>),
    Damaged(Place, String),
    Foreign(&'static str),
}

/// Looks for md's superblock in all places it may be at.
pub(super) fn read(device: &Device) -> Result<Found, RaidError> {
    let mut found = Found::Nothing;
    for place in Place::ALL {
        let Some(at) = place.offset(device.size()) else { continue };
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        device.read_at(&mut bytes, at)?;
        match superblock::parse(place, device.size(), &bytes) {
            Ok(superblock) => return Ok(Found::Member(Box::new(member(device, superblock)?))),
            Err(NoSuperblock::Damaged(what)) if found == Found::Nothing => {
                found = Found::Damaged(place, what);
            }
            Err(_) => {}
        }
    }
    if found == Found::Nothing
        && let Some(what) = foreign(device)?
    {
        found = Found::Foreign(what);
    }
    Ok(found)
}

/// Metadata of arrays that are not read here.
fn foreign(device: &Device) -> Result<Option<&'static str>, RaidError> {
    let size = device.size();
    let at = |pos: Option<u64>, bytes: &mut [u8]| -> Result<bool, RaidError> {
        let Some(pos) = pos.filter(|pos| pos + bytes.len() as u64 <= size) else { return Ok(false) };
        device.read_at(bytes, pos)?;
        Ok(true)
    };
    let mut start = [0; 8];
    if at(superblock::old_offset(size), &mut start)? && superblock::is_old(&start) {
        return Ok(Some("a superblock 0.90 of md, which is not known here"));
    }
    let mut signature = [0; 24];
    if at((size / SECTOR).checked_sub(2).map(|sector| sector * SECTOR), &mut signature)?
        && signature.starts_with(b"Intel Raid ISM Cfg Sig. ")
    {
        return Ok(Some("metadata of Intel's Matrix RAID (IMSM), which is not known here"));
    }
    let mut magic = [0; 4];
    if at((size / SECTOR).checked_sub(1).map(|sector| sector * SECTOR), &mut magic)?
        && matches!(magic, [0xde, 0x11, 0xde, 0x11] | [0x11, 0xde, 0x11, 0xde])
    {
        return Ok(Some("metadata of the Common RAID Disk Data Format (DDF), which is not known here"));
    }
    Ok(None)
}

/// A position beside the superblock, if it and `len` bytes from it on are on the device.
fn beside(device: &Device, superblock: &Superblock, sectors: i64, len: u64) -> Result<u64, String> {
    let at = i128::from(superblock.super_offset) + i128::from(sectors);
    let at = at * i128::from(SECTOR);
    let fits = at >= 0 && at + i128::from(len) <= i128::from(device.size());
    if fits {
        return Ok(at as u64);
    }
    Err(format!("it would lie at byte {at}, {len} bytes long, and the device has {}", device.size()))
}

fn member(device: &Device, superblock: Superblock) -> Result<MdMember, RaidError> {
    let (bad, bitmap) = (bad_blocks(device, &superblock)?, bitmap(device, &superblock)?);
    let (ppl, journal) = (parity_log(device, &superblock), journal_log(device, &superblock));
    Ok(MdMember { superblock, bad, bitmap, ppl, journal })
}

fn bad_blocks(device: &Device, superblock: &Superblock) -> Result<Result<Vec<BadRange>, String>, RaidError> {
    if superblock.bad_offset == 0 || superblock.bad_size == 0 || !superblock.has(feature::BAD_BLOCKS) {
        return Ok(match superblock.has(feature::BAD_BLOCKS) {
            true => Err("the list of bad blocks has no place".to_owned()),
            false => Ok(Vec::new()),
        });
    }
    let len = u64::from(superblock.bad_size) * SECTOR;
    let at = match beside(device, superblock, i64::from(superblock.bad_offset), len) {
        Ok(at) => at,
        Err(why) => return Ok(Err(format!("the list of bad blocks cannot be read: {why}"))),
    };
    let mut bytes = vec![0; len as usize];
    device.read_at(&mut bytes, at)?;
    Ok(bad_blocks::parse(&bytes, superblock.bad_shift))
}

type ReadBitmap = Option<Result<(Bitmap, Vec<u8>), String>>;

fn bitmap(device: &Device, superblock: &Superblock) -> Result<ReadBitmap, RaidError> {
    let Some(offset) = superblock.bitmap_offset else { return Ok(None) };
    let place = |len: u64| beside(device, superblock, i64::from(offset), len);
    let at = match place(bitmap::HEADER_BYTES as u64) {
        Ok(at) => at,
        Err(why) => return Ok(Some(Err(format!("the bitmap cannot be read: {why}")))),
    };
    let mut header = vec![0; bitmap::HEADER_BYTES];
    device.read_at(&mut header, at)?;
    let bitmap = match Bitmap::parse(&header) {
        Ok(bitmap) => bitmap,
        Err(why) => return Ok(Some(Err(why))),
    };
    if let Err(why) = place(bitmap.data_offset() + bitmap.data_bytes()) {
        return Ok(Some(Err(format!("the bitmap cannot be read: {why}"))));
    }
    let mut data = vec![0; bitmap.data_bytes() as usize];
    device.read_at(&mut data, at + bitmap.data_offset())?;
    Ok(Some(Ok((bitmap, data))))
}

/// Reads from a log that begins at `begin`; what fails is damage of the log.
fn read_log(device: &Device, begin: u64) -> impl FnMut(u64, &mut [u8]) -> Result<(), String> {
    move |at, bytes| device.read_at(bytes, begin + at).map_err(|error| error.to_string())
}

fn parity_log(device: &Device, superblock: &Superblock) -> Option<Result<Box<ppl::Log>, String>> {
    let (offset, sectors) = superblock.ppl?;
    let len = u64::from(sectors) * SECTOR;
    Some(match beside(device, superblock, i64::from(offset), len) {
        Ok(begin) => ppl::scan(len, &superblock.array, &mut read_log(device, begin)).map(Box::new),
        Err(why) => Err(format!("the parity log cannot be read: {why}")),
    })
}

fn journal_log(device: &Device, superblock: &Superblock) -> Option<Result<Box<journal::Log>, String>> {
    if superblock.role() != Role::Journal {
        return None;
    }
    let begin = superblock.data_offset.saturating_mul(SECTOR);
    let end = begin.saturating_add(superblock.data_size.saturating_mul(SECTOR));
    if end > device.size() {
        let size = device.size();
        return Some(Err(format!("the journal lies at bytes {begin} to {end}, and the device has {size}")));
    }
    let ring = journal::Ring {
        array: superblock.array,
        size: superblock.data_size,
        tail: superblock.recovery_offset,
        parities: if superblock.level == Level::Raid6 { 2 } else { 1 },
    };
    Some(journal::scan(&ring, &mut read_log(device, begin)).map(Box::new))
}

impl MdMember {
    /// As a candidate for its array.
    ///
    /// # Errors
    /// It has data, and which of its blocks are bad is not known.
    pub fn candidate(self, name: String, size: u64) -> Result<Candidate, String> {
        let bad = match self.bad {
            Ok(bad) => bad,
            Err(why) if matches!(self.superblock.role(), Role::Member(_)) => {
                return Err(format!("{name}: {why}"));
            }
            Err(_) => Vec::new(),
        };
        let bitmap = self.bitmap.and_then(Result::ok);
        let MdMember { superblock, ppl, journal, .. } = self;
        Ok(Candidate { name, size, superblock, bad, bitmap, ppl, journal })
    }
}
