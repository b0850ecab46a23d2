//! Map files of rescues.

// They are private to the command.
#[path = "../../../../bin/platter-cli/src/verbs/copy/map.rs"]
mod map;
#[path = "../../../../bin/platter-cli/src/verbs/copy/mapfile.rs"]
mod mapfile;

use super::hold;
use crate::archive::folder;
use crate::rng::Rng;
use crate::run::{Target, Verdict};
use crate::text;
use map::{Map, Status};
use mapfile::MapFile;
use std::fmt::Write;

pub(super) const TARGET: Target = Target {
    name: "map",
    summary: "map files, as `copy --map` keeps them",
    generate,
    mutate: |rng, input, other| text::mutate(rng, input, other, WORDS),
    read,
    memory: 8 << 20,
};

const WORDS: &[&str] = &[
    "?",
    "*",
    "/",
    "-",
    "+",
    "0x",
    "0X10",
    "0x00010000",
    "#",
    "# Destination: x\n",
    "\n",
    " ",
    "0xffffffffffffffff",
    "0x7fffffffffffffff",
];

fn generate(rng: &mut Rng) -> Vec<u8> {
    let mut text = "# Mapfile\n# Source: a\n# Destination: b\n0x00000000 + 1\n".to_owned();
    let mut at = 0;
    for _ in 0..rng.below(8) {
        if rng.one_in(8) {
            at += 512;
        }
        let len = (1 + rng.below(300)) * 512;
        let status = *rng.pick(&["?", "*", "/", "-", "+"]);
        let _ = if rng.one_in(4) {
            writeln!(text, "{at} {len} {status}")
        } else {
            writeln!(text, "0x{at:08X}  0x{len:08X}  {status}")
        };
        at += len;
    }
    text.into_bytes()
}

/// Where the last part ends, or another size.
fn size_of(text: &str) -> u64 {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse::<u64>().ok(),
    };
    let end = |line: &str| {
        let mut fields = line.split_whitespace();
        number(fields.next()?)?.checked_add(number(fields.next()?)?)
    };
    text.lines().rev().find_map(end).unwrap_or(1 << 20)
}

/// Queries a map.
fn use_map(map: &Map, size: u64) -> Result<(), String> {
    let parts: Vec<_> = map.parts().collect();
    let joined = parts.windows(2).all(|pair| pair[0].1 == pair[1].0 && pair[0].2 != pair[1].2);
    let whole = parts.first().is_none_or(|part| part.0 == 0) && parts.last().map_or(0, |part| part.1) == size;
    hold(joined && whole && map.size() == size, || format!("{parts:?} of {size} bytes"))?;
    let all = [Status::Untried, Status::Failed, Status::Small, Status::Bad, Status::Done];
    let sum = all.iter().map(|status| map.bytes(*status)).sum::<u64>();
    hold(sum == size, || format!("{sum} bytes of {size}"))?;
    hold(map.is_done() == (map.bytes(Status::Done) == size), || format!("{parts:?} is done"))?;
    let end = parts.iter().rev().find(|part| part.2 == Status::Done).map_or(0, |part| part.1);
    hold(map.copied_until() == end, || format!("{parts:?} is copied until {}", map.copied_until()))?;
    let mut failed = map.clone();
    failed.mark_failed(0, size, Status::Bad);
    let kept = failed.bytes(Status::Done) == map.bytes(Status::Done);
    hold(kept && failed.bytes(Status::Bad) == size - map.bytes(Status::Done), || {
        format!("{parts:?} when all fails")
    })
}

fn read(input: &[u8]) -> Result<Verdict, String> {
    let folder = folder()?;
    let path = folder.path().join("map");
    std::fs::write(&path, input).map_err(|error| format!("no file: {error}"))?;
    let size = size_of(&String::from_utf8_lossy(input));
    let file = MapFile::new(&path, "source", "destination");
    let loaded = match file.load(size) {
        Ok(Some(loaded)) => loaded,
        Ok(None) => return Err("there is no map".to_owned()),
        // The path is not a part of the input.
        Err(error) => return Ok(Verdict::Refused(error.to_string())),
    };
    use_map(&loaded.map, size)?;
    // A map file keeps control characters of a path as blanks.
    let told = loaded.destination.unwrap_or_default().replace(|c: char| c.is_control(), " ");
    let file = MapFile::new(&path, "source", &told);
    file.save(&loaded.map).map_err(|error| error.to_string())?;
    let again = file.load(size).map_err(|error| format!("what was written is refused: {error}"))?;
    let again = again.ok_or("there is no map after all")?;
    let same = again.map == loaded.map && again.destination.unwrap_or_default().trim() == told.trim();
    hold(same, || "the map is written as another one".to_owned())?;
    Ok(Verdict::Accepted)
}
