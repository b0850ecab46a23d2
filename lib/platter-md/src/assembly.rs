//! Which of the members at hand form an array.
//!
//! Source: `md.c` of Linux 6.12 (which members are fresh, whose table of roles counts) and `md(4)`.

mod force;
mod logs;

use crate::bad_blocks::BadRange;
use crate::bitmap::Bitmap;
use crate::geometry::{Geometry, Shape};
use crate::journal;
use crate::ppl;
use crate::sources::{InSync, Source, Sources};
use crate::superblock::{Level, Role, SECTOR, SUPERBLOCK_BYTES, Superblock, feature};
use crate::uuid::Uuid;
use force::{check_dirty, take_stale, too_few};
use std::fmt;

/// A device that may be a member.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its name in messages.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// Its superblock.
    pub superblock: Superblock,
    /// Its bad blocks.
    pub bad: Vec<BadRange>,
    /// Its bitmap and the bits or states, if it has one that could be read.
    pub bitmap: Option<(Bitmap, Vec<u8>)>,
    /// Its log of partial parity, or why it cannot be used, if it has one.
    pub ppl: Option<Result<Box<ppl::Log>, String>>,
    /// What it has of a journal, or why that cannot be used, if it is the journal device.
    pub journal: Option<Result<Box<journal::Log>, String>>,
}

/// How to assemble.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Use what may be out of date or wrong, where it is needed.
    pub force: bool,
    /// How an unequal raid0 is striped whose superblocks do not say: 1 original, 2 alternate.
    pub raid0_layout: Option<u32>,
}

/// A device that is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Number among the candidates.
    pub device: usize,
    /// Why.
    pub why: String,
    /// How many events it is behind the newest, if that is why.
    pub behind: Option<u64>,
}

/// An array that can be read.
#[derive(Clone, Debug)]
pub struct Array {
    /// Its UUID.
    pub uuid: Uuid,
    /// Its name.
    pub name: String,
    /// Where its bytes are.
    pub geometry: Geometry,
    /// What has the data of each member.
    pub sources: Sources,
    /// Devices that are not used.
    pub left_out: Vec<LeftOut>,
    /// Members that are missing, or being rebuilt.
    pub missing: Vec<u32>,
    /// Whether writes were interrupted.
    pub is_dirty: bool,
    /// The newest event count.
    pub events: u64,
    /// Its logical block in bytes, 0 if the superblocks do not say.
    pub logical_block: u32,
    /// The superblock that is believed.
    pub freshest: usize,
    /// What may be wrong, of an array that was forced.
    pub doubts: Vec<String>,
    /// What was applied of its logs, and what was not.
    pub logs: Vec<String>,
}

/// Why an array cannot be assembled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What is wrong.
    pub why: String,
    /// What to do.
    pub help: String,
    /// Whether [`Options::force`] would open it.
    pub can_be_forced: bool,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)?;
        if self.help.is_empty() { Ok(()) } else { write!(f, "; {}", self.help) }
    }
}

fn refuse<T>(why: String, help: &str) -> Result<T, Refusal> {
    Err(Refusal { why, help: help.to_owned(), can_be_forced: false })
}

const KERNEL: &str = "have the kernel's md assemble it (mdadm --assemble) and use its device";

/// Features of a superblock with which an array cannot be read here.
const REFUSED: u32 =
    feature::RESHAPE | feature::BACKWARDS | feature::NEW_OFFSET | feature::CLUSTERED | !feature::KNOWN;

/// What a candidate is found to be.
#[derive(Clone, Debug)]
enum Fate {
    Member(u32),
    Replacement(u32),
    Journal,
    Out(String, Option<u64>),
}

