//! The status of a cache, and its parameters that can be set while it is open.

use super::engine::Engine;
use super::opened::Opened;
use super::pages::PageTable;
use super::shared::Shared;
use super::tuning::Tuning;
use crate::readahead::PAGE;
use crate::sync::{Ordering, lock};
use platter_block::capability::Managed;
use platter_block::fault::Fault;
use platter_block::params::{Param, ParamError, Unit};
use platter_block::status::Item;
use platter_stack::kit::Host;

/// The state of a cache in numbers: of one shard, or the sum of all.
#[derive(Default)]
pub(super) struct Figures {
    shards: u64,
    pages: u64,
    most: u64,
    used: u64,
    surplus: u64,
    dirty: u64,
    writers: u64,
    waits: u64,
    waited: u64,
    writing: u64,
    written: u64,
    evictions: u64,
    write_errors: u64,
    turns: u64,
    idle_turns: u64,
    locks: u64,
    work: u64,
    longest: u64,
    squeezes: u64,
}

impl Figures {
    fn of(engine: &Engine, squeezes: u64) -> Figures {
        let (pages, totals) = (&engine.pages, &engine.totals);
        Figures {
            shards: 1,
            pages: pages.most().into(),
            most: pages.store.count().into(),
            used: pages.cached().into(),
            surplus: pages.surplus().into(),
            dirty: pages.dirty.count.into(),
            writers: pages.writers.count() as u64,
            waits: pages.writers.waits.count,
            waited: pages.writers.waits.nanos,
            writing: pages.dirty.writing.into(),
            written: totals.pages_written,
            evictions: pages.evictions,
            write_errors: totals.write_errors,
            turns: totals.turns,
            idle_turns: totals.idle_turns,
            locks: totals.locks,
            work: totals.work,
            longest: totals.longest.into(),
            squeezes,
        }
    }

    /// Adds those of another shard. A writer may write to several.
    pub(super) fn add(&mut self, other: &Figures) {
        self.shards += other.shards;
        self.pages += other.pages;
        self.most += other.most;
        self.used += other.used;
        self.surplus += other.surplus;
        self.dirty += other.dirty;
        self.writers = self.writers.max(other.writers);
        self.waits += other.waits;
        self.waited = self.waited.saturating_add(other.waited);
        self.writing += other.writing;
        self.written += other.written;
        self.evictions += other.evictions;
        self.write_errors += other.write_errors;
        self.turns += other.turns;
        self.idle_turns += other.idle_turns;
        self.locks += other.locks;
        self.work += other.work;
        self.longest = self.longest.max(other.longest);
        self.squeezes = self.squeezes.max(other.squeezes);
    }

    /// The status of a cache with these numbers, or with an engine that is broken.
    pub(super) fn status(figures: Result<Figures, Fault>, opened: Opened) -> Vec<Item> {
        let mut items = match figures {
            Ok(figures) => figures.items(),
            Err(fault) => Vec::from([Item::text("state", fault.to_string(), "why the cache cannot be used")]),
        };
        items.extend(opened.items());
        items
    }

    fn items(&self) -> Vec<Item> {
        let per_page = PageTable::overhead(self.most as usize).div_ceil(self.most.max(1) as usize) as u64;
        let count_of = |name, value: u64, help| Item::number(name, Unit::Count, value, help);
        let bytes_of = |name, value: u64, help| Item::number(name, Unit::Bytes, value, help);
        let mut items = Vec::from([
            count_of("cache shards", self.shards, "parts with a lock of their own"),
            count_of("cache pages", self.pages, "pages that the cache may have memory for"),
            count_of("cache pages at most", self.most, "pages that its size can be set to"),
            count_of("cache pages used", self.used, "pages of the device that are cached, or are being read"),
            count_of(
                "pages to give back",
                self.surplus,
                "pages behind a smaller size that are not empty yet",
            ),
            bytes_of("cache bytes per page", per_page, "memory for a page, apart from its data"),
            count_of("dirty pages", self.dirty, "pages that are not on the disk yet"),
            bytes_of("dirty bytes", self.dirty * PAGE, "bytes of these pages"),
            count_of(
                "writers",
                self.writers,
                "clients and handles with dirty pages, or that write, in the shard that has most of them",
            ),
            count_of("writer waits", self.waits, "times that a write has waited for fewer dirty pages"),
            Item::number("writer wait time", Unit::Nanos, self.waited, "time of these waits together"),
            count_of("pages being written", self.writing, "dirty pages in write-backs in flight"),
            count_of("pages written back", self.written, "since the cache was opened"),
            count_of("pages evicted", self.evictions, "since the cache was opened"),
            count_of("write-back errors", self.write_errors, "since the cache was opened"),
            count_of("cache turns", self.turns, "times that tasks of lanes were run"),
            count_of(
                "cache turns without progress",
                self.idle_turns,
                "of these, times that nothing could be done",
            ),
            count_of("cache locks", self.locks, "times that a lock was taken, except to ask for this"),
            count_of("pages handled", self.work, "work done under the lock, in pages"),
            count_of("most pages handled in one turn", self.longest, "longest hold of the lock, in pages"),
        ]);
        let help = "times that memory pressure has made it smaller";
        items.push(count_of("cache squeezed", self.squeezes, help));
        items
    }
}

impl Shared {
    /// Its state in numbers.
    ///
    /// # Errors
    /// The engine is broken.
    pub(super) fn figures(&self) -> Result<Figures, Fault> {
        let mut engine = self.engine()?;
        // Asking is not counted.
        engine.totals.locks -= 1;
        Ok(Figures::of(&engine, self.squeezes.load(Ordering::Relaxed)))
    }
}

impl Managed for Shared {
    fn status(&self) -> Vec<Item> {
        let opened = lock(&self.tuning).opened();
        Figures::status(self.figures(), opened)
    }

    fn params(&self) -> Vec<(Param, i64)> {
        lock(&self.tuning).params()
    }

    fn set_param(&self, name: &str, value: i64) -> Result<(), ParamError> {
        let mut wrong = None;
        let set = |old: &Tuning| {
            let mut new = *old;
            new.set(name, value).map_err(|error| wrong.insert(error).to_string())?;
            Ok(new)
        };
        let tuned = self.tune(set);
        tuned.map_err(|why| wrong.unwrap_or_else(|| ParamError(format!("cache: {name}={value}: {why}"))))
    }
}
