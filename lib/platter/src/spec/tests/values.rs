//! Values, apart from any spec.

use super::*;
use crate::spec::{
    ValueErrorKind, format_size, format_time, parse_bool, parse_choice, parse_int, parse_number, parse_size,
    parse_time,
};
use ValueErrorKind::{Malformed, OutOfRange};

#[test]
fn sizes() {
    let good = [
        ("0", 0),
        ("4096", 4096),
        ("512B", 512),
        ("64K", 64 << 10),
        ("64k", 64 << 10),
        ("64KiB", 64 << 10),
        ("64kib", 64 << 10),
        ("3m", 3 << 20),
        ("1.5G", 3 << 29),
        ("0.5K", 512),
        ("1.50000000000000000000000000000000000000000000K", 1536),
        ("00000000000000000000000000000000000000000000001K", 1024),
        ("2T", 2 << 40),
        ("16383P", 16383 << 50),
        ("18446744073709551615", u64::MAX),
    ];
    for (text, bytes) in good {
        assert_eq!(parse_size(text), Ok(bytes), "{text}");
    }
}

#[test]
fn sizes_that_are_none() {
    for text in [
        "", "K", "-1", "+1", ".5K", "1.", "1.K", "1X", "1 K", "1Ki", "1KB", "1kb", "0x10", "1e3", "1é", "１K",
    ] {
        assert_eq!(parse_size(text).map_err(|e| e.kind), Err(Malformed), "{text}");
    }
    for text in ["1.5", "0.0001K", "0.0000000000000000001P"] {
        assert_eq!(parse_size(text).map_err(|e| e.kind), Err(Malformed), "{text}: part of a byte");
    }
    let huge = "9".repeat(100);
    for text in ["16384P", "18446744073709551616", "18446744073709551616.5", "18014398509481984K", &huge] {
        assert_eq!(parse_size(text).map_err(|e| e.kind), Err(OutOfRange), "{text}");
    }
    let message = parse_size("64kB").unwrap_err().to_string();
    assert_eq!(message, "expected a size, found `64kB`; KB may mean 1000 or 1024: write K or KiB for 1024");
}

#[test]
fn times() {
    let good = [
        ("0", 0),
        ("0.0", 0),
        ("1ns", 1),
        ("250us", 250_000),
        ("250µs", 250_000),
        ("250μs", 250_000),
        ("1.5ms", 1_500_000),
        ("0.000001ms", 1),
        ("30s", 30_000_000_000),
        ("5MS", 5_000_000),
        ("18446744073709551615ns", u64::MAX),
    ];
    for (text, nanos) in good {
        assert_eq!(parse_time(text), Ok(Duration::from_nanos(nanos)), "{text}");
    }
    for text in ["", "s", "1", "1.5", "-1s", "1m", "1min", "1 s", "0.5ns", "1.0000001ms"] {
        assert_eq!(parse_time(text).map_err(|e| e.kind), Err(Malformed), "{text}");
    }
    for text in ["18446744073709551616ns", "18446744074s"] {
        assert_eq!(parse_time(text).map_err(|e| e.kind), Err(OutOfRange), "{text}");
    }
}

#[test]
fn whole_numbers() {
    assert_eq!(parse_int("0"), Ok(0));
    assert_eq!(parse_int("007"), Ok(7));
    assert_eq!(parse_int("18446744073709551615"), Ok(u64::MAX));
    assert_eq!(parse_int("18446744073709551616").map_err(|e| e.kind), Err(OutOfRange));
    for text in ["", "-1", "+1", "1K", "1.0", "0x1", "١"] {
        assert_eq!(parse_int(text).map_err(|e| e.kind), Err(Malformed), "{text}");
    }
}

#[test]
fn switches() {
    for text in ["on", "yes", "true", "1", "ON", "Yes"] {
        assert_eq!(parse_bool(text), Ok(true), "{text}");
    }
    for text in ["off", "no", "false", "0", "OFF"] {
        assert_eq!(parse_bool(text), Ok(false), "{text}");
    }
    for text in ["", "2", "y", "onn"] {
        assert_eq!(parse_bool(text).map_err(|e| e.kind), Err(Malformed), "{text}");
    }
}

