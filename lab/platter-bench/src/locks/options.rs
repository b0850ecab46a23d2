//! Options of the measurement.

use super::Caller;
use std::time::Duration;

/// Options of the measurement.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// How the threads read.
    pub callers: Vec<Caller>,
    /// Numbers of threads, each 1 to 1024.
    pub threads: Vec<usize>,
    /// Bytes of a read.
    pub block: u64,
    /// Duration of each of the two measurements of a point in a round.
    pub runtime: Duration,
    /// Rounds through all points.
    pub repeat: u32,
}

platter_block::setters! {
    Options {
        callers, with_callers: Vec<Caller>;
        threads, with_threads: Vec<usize>;
        block, with_block: u64;
        runtime, with_runtime: Duration;
        repeat, with_repeat: u32;
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            callers: Caller::ALL.to_vec(),
            threads: vec![1, 4, 16, 64],
            block: 4096,
            runtime: Duration::from_millis(200),
            repeat: 3,
        }
    }
}
