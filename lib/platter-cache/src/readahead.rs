//! Readahead: which pages a page cache reads before a program requests them.
//!
//! A policy is a pure state machine, one for each open handle. The cache reports the steps of each read call to it,
//! and the policy has windows of pages read through [`Pages`]. It holds no page and never waits, so the same code
//! serves a cache over a disk and the simulator.
//!
//! A cache takes a read call through these steps:
//!
//! 1. [`begin`](Readahead::begin), once. For a policy without [`every_page`](Readahead::every_page) the cache may delay
//!    `begin` until the first page of the call that is missing or marked, and omit it if there is none.
//! 2. For each page of the call, in order: [`page`](Readahead::page) (only with `every_page`), then a lookup in the
//!    cache. If the page is cached or being read: [`found`](Readahead::found) (without `every_page` only if the page
//!    carries the marker, which the cache removes). If not: [`missing`](Readahead::missing); if the page is still not
//!    there afterwards, the cache reads it alone. Then the call waits until the page is cached.
//!    A page that `missing` had read and that carries the marker is treated as any other marked page.
//! 3. [`end`](Readahead::end), if there was a `begin` and the policy wants it ([`ends`](Readahead::ends)).
//!
//! Calls on one handle may overlap, unless the policy is [`exclusive`](Readahead::exclusive): the policy sees one
//! step at a time, but steps of other calls may come in between. A policy with neither `every_page` nor `exclusive` is
//! called without the locks of the cache: what [`Pages`] says may just have changed, its windows are read when it
//! has returned, and `begin` is not called.
//!
//! # Readahead
//!
//! `readahead.rs` is the interface between a page cache and a policy. A `Readahead` is the state of one handle: the
//! cache reports a `Call` and its pages (`Readahead::begin`, `page`, `missing`, `found`, `Readahead::end`), and the
//! policy requests a `Window` through `Pages`, which is the cache. There is a file for each family:
//! `readahead/simple.rs` (2.6.11), `readahead/ondemand.rs` (2.6.23, 2.6.31) and `readahead/platter.rs` with its table
//! of streams. Those of older kernels, `policies/linux24.rs` and `policies/linux26.rs` (2.6.0 to 2.6.7, distinguished
//! by `linux26::Rules`), stand in `platter-repro` and are registered (`readahead::register_table`).
//! `platter_bench::readahead` is a model of a cache and of threads that take turns; `platter readahead` shows it, and
//! its tests check the known behaviour of the kernels' policies and the cost of ours (docs/readahead.md).
//!
//! **Invariant:** a policy without `Readahead::every_page` is called for a cached page only if that has its marker.
//! Unless it takes one call at a time, no lock of the cache is held meanwhile: the lane asks it (`Plan`,
//! `platter-cache/src/plan.rs`), before its turn if the first page is missing, and the turn begins to read the windows
//! that it asks for.

use platter_block::params::Param;

mod common;
mod none;
pub mod ondemand;
mod platter;
mod registered;
mod settings;
mod simple;
#[cfg(test)]
mod tests;
mod windows;

pub use common::Common;
pub use none::Exact;
pub use ondemand::OnDemand;
pub use platter::Streams;
pub use platter_block::hint::{Hint, ReadaheadCounters as Counters};
pub use platter_block::resident::PAGE;
pub use registered::{RegisterError, all, by_name, register, register_table};
pub use settings::Settings;
pub use simple::Simple;
pub use windows::Windows;

/// What a read call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// First page.
    pub first: u64,
    /// Number of pages that it touches.
    pub pages: u32,
    /// Offset of its start in the first page, in bytes.
    pub offset: u32,
    /// Length in bytes.
    pub len: u64,
}

impl Access {
    /// A read of `len` bytes at byte `pos`. The number of pages saturates at `u32::MAX`.
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

    /// Number of pages from `page` to the end; 0 past the end.
    pub const fn rest(&self, page: u64) -> u32 {
        let rest = self.end().saturating_sub(page);
        if rest > self.pages as u64 { self.pages } else { rest as u32 }
    }
}

/// The state of a read call while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The range that it reads.
    pub access: Access,
    /// A copy of the handle's windows, for policies that keep one per call.
    pub windows: Windows,
    /// State of the policy for this call; 0 at first.
    pub note: u64,
}

