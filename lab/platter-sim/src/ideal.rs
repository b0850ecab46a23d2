//! A disk with the same time for every command, for tests of the layers above it.

use crate::model::{Command, Ended, Model};
use platter_block::driver::{Features, Geometry};
use platter_block::limits::Limits;
use platter_block::time::{Span, Time};
use std::collections::VecDeque;

/// A disk that serves up to `depth` commands in parallel, each in `latency`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ideal {
    /// Bytes, a multiple of 512.
    pub size: u64,
    /// Time of every command.
    pub latency: Span,
    /// Commands at once.
    pub depth: u32,
    /// Completed writes may be lost at a power cut until a flush.
    pub write_cache: bool,
}

impl From<Ideal> for Box<dyn Model> {
    fn from(ideal: Ideal) -> Box<dyn Model> {
        let busy = VecDeque::with_capacity(ideal.depth as usize);
        Box::new(IdealDisk { ideal, busy })
    }
}

struct IdealDisk {
    ideal: Ideal,
    /// In order of time, because all commands take equally long.
    busy: VecDeque<Ended>,
}

impl Model for IdealDisk {
    fn geometry(&self) -> Geometry {
        let features =
            Features::default().with_write_cache(self.ideal.write_cache).with_fua(true).with_prebuild(true);
        Geometry::new(self.ideal.size, Limits::unlimited(512)).with_features(features)
    }

    fn depth(&self) -> u32 {
        self.ideal.depth
    }

    fn accept(&mut self, now: Time, command: &Command) -> bool {
        if self.busy.len() >= self.ideal.depth as usize {
            return false;
        }
        self.busy.push_back(Ended { tag: command.tag, at: now + self.ideal.latency });
        true
    }

    fn next_event(&self) -> Option<Time> {
        self.busy.front().map(|first| first.at)
    }

    fn advance(&mut self, now: Time, ended: &mut Vec<Ended>) {
        while let Some(first) = self.busy.front().copied().filter(|first| first.at <= now) {
            self.busy.pop_front();
            ended.push(first);
        }
    }
}
