//! The superblocks of an array that is running: what they say when it is written, a member fails, one is added, or it is resynchronized.
//!
//! [`Running`] has the superblocks of all devices of the array. Each of its methods changes them and returns the numbers of the devices that are
//! to be written, each with [`superblock_of`](Running::superblock_of); the caller writes them, all at once, and flushes. An array with a
//! bitmap has [`Intent::set_events`](crate::intent::Intent::set_events) written before them.
//!
//! A device that becomes a member ([`add`](Running::add), [`take_spare`](Running::take_spare), [`add_back`](Running::add_back)) is written first,
//! and durable before the others are written: only its own superblock says that it has yet to be rebuilt, and after a crash in between the
//! others would have it as a member in sync.
//!
//! | what happens | call | before |
//! |---|---|---|
//! | the first write after the array was clean | [`mark_dirty`](Running::mark_dirty) | the write starts |
//! | nothing was written for a while, or the array stops | [`mark_clean`](Running::mark_clean) | the array is closed; all writes are durable |
//! | a member fails | [`fail`](Running::fail) | writes that it did not take are acknowledged |
//! | a device is added | [`add`](Running::add), or [`add_back`](Running::add_back) if it was a member | the rebuild starts |
//! | a rebuild has come to a place | [`recovered_to`](Running::recovered_to) | |
//! | a rebuild is done | [`recovered`](Running::recovered) | the member is read |
//! | a resync has come to a place, or is done | [`resync_at`](Running::resync_at) | |
//!
//! If the write of a superblock fails, that member has failed: [`fail`](Running::fail) it and write again.
//!
//! # Events
//!
//! Each change adds one event. Between clean and dirty they go back by one instead, if the last change was such a one too and no member is
//! missing: then spares need not be written, and are not. A failure right after that adds two. Members with two events less than the
//! newest are stale.
//!
//! Source: `md.c` of Linux 6.12 and `md(4)`.

use crate::superblock::{
    Level, MAX_MEMBERS, Place, Role, SECTOR, SUPERBLOCK_BYTES, Superblock, Time, feature,
};
use crate::uuid::Uuid;
use std::collections::BTreeMap;

/// Features that a member has, not its array.
const OF_MEMBER: u32 = feature::RECOVERY
    | feature::BAD_BLOCKS
    | feature::REPLACEMENT
    | feature::BITMAP_RECOVERY
    | feature::NEW_OFFSET;
/// Features of an array that cannot be written here.
const REFUSED: u32 = feature::RESHAPE
    | feature::BACKWARDS
    | feature::NEW_OFFSET
    | feature::CLUSTERED
    | feature::REPLACEMENT
    | !feature::KNOWN;

/// A device that is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Added {
    /// Its size in bytes.
    pub size: u64,
    /// The number that it gets.
    pub uuid: Uuid,
}

/// The superblocks of a running array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// By number of the device; what is common is that of `array`.
    devices: BTreeMap<u32, Superblock>,
    /// What is common to all, with the table of roles. What it says of a device means nothing.
    array: Superblock,
    /// In sync below this sector of the members.
    synced: u64,
    is_dirty: bool,
    /// Whether the last change was one between clean and dirty, which the next one may take back.
    may_go_back: bool,
    /// Whether the last change was one that went back.
    went_back: bool,
    /// Whether a member that the table of roles had is missing, which is not written yet.
    has_news: bool,
}

/// The numbers of the devices that are to be written, in order.
pub type ToWrite = Vec<u32>;

impl Running {
    /// An array of these superblocks: those of its members that are used, and of its spares. Which members are used is decided by
    /// [`assemble`](crate::assembly::assemble); `newest` is the number of the superblock that is believed among them. Members that
    /// are missing become failed ones with the first change.
    ///
    /// # Errors
    /// Superblocks of different arrays, two with one number, features that cannot be written.
    pub fn new(superblocks: Vec<Superblock>, newest: usize) -> Result<Running, String> {
        let Some(array) = superblocks.get(newest).cloned() else {
            return Err(format!(
                "there are {} superblocks, and number {newest} is to be believed",
                superblocks.len()
            ));
        };
        let mut devices = BTreeMap::new();
        for one in superblocks {
            if one.array != array.array {
                return Err(format!("there are members of two arrays: {} and {}", array.array, one.array));
            }
            if one.features & REFUSED != 0 {
                return Err(format!(
                    "device {} has what cannot be written: {}",
                    one.number,
                    Superblock::names(one.features & REFUSED)
                ));
            }
            let number = one.number;
            if number as usize >= array.roles.len() {
                return Err(format!(
                    "device {number} is beyond the table of roles, which has {}",
                    array.roles.len()
                ));
            }
            if devices.insert(number, one).is_some() {
                return Err(format!("two devices have the number {number}"));
            }
        }
        let is_clean = array.resync_offset != 0;
        let mut running = Running {
            devices,
            synced: array.resync_offset,
            is_dirty: !is_clean,
            may_go_back: false,
            went_back: false,
            has_news: false,
            array,
        };
        for number in 0..running.array.roles.len() {
            let is_member = matches!(running.array.roles[number], Role::Member(_) | Role::Journal);
            if is_member && !running.devices.contains_key(&(number as u32)) {
                running.array.roles[number] = Role::Faulty;
                running.has_news = true;
            }
        }
        Ok(running)
    }

