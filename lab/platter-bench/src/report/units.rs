//! Numbers with units, as people read them. Never a locale: a decimal point, and commas between thousands.

/// Replaces a number that is NaN or infinite.
const NOT_A_NUMBER: &str = "n/a";

const BYTES: [(&str, u64); 7] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("PiB", 1 << 50),
    ("EiB", 1 << 60),
];

const TIMES: [(&str, u64); 4] = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];

/// A number of bytes in the largest binary unit that it fills: `512 B`, `4 KiB`, `1.5 MiB`.
///
/// Three significant digits (four from 1000 to 1023); zeros after the point are kept only if something was
/// rounded away, so `1.5 MiB` is exact and `1.50 MiB` is not.
pub fn bytes(n: u64) -> String {
    let fits = |unit: u64| decimal(n, unit, 0).0 < 1024;
    let &(name, unit) = BYTES.iter().find(|&&(_, unit)| fits(unit)).unwrap_or(&BYTES[6]);
    let (mut digits, mut decimals) = significant(n, unit);
    if u128::from(n) * 10u128.pow(decimals) == digits * u128::from(unit) {
        while decimals > 0 && digits.is_multiple_of(10) {
            (digits, decimals) = (digits / 10, decimals - 1);
        }
    }
    format!("{} {name}", point(digits, decimals))
}

/// A number of bytes as device specs and fio write it: `4K`, `1M`, or plain bytes if it is not a whole number
/// of either.
pub fn bytes_short(n: u64) -> String {
    let whole = |shift: u32| n != 0 && n.trailing_zeros() >= shift;
    let found = [(40, 'T'), (30, 'G'), (20, 'M'), (10, 'K')].into_iter().find(|&(shift, _)| whole(shift));
    found.map_or_else(|| n.to_string(), |(shift, letter)| format!("{}{letter}", n >> shift))
}

/// A time in nanoseconds with three significant digits: `950 ns`, `1.23 us`, `45.6 ms`, `7.00 s`, `1234 s`.
pub fn duration(ns: u64) -> String {
    if ns < 1000 {
        return format!("{ns} ns");
    }
    let fits = |unit: u64| decimal(ns, unit, 0).0 < 1000;
    let &(name, unit) = TIMES.iter().find(|&&(_, unit)| fits(unit)).unwrap_or(&TIMES[3]);
    let (digits, decimals) = significant(ns, unit);
    format!("{} {name}", point(digits, decimals))
}

