//! Traces and figures.

use super::{compare, correlation, parse_trace};
use platter_block::bio::Op;
use std::path::Path;

fn parse(text: &str) -> Result<Vec<super::Traced>, String> {
    parse_trace(text, Path::new("disk.trace"), 1000).map_err(|error| error.to_string())
}

#[test]
fn a_trace_is_read_line_by_line() {
    let trace = parse("R Hit   10  2   1414.27  18746.770\n\nW Miss 990 10 0.5 0\n").unwrap();
    assert_eq!(trace.len(), 2);
    assert_eq!((trace[0].op, trace[0].sector, trace[0].sectors), (Op::Read, 10, 2));
    assert_eq!((trace[0].measured, trace[0].gap), (1_414_270, 18_746_770));
    assert_eq!((trace[1].op, trace[1].measured), (Op::Write, 500));
}

#[test]
fn a_wrong_line_is_named() {
    for (text, expected) in [
        ("R Hit 10 2 1 1\nX Hit 10 2 1 1", "disk.trace:2: expected `R` or `W` as the first field, found `X`"),
        ("R Hit 10 2 1", "disk.trace:1: expected six fields"),
        ("R Hit 10 2 1 1 1", "disk.trace:1: expected six fields"),
        ("R Hit \u{1b} 2 1 1", "disk.trace:1: expected a sector number as the third field, found `\u{fffd}`"),
        ("R Hit ten 2 1 1", "disk.trace:1: expected a sector number as the third field, found `ten`"),
        ("R Hit -1 2 1 1", "disk.trace:1: expected a sector number"),
        ("R Hit 10 0 1 1", "disk.trace:1: expected a number of sectors from 1"),
        ("R Hit 10 2 -1 1", "disk.trace:1: expected microseconds of at least 0 as the fifth field"),
        ("R Hit 10 2 1 nan", "disk.trace:1: expected microseconds of at least 0 as the sixth field"),
        (
            "R Hit 998 2 1 1\nR Hit 999 2 1 1",
            "disk.trace:2: expected sectors of the disk, which ends at 1000",
        ),
        ("R Hit 18446744073709551615 2 1 1", "disk.trace:1: expected sectors of the disk"),
        ("", "disk.trace: expected requests, found none"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.starts_with(expected), "{text:?} gives {error:?}");
    }
}

#[test]
fn times_end_before_the_clock_does() {
    let year = |lines: usize| "R Hit 10 2 1 999999999999\n".repeat(lines * 365 * 864 / 10_000);
    assert_eq!(parse(&year(39)).map(|trace| trace.len()), Ok(1229));
    let error = parse(&year(600)).unwrap_err();
    assert!(error.starts_with("disk.trace:1262: expected times that add up to at most 40 years"), "{error}");
}

#[test]
fn a_line_that_is_no_text_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), b"R Hit 10 2 1 1\nR Hit 10 2 \xff 1\n").unwrap();
    let error = super::load_trace(file.path(), 1000).unwrap_err();
    assert_eq!((error.line, error.expected.as_str()), (2, "microseconds of at least 0 as the fifth field"));
}

#[test]
fn figures_by_hand() {
    // Sorted: 1, 3 against 2, 5 ms: distances 1 and 2.
    let figures = compare(&mut [3_000_000, 1_000_000], &mut [2_000_000, 5_000_000]);
    assert_eq!((figures.requests, figures.real_mean_ms, figures.sim_mean_ms), (2, 2.0, 3.5));
    assert!((figures.rms_ms - 2.5_f64.sqrt()).abs() < 1e-12);
    assert!((figures.demerit - 2.5_f64.sqrt() / 2.0).abs() < 1e-12);
    assert!((figures.mean_error_pct() - 75.0).abs() < 1e-9);
    assert_eq!(compare(&mut [], &mut []).requests, 0);
}

#[test]
fn correlation_by_hand() {
    assert!((correlation(&[1, 2, 3], &[10, 20, 30]) - 1.0).abs() < 1e-12);
    assert!((correlation(&[1, 2, 3], &[30, 20, 10]) + 1.0).abs() < 1e-12);
    assert_eq!(correlation(&[1, 2, 3], &[5, 5, 5]), 0.0);
}