    /// Sets the time that the next superblocks have.
    pub fn set_time(&mut self, now: Time) {
        self.array.updated = now;
    }

    /// Events of the newest superblocks.
    pub fn events(&self) -> u64 {
        self.array.events
    }

    /// Whether the superblocks say that the array is being written.
    pub fn is_dirty(&self) -> bool {
        self.is_dirty
    }

    /// Up to which sector of the members the array is in sync; `u64::MAX`: all of it.
    pub fn synced(&self) -> u64 {
        self.synced
    }

    /// Number of members.
    pub fn members(&self) -> u32 {
        self.array.members
    }

    /// The role of a device, by the common table.
    pub fn role(&self, number: u32) -> Role {
        self.array.roles.get(number as usize).copied().unwrap_or(Role::Spare)
    }

    /// The device that is a member, or is being rebuilt as one.
    pub fn device(&self, role: u32) -> Option<u32> {
        self.devices.keys().copied().find(|&number| self.role(number) == Role::Member(role))
    }

    /// Up to which sector of its data a member is in sync; `None` if there is none.
    pub fn in_sync(&self, role: u32) -> Option<u64> {
        let one = &self.devices[&self.device(role)?];
        Some(if one.has(feature::RECOVERY) { one.recovery_offset } else { u64::MAX })
    }

    /// Members that are missing, or not wholly rebuilt.
    pub fn degraded(&self) -> Vec<u32> {
        (0..self.array.members).filter(|&role| self.in_sync(role) != Some(u64::MAX)).collect()
    }

    /// Numbers of the devices that are written: all but failed ones.
    pub fn devices(&self) -> ToWrite {
        self.devices.keys().copied().collect()
    }

    /// The superblock of a device as it is to be written: its position in bytes, and its bytes. `None` if the array does not have the
    /// device, or it has failed.
    pub fn superblock_of(&self, number: u32) -> Option<(u64, Vec<u8>)> {
        let superblock = self.superblock(number)?;
        Some((superblock.position(), superblock.encode()))
    }

    /// As [`superblock_of`](Running::superblock_of), not as bytes.
    pub fn superblock(&self, number: u32) -> Option<Superblock> {
        let own = self.devices.get(&number)?;
        let common = &self.array;
        let is_synced_later = self.is_dirty && !self.is_journaled();
        Some(Superblock {
            features: common.features & !OF_MEMBER | own.features & OF_MEMBER,
            updated: common.updated,
            events: common.events,
            resync_offset: if is_synced_later { 0 } else { self.synced },
            roles: common.roles.clone(),
            component: common.component,
            ..own.clone()
        })
    }

    /// With a journal the array is in sync even while it is written.
    fn is_journaled(&self) -> bool {
        self.array.has(feature::JOURNAL)
            && self.devices.keys().any(|&number| self.role(number) == Role::Journal)
    }

    /// Adds an event. All devices are written.
    fn go_on(&mut self) -> ToWrite {
        self.array.events += 1;
        (self.may_go_back, self.went_back, self.has_news) = (false, false, false);
        self.devices()
    }

    /// A change between clean and dirty.
    fn turn(&mut self) -> ToWrite {
        let is_complete = !self.has_news && self.degraded().is_empty();
        if !is_complete {
            return self.go_on();
        }
        let goes_back =
            self.may_go_back && !self.is_dirty && self.synced == u64::MAX && self.array.events > 1;
        if goes_back {
            self.array.events -= 1;
        } else {
            self.array.events += 1;
        }
        (self.may_go_back, self.went_back) = (!goes_back, goes_back);
        // Spares have the events of the clean array.
        self.devices().into_iter().filter(|&number| self.role(number) != Role::Spare).collect()
    }

    /// The array is going to be written. Nothing is to be written if the superblocks say so already.
    pub fn mark_dirty(&mut self) -> ToWrite {
        if self.array.level.is_bare() || (self.is_dirty && !self.has_news) {
            return Vec::new();
        }
        self.is_dirty = true;
        self.turn()
    }

    /// The array is not being written, and all that was is durable on all members. Of an array that is being resynchronized this
    /// says how far that has come.
    pub fn mark_clean(&mut self) -> ToWrite {
        if self.array.level.is_bare() || !self.is_dirty {
            return Vec::new();
        }
        self.is_dirty = false;
        self.turn()
    }

