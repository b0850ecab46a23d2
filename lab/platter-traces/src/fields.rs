//! Numbers of text formats, and the ranges that all formats have.

use crate::error::quote;

/// Ends of I/Os are at most this: offsets are signed numbers for the kernel.
pub const MOST_END: u64 = 1 << 63;
/// The longest I/O: lengths have 32 bits in blktrace's records.
pub const MOST_LENGTH: u64 = u32::MAX as u64;

/// A whole number. Text that is a number below zero is refused with these words.
pub(crate) fn number(name: &str, text: &str, most: u64) -> Result<u64, String> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse::<u64>() {
        Ok(number) if digits && number <= most => Ok(number),
        _ => Err(format!("{name} `{}` is not a number from 0 to {most}", quote(text))),
    }
}

/// Checks where an I/O is.
pub(crate) fn place(offset: u64, length: u64) -> Result<(), String> {
    if length > MOST_LENGTH {
        return Err(format!("length {length} is not from 0 to {MOST_LENGTH} bytes"));
    }
    let within = offset.checked_add(length).is_some_and(|end| end <= MOST_END);
    if !within {
        return Err(format!(
            "offset {offset} and length {length}: the end is not from 0 to {MOST_END} bytes (2^63)"
        ));
    }
    Ok(())
}

/// Sectors as bytes.
pub(crate) fn bytes(name: &str, sectors: u64) -> Result<u64, String> {
    let most = MOST_END / crate::event::SECTOR;
    match sectors.checked_mul(crate::event::SECTOR) {
        Some(bytes) if sectors <= most => Ok(bytes),
        _ => Err(format!("{name} {sectors} is not from 0 to {most} sectors of 512 bytes (2^63 bytes)")),
    }
}

/// A time as a decimal number of units of `unit` ns, exact to the ns.
pub(crate) fn time(name: &str, text: &str, unit: u64) -> Result<u64, String> {
    let wrong = || {
        let most = u64::MAX / unit;
        format!("{name} `{}` is not a time from 0 to {most} {}", quote(text), unit_name(unit))
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) {
        return Err(wrong());
    }
    let mut ns = whole.parse::<u64>().ok().and_then(|whole| whole.checked_mul(unit)).ok_or_else(wrong)?;
    let mut worth = unit;
    for digit in fraction.bytes() {
        worth /= 10;
        ns = ns.checked_add(u64::from(digit - b'0') * worth).ok_or_else(wrong)?;
    }
    Ok(ns)
}

fn unit_name(unit: u64) -> &'static str {
    match unit {
        1 => "ns",
        100 => "units of 100 ns",
        1_000 => "us",
        1_000_000 => "ms",
        _ => "s",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact() {
        for (text, unit, ns) in [
            ("0", 1, 0),
            ("1.5", 1_000_000_000, 1_500_000_000),
            ("1456095145.133076000", 1_000_000_000, 1_456_095_145_133_076_000),
            ("7.0000000019", 1_000_000_000, 7_000_000_001),
            ("3.25", 1_000, 3_250),
        ] {
            assert_eq!(time("time", text, unit), Ok(ns), "{text}");
        }
        for text in ["-1", "", ".5", "1.-5", "1e9", "nan", "99999999999999999999", "18446744074"] {
            assert!(time("time", text, 1_000_000_000).unwrap_err().contains("not a time from 0"), "{text}");
        }
    }

    #[test]
    fn ranges_are_held() {
        assert!(place(MOST_END, 0).is_ok() && place(MOST_END, 1).is_err() && place(u64::MAX, 1).is_err());
        assert!(place(0, MOST_LENGTH).is_ok() && place(0, MOST_LENGTH + 1).is_err());
        assert!(bytes("sector", 1 << 54).is_ok() && bytes("sector", (1 << 54) + 1).is_err());
        assert!(bytes("sector", 1 << 60).is_err());
        for text in ["-1", "+1", "", "1 ", "11", "18446744073709551616"] {
            assert!(number("n", text, 10).is_err(), "{text}");
        }
    }
}
