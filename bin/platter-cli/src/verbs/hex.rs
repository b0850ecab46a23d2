//! Bytes written in hexadecimal.

/// Reads bytes: pairs of digits, with or without white space between them, perhaps with `0x` before a pair or commas after
/// it. `#` begins a comment.
pub(super) fn parse(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        for word in line.split([',', ' ', '\t']).filter(|word| !word.is_empty()) {
            let digits = word.strip_prefix("0x").unwrap_or(word);
            let wrong = |why: &str| format!("line {}: `{word}` {why}", number + 1);
            if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return Err(wrong("is not hexadecimal"));
            }
            if digits.len() % 2 != 0 {
                return Err(wrong("has an odd number of digits; a byte has two"));
            }
            let pair = |at| u8::from_str_radix(&digits[at..at + 2], 16).ok();
            bytes.extend((0..digits.len()).step_by(2).filter_map(pair));
        }
    }
    Ok(bytes)
}

/// Writes bytes as pairs of digits.
pub(super) fn print(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

/// The same, 16 bytes in a line.
pub(super) fn lines(bytes: &[u8]) -> String {
    bytes.chunks(16).map(|line| print(line) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_in_the_ways_that_programs_print_them() {
        assert_eq!(parse("70 00\t05 # fixed\n0x00,0a,"), Ok(vec![0x70, 0, 5, 0, 10]));
        assert_eq!(parse("70000500"), Ok(vec![0x70, 0, 5, 0]));
        assert_eq!(parse("70 5").unwrap_err(), "line 1: `5` has an odd number of digits; a byte has two");
        assert_eq!(parse("70\n+7").unwrap_err(), "line 2: `+7` is not hexadecimal");
        assert_eq!(print(&[0x70, 0, 10]), "70 00 0a");
    }
}
