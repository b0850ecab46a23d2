//! The windows of Linux 2.6.

/// State of a handle in Linux 2.6.0 to 2.6.22 (`struct file_ra_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// First page of the current window.
    pub start: u64,
    /// Pages of the current window; [`OFF`](Self::OFF) in 2.6.11 and later while readahead is off.
    pub size: u32,
    /// Pages of the next window: 0 before the first read, [`OFF`](Self::OFF) while readahead is off (to 2.6.10).
    pub next_size: u32,
    /// The last page looked up.
    pub prev_page: u64,
    /// First page of the window being read ahead; 0 if there is none.
    pub ahead_start: u64,
    /// Pages of that window.
    pub ahead_size: u32,
    /// Pages of the run so far (2.6.5 and later).
    pub serial_cnt: u32,
    /// Average length of such runs.
    pub average: u32,
    /// Pages in a row that were cached (2.6.11).
    pub cache_hit: u32,
    /// A page was evicted before it was used (2.6.11).
    pub missed: bool,
    /// Everything was cached for a long time (2.6.11).
    pub in_cache: bool,
}

impl Windows {
    /// The size of a window while readahead is off.
    pub const OFF: u32 = u32::MAX;

    /// The windows of a new handle.
    pub const NEW: Windows = Windows {
        start: 0,
        size: 0,
        next_size: 0,
        prev_page: 0,
        ahead_start: 0,
        ahead_size: 0,
        serial_cnt: 0,
        average: 0,
        cache_hit: 0,
        missed: false,
        in_cache: false,
    };
}

impl Default for Windows {
    fn default() -> Windows {
        Windows::NEW
    }
}
