//! The rules of ext4 with `data=ordered`, the default (Linux, Documentation/admin-guide/ext4.rst: `data=ordered`,
//! `delalloc`, `auto_da_alloc`):
//!
//! - Names and truncations are changes of a journal. A power cut leaves all of them up to some point, and none after it.
//! - `fsync` of any file or directory commits the journal: all earlier changes of names and truncations are durable then,
//!   whatever file they are of. Contents are durable only of that file.
//! - Data that takes new blocks gets them when it is written back, at any later time. The length of the file changes with it,
//!   so that a longer file has its data (the data is written before the journal commits); blocks of one file are written back
//!   in order. A name may be durable while the file is still empty.
//! - Before a rename over an existing file commits, the new blocks of the file that is renamed are written (`auto_da_alloc`).
//!   The same at the close of a file that was truncated to nothing is not assumed.
//! - Data that overwrites blocks, or is added to the last block, is not ordered at all: each sector survives or not, and so
//!   does the length within that block.

use super::{BLOCK, Lost, Pending, Volume};
use crate::change::{Change, FileId, SECTOR, sectors};
use std::collections::HashSet;

/// A file or directory was synced.
pub(super) fn sync(volume: &mut Volume<'_>, id: FileId) {
    settle(volume, Some(id));
}

/// The journal is committed.
pub(super) fn commit(volume: &mut Volume<'_>) {
    settle(volume, None);
}

/// Commits the journal, after the data that goes before: that of `synced`, and of files that were renamed over others.
fn settle(volume: &mut Volume<'_>, synced: Option<FileId>) {
    let replacing = |change: &Pending<'_>| change.replacing.map(|id| (id, change.step));
    let replacing: Vec<(FileId, usize)> = volume.pending.iter().filter_map(replacing).collect();
    volume.settle(|change| {
        let before = |(id, step): &(FileId, usize)| change.is_data_of(*id) && change.step < *step;
        is_journalled(change)
            || synced.is_some_and(|id| change.is_data_of(id))
            || replacing.iter().any(before)
    });
}

fn is_journalled(pending: &Pending<'_>) -> bool {
    !matches!(pending.change, Change::Write { .. })
}

/// Adds to the lost parts what is lost with them.
pub(super) fn close(pending: &[Pending<'_>], lost: &mut Lost) {
    // A lost rename takes later changes with it, among them truncations, which take later data: twice is enough, because
    // what data takes is a rename, and then all later changes are lost.
    for _ in 0..2 {
        once(pending, lost);
    }
}

fn once(pending: &[Pending<'_>], lost: &mut Lost) {
    let mut journal_ends = false;
    // Files of which no further new block is written.
    let mut ended: HashSet<FileId> = HashSet::new();
    for change in pending {
        let Change::Write { id, at, data } = change.change else {
            let unwritten = change.replacing.is_some_and(|id| ended.contains(&id));
            journal_ends |= unwritten || lost.contains(&(change.step, 0));
            if journal_ends {
                lost.insert((change.step, 0));
                if let Change::Resize { id, .. } = change.change {
                    ended.insert(*id);
                }
            }
            continue;
        };
        let count = sectors(*at, data.len());
        let block = |part: u32| (at / SECTOR + u64::from(part)) * SECTOR / BLOCK;
        let new: Vec<u32> = (0..count).filter(|part| change.is_new_block(*at, *part)).collect();
        let first = match ended.contains(id) {
            true => new.first().copied(),
            false => new.iter().copied().find(|part| lost.contains(&(change.step, *part))),
        };
        if let Some(first) = first {
            ended.insert(*id);
            let taken = new.iter().filter(|part| block(**part) >= block(first));
            lost.extend(taken.map(|part| (change.step, *part)));
        }
        // The length comes with the last of its new blocks.
        if let Some(last) = new.last() {
            let length = (change.step, count);
            if lost.contains(&(change.step, *last)) {
                lost.insert(length)
            } else {
                lost.remove(&length)
            };
        }
    }
}
