//! Tables as text.

use super::{MAX_ROWS, Mapping};

/// Reads a table: rows of four numbers, START LENGTH DEVICE OFFSET, that end at a line's end or at a semicolon. Bytes, or with
/// K, M, G, T (powers of 1024), or with s: sectors of 512 bytes, as in tables of dm-linear. What follows a `#` is a comment.
///
/// # Errors
/// Names the row and the word that is wrong.
pub fn parse(text: &str) -> Result<Vec<Mapping>, String> {
    let mut rows = Vec::new();
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    for line in lines.flat_map(|line| line.split(';')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [start, len, device, offset] = words[..] else {
            if words.is_empty() {
                continue;
            }
            return Err(format!(
                "row \"{}\" has {} words; it takes START LENGTH DEVICE OFFSET",
                line.trim(),
                words.len()
            ));
        };
        let wrong = |word: &str, what: &str| format!("row \"{}\": {word} is not {what}", line.trim());
        let bytes = |word: &str| {
            size(word).ok_or_else(|| wrong(word, "a number of bytes, such as 4096, 64K or 128s"))
        };
        let number = device.parse().map_err(|_| wrong(device, "the number of a device, from 0"))?;
        rows.push(Mapping { start: bytes(start)?, len: bytes(len)?, device: number, offset: bytes(offset)? });
        if rows.len() > MAX_ROWS {
            return Err(format!("the table has more than {MAX_ROWS} rows"));
        }
    }
    Ok(rows)
}

fn size(word: &str) -> Option<u64> {
    let unit = match word.chars().last()? {
        's' => 512,
        'k' | 'K' => 1 << 10,
        'm' | 'M' => 1 << 20,
        'g' | 'G' => 1 << 30,
        't' | 'T' => 1 << 40,
        _ => return word.parse().ok(),
    };
    word[..word.len() - 1].parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_as_they_are_written() {
        let row = |start, len, device, offset| Mapping { start, len, device, offset };
        let text = "0 1M 0 0 # the first\n\n1M 2048s 12 64K;2M 512 0 1048576\n";
        let rows = [row(0, 1 << 20, 0, 0), row(1 << 20, 1 << 20, 12, 65536), row(2 << 20, 512, 0, 1 << 20)];
        assert_eq!(parse(text).unwrap(), rows);
        assert_eq!(parse(" # nothing\n").unwrap(), []);
        let told = |text: &str| parse(text).unwrap_err();
        assert_eq!(told("0 1M 0"), "row \"0 1M 0\" has 3 words; it takes START LENGTH DEVICE OFFSET");
        assert!(told("0 1X 0 0").contains("1X is not a number of bytes"));
        assert!(told("0 1M a 0").contains("a is not the number of a device"));
        assert!(told("0 99999999999T 0 0").contains("99999999999T"));
        assert!(told("0 -1 0 0").contains("-1 is not"));
    }
}
