//! A bound for the lines of a log: what a flood of clients leaves out is counted.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Most lines a second.
pub const LINES_PER_SECOND: u32 = 100;

/// Limits the log to a number of lines a second.
pub struct Flood {
    most: u32,
    state: Mutex<State>,
}

struct State {
    /// When the present second has begun.
    since: Option<Instant>,
    lines: u32,
    left_out: u64,
    total: u64,
}

impl Flood {
    /// At most `most` lines a second.
    pub fn new(most: u32) -> Flood {
        Flood { most, state: Mutex::new(State { since: None, lines: 0, left_out: 0, total: 0 }) }
    }

    /// Whether a line passes, and how many were left out before it since the last one that passed. `None`: it is left out.
    pub fn admit(&self, now: Instant) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = |since: Instant| now.saturating_duration_since(since) >= Duration::from_secs(1);
        if state.since.is_none_or(is_new) {
            (state.since, state.lines) = (Some(now), 0);
        }
        if state.lines >= self.most {
            state.left_out += 1;
            state.total += 1;
            return None;
        }
        state.lines += 1;
        Some(std::mem::take(&mut state.left_out))
    }

    /// How many were left out since the last line that passed.
    pub fn take_left_out(&self) -> u64 {
        std::mem::take(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner).left_out)
    }

    /// How many were left out in all.
    pub fn total(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bounded_and_those_left_out_are_counted() {
        let (flood, now) = (Flood::new(3), Instant::now());
        let all: Vec<Option<u64>> = (0..5).map(|_| flood.admit(now)).collect();
        assert_eq!(all, [Some(0), Some(0), Some(0), None, None]);
        assert_eq!(flood.admit(now + Duration::from_millis(999)), None);
        assert_eq!(flood.admit(now + Duration::from_secs(1)), Some(3));
        assert_eq!(flood.admit(now + Duration::from_secs(1)), Some(0));
        assert_eq!((flood.take_left_out(), flood.total()), (0, 3));
    }
}
