//! Readahead: which pages a page cache has read before anybody asks for them.
//!
//! A policy is a pure state machine, one for each open handle. The cache tells it what a read call comes across,
//! and it answers by having windows of pages read through [`Pages`]. It holds no page and waits for nothing, so the
//! same code serves a cache over a disk and the simulator.
//!
//! A cache takes a read call through these steps:
//!
//! 1. [`begin`](Readahead::begin), once. A policy that does not want [`every_page`](Readahead::every_page) needs to
//!    hear of a call no sooner than at its first page that is missing or marked, and need not hear of others at all.
//! 2. For each page of the call, in order: [`page`](Readahead::page) (only with `every_page`), then the look into the
//!    cache. A page that is there or being read: [`found`](Readahead::found) (without `every_page` only if it carries
//!    the marker, which is taken off). One that is not: [`missing`](Readahead::missing); if it is still not there
//!    afterwards the cache reads it alone. Then the call waits until the page is there.
//!    A page that `missing` had read and that carries the marker is a marked page like any other.
//! 3. [`end`](Readahead::end), if there was a `begin`.
//!
//! Calls on one handle may overlap, unless the policy is [`exclusive`](Readahead::exclusive): each step is told to
//! the policy alone, but steps of other calls may come between.

use crate::params::Param;
use alloc::boxed::Box;

mod common;
mod linux24;
pub mod linux26;
mod none;
pub mod ondemand;
mod platter;
mod settings;
mod simple;
#[cfg(test)]
mod tests;
mod windows;

pub use linux24::Linux24;
pub use linux26::Linux26;
pub use none::Exact;
pub use ondemand::OnDemand;
pub use platter::Streams;
pub use settings::Settings;
pub use simple::Simple;
pub use windows::Windows;

/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// What a read call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// First page.
    pub first: u64,
    /// Pages that it touches.
    pub pages: u32,
    /// Where in the first page it begins, in bytes.
    pub offset: u32,
    /// Length in bytes.
    pub len: u64,
}

impl Access {
    /// A read of `len` bytes at byte `pos`. More pages than a `u32` counts are that many.
    pub const fn new(pos: u64, len: u64) -> Access {
        let offset = pos % PAGE;
        let pages = offset.saturating_add(len).div_ceil(PAGE);
        let pages = if pages > u32::MAX as u64 { u32::MAX } else { pages as u32 };
        Access { first: pos / PAGE, pages: if len == 0 { 0 } else { pages }, offset: offset as u32, len }
    }

    /// The page after the last.
    pub const fn end(&self) -> u64 {
        self.first.saturating_add(self.pages as u64)
    }

    /// Pages from `page` to the end; 0 past it.
    pub const fn rest(&self, page: u64) -> u32 {
        let rest = self.end().saturating_sub(page);
        if rest > self.pages as u64 { self.pages } else { rest as u32 }
    }
}

/// A read call, for as long as it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// What it asks for.
    pub access: Access,
    /// The copy of the handle's windows, of policies that keep one for each call.
    pub windows: Windows,
    /// What else a policy remembers of the call; 0 at first.
    pub note: u64,
}

impl Call {
    /// A call that begins.
    pub const fn new(access: Access) -> Call {
        Call { access, windows: Windows::NEW, note: 0 }
    }
}

/// Pages to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// First page.
    pub first: u64,
    /// How many; at least 1.
    pub count: u32,
    /// The page that gets the marker, if it is newly read. Inside the window.
    pub mark: Option<u64>,
    /// Whether the call waits for the first of them.
    pub sync: bool,
}

/// What a policy may ask of the cache, and how it has pages read.
pub trait Pages {
    /// Whether a page is there or being read.
    fn is_cached(&self, page: u64) -> bool;

    /// Pages of the device.
    fn end(&self) -> u64;

    /// Whether the device has so much to do (7/8 of its requests are in flight) that reading ahead should wait.
    fn is_congested(&self) -> bool;

    /// How many pages just before `page` are cached without a gap, counted up to `most`.
    fn cached_before(&self, page: u64, most: u32) -> u32;

    /// The first page not cached among the `most` from `from` on.
    fn first_missing(&self, from: u64, most: u32) -> Option<u64>;

    /// Starts to read those pages of a window that are not cached and lie on the device, and says how many.
    fn read(&mut self, window: Window) -> u32;
}

/// What a program says about its reads to come (`posix_fadvise`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Hint {
    /// Nothing.
    #[default]
    Normal,
    /// They are in sequence: windows twice as large.
    Sequential,
    /// They are anywhere: nothing is read but what is asked for.
    Random,
    /// They need this range soon: it is read now.
    WillNeed,
    /// They do not need this range any more: it may go.
    DontNeed,
    /// They need each byte once.
    NoReuse,
}

/// What a policy counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Times that readahead was switched off because accesses were not in sequence.
    pub closed_by_miss: u64,
    /// Times that readahead was switched off because pages were cached.
    pub closed_by_hit: u64,
    /// Times that a window became smaller because its pages were cached.
    pub shrunk: u64,
    /// Accesses that continued others.
    pub contiguous: u64,
    /// Accesses that did not.
    pub random: u64,
    /// Windows that were read.
    pub windows: u64,
    /// Times that the policy was called and had to look at its state or at the cache.
    pub lookups: u64,
}

/// The readahead of one handle.
pub trait Readahead: Send {
    /// Whether [`page`](Self::page) and [`found`](Self::found) are wanted for every page. If not, only for missing
    /// and marked ones: what is cached costs nothing.
    fn every_page(&self) -> bool;

    /// Whether only one read call of the handle may run at a time.
    fn exclusive(&self) -> bool {
        false
    }

    /// A call begins.
    fn begin(&mut self, call: &mut Call, pages: &mut dyn Pages) {
        let _ = (call, pages);
    }

    /// A call is about to look for a page.
    fn page(&mut self, call: &mut Call, page: u64, pages: &mut dyn Pages) {
        let _ = (call, page, pages);
    }

    /// A call has found a page: there, or (`busy`) being read, and with the marker or without.
    fn found(&mut self, call: &mut Call, page: u64, busy: bool, marked: bool, pages: &mut dyn Pages) {
        let _ = (call, page, busy, marked, pages);
    }

    /// A call has not found a page.
    fn missing(&mut self, call: &mut Call, page: u64, pages: &mut dyn Pages);

    /// A call is over.
    fn end(&mut self, call: &mut Call) {
        let _ = call;
    }

    /// The program has said something. Ranges are the cache's affair.
    fn advise(&mut self, hint: Hint);

    /// What was counted so far.
    fn counters(&self) -> Counters;

    /// The window that was read last: first page and number of pages.
    fn window(&self) -> Option<(u64, u32)>;
}

/// A row of the table of readahead policies.
#[derive(Clone, Copy)]
pub struct Row {
    /// Name in device specs (`readahead=NAME`).
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Where its rules are from.
    pub source: &'static str,
    /// Parameters.
    pub params: &'static [Param],
    /// Makes the state of a new handle.
    pub make: fn(&Settings) -> Box<dyn Readahead>,
}

/// Every readahead policy.
pub static TABLE: &[Row] = &[
    none::ROW,
    linux24::ROW,
    linux26::L0,
    linux26::L1,
    linux26::L2,
    linux26::L5,
    linux26::PRIVATE,
    linux26::SIZE,
    linux26::LOCK,
    linux26::L7,
    simple::ROW,
    ondemand::ONDEMAND,
    ondemand::CONTEXT,
    platter::ROW,
];

/// Looks a policy up by name.
pub fn by_name(name: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.name == name)
}