/// Assembles an array of candidates in any order.
///
/// # Errors
/// What speaks against it, with the names of the devices, and what to do.
pub fn assemble(candidates: &[Candidate], options: &Options) -> Result<Array, Refusal> {
    check_same(candidates)?;
    let freshest = freshest(candidates)?;
    let newest = &candidates[freshest].superblock;
    check_features(&candidates[freshest])?;
    let mut fates: Vec<Fate> =
        candidates.iter().map(|candidate| fate(candidate, &candidates[freshest])).collect();
    check_splits(candidates, freshest)?;
    check_doubles(candidates, &fates)?;
    let mut doubts = Vec::new();
    let mut is_in_sync = in_sync(candidates, &fates, newest);
    let shape = shape(candidates, &fates, newest, options);
    let geometry = Geometry::new(&shape);
    let geometry = match geometry {
        Ok(geometry) => geometry,
        // Sizes of members that are missing are not known.
        Err(_) if newest.level.is_bare() && is_in_sync.contains(&false) => {
            return Err(too_few(candidates, &fates, &is_in_sync, newest, options));
        }
        Err(why) => return refuse(why, ""),
    };
    if options.force {
        take_stale(candidates, &mut fates, &geometry, newest, &mut doubts);
        is_in_sync = in_sync(candidates, &fates, newest);
    }
    let present = |member: u32| fates.iter().any(|fate| fate.is_of(member));
    if !geometry.survives(|member| !is_in_sync[member as usize]) {
        let partly = options.force && geometry.survives(|member| !present(member));
        if !partly {
            return Err(too_few(candidates, &fates, &is_in_sync, newest, options));
        }
        doubts.push("what was not rebuilt on a member that was being rebuilt cannot be read".to_owned());
    }
    check_sizes(candidates, &fates, &geometry)?;
    let mut sync = sync(candidates, &fates, newest);
    let with = (options, &mut sync, &mut doubts);
    let logs = logs::logs(candidates, &fates, &geometry, newest, with)?;
    check_dirty(newest, &is_in_sync, (&sync, &logs), options, &mut doubts)?;
    let missing = (0..geometry.members()).filter(|&member| !is_in_sync[member as usize]).collect();
    let trusts_all = options.force;
    Ok(Array {
        uuid: newest.array,
        name: newest.name.to_string(),
        sources: Sources {
            members: sources(candidates, &fates, newest.members),
            in_sync: if trusts_all { InSync::default() } else { sync },
            partial: logs.partial,
            journal: logs.journal,
        },
        geometry,
        left_out: left_out(&fates),
        missing,
        is_dirty: !newest.is_clean() || logs.has_blocks,
        events: newest.events,
        logical_block: newest.logical_block,
        freshest,
        doubts,
        logs: logs.notes,
    })
}

impl Fate {
    fn is_of(&self, member: u32) -> bool {
        matches!(self, Fate::Member(own) | Fate::Replacement(own) if *own == member)
    }

    fn member(&self) -> Option<u32> {
        match self {
            Fate::Member(member) | Fate::Replacement(member) => Some(*member),
            Fate::Journal | Fate::Out(..) => None,
        }
    }
}

/// All must be of one array, and none may be there twice.
fn check_same(candidates: &[Candidate]) -> Result<(), Refusal> {
    let Some(first) = candidates.first() else {
        return refuse("an array needs a device".to_owned(), "name its members");
    };
    for other in candidates {
        if other.superblock.array != first.superblock.array {
            let (a, b) = (&first.superblock, &other.superblock);
            return refuse(
                format!(
                    "{} and {} are members of different arrays: {} \"{}\" and {} \"{}\"",
                    first.name, other.name, a.array, a.name, b.array, b.name
                ),
                "name the members of one of them",
            );
        }
    }
    for (at, one) in candidates.iter().enumerate() {
        for other in &candidates[..at] {
            if one.superblock.device == other.superblock.device {
                return refuse(
                    format!(
                        "{} and {} are the same member: one is a copy of the other ({} events and {})",
                        other.name, one.name, other.superblock.events, one.superblock.events
                    ),
                    "name one of them",
                );
            }
        }
    }
    Ok(())
}

/// The candidate whose superblock is believed: that of the member with the most events.
fn freshest(candidates: &[Candidate]) -> Result<usize, Refusal> {
    let members = candidates.iter().enumerate().filter(|(_, one)| one.superblock.index().is_some());
    // Among equals the first.
    let best = members.max_by_key(|(at, one)| (one.superblock.events, usize::MAX - at));
    match best {
        Some((at, _)) => Ok(at),
        None => {
            let all: Vec<String> =
                candidates.iter().map(|one| format!("{} ({})", one.name, one.superblock.role())).collect();
            refuse(
                format!("none of the devices is a member with data: {}", all.join(", ")),
                "name the members",
            )
        }
    }
}

fn check_features(newest: &Candidate) -> Result<(), Refusal> {
    let superblock = &newest.superblock;
    let needs = superblock.features & REFUSED;
    if let Level::Other(_) = superblock.level {
        return refuse(
            format!(
                "{} is a member of an array of {}; linear, 0, 1, 4, 5, 6 and 10 are known",
                newest.name, superblock.level
            ),
            KERNEL,
        );
    }
    if needs == 0 {
        return Ok(());
    }
    let help = match needs & (feature::RESHAPE | feature::BACKWARDS | feature::NEW_OFFSET) {
        0 => KERNEL,
        _ => "let the kernel's md finish the reshape, then read it here",
    };
    refuse(
        format!("{}: its array has what is not supported here: {}", newest.name, Superblock::names(needs)),
        help,
    )
}