impl Call {
    /// The state of a call that begins.
    pub const fn new(access: Access) -> Call {
        Call { access, windows: Windows::NEW, note: 0 }
    }
}

/// A window of pages to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// First page.
    pub first: u64,
    /// Number of pages; at least 1.
    pub count: u32,
    /// The page that gets the marker if it is newly read. Inside the window.
    pub mark: Option<u64>,
    /// Whether the call waits for the first page of the window.
    pub sync: bool,
}

/// What became of the pages that were read ahead for a handle. The counts only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// Pages that were read ahead.
    pub read: u64,
    /// Those of them that a read then took.
    pub used: u64,
    /// Those of them that were evicted before any read took them.
    pub unused: u64,
}

/// The policy's view of the cache, through which it has pages read.
pub trait Pages {
    /// Whether a page is cached or being read.
    fn is_cached(&self, page: u64) -> bool;

    /// Number of pages of the device.
    fn end(&self) -> u64;

    /// Whether the device is so busy (7/8 of its requests are in flight) that readahead should hold off.
    fn is_congested(&self) -> bool;

    /// How many pages just before `page` are cached without a gap, counted up to `most`.
    fn cached_before(&self, page: u64, most: u32) -> u32 {
        let most = u64::from(most).min(page);
        (1..=most).take_while(|back| self.is_cached(page - back)).count() as u32
    }

    /// The first page that is not cached among the `most` pages from `from` on.
    fn first_missing(&self, from: u64, most: u32) -> Option<u64> {
        let end = from.saturating_add(u64::from(most)).min(self.end());
        (from..end).find(|&page| !self.is_cached(page))
    }

    /// What became of the pages that were read ahead for the handle so far; zeros where that is not known.
    fn fate(&self) -> Fate {
        Fate::default()
    }

    /// Has the pages of a window read that are not cached and lie on the device; returns how many these are.
    fn read(&mut self, window: Window) -> u32;
}

/// The readahead state of one handle.
pub trait Readahead: Send {
    /// Whether [`page`](Self::page) and [`found`](Self::found) must be called for every page. If not, only for
    /// missing and marked pages, and cached pages cost nothing.
    fn every_page(&self) -> bool;

    /// Whether only one read call of the handle may run at a time.
    fn exclusive(&self) -> bool {
        false
    }

    /// Whether [`end`](Self::end) must be called. If not, a call costs one lock less.
    fn ends(&self) -> bool {
        true
    }

    /// A call begins. Only for policies with [`every_page`](Self::every_page) or [`exclusive`](Self::exclusive).
    fn begin(&mut self, call: &mut Call, pages: &mut dyn Pages) {
        let _ = (call, pages);
    }

    /// A call is about to look up a page.
    fn page(&mut self, call: &mut Call, page: u64, pages: &mut dyn Pages) {
        let _ = (call, page, pages);
    }

    /// A call has found a page: cached or (`busy`) being read, with or without the marker.
    fn found(&mut self, call: &mut Call, page: u64, busy: bool, marked: bool, pages: &mut dyn Pages) {
        let _ = (call, page, busy, marked, pages);
    }

    /// A call has not found a page.
    fn missing(&mut self, call: &mut Call, page: u64, pages: &mut dyn Pages);

    /// A call has ended.
    fn end(&mut self, call: &mut Call) {
        let _ = call;
    }

    /// The program has given a hint. The cache handles the hints that are about ranges.
    fn advise(&mut self, hint: Hint);

    /// The counts so far.
    fn counters(&self) -> Counters;

    /// The last window read: first page and number of pages.
    fn window(&self) -> Option<(u64, u32)>;
}

/// A row of the table of readahead policies.
#[derive(Clone, Copy)]
pub struct ReadaheadType {
    /// Name in device specs (`readahead=NAME`).
    pub name: &'static str,
    /// Summary of one line.
    pub summary: &'static str,
    /// Source of its rules.
    pub source: &'static str,
    /// Parameters.
    pub params: &'static [Param],
    /// Makes the state of a new handle.
    pub make: fn(&Settings) -> Box<dyn Readahead>,
}

/// The readahead policies of this crate. The last one is the default of a cache.
pub static TABLE: &[ReadaheadType] =
    &[none::TYPE, simple::TYPE, ondemand::ONDEMAND, ondemand::CONTEXT, platter::TYPE];
