//! Arrays of which members are missing, stale or may be wrong: what to do, and what a forced start takes.

use super::logs::Logs;
use super::{Candidate, Fate, Options, REFUSED, Refusal, in_sync, until};
use crate::geometry::Geometry;
use crate::sources::InSync;
use crate::superblock::{Superblock, feature};

/// Takes the newest of the stale members until the array can be read, as a forced start does.
pub(super) fn take_stale(
    candidates: &[Candidate],
    fates: &mut [Fate],
    geometry: &Geometry,
    newest: &Superblock,
    doubts: &mut Vec<String>,
) {
    let usable = |at: usize| {
        let own = &candidates[at].superblock;
        let same = (own.level, own.layout, own.chunk, own.members, own.component)
            == (newest.level, newest.layout, newest.chunk, newest.members, newest.component);
        let role = own.index().filter(|_| same && own.features & REFUSED == 0 && until(own) == u64::MAX);
        role.filter(|_| !own.has(feature::REPLACEMENT))
    };
    loop {
        let in_sync = in_sync(candidates, fates, newest);
        if geometry.survives(|member| !in_sync[member as usize]) {
            return;
        }
        let stale = (0..fates.len()).filter(|&at| matches!(fates[at], Fate::Out(_, Some(_))));
        let fits = stale.filter_map(|at| Some((at, usable(at)?)));
        let fits = fits.filter(|&(_, member)| !fates.iter().any(|fate| fate.is_of(member)));
        let Some((at, member)) = fits.max_by_key(|&(at, _)| candidates[at].superblock.events) else { return };
        let own = &candidates[at].superblock;
        doubts.push(format!(
            "{} (member {member}) is used although it is {} events behind: what was written since it left is lost or mixed with \
             older data",
            candidates[at].name,
            newest.events.saturating_sub(own.events)
        ));
        fates[at] = Fate::Member(member);
    }
}

/// The array cannot be read with what is there.
pub(super) fn too_few(
    candidates: &[Candidate],
    fates: &[Fate],
    is_in_sync: &[bool],
    newest: &Superblock,
    options: &Options,
) -> Refusal {
    let lost: Vec<u32> = (0..newest.members).filter(|&member| !is_in_sync[member as usize]).collect();
    let name = |member: &u32| {
        let rebuilt = candidates.iter().zip(fates).find(|(_, fate)| fate.is_of(*member));
        match rebuilt {
            Some((one, _)) => {
                format!("{member} ({}, rebuilt up to byte {} of its data)", one.name, until(&one.superblock))
            }
            None => member.to_string(),
        }
    };
    let names: Vec<String> = lost.iter().map(name).collect();
    let mut why = format!(
        "the array \"{}\" ({}) is a {} of {} members, and it cannot be read while these are missing: {}",
        newest.name,
        newest.array,
        newest.level,
        newest.members,
        names.join(", ")
    );
    let mut stale = false;
    for (one, fate) in candidates.iter().zip(fates) {
        if let Fate::Out(reason, behind) = fate {
            why += &format!("; {} is left out: {reason}", one.name);
            stale |= behind.is_some() && one.superblock.index().is_some();
        }
    }
    let could =
        (stale || lost.iter().any(|&member| fates.iter().any(|fate| fate.is_of(member)))) && !options.force;
    let help = match could {
        true => {
            "find the missing members, or read it with force=on: what was written since a stale member left is then lost \
                 or mixed with older data"
        }
        false => "find the missing members",
    };
    Refusal { why, help: help.to_owned(), can_be_forced: could }
}

/// An array whose parity is not known to be right must not need it.
pub(super) fn check_dirty(
    newest: &Superblock,
    is_in_sync: &[bool],
    (sync, logs): (&InSync, &Logs),
    options: &Options,
    doubts: &mut Vec<String>,
) -> Result<(), Refusal> {
    if newest.is_clean() || !newest.level.has_parity() {
        return Ok(());
    }
    // With logs of partial parity, places of which nothing is known are errors when they are read.
    if !is_in_sync.contains(&false) || logs.partial.is_some() {
        return Ok(());
    }
    let marked =
        sync.chunks.as_ref().map(|(chunk, differs)| chunk * differs.iter().filter(|&&is| is).count() as u64);
    if marked == Some(0) {
        return Ok(());
    }
    let range = match marked {
        Some(bytes) => format!("in the {bytes} bytes of each member that the bitmap names"),
        None => format!("from byte {} of each member on", sync.until),
    };
    let what = format!(
        "the array \"{}\" was being written when it stopped, and members are missing: blocks of these that are computed may be \
         wrong {range}",
        newest.name
    );
    if options.force {
        doubts.push(what);
        return Ok(());
    }
    let help = match newest.has(feature::PPL | feature::MULTIPLE_PPLS) {
        true => {
            "its logs of partial parity do not vouch for its parity: add the missing members, or read it with force=on if blocks that \
             may be wrong are better than none"
        }
        false => {
            "add the missing members, or read it with force=on if blocks that may be wrong are better than none"
        }
    };
    Err(Refusal { why: what, help: help.to_owned(), can_be_forced: true })
}