    /// A member fails. It is not written again, and what it has is not used.
    ///
    /// # Errors
    /// There is no such member, or none would be left that is in sync.
    pub fn fail(&mut self, role: u32) -> Result<ToWrite, String> {
        let Some(number) = self.device(role) else { return Err(self.no_member(role)) };
        let is_source = |other: &u32| *other != role && self.in_sync(*other) == Some(u64::MAX);
        if self.in_sync(role) == Some(u64::MAX) && !(0..self.array.members).any(|other| is_source(&other)) {
            return Err(format!("member {role} is the last that is in sync; it cannot be given up"));
        }
        self.devices.remove(&number);
        self.array.roles[number as usize] = Role::Faulty;
        if self.went_back {
            // It may be the write of this change that has failed: then it still has that event, and must not be as new as the others.
            self.array.events += 1;
        }
        Ok(self.go_on())
    }

    /// Removes a spare, which may then be used elsewhere. Its superblock is to be erased by the caller.
    ///
    /// # Errors
    /// The device is no spare.
    pub fn remove_spare(&mut self, number: u32) -> Result<ToWrite, String> {
        if self.role(number) != Role::Spare || self.devices.remove(&number).is_none() {
            return Err(format!("device {number} is no spare of the array: it is a {}", self.role(number)));
        }
        Ok(self.go_on())
    }

    /// Adds a device: as the member that is missing with the least number, to be rebuilt from its beginning on, or as a spare if none is.
    /// Returns its number. The caller writes the bitmap on it, and 4 KiB of 0xff as its list of bad blocks, then its superblock, and when these
    /// are durable those of the other [`devices`](Running::devices).
    ///
    /// # Errors
    /// It is too small, or the table of roles is full.
    pub fn add(&mut self, device: Added) -> Result<u32, String> {
        let number = self.free_number()?;
        let like = self.devices.values().find(|one| one.role() != Role::Journal).cloned();
        let Some(like) = like else { return Err("the array has no device".to_owned()) };
        let mut own = Superblock {
            number,
            device: device.uuid,
            features: 0,
            recovery_offset: 0,
            corrected_reads: 0,
            write_mostly: false,
            fails_fast: false,
            ..like
        };
        fit(&mut own, device.size)?;
        self.devices.insert(number, own);
        self.array.roles[number as usize] = Role::Spare;
        if self.take(number).is_none() {
            self.go_on();
        }
        Ok(number)
    }

    /// Lets a spare take the place of the member that is missing with the least number, to be rebuilt from its beginning on. Returns which
    /// device and which member. The device is to be written first, then the others.
    pub fn take_spare(&mut self) -> Option<(u32, u32)> {
        let spare = self.devices.keys().copied().find(|&number| self.role(number) == Role::Spare)?;
        Some((spare, self.take(spare)?))
    }

    fn take(&mut self, number: u32) -> Option<u32> {
        if self.array.level.is_bare() {
            return None;
        }
        let role = (0..self.array.members).find(|&role| self.device(role).is_none())?;
        let own = self.devices.get_mut(&number)?;
        own.features = own.features & !feature::BITMAP_RECOVERY | feature::RECOVERY;
        own.recovery_offset = 0;
        self.array.roles[number as usize] = Role::Member(role);
        self.go_on();
        Some(role)
    }

    /// Takes a member back that left, to be brought up to date by the bitmap: only chunks that it marks are to be copied, which is right if
    /// [`Intent::covers`](crate::intent::Intent::covers) its events. Returns its number. The device is to be written first, then the others.
    ///
    /// # Errors
    /// It is not from this array, was no member that was in sync, or its place is taken.
    pub fn add_back(&mut self, left: Superblock) -> Result<u32, String> {
        let number = left.number;
        let refuse = |why: &str| Err(format!("device {number} cannot be taken back: {why}"));
        let Some(role) = left.index() else { return refuse("it was no member") };
        if left.array != self.array.array {
            return refuse(&format!("it is from the array {}, and this is {}", left.array, self.array.array));
        }
        if !self.array.has(feature::BITMAP) {
            return refuse("the array has no bitmap");
        }
        if left.features & (REFUSED | feature::RECOVERY) != 0 {
            return refuse(&format!(
                "it has {}",
                Superblock::names(left.features & (REFUSED | feature::RECOVERY))
            ));
        }
        let same = (left.component, left.members, left.chunk, left.layout, left.level)
            == (
                self.array.component,
                self.array.members,
                self.array.chunk,
                self.array.layout,
                self.array.level,
            );
        if !same {
            return refuse("the array has another level, layout, chunk or size than it had");
        }
        if self.device(role).is_some()
            || self.devices.contains_key(&number)
            || number as usize >= self.array.roles.len()
        {
            return refuse(&format!("member {role} is there"));
        }
        let features = left.features | feature::RECOVERY | feature::BITMAP_RECOVERY;
        self.devices.insert(number, Superblock { features, recovery_offset: 0, ..left });
        self.array.roles[number as usize] = Role::Member(role);
        self.go_on();
        Ok(number)
    }

