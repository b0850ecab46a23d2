//! The logs of an array that was being written: partial parity and journals, applied without writing to anything.
//!
//! What makes a log count is what makes it count for the kernel (Linux 6.1, `raid5-ppl.c`, `raid5-cache.c`), except where the
//! kernel goes on with parity that nothing vouches for: that is not believed here.

use super::{Candidate, Fate, KERNEL, Options, Refusal};
use crate::geometry::Geometry;
use crate::journal::{Applied, BLOCK_BYTES, Overlay};
use crate::ppl::PartialParity;
use crate::sources::InSync;
use crate::superblock::{Level, SECTOR, Superblock, feature};

/// What the logs of an array say.
#[derive(Debug, Default)]
pub(super) struct Logs {
    pub(super) partial: Option<PartialParity>,
    pub(super) journal: Option<Overlay>,
    /// What was applied, and what was not.
    pub(super) notes: Vec<String>,
    /// Whether a journal has what the members do not.
    pub(super) has_blocks: bool,
}

/// Reads the logs. Where logs of partial parity vouch for parity, `sync` says so afterwards.
pub(super) fn logs(
    candidates: &[Candidate],
    fates: &[Fate],
    geometry: &Geometry,
    newest: &Superblock,
    (options, sync, doubts): (&Options, &mut InSync, &mut Vec<String>),
) -> Result<Logs, Refusal> {
    let mut logs = Logs::default();
    if newest.has(feature::JOURNAL) && newest.level.has_parity() {
        match journal(candidates, fates, geometry, newest) {
            Ok((overlay, applied)) => {
                logs.notes = said(&applied);
                logs.has_blocks = applied.data > 0 || applied.damage.is_some();
                logs.journal = Some(if options.force { overlay.forced() } else { overlay });
            }
            Err(why) if options.force => doubts
                .push(format!("{why}, and it was not applied: the last writes may be missing or half done")),
            Err(why) => {
                return Err(Refusal {
                    why: format!(
                        "the array \"{}\" may have data that only its journal has: {why}",
                        newest.name
                    ),
                    help: format!(
                        "name its journal device too, or {KERNEL}; with force=on it is read without the journal, and the last \
                         writes may be missing or half done"
                    ),
                    can_be_forced: true,
                });
            }
        }
    }
    // With another place the array was resynchronizing, and had no writes: the logs say nothing of its parity then.
    let is_logged = newest.has(feature::PPL | feature::MULTIPLE_PPLS) && newest.level == Level::Raid5;
    if is_logged && !newest.is_clean() && newest.resync_offset == 0 {
        partial(candidates, fates, geometry, (newest, options), &mut logs);
        if logs.partial.is_some() {
            *sync = InSync::default();
        }
    }
    Ok(logs)
}

/// The journal of the array.
fn journal(
    candidates: &[Candidate],
    fates: &[Fate],
    geometry: &Geometry,
    newest: &Superblock,
) -> Result<(Overlay, Applied), String> {
    let found = candidates.iter().zip(fates).position(|(_, fate)| matches!(fate, Fate::Journal));
    let Some(device) = found else {
        let is_journal = |one: &&Candidate| one.superblock.role() == crate::superblock::Role::Journal;
        let stale = candidates.iter().find(is_journal);
        return Err(match stale {
            Some(one) => format!(
                "{} is the journal, but of another state of the array: it has {} events and the newest member {}",
                one.name, one.superblock.events, newest.events
            ),
            None => "the journal device is missing".to_owned(),
        });
    };
    let one = &candidates[device];
    let log = match &one.journal {
        Some(Ok(log)) => log,
        Some(Err(why)) => return Err(format!("the journal {} cannot be used: {why}", one.name)),
        None => return Err(format!("the journal {} was not read", one.name)),
    };
    if !geometry.chunk().is_multiple_of(BLOCK_BYTES as u64) {
        return Err(format!(
            "the journal needs chunks of multiples of 4096 bytes, and they have {}",
            geometry.chunk()
        ));
    }
    let begin = one.superblock.data_offset.saturating_mul(SECTOR);
    Ok(Overlay::new(log, geometry, device, begin))
}

fn said(applied: &Applied) -> Vec<String> {
    let mut notes = Vec::new();
    if applied.data > 0 {
        notes.push(format!(
            "its journal is applied: {} blocks of data and {} of parity",
            applied.data, applied.parity
        ));
    }
    if let Some(why) = &applied.damage {
        let behind = match applied.followers {
            0 => String::new(),
            count => format!(", nor are the {count} whole meta blocks behind that"),
        };
        notes.push(format!("its journal is not applied further: {why}{behind}"));
    }
    notes
}

/// The logs of partial parity.
fn partial(
    candidates: &[Candidate],
    fates: &[Fate],
    geometry: &Geometry,
    (newest, options): (&Superblock, &Options),
    logs: &mut Logs,
) {
    let mut partial = PartialParity::new(geometry.members());
    let (mut sound, mut damaged, mut unknown) = (0, 0, Vec::new());
    for (device, (one, fate)) in candidates.iter().zip(fates).enumerate() {
        let (Fate::Member(member), Some((offset, _))) = (fate, one.superblock.ppl) else { continue };
        let begin = (one.superblock.super_offset as i64).checked_add(i64::from(offset));
        let begin = begin.and_then(|begin| u64::try_from(begin).ok()?.checked_mul(SECTOR));
        // A stale member that was taken by force has an old log.
        let is_stale = newest.events.saturating_sub(one.superblock.events) > 1;
        let added = match (&one.ppl, begin) {
            _ if is_stale => Err("its parity log is out of date".to_owned()),
            (Some(Ok(log)), Some(begin)) => partial.add(geometry, *member, device, begin, log).map(|()| log),
            (Some(Err(why)), _) => Err(why.clone()),
            _ => Err("the parity log was not read".to_owned()),
        };
        match added {
            Ok(log) => {
                damaged += log.damaged();
                sound += log.is_sound.len() - log.damaged();
            }
            Err(why) => unknown.push(format!("{}: {why}", one.name)),
        }
    }
    // Nothing vouches for the parity of an array of which no write was logged: it may never have been computed.
    if sound == 0 {
        logs.notes.push("its logs of partial parity have no entry that is whole, so that they do not vouch for its parity".to_owned());
        return;
    }
    let mut note = format!("its logs of partial parity are applied: {sound} entries");
    if damaged > 0 {
        note += &format!("; {damaged} entries are damaged, and their rows are not computed");
    }
    logs.notes.push(note);
    logs.notes.extend(
        unknown.into_iter().map(|why| format!("rows with parity on this member are not computed: {why}")),
    );
    let member_of = |member: u32| fates.iter().position(|fate| fate.is_of(member));
    logs.partial = Some(if options.force { partial.forced(member_of) } else { partial });
}
