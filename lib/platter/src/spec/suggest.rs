//! "Did you mean": the nearest name in a list, by edit distance.

/// The candidate nearest to `word`, if it is near enough to be a likely slip of the fingers.
///
/// Distance is the number of characters inserted, deleted, replaced or swapped with their neighbour
/// (the optimal string alignment distance), letter case ignored. Near enough is one slip in a word of up to
/// five characters, two up to eight, three beyond. Of equally near candidates the first one wins.
pub fn closest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    // Names are short; a word much longer than any name is not a typing error, and not worth the quadratic
    // work.
    const LONGEST: usize = 64;
    if word.is_empty() || word.len() > LONGEST {
        return None;
    }
    let word: Vec<char> = word.chars().map(|c| c.to_ascii_lowercase()).collect();
    let allowed = match word.len() {
        0..=5 => 1,
        6..=8 => 2,
        _ => 3,
    };
    let mut best: Option<(usize, &'c str)> = None;
    for candidate in candidates.into_iter().filter(|c| c.len() <= LONGEST) {
        let letters: Vec<char> = candidate.chars().map(|c| c.to_ascii_lowercase()).collect();
        let distance = distance(&word, &letters);
        // A distance as long as the name itself would make any short word "near".
        let near = distance <= allowed && distance < letters.len();
        if near && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Optimal string alignment distance, keeping three rows of the table.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(a: &str, b: &str) -> usize {
        distance(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>())
    }

    #[test]
    fn counts_each_kind_of_slip_once() {
        assert_eq!(between("chunk", "chunk"), 0);
        assert_eq!(between("chnk", "chunk"), 1, "one missing");
        assert_eq!(between("chunkk", "chunk"), 1, "one too many");
        assert_eq!(between("chank", "chunk"), 1, "one wrong");
        assert_eq!(between("chnuk", "chunk"), 1, "two swapped");
        assert_eq!(between("", "abc"), 3);
        assert_eq!(between("kitten", "sitting"), 3);
    }

    #[test]
    fn suggests_only_what_is_near() {
        let names = ["raid0", "raid1", "cache", "file", "null"];
        assert_eq!(closest("RAID1", names), Some("raid1"));
        assert_eq!(closest("raid", names), Some("raid0"), "the first of equals");
        assert_eq!(closest("cahce", names), Some("cache"));
        assert_eq!(closest("mirror", names), None);
        assert_eq!(closest("x", ["y"]), None, "a name is not near because it is short");
        assert_eq!(closest("", names), None);
    }
}
