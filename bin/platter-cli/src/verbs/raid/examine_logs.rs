//! What `platter raid examine` says of logs: partial parity and journals.

use platter_md::superblock::SECTOR;
use platter_md::{journal, ppl};
use serde_json::{Value, json};
use std::fmt::Write;

/// Most entries that the text lists.
const LISTED: usize = 16;

/// A log of partial parity, as an object.
pub(super) fn parity_json(log: &Result<Box<ppl::Log>, String>) -> Value {
    let log = match log {
        Ok(log) => log,
        Err(problem) => return json!({ "problem": problem }),
    };
    let entries = log.header.entries.iter().zip(&log.is_sound);
    let covers: Vec<Value> = entries
        .map(|(entry, is_sound)| {
            json!({
                "array_byte": entry.data_sector.saturating_mul(SECTOR),
                "written_bytes": entry.data_size,
                "partial_parity_bytes": entry.pp_size,
                "is_damaged": !is_sound,
            })
        })
        .collect();
    json!({
        "records": log.records,
        "generation": log.header.generation,
        "entries": log.header.entries.len(),
        "damaged_entries": log.damaged(),
        "covers": covers,
    })
}

/// The same, for people.
pub(super) fn parity_text(log: &Result<Box<ppl::Log>, String>) -> String {
    let log = match log {
        Ok(log) => log,
        Err(problem) => return format!("  {problem}\n"),
    };
    let count = log.header.entries.len();
    let mut text = format!(
        "  parity log: generation {}, record {}, {count} entries, {} damaged\n",
        log.header.generation,
        log.records,
        log.damaged()
    );
    for (entry, is_sound) in log.header.entries.iter().zip(&log.is_sound).take(LISTED) {
        let damaged = if *is_sound { "" } else { " (damaged)" };
        let _ = writeln!(
            text,
            "    {} bytes of the array from byte {} on were being written, {} bytes of partial parity{damaged}",
            entry.data_size,
            entry.data_sector.saturating_mul(SECTOR),
            entry.pp_size
        );
    }
    if count > LISTED {
        let _ = writeln!(text, "    and {} more", count - LISTED);
    }
    text
}

/// A journal, as an object.
pub(super) fn journal_json(log: &Result<Box<journal::Log>, String>) -> Value {
    let log = match log {
        Ok(log) => log,
        Err(problem) => return json!({ "problem": problem }),
    };
    let damage = match &log.end {
        journal::End::Normal => None,
        journal::End::Damaged(why) => Some(why),
    };
    json!({
        "tail_bytes": log.tail * SECTOR,
        "end_bytes": log.head * SECTOR,
        "sequence": log.sequence,
        "meta_blocks": log.metas.len(),
        "data_blocks": log.count(journal::Kind::Data),
        "parity_blocks": log.count(journal::Kind::P) + log.count(journal::Kind::Q),
        "flushed_rows": log.count(journal::Kind::Flush),
        "damage": damage,
        "blocks_behind_damage": log.followers,
    })
}

/// The same, for people.
pub(super) fn journal_text(log: &Result<Box<journal::Log>, String>) -> String {
    let log = match log {
        Ok(log) => log,
        Err(problem) => return format!("  {problem}\n"),
    };
    let Some(sequence) = log.sequence else { return "  journal: never used\n".to_owned() };
    let mut text = format!(
        "  journal: from byte {} to {} of the ring, {} meta blocks from number {sequence} on\n    {} blocks of data and {} of parity; {} rows \
         had been written out\n",
        log.tail * SECTOR,
        log.head * SECTOR,
        log.metas.len(),
        log.count(journal::Kind::Data),
        log.count(journal::Kind::P) + log.count(journal::Kind::Q),
        log.count(journal::Kind::Flush)
    );
    match &log.end {
        journal::End::Normal => text += "    it ends where no further block was written\n",
        journal::End::Damaged(why) => {
            let _ = writeln!(text, "    it ends at a block that is torn or damaged: {why}");
            if log.followers > 0 {
                let _ = writeln!(text, "    {} whole meta blocks behind that are not applied", log.followers);
            }
        }
    }
    text
}
