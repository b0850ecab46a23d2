//! Values of options, as fio writes them.

use crate::cli::Time;
use platter_bench::workload::{RateProcess, Rw};

/// A time: `2` is two seconds; `2s`, `500ms`.
pub(super) fn seconds(text: &str) -> Result<Time, String> {
    Time::parse(text, "s")
}

/// A time: `100` is a hundred microseconds; `100us`, `1ms`.
pub(super) fn micros(text: &str) -> Result<Time, String> {
    Time::parse(text, "us")
}

/// The direction and order of the I/Os.
pub(super) fn rw(text: &str) -> Result<Rw, String> {
    text.parse().map_err(|error: platter_bench::workload::ParseRwError| error.to_string())
}

/// `0` or `1`.
pub(super) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err("a switch is 0 or 1".to_owned()),
    }
}

/// How the starts of an open loop are spread.
pub(super) fn process(text: &str) -> Result<RateProcess, String> {
    match text {
        "linear" => Ok(RateProcess::Linear),
        "poisson" => Ok(RateProcess::Poisson),
        _ => Err("expected linear or poisson".to_owned()),
    }
}

/// The number of a priority class, and the level: `rt/0`, `be`, `idle`.
pub(super) fn priority(text: &str) -> Result<(u32, Option<u32>), String> {
    let wrong = || format!("invalid priority `{text}`: expected none, rt/0 to rt/7, be/0 to be/7, or idle");
    let (class, level) = match text.split_once('/') {
        Some((class, level)) => (class, Some(level)),
        None => (text, None),
    };
    let number = ["none", "rt", "be", "idle"].iter().position(|name| *name == class).ok_or_else(wrong)?;
    let level =
        level.map(|level| level.parse::<u32>().ok().filter(|&l| l <= 7).ok_or_else(wrong)).transpose()?;
    if level.is_some() && !(1..=2).contains(&number) {
        return Err(wrong());
    }
    Ok((number as u32, level))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn bare_times_have_the_unit_that_fio_gives_them() {
        let seconds_of = |text| seconds(text).unwrap().value;
        let micros_of = |text| micros(text).unwrap().value;
        assert_eq!(seconds_of("2"), Duration::from_secs(2));
        assert_eq!(seconds_of("1.5"), Duration::from_millis(1500));
        assert_eq!(seconds_of("500ms"), Duration::from_millis(500));
        assert_eq!((micros_of("100"), micros_of("2s")), (Duration::from_micros(100), Duration::from_secs(2)));
        for bad in ["", "s", "-1", "1h", "two"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn priorities_have_names_and_levels() {
        assert_eq!(priority("none"), Ok((0, None)));
        assert_eq!((priority("rt/0"), priority("be")), (Ok((1, Some(0))), Ok((2, None))));
        assert_eq!(priority("idle"), Ok((3, None)));
        for bad in ["", "rt/8", "idle/1", "none/0", "be/", "4", "RT"] {
            assert!(priority(bad).unwrap_err().contains("be/0 to be/7"), "{bad}");
        }
    }

    #[test]
    fn switches_and_processes() {
        assert_eq!((switch("0"), switch("1")), (Ok(false), Ok(true)));
        assert!(switch("yes").is_err() && process("uniform").is_err());
        assert_eq!(process("poisson"), Ok(RateProcess::Poisson));
        assert!(rw("rndread").unwrap_err().contains("randread"));
    }
}