#[test]
fn choices() {
    assert_eq!(parse_choice("aio", &["uring", "aio"]), Ok("aio"));
    let message = |text| parse_choice(text, &["uring", "aio"]).unwrap_err().to_string();
    assert_eq!(
        message("urnig"),
        "expected one of the choices, found `urnig`; did you mean `uring`? the choices are: uring, aio"
    );
    assert_eq!(
        message("AIO"),
        "expected one of the choices, found `AIO`; did you mean `aio`? the choices are: uring, aio"
    );
    assert_eq!(message("x"), "expected one of the choices, found `x`; the choices are: uring, aio");
}

#[test]
fn sizes_and_times_are_written_with_the_largest_unit_that_fits() {
    for (bytes, text) in
        [(0, "0"), (513, "513"), (1536, "1536"), (64 << 10, "64K"), (1 << 50, "1P"), (3 << 29, "1536M")]
    {
        assert_eq!(format_size(bytes), text);
    }
    for (nanos, text) in
        [(0, "0"), (1, "1ns"), (1_500, "1500ns"), (250_000, "250us"), (60_000_000_000, "60s")]
    {
        assert_eq!(format_time(Duration::from_nanos(nanos)), text);
    }
}

#[test]
fn kinds_tell_only_the_bounds_that_bind() {
    use platter_block::params::Unit;
    let kinds = [
        (ArgumentKind::Size { min: 0, max: u64::MAX }, "a size"),
        (ArgumentKind::Size { min: 512, max: u64::MAX }, "a size of at least 512"),
        (ArgumentKind::Size { min: 0, max: 1 << 20 }, "a size of at most 1M"),
        (ArgumentKind::Int { min: 0, max: 7 }, "a whole number from 0 to 7"),
        (ArgumentKind::Int { min: 0, max: u64::MAX }, "a whole number"),
        (ArgumentKind::Int { min: 1, max: u64::MAX }, "a whole number of at least 1"),
        (ArgumentKind::Time { min: Duration::ZERO, max: Duration::MAX }, "a time"),
        (
            ArgumentKind::Time { min: Duration::from_micros(10), max: Duration::from_secs(1) },
            "a time from 10us to 1s",
        ),
        (ArgumentKind::Number { unit: Unit::Bytes, min: 0, max: 1 << 43 }, "a size of at most 8T"),
        (ArgumentKind::Number { unit: Unit::Bytes, min: 0, max: (1 << 43) - 1 }, "a size below 8T"),
        (
            ArgumentKind::Number { unit: Unit::Bytes, min: 512, max: (1 << 30) - 1 },
            "a size from 512 to below 1G",
        ),
        (ArgumentKind::Number { unit: Unit::Bytes, min: 0, max: i64::MAX }, "a size"),
        (ArgumentKind::Number { unit: Unit::Percent, min: 1, max: 100 }, "a percentage from 1 to 100"),
        (ArgumentKind::Choice(&["a", "b"]), "one of a, b"),
    ];
    for (kind, text) in kinds {
        assert_eq!(kind.to_string(), text);
    }
}

#[test]
fn numbers_are_plain_or_have_a_unit_that_divides() {
    use platter_block::params::Unit;
    for (text, unit, expected) in [
        ("500", Unit::Millis, Some(500)),
        ("500ms", Unit::Millis, Some(500)),
        ("1.5s", Unit::Millis, Some(1500)),
        ("250us", Unit::Micros, Some(250)),
        ("0", Unit::Micros, Some(0)),
        ("250us", Unit::Millis, None),
        ("2000000", Unit::Nanos, Some(2_000_000)),
        ("2ms", Unit::Nanos, Some(2_000_000)),
        ("0.1ns", Unit::Nanos, None),
        ("64K", Unit::Bytes, Some(65536)),
        ("on", Unit::Switch, Some(1)),
        ("0", Unit::Switch, Some(0)),
        ("2", Unit::Switch, None),
        ("16", Unit::Requests, Some(16)),
        ("16ms", Unit::Requests, None),
        ("-1", Unit::Count, None),
        ("", Unit::Count, None),
        ("", Unit::Millis, None),
        ("18446744073709551615", Unit::Count, None),
    ] {
        assert_eq!(parse_number(text, unit).ok(), expected, "{text} {unit}");
    }
}
