//! Sizes with shares, and distributions of places.

use super::Reader;
use crate::complaint::quote;
use crate::value::{Distribution, MOST_BYTES, Three};

/// Most sizes of one direction, and most zones: as with fio.
const MOST_SHARES: usize = 64;
const MOST_ZONES: usize = 256;

/// The texts of the three directions: the last one is for those that have none.
fn directions(text: &str) -> Result<Three<&str>, String> {
    let parts: Vec<&str> = text.splitn(4, ',').map(str::trim).collect();
    match parts[..] {
        [all] => Ok([all; 3]),
        [read, write] => Ok([read, write, write]),
        [read, write, trim] => Ok([read, write, trim]),
        _ => Err(format!("\"{}\" has more than three parts; there are reads, writes and trims", quote(text))),
    }
}

/// `size/percent:…` for each direction; entries without a percentage share the rest equally.
pub(super) fn split(reader: &mut Reader, text: &str) -> Result<Three<Vec<(u64, u32)>>, String> {
    let mut all: Three<Vec<(u64, u32)>> = Default::default();
    for (out, part) in all.iter_mut().zip(directions(text)?) {
        let mut entries = Vec::new();
        for entry in part.split(':') {
            if entries.len() == MOST_SHARES {
                return Err(format!("there are more than {MOST_SHARES} sizes"));
            }
            let (size, share) = entry.split_once('/').unwrap_or((entry, ""));
            let size = reader.size(size, 1, MOST_BYTES)?;
            entries.push((size, share_of(reader, share)?));
        }
        *out = shared(entries)?;
    }
    Ok(all)
}

fn share_of(reader: &mut Reader, text: &str) -> Result<Option<u32>, String> {
    let text = text.trim_end_matches('%');
    if text.is_empty() { Ok(None) } else { reader.integer(text, 0, 100).map(|share| Some(share as u32)) }
}

/// Gives the entries without a share equal parts of what the others leave; the last entry has what division leaves.
fn shared<T>(entries: Vec<(T, Option<u32>)>) -> Result<Vec<(T, u32)>, String> {
    let given: u32 = entries.iter().filter_map(|entry| entry.1).sum();
    let open = entries.iter().filter(|entry| entry.1.is_none()).count() as u32;
    let rest = 100u32.checked_sub(given).ok_or_else(|| format!("the shares add up to {given} %, not 100"))?;
    if open == 0 && rest > 0 {
        return Err(format!("the shares add up to {given} %, not 100"));
    }
    let each = rest.checked_div(open).unwrap_or(0);
    let mut all: Vec<(T, u32)> =
        entries.into_iter().map(|(what, share)| (what, share.unwrap_or(each))).collect();
    let sum: u32 = all.iter().map(|entry| entry.1).sum();
    if let Some(last) = all.last_mut() {
        last.1 += 100 - sum;
    }
    Ok(all)
}

/// `random`, `zipf:1.2`, `zoned:60/10:…`.
pub(super) fn distribution(reader: &mut Reader, text: &str) -> Result<Three<Distribution>, String> {
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    let mut shape = |least: f64, most: f64| -> Result<(f64, Option<f64>), String> {
        let (value, centre) = rest.split_once(':').unwrap_or((rest, ""));
        let value = reader.float(value, [least, most])?;
        let centre = if centre.is_empty() { None } else { Some(reader.float(centre, [0.0, 1.0])?) };
        Ok((value, centre))
    };
    let one = match name.trim() {
        "random" => Distribution::Uniform,
        "zipf" => {
            let (theta, centre) = shape(f64::MIN_POSITIVE, 1e6)?;
            if theta == 1.0 {
                return Err("the theta of zipf may not be 1".into());
            }
            Distribution::Zipf(theta, centre)
        }
        "pareto" => {
            let (power, centre) = shape(f64::MIN_POSITIVE, 1.0 - f64::EPSILON)?;
            Distribution::Pareto(power, centre)
        }
        "normal" | "gauss" => {
            let (deviation, centre) = shape(0.0, 100.0)?;
            Distribution::Normal(deviation, centre)
        }
        "zoned" => return each(rest, |part| zoned(reader, part)),
        "zoned_abs" => return each(rest, |part| zoned_bytes(reader, part)),
        _ => {
            return Err(format!(
                "\"{}\" is not one of random, zipf, pareto, normal, zoned, zoned_abs",
                quote(name)
            ));
        }
    };
    Ok([one.clone(), one.clone(), one])
}