/// What a candidate is, believing the newest superblock.
fn fate(candidate: &Candidate, newest: &Candidate) -> Fate {
    let (own, new) = (&candidate.superblock, &newest.superblock);
    let out = |why: String| Fate::Out(why, None);
    let role = match own.events < new.events {
        true => new.roles.get(own.number as usize).copied().unwrap_or(Role::Spare),
        false => own.role(),
    };
    match own.role() {
        Role::Journal if role != Role::Journal => {
            return out(format!("it was the array's journal device, and is a {role}, says {}", newest.name));
        }
        Role::Spare if role == Role::Spare => return out("it is a spare".to_owned()),
        // It was to be rebuilt as that, which did not begin: its superblock would say how far it has come.
        Role::Spare if matches!(role, Role::Member(_)) => {
            return out(format!("it is a spare, and was to become {role}, says {}", newest.name));
        }
        _ => {}
    }
    let behind = new.events.saturating_sub(own.events);
    if behind > 1 {
        let when = new.updated.s.saturating_sub(own.updated.s);
        return Fate::Out(
            format!(
                "it is stale: it has {} events and the newest, {}, has {}; it was last written {when} s before that",
                own.events, newest.name, new.events
            ),
            Some(behind),
        );
    }
    if own.events > new.events {
        // A spare or failed device with more events than any member.
        return out(format!(
            "it is a {} with {} events, more than those of any member",
            own.role(),
            own.events
        ));
    }
    if own.role() == Role::Journal {
        return Fate::Journal;
    }
    let agrees = (own.level, own.layout, own.chunk, own.members, own.component)
        == (new.level, new.layout, new.chunk, new.members, new.component);
    if !agrees {
        return out(format!(
            "it disagrees with {} about level, layout, chunk or size of the array",
            newest.name
        ));
    }
    if own.features & REFUSED != 0 {
        return out(format!(
            "it has what is not supported here: {}",
            Superblock::names(own.features & REFUSED)
        ));
    }
    match role {
        Role::Member(member) if own.has(feature::REPLACEMENT) => Fate::Replacement(member),
        Role::Member(member) => Fate::Member(member),
        Role::Faulty => Fate::Out(format!("it had failed, says {}", newest.name), Some(behind)),
        other => out(format!("it is a {other}, says {}", newest.name)),
    }
}

/// Members that were each used without the other have the same right to be believed.
fn check_splits(candidates: &[Candidate], freshest: usize) -> Result<(), Refusal> {
    let newest = &candidates[freshest];
    for one in candidates {
        let (own, new) = (&one.superblock, &newest.superblock);
        if own.events != new.events || own.index().is_none() {
            continue;
        }
        let denied = |table: &Superblock, of: &Superblock| {
            !matches!(table.roles.get(of.number as usize), Some(Role::Member(_)))
        };
        if denied(new, own) || denied(own, new) {
            return refuse(
                format!(
                    "{} and {} were used without each other: both have {} events, and one says that the other has failed",
                    newest.name, one.name, own.events
                ),
                "open the array with one of them at a time, and compare what each has",
            );
        }
    }
    Ok(())
}

/// No two candidates may have one role.
fn check_doubles(candidates: &[Candidate], fates: &[Fate]) -> Result<(), Refusal> {
    for (at, fate) in fates.iter().enumerate() {
        for (before, other) in fates[..at].iter().enumerate() {
            let same = match (fate, other) {
                (Fate::Member(a), Fate::Member(b)) | (Fate::Replacement(a), Fate::Replacement(b)) => a == b,
                _ => false,
            };
            if same && let Some(member) = fate.member() {
                return refuse(
                    format!(
                        "{} and {} are both member {member} and have the same events",
                        candidates[before].name, candidates[at].name
                    ),
                    "name one of them",
                );
            }
        }
    }
    Ok(())
}

/// Up to where the data of a candidate is in sync, in bytes of its data.
fn until(superblock: &Superblock) -> u64 {
    match superblock.has(feature::RECOVERY) {
        true => superblock.recovery_offset.saturating_mul(SECTOR),
        false => u64::MAX,
    }
}

