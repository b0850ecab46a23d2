//! What was measured.

use super::{Caller, Options};
use crate::stats::Sample;
use platter_block::counters::Snapshot;
use platter_disk::lock_meter::{LockUse, PartUse, Readings};
use std::time::Duration;

/// The result.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The options.
    pub options: Options,
    /// What a reading of the clock costs, in ns: the least error of a metered time.
    pub clock_ns: u64,
    /// Rounds are missing.
    pub interrupted: bool,
    /// By caller, number of threads and device.
    pub points: Vec<Point>,
}

/// A device under the load of some threads.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Point {
    /// The device.
    pub on: String,
    /// How the threads read.
    pub caller: Caller,
    /// Number of threads.
    pub threads: usize,
    pub(super) rounds: Vec<Round>,
    /// Reads with the meter, over all rounds.
    pub ios_metered: u64,
    /// Time with the meter, over all rounds.
    pub time_metered: Duration,
    /// Use of locks, over all rounds.
    pub locks: Vec<LockUse>,
    /// Parts of the runs of the queue that lanes share, over all rounds.
    pub parts: Vec<PartUse>,
    /// The device's counters of the reads with the meter.
    pub counters: Snapshot,
}

/// A measurement without the meter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    pub(super) ios_per_s: f64,
    pub(super) cpu_ns_per_io: f64,
    pub(super) switches_per_io: f64,
}

impl Point {
    pub(super) fn new(on: &str, caller: Caller, threads: usize) -> Point {
        Point {
            on: on.to_owned(),
            caller,
            threads,
            rounds: Vec::new(),
            ios_metered: 0,
            time_metered: Duration::ZERO,
            locks: Vec::new(),
            parts: Vec::new(),
            counters: Snapshot::default(),
        }
    }

    pub(super) fn describe(&self) -> String {
        format!("{}, {} threads, {}", self.caller.name(), self.threads, self.on)
    }

    pub(super) fn add_metered(&mut self, ios: u64, time: Duration, readings: Readings, counters: &Snapshot) {
        self.ios_metered += ios;
        self.time_metered += time;
        self.counters.merge(counters);
        for new in readings.locks {
            match self.locks.iter_mut().find(|old| old.scope == new.scope && old.place == new.place) {
                None => self.locks.push(new),
                Some(old) => {
                    old.acquisitions += new.acquisitions;
                    old.contended += new.contended;
                    old.left_to_holder += new.left_to_holder;
                    old.wait_ns += new.wait_ns;
                    old.hold_ns += new.hold_ns;
                    old.longest_hold_ns = old.longest_hold_ns.max(new.longest_hold_ns);
                }
            }
        }
        for new in readings.parts {
            match self.parts.iter_mut().find(|old| old.part == new.part) {
                None => self.parts.push(new),
                Some(old) => {
                    old.runs += new.runs;
                    old.ns += new.ns;
                }
            }
        }
    }

    /// A figure of each round.
    fn sample(&self, of: fn(&Round) -> f64) -> Option<Sample> {
        Sample::new(&self.rounds.iter().map(of).collect::<Vec<_>>()).ok()
    }

    /// Reads per second without the meter.
    pub fn ios_per_s(&self) -> Option<Sample> {
        self.sample(|round| round.ios_per_s)
    }

    /// Processor time of the process per read without the meter, in ns.
    pub fn cpu_ns_per_io(&self) -> Option<Sample> {
        self.sample(|round| round.cpu_ns_per_io)
    }

    /// Context switches per read without the meter.
    pub fn switches_per_io(&self) -> Option<Sample> {
        self.sample(|round| round.switches_per_io)
    }

    /// The rate in proportion to that of another point, by rounds.
    pub fn ratio(&self, to: &Point) -> Option<Sample> {
        let pairs = self.rounds.iter().zip(&to.rounds);
        Sample::new(&pairs.map(|(own, other)| own.ios_per_s / other.ios_per_s).collect::<Vec<_>>()).ok()
    }

    /// A sum over the locks, per read.
    pub fn per_io(&self, of: fn(&LockUse) -> u64) -> f64 {
        self.locks.iter().map(of).sum::<u64>() as f64 / self.ios_metered.max(1) as f64
    }
}

impl Report {
    /// The point of the first device with the same caller and number of threads.
    pub fn first(&self, point: &Point) -> Option<&Point> {
        self.points.iter().find(|other| other.caller == point.caller && other.threads == point.threads)
    }
}
