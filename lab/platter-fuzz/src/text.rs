//! Changes of text: by words, by lines and by numbers.

use crate::bytes::MAX_LEN;
use crate::rng::Rng;

/// Numbers at which parsers of numbers break.
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "+1",
    "-0",
    "00",
    "007",
    "1.5",
    "1.",
    ".5",
    "1e3",
    "1e308",
    "1e-400",
    "NaN",
    "inf",
    "-inf",
    "0x10",
    "0x",
    "4294967295",
    "4294967296",
    "2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "340282366920938463463374607431768211456",
    "0.0000000000000000000000000000000000000001",
    "99999999999999999999999999999999999999999",
    "1_000",
    "٣",
    "1 000",
];

/// Characters that have a meaning to few formats and break others.
const ODD: &[char] = &[
    '\0',
    '\u{1b}',
    '\u{7f}',
    '\r',
    '\u{85}',
    '\u{a0}',
    '\u{2028}',
    '\u{feff}',
    '\u{fffd}',
    'é',
    '\u{10ffff}',
];

/// A number as text, extreme or not.
pub fn number(rng: &mut Rng) -> String {
    match rng.below(4) {
        0 => rng.extreme(64).to_string(),
        1 => rng.below(100).to_string(),
        _ => (*rng.pick(NUMBERS)).to_owned(),
    }
}

/// Cuts text into words, runs of blanks, and single other characters.
fn tokens(text: &str) -> Vec<&str> {
    let class = |c: char| match c {
        _ if c.is_alphanumeric() || matches!(c, '_' | '.' | '-') => 1,
        ' ' | '\t' => 2,
        _ => 0,
    };
    let mut all = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let kind = class(first);
        let len = match kind {
            0 => first.len_utf8(),
            _ => rest.find(|c| class(c) != kind).unwrap_or(rest.len()),
        };
        let (token, after) = rest.split_at(len);
        all.push(token);
        rest = after;
    }
    all
}

/// Applies a random change. `other` is a text to take lines from, `words` are words with a meaning in the format.
pub fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>, other: &[u8], words: &[&str]) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let changed = if rng.one_in(4) {
        let other = String::from_utf8_lossy(other).into_owned();
        lines(rng, &text, &other)
    } else {
        by_words(rng, &text, words)
    };
    *bytes = changed.into_bytes();
    bytes.truncate(MAX_LEN);
}

fn by_words(rng: &mut Rng, text: &str, words: &[&str]) -> String {
    let mut all: Vec<String> = tokens(text).into_iter().map(str::to_owned).collect();
    let at = rng.below(all.len() as u64 + 1) as usize;
    let new = match rng.below(5) {
        0 => number(rng),
        1 => rng.pick(ODD).to_string(),
        2 if !all.is_empty() => rng.pick(&all).clone(),
        _ if !words.is_empty() => (*rng.pick(words)).to_owned(),
        _ => String::new(),
    };
    match rng.below(8) {
        _ if at == all.len() => all.push(new),
        0 => drop(all.remove(at)),
        1 | 2 => all[at] = new,
        3 => {
            // Replaces a number by another one.
            match all.iter().enumerate().filter(|(_, word)| word.starts_with(|c: char| c.is_ascii_digit())) {
                numbers if numbers.clone().count() > 0 => {
                    let places: Vec<usize> = numbers.map(|(place, _)| place).collect();
                    let place = *rng.pick(&places);
                    all[place] = number(rng);
                }
                _ => all[at] = new,
            }
        }
        4 => {
            let with = rng.index(all.len());
            all.swap(at, with);
        }
        5 => {
            let times = 1 + rng.extreme(8) as usize;
            let end = (at + 1 + rng.below(4) as usize).min(all.len());
            let piece = all[at..end].concat();
            if text.len() + piece.len() * times <= MAX_LEN {
                all.insert(at, piece.repeat(times));
            }
        }
        6 => {
            let end = at + rng.below((all.len() - at).min(8) as u64 + 1) as usize;
            all.drain(at..end);
        }
        _ => all.insert(at, new),
    }
    all.concat()
}

fn lines(rng: &mut Rng, text: &str, other: &str) -> String {
    let mut all: Vec<&str> = text.split_inclusive('\n').collect();
    let at = rng.below(all.len() as u64 + 1) as usize;
    let others: Vec<&str> = other.split_inclusive('\n').collect();
    match rng.below(5) {
        0 if at < all.len() => drop(all.remove(at)),
        1 if at < all.len() => all.insert(at, all[at]),
        2 if !others.is_empty() => all.insert(at, *rng.pick(&others)),
        3 if at < all.len() => {
            let with = rng.index(all.len());
            all.swap(at, with);
        }
        _ => {
            // Cuts the text, and may append the end of another.
            let cut = (0..=text.len()).rev().find(|&cut| text.is_char_boundary(cut) && cut <= at * 8);
            let from = rng.below(others.len() as u64 + 1) as usize;
            let rest = if rng.one_in(2) { others[from..].concat() } else { String::new() };
            return format!("{}{rest}", &text[..cut.unwrap_or(0)]);
        }
    }
    all.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_the_whole_text() {
        for text in ["", "a(b=1.5K, \"ö c\")\n", "  \t x\r\n"] {
            assert_eq!(tokens(text).concat(), text);
        }
        assert_eq!(tokens("a-b (1.5)"), ["a-b", " ", "(", "1.5", ")"]);
    }

    #[test]
    fn changes_make_other_texts() {
        let mut rng = Rng::of(1, "text", 0);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..2000 {
            let mut bytes = b"one 2 three\nfour 5\n".to_vec();
            mutate(&mut rng, &mut bytes, b"six\nseven\n", &["WORD"]);
            seen.insert(bytes);
        }
        assert!(seen.len() > 500, "{}", seen.len());
        assert!(seen.iter().any(|bytes| bytes.windows(4).any(|word| word == b"WORD")));
    }
}