fn each(
    text: &str,
    mut one: impl FnMut(&str) -> Result<Distribution, String>,
) -> Result<Three<Distribution>, String> {
    let [read, write, trim] = directions(text)?;
    Ok([one(read)?, one(write)?, one(trim)?])
}

/// Percent of the accesses and percent of the range; either may be left out and is then its part of the rest.
fn zoned(reader: &mut Reader, text: &str) -> Result<Distribution, String> {
    let mut zones = Vec::new();
    for zone in text.split(':') {
        if zones.len() == MOST_ZONES {
            return Err(format!("there are more than {MOST_ZONES} zones"));
        }
        let (share, part) = zone.split_once('/').unwrap_or((zone, ""));
        zones.push((share_of(reader, share)?, share_of(reader, part)?));
    }
    let shares: Vec<(Option<u32>, u32)> =
        shared(zones.into_iter().map(|(share, part)| (part, share)).collect())?;
    let parts = shared(shares.into_iter().map(|(part, share)| (share, part)).collect())?;
    Ok(Distribution::Zoned(parts))
}

fn zoned_bytes(reader: &mut Reader, text: &str) -> Result<Distribution, String> {
    let mut zones = Vec::new();
    for zone in text.split(':') {
        if zones.len() == MOST_ZONES {
            return Err(format!("there are more than {MOST_ZONES} zones"));
        }
        let (share, size) = zone.split_once('/').unwrap_or((zone, ""));
        let size = if size.is_empty() { None } else { Some(reader.size(size, 1, MOST_BYTES)?) };
        zones.push((size, share_of(reader, share)?));
    }
    let zones = shared(zones)?;
    Ok(Distribution::ZonedBytes(zones.into_iter().map(|(size, share)| (share, size)).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(text: &str) -> Result<Three<Vec<(u64, u32)>>, String> {
        split(&mut Reader::new(false), text)
    }

    fn places(text: &str) -> Result<Three<Distribution>, String> {
        distribution(&mut Reader::new(false), text)
    }

    #[test]
    fn blank_shares_are_equal_parts_of_the_rest() {
        assert_eq!(sizes("4k/60:64k/40").unwrap()[2], [(4096, 60), (65536, 40)]);
        assert_eq!(sizes("4k/50:1k/:32k/").unwrap()[0], [(4096, 50), (1024, 25), (32768, 25)]);
        assert_eq!(sizes("4k:8k:16k").unwrap()[0], [(4096, 33), (8192, 33), (16384, 34)]);
        let all = sizes("64k/40:1024k/60,1024k/100").unwrap();
        assert_eq!((all[0].len(), all[1].len(), all[2].len()), (2, 1, 1));
        for text in ["4k/50:8k/60", "4k/50", "4k/101", "", "0/100", "4k/x", "4k,4k,4k,4k", "4k/50:8k/49"] {
            assert!(sizes(text).is_err(), "{text}");
        }
        assert!(sizes(&vec!["1"; 65].join(":")).unwrap_err().contains("64"));
    }

    #[test]
    fn distributions_are_read() {
        assert_eq!(places("zipf:1.2:0.25").unwrap()[0], Distribution::Zipf(1.2, Some(0.25)));
        assert_eq!(
            places("zoned:50/5:30/15:20/").unwrap()[1],
            Distribution::Zoned(vec![(50, 5), (30, 15), (20, 80)])
        );
        let zones = Distribution::ZonedBytes(vec![(60, Some(10 << 30)), (40, None)]);
        assert_eq!(places("zoned_abs:60/10G:40/").unwrap()[0], zones);
        for text in
            ["zipf", "zipf:1", "zipf:-1", "pareto:1", "normal:101", "zoned:60/10:50/90", "gaus:1", "zipf:nan"]
        {
            assert!(places(text).is_err(), "{text}");
        }
    }
}