/// A large number with three significant digits: `950`, `70.1k`, `17.2M`.
pub fn count(v: f64) -> String {
    if !v.is_finite() {
        return NOT_A_NUMBER.to_owned();
    }
    let size = v.abs();
    let units = [("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12)];
    // 999.5 would round to 1000 of its unit: it belongs to the next one.
    let &(name, unit) = units.iter().find(|&&(_, unit)| size / unit < 999.5).unwrap_or(&units[4]);
    let scaled = size / unit;
    let decimals = match scaled {
        s if s == s.trunc() && unit == 1.0 => 0,
        s if s < 9.995 => 2,
        s if s < 99.95 => 1,
        _ => 0,
    };
    format!("{}{name}", fixed(v / unit, decimals))
}

/// I/Os (or anything else) per second: `70.1k/s`.
pub fn rate(per_s: f64) -> String {
    format!("{}/s", count(per_s))
}

/// Throughput in MiB/s: one decimal below 100, commas above: `58.3 MiB/s`, `1,234 MiB/s`.
pub fn throughput(mib_per_s: f64) -> String {
    let decimals = if mib_per_s.abs() < 99.95 { 1 } else { 0 };
    format!("{} MiB/s", group(&fixed(mib_per_s, decimals)))
}

/// The throughput of `bytes` moved in `ns`, in MiB/s; 0 when no time has passed.
pub fn mib_per_s(bytes: u64, ns: u64) -> f64 {
    if ns == 0 { 0.0 } else { bytes as f64 / (1 << 20) as f64 / (ns as f64 / 1e9) }
}

/// A share in percent, with one decimal: `12.3 %`.
pub fn percent(v: f64) -> String {
    format!("{} %", fixed(v, 1))
}

/// A change in percent, with its sign: `+12.3 %`, `-4.0 %`, `0.0 %`.
pub fn change(v: f64) -> String {
    let text = fixed(v, 1);
    let plus = if v > 0.0 && v.is_finite() && text != "0.0" { "+" } else { "" };
    format!("{plus}{text} %")
}

/// A number with that many decimals; `n/a` if it is not finite; never `-0`.
pub fn fixed(v: f64, decimals: usize) -> String {
    if !v.is_finite() {
        return NOT_A_NUMBER.to_owned();
    }
    let text = format!("{v:.decimals$}");
    match text.strip_prefix('-') {
        Some(rest) if rest.bytes().all(|b| b == b'0' || b == b'.') => rest.to_owned(),
        _ => text,
    }
}

/// A whole number with commas: `1,234,567`.
pub fn thousands(n: u64) -> String {
    group(&n.to_string())
}

/// Puts commas between the thousands of a decimal number in text form. Any other text, and numbers of up to
/// three digits before the point, come back as they are.
pub fn group(text: &str) -> String {
    let unsigned = text.trim_start_matches(['-', '+']);
    let sign = &text[..text.len() - unsigned.len()];
    let (whole, rest) = unsigned.split_at(unsigned.find('.').unwrap_or(unsigned.len()));
    let digits_only = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if sign.len() > 1 || whole.len() < 4 || !digits_only(whole) || !digits_only(rest.trim_start_matches('.'))
    {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() + whole.len() / 3);
    out.push_str(sign);
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out + rest
}

/// `n / unit` rounded half up to that many decimals, as an integer, and the number of decimals.
fn decimal(n: u64, unit: u64, decimals: u32) -> (u128, u32) {
    let unit = u128::from(unit);
    ((u128::from(n) * 10u128.pow(decimals) + unit / 2) / unit, decimals)
}

/// `n / unit` with three significant digits, or all digits before the point if there are more.
fn significant(n: u64, unit: u64) -> (u128, u32) {
    if unit == 1 {
        return (u128::from(n), 0);
    }
    [2, 1].into_iter().map(|d| decimal(n, unit, d)).find(|&(v, _)| v < 1000).unwrap_or(decimal(n, unit, 0))
}

fn point(digits: u128, decimals: u32) -> String {
    let one = 10u128.pow(decimals);
    match decimals {
        0 => digits.to_string(),
        _ => format!("{}.{:0width$}", digits / one, digits % one, width = decimals as usize),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes() {
        for (n, expected) in [
            (0, "0 B"),
            (512, "512 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1025, "1.00 KiB"),
            (1536, "1.5 KiB"),
            (4096, "4 KiB"),
            (10_230, "9.99 KiB"),
            (10_239, "10.0 KiB"),
            (131_072, "128 KiB"),
            (1_047_552, "1023 KiB"),
            (1_048_063, "1023 KiB"),
            (1_048_064, "1.00 MiB"),
            (1 << 20, "1 MiB"),
            (3 << 29, "1.5 GiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(bytes(n), expected, "{n}");
        }
        for (n, expected) in
            [(0, "0"), (512, "512"), (4096, "4K"), (4097, "4097"), (1 << 20, "1M"), (1536 << 10, "1536K")]
        {
            assert_eq!(bytes_short(n), expected);
        }
        assert_eq!(bytes_short(5 << 40), "5T");
    }

    #[test]
    fn times() {
        for (ns, expected) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1000, "1.00 us"),
            (1234, "1.23 us"),
            (9_994, "9.99 us"),
            (9_995, "10.0 us"),
            (99_950, "100 us"),
            (999_499, "999 us"),
            (999_500, "1.00 ms"),
            (45_600_000, "45.6 ms"),
            (7_000_000_000, "7.00 s"),
            (1_234_000_000_000, "1234 s"),
            (u64::MAX, "18446744074 s"),
        ] {
            assert_eq!(duration(ns), expected, "{ns}");
        }
    }

    #[test]
    fn counts_and_rates() {
        for (v, expected) in [
            (0.0, "0"),
            (-0.0, "0"),
            (0.5, "0.50"),
            (950.0, "950"),
            (999.4, "999"),
            (999.6, "1.00k"),
            (70_123.0, "70.1k"),
            (99_960.0, "100k"),
            (17_200_000.0, "17.2M"),
            (-1500.0, "-1.50k"),
            (5e15, "5000T"),
            (f64::NAN, "n/a"),
        ] {
            assert_eq!(count(v), expected, "{v}");
        }
        assert_eq!(rate(17.2e6), "17.2M/s");
        assert_eq!(throughput(58.26), "58.3 MiB/s");
        assert_eq!(throughput(1234.4), "1,234 MiB/s");
        assert_eq!(throughput(f64::INFINITY), "n/a MiB/s");
        assert_eq!(mib_per_s(1 << 20, 500_000_000), 2.0);
        assert_eq!(mib_per_s(1, 0), 0.0);
    }

    #[test]
    fn percentages() {
        assert_eq!(percent(12.345), "12.3 %");
        assert_eq!(percent(-0.01), "0.0 %");
        assert_eq!(change(3.21), "+3.2 %");
        assert_eq!(change(-4.0), "-4.0 %");
        assert_eq!((change(0.04), change(-0.04)), ("0.0 %".into(), "0.0 %".into()));
        assert_eq!((change(f64::NAN), change(f64::INFINITY)), ("n/a %".into(), "n/a %".into()));
    }

    #[test]
    fn grouping_leaves_other_text_alone() {
        for (text, expected) in [
            ("1234", "1,234"),
            ("-1234567.8901", "-1,234,567.8901"),
            ("+999999", "+999,999"),
            ("123", "123"),
            ("", ""),
            ("-", "-"),
            ("--1234", "--1234"),
            ("12345a", "12345a"),
            ("1234.5.6", "1234.5.6"),
            ("n/a", "n/a"),
            ("１２３４", "１２３４"),
        ] {
            assert_eq!(group(text), expected);
        }
        assert_eq!(thousands(u64::MAX), "18,446,744,073,709,551,615");
    }

    /// Reads a formatted number back.
    fn value(text: &str, units: &[(&str, u64)]) -> f64 {
        let (number, name) = text.split_once(' ').unwrap();
        let (_, unit) = units.iter().find(|(n, _)| *n == name).unwrap();
        number.parse::<f64>().unwrap() * *unit as f64
    }

    proptest! {
        #[test]
        fn three_digits_are_within_half_a_percent((s, n) in (0u32..64, any::<u64>())) {
            let n = n >> s;
            for text in [(bytes(n), &BYTES[..]), (duration(n), &TIMES[..])] {
                let got = value(&text.0, text.1);
                prop_assert!((got - n as f64).abs() <= n as f64 * 0.00501, "{} for {n}", text.0);
            }
        }

        #[test]
        fn larger_values_never_read_smaller(a: u64, b: u64) {
            let (a, b) = (a.min(b), a.max(b));
            prop_assert!(value(&bytes(a), &BYTES) <= value(&bytes(b), &BYTES));
            prop_assert!(value(&duration(a), &TIMES) <= value(&duration(b), &TIMES));
        }

        #[test]
        fn grouping_only_adds_commas(n: u64) {
            let text = thousands(n);
            prop_assert_eq!(text.replace(',', ""), n.to_string());
            prop_assert!(text.split(',').skip(1).all(|part| part.len() == 3));
        }
    }
}