/// By member: whether something has all of it.
fn in_sync(candidates: &[Candidate], fates: &[Fate], newest: &Superblock) -> Vec<bool> {
    let has_all = |member: u32| {
        let mut all = candidates.iter().zip(fates);
        all.any(|(one, fate)| fate.is_of(member) && until(&one.superblock) == u64::MAX)
    };
    (0..newest.members).map(has_all).collect()
}

fn shape(candidates: &[Candidate], fates: &[Fate], newest: &Superblock, options: &Options) -> Shape {
    let size = |member: u32| {
        let of = candidates.iter().zip(fates).find(|(_, fate)| fate.is_of(member));
        let sectors = match newest.level.is_bare() {
            true => of.map_or(0, |(one, _)| one.superblock.data_size),
            false => newest.component,
        };
        sectors.saturating_mul(SECTOR)
    };
    let has_layout = newest.has(feature::RAID0_LAYOUT);
    Shape {
        level: newest.level,
        layout: match options.raid0_layout {
            Some(layout) if newest.level == Level::Raid0 && !has_layout => layout,
            _ => newest.layout,
        },
        has_raid0_layout: has_layout || options.raid0_layout.is_some(),
        chunk: newest.chunk.saturating_mul(SECTOR),
        members: (0..newest.members).map(size).collect(),
    }
}

/// The data of the members must be on the devices, and not over their superblocks.
fn check_sizes(candidates: &[Candidate], fates: &[Fate], geometry: &Geometry) -> Result<(), Refusal> {
    for (one, fate) in candidates.iter().zip(fates) {
        if fate.member().is_none() {
            continue;
        }
        let own = &one.superblock;
        let used = match own.level.is_bare() {
            true => own.data_size.saturating_mul(SECTOR),
            false => geometry.component(),
        };
        let begin = own.data_offset.saturating_mul(SECTOR);
        let end = begin.saturating_add(used);
        if end > one.size {
            return refuse(
                format!("{} has {} bytes, and the array needs {end} of it", one.name, one.size),
                "is the image complete?",
            );
        }
        let at = own.super_offset.saturating_mul(SECTOR);
        if begin < at.saturating_add(SUPERBLOCK_BYTES as u64 / 16) && end > at {
            return refuse(
                format!(
                    "{}: its data, bytes {begin} to {end}, would lie over its superblock at {at}",
                    one.name
                ),
                "",
            );
        }
    }
    Ok(())
}

/// Where parity can be relied on.
fn sync(candidates: &[Candidate], fates: &[Fate], newest: &Superblock) -> InSync {
    if newest.is_clean() {
        return InSync::default();
    }
    let until = newest.resync_offset.saturating_mul(SECTOR);
    let maps = candidates.iter().zip(fates).filter(|(_, fate)| matches!(fate, Fate::Member(_)));
    let mut maps = maps.filter_map(|(one, _)| one.bitmap.as_ref());
    let good = maps.find(|(bitmap, _)| {
        bitmap.array == newest.array
            && bitmap.events >= newest.events
            && !bitmap.is_stale()
            && newest.level.has_parity()
    });
    let chunks = good.map(|(bitmap, data)| {
        (bitmap.chunk, (0..bitmap.chunks()).map(|chunk| bitmap.may_differ(data, chunk)).collect())
    });
    InSync { until, chunks }
}

fn sources(candidates: &[Candidate], fates: &[Fate], members: u32) -> Vec<Vec<Source>> {
    let mut all = vec![Vec::new(); members as usize];
    for replacements in [false, true] {
        for (device, (one, fate)) in candidates.iter().zip(fates).enumerate() {
            let (member, is_replacement) = match fate {
                Fate::Member(member) => (*member, false),
                Fate::Replacement(member) => (*member, true),
                Fate::Journal | Fate::Out(..) => continue,
            };
            if is_replacement != replacements {
                continue;
            }
            if let Some(place) = all.get_mut(member as usize) {
                place.push(Source {
                    device,
                    data_offset: one.superblock.data_offset.saturating_mul(SECTOR),
                    until: until(&one.superblock),
                    bad: one.bad.clone(),
                    write_mostly: one.superblock.write_mostly,
                });
            }
        }
    }
    all
}

fn left_out(fates: &[Fate]) -> Vec<LeftOut> {
    let all = fates.iter().enumerate().filter_map(|(device, fate)| match fate {
        Fate::Out(why, behind) => Some(LeftOut { device, why: why.clone(), behind: *behind }),
        _ => None,
    });
    all.collect()
}
