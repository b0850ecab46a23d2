//! The differences between versions.

use super::Linux26;
use platter_block::params::{Param, Unit};
use platter_cache::readahead::{Readahead, ReadaheadType, Settings};

/// When the window ahead of the current one is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// When any page of the current window is looked up.
    Any,
    /// When its last page is looked up (lazy).
    Last,
    /// When its last page is looked up, or any page if runs are as long as the largest window (adaptive
    /// lazy).
    Adaptive,
    /// Only if runs are longer than the largest window.
    Long,
}

/// The size of the window after a jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jump {
    /// The size that the next window would have had.
    Keep,
    /// The number of pages used of the old window, plus this many.
    Used(u32),
    /// The average length of runs.
    Average,
}

/// How runs of pages are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// Not at all.
    Uncounted,
    /// Averaged when they break.
    Broken,
    /// Averaged when they break, rounded towards the new one.
    Rounded,
    /// Like `Rounded`, and a run that continues counts for the size of its next window (2.6.8).
    Resumed,
    /// The average number of pages looked up in each window (2.6.9).
    Window,
}

/// The differences between versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The first page looked up opens a window anywhere, not only at the beginning of the device.
    pub first_anywhere: bool,
    /// When the window ahead is read.
    pub ahead: Ahead,
    /// The size of the window after a jump.
    pub jump: Jump,
    /// How runs are counted.
    pub runs: Runs,
    /// Each call works on a copy of the state; the last call to end leaves its copy.
    pub private: bool,
    /// The whole request is read before its first page is looked up.
    pub size_first: bool,
    /// Only one call at a time.
    pub exclusive: bool,
}

const V260: Rules = Rules {
    first_anywhere: false,
    ahead: Ahead::Any,
    jump: Jump::Keep,
    runs: Runs::Uncounted,
    private: false,
    size_first: false,
    exclusive: false,
};
const V261: Rules = Rules { first_anywhere: true, ahead: Ahead::Last, jump: Jump::Used(1), ..V260 };
const V262: Rules = Rules { ahead: Ahead::Any, jump: Jump::Used(0), ..V261 };
const V265: Rules = Rules { ahead: Ahead::Adaptive, runs: Runs::Broken, ..V261 };
const V267: Rules =
    Rules { ahead: Ahead::Long, jump: Jump::Average, runs: Runs::Rounded, private: true, ..V265 };

const FIRST: usize = 0;

static EXTRA: [Param; 1] = [Param::number(
    "extra",
    Unit::Count,
    1,
    (0, 1),
    "pages that the window after a jump has in addition to those used of the window before",
)];

static RUNS: [Param; 1] = [Param::word(
    "runs",
    &["2.6.7", "2.6.8", "2.6.9"],
    0,
    "how runs are averaged: 2.6.8 counts a run that continues, 2.6.9 the pages used of each window",
)];

fn with_extra(row: &ReadaheadType, settings: &Settings, rules: Rules) -> Box<dyn Readahead> {
    let extra = u32::try_from(settings.value(row, FIRST)).unwrap_or(1);
    Box::new(Linux26::new(settings, Rules { jump: Jump::Used(extra), ..rules }))
}

fn with_runs(settings: &Settings) -> Box<dyn Readahead> {
    let runs = match settings.value(&L7, FIRST) {
        0 => Runs::Rounded,
        1 => Runs::Resumed,
        _ => Runs::Window,
    };
    Box::new(Linux26::new(settings, Rules { runs, ..V267 }))
}

pub(crate) const L0: ReadaheadType = ReadaheadType {
    name: "2.6.0",
    summary: "two windows that grow with hits and shrink with misses; permanently off after a few jumps",
    source: "Linux 2.6.0",
    params: &[],
    make: |settings| Box::new(Linux26::new(settings, V260)),
};

pub(crate) const L1: ReadaheadType = ReadaheadType {
    name: "2.6.1",
    summary: "as 2.6.0, but the first read opens a window, and the next waits for the last page of the current one",
    source: "Linux 2.6.1",
    params: &EXTRA,
    make: |settings| with_extra(&L1, settings, V261),
};

pub(crate) const L2: ReadaheadType = ReadaheadType {
    name: "2.6.2",
    summary: "as 2.6.1, but the next window does not wait",
    source: "Linux 2.6.2 to 2.6.4",
    params: &[],
    make: |settings| Box::new(Linux26::new(settings, V262)),
};

pub(crate) const L5: ReadaheadType = ReadaheadType {
    name: "2.6.5",
    summary: "as 2.6.1, but the next window does not wait when runs are long on average",
    source: "Linux 2.6.5 and 2.6.6",
    params: &EXTRA,
    make: |settings| with_extra(&L5, settings, V265),
};

pub(crate) const PRIVATE: ReadaheadType = ReadaheadType {
    name: "2.6.6+private",
    summary: "as 2.6.5, but each call works on a copy of the state, and the last one to end leaves its own",
    source: "A. Morton, 3 May 2004",
    params: &EXTRA,
    make: |settings| with_extra(&PRIVATE, settings, Rules { private: true, ..V265 }),
};

pub(crate) const SIZE: ReadaheadType = ReadaheadType {
    name: "2.6.6+size",
    summary: "as 2.6.5, but the whole request is read before its first page is looked up",
    source: "N. Piggin, 3 May 2004",
    params: &EXTRA,
    make: |settings| with_extra(&SIZE, settings, Rules { size_first: true, ..V265 }),
};

pub(crate) const LOCK: ReadaheadType = ReadaheadType {
    name: "2.6.6+lock",
    summary: "as 2.6.5, but one call at a time on each handle",
    source: "A. Morton, 3 May 2004: a semaphore round the read",
    params: &EXTRA,
    make: |settings| with_extra(&LOCK, settings, Rules { exclusive: true, ..V265 }),
};

pub(crate) const L7: ReadaheadType = ReadaheadType {
    name: "2.6.7",
    summary: "as 2.6.6+private, but windows have the size of the average run; the next one only if runs are long",
    source: "Linux 2.6.7, with the rules of 2.6.8 and 2.6.9 as a parameter",
    params: &RUNS,
    make: with_runs,
};