    /// A member that is being rebuilt is in sync below this sector of its data.
    ///
    /// # Errors
    /// The member is not being rebuilt.
    pub fn recovered_to(&mut self, role: u32, sector: u64) -> Result<ToWrite, String> {
        self.rebuilt(role)?.recovery_offset = sector;
        Ok(self.go_on())
    }

    /// A member is rebuilt. What was copied to it is durable.
    ///
    /// # Errors
    /// The member was not being rebuilt.
    pub fn recovered(&mut self, role: u32) -> Result<ToWrite, String> {
        let own = self.rebuilt(role)?;
        own.features &= !(feature::RECOVERY | feature::BITMAP_RECOVERY);
        own.recovery_offset = 0;
        Ok(self.go_on())
    }

    fn rebuilt(&mut self, role: u32) -> Result<&mut Superblock, String> {
        let missing = self.no_member(role);
        let number = self.device(role).ok_or(missing)?;
        let own = self.devices.get_mut(&number).filter(|own| own.has(feature::RECOVERY));
        own.ok_or_else(|| format!("member {role} is in sync; it is not being rebuilt"))
    }

    fn no_member(&self, role: u32) -> String {
        match role < self.array.members {
            true => format!("member {role} is missing"),
            false => format!(
                "the array has no member {role}; it has 0 to {}",
                self.array.members.saturating_sub(1)
            ),
        }
    }

    /// The members are in sync below this sector of each; `u64::MAX`: all of them. While the array is dirty the superblocks say 0, because what is
    /// being written may be anywhere, until it is clean or all in sync.
    pub fn resync_at(&mut self, sector: u64) -> ToWrite {
        self.synced = sector;
        self.go_on()
    }

    /// Says whether a member has bad blocks in its list, which is durable by then.
    ///
    /// # Errors
    /// There is no such device.
    pub fn set_bad_blocks(&mut self, number: u32, has_any: bool) -> Result<ToWrite, String> {
        let Some(own) = self.devices.get_mut(&number) else {
            return Err(format!("the array has no device {number}"));
        };
        own.features = own.features & !feature::BAD_BLOCKS | if has_any { feature::BAD_BLOCKS } else { 0 };
        Ok(self.go_on())
    }

    /// A number that no device has, if possible one that none ever had: a member that comes back still has its own.
    fn free_number(&mut self) -> Result<u32, String> {
        let free = |role: Role| {
            let mut all = (0..).zip(&self.array.roles);
            all.find(|(number, own)| **own == role && !self.devices.contains_key(number))
                .map(|(number, _)| number)
        };
        if let Some(number) = free(Role::Spare) {
            return Ok(number);
        }
        let len = self.array.roles.len();
        if len < MAX_MEMBERS as usize {
            self.array.roles.resize((len + 256).min(MAX_MEMBERS as usize), Role::Spare);
            return Ok(len as u32);
        }
        free(Role::Faulty)
            .ok_or_else(|| format!("the array has {MAX_MEMBERS} devices; more are not possible"))
    }
}

/// Gives a new device its place in the array: the same beside its data as on another one.
fn fit(own: &mut Superblock, size: u64) -> Result<(), String> {
    let needed = match own.level {
        Level::Linear | Level::Raid0 => own.data_size,
        _ => own.component,
    };
    let sectors = size / SECTOR;
    let end = own.data_offset.saturating_add(needed);
    let too_small =
        || format!("the device has {size} bytes; this array needs {} at least", end.saturating_mul(SECTOR));
    let place = own.place.offset(size).ok_or_else(too_small)? / SECTOR;
    let data_end = match own.place {
        Place::Start | Place::Offset4K => sectors,
        // What lies between the data and the superblock.
        Place::End => {
            let kept = own.bitmap_offset.unwrap_or(0).min(own.bad_offset).min(0);
            place.saturating_sub(u64::from(kept.unsigned_abs()))
        }
    };
    if data_end < end {
        let behind = if own.place == Place::End { sectors - data_end } else { 0 };
        return Err(format!(
            "the device has {size} bytes; this array needs {} at least",
            end.saturating_add(behind).saturating_mul(SECTOR)
        ));
    }
    debug_assert!(size >= SUPERBLOCK_BYTES as u64, "it has a place for a superblock");
    (own.super_offset, own.data_size) = (place, data_end - own.data_offset);
    Ok(())
}
