//! The simulated machine, and its I/Os.

use platter_block::hint::Hint;

/// The simulated machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Pages of the device.
    pub pages: u64,
    /// Most pages of the cache; `None`: all that are read stay.
    pub cache: Option<usize>,
    /// Pages that are in the cache at the beginning.
    pub cached: Vec<u64>,
    /// Rounds of turns that an I/O takes, at least 1.
    pub latency: u64,
    /// I/Os that the device accepts at once; it is congested with more than 7/8 of them in flight.
    pub requests: usize,
    /// The hint that the program has given for each handle.
    pub hint: Hint,
}

impl Default for Machine {
    /// 16 GiB, everything stays, I/Os take one round, 128 requests.
    fn default() -> Machine {
        Machine {
            pages: 1 << 22,
            cache: None,
            cached: Vec::new(),
            latency: 1,
            requests: 128,
            hint: Hint::Normal,
        }
    }
}

/// An I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Io {
    /// First page.
    pub page: u64,
    /// Pages.
    pub pages: u32,
    /// Whether a read waited for it from the start.
    pub sync: bool,
    /// In which round of turns it was started, from 0 on.
    pub round: u64,
}
