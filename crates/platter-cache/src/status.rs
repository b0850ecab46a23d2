//! The status of a cache, and its parameters that can be set while it is open.

use super::engine::Engine;
use super::pages::PageTable;
use super::shared::Shared;
use crate::readahead::PAGE;
use crate::sync::lock;
use platter_block::capability::Managed;
use platter_block::params::{Param, ParamError, Unit};
use platter_block::status::Item;
use platter_stack::kit::{Host, Turns};

impl Managed for Shared {
    fn status(&self) -> Vec<Item> {
        match self.engine() {
            Ok(engine) => items(&engine),
            Err(fault) => Vec::from([Item::text("state", fault.to_string(), "why the cache cannot be used")]),
        }
    }

    fn params(&self) -> Vec<(Param, i64)> {
        lock(&self.tuning).params()
    }

    fn set_param(&self, name: &str, value: i64) -> Result<(), ParamError> {
        let mut tuning = lock(&self.tuning);
        let mut engine =
            self.engine().map_err(|fault| ParamError(format!("the cache cannot be used: {fault}")))?;
        let (now, pages) = (self.below.now(), engine.pages.store.count());
        let (mut rules, mut congestion) = (engine.pages.dirty.rules, engine.congestion);
        tuning.set((name, value), pages, &mut rules, &mut congestion)?;
        engine.enter();
        engine.congestion = congestion;
        engine.pages.dirty.rules = rules;
        engine.pages.dirty.next_look = engine.pages.dirty.next_look.min(now + rules.interval);
        // Writers that wait may continue, or pages have become due.
        self.leave(now, &mut engine);
        Ok(())
    }
}

fn items(engine: &Engine) -> Vec<Item> {
    let (pages, totals) = (&engine.pages, &engine.totals);
    let count = pages.store.count();
    let per_page = PageTable::overhead(count as usize).div_ceil(count as usize) as u64;
    let dirty = u64::from(pages.dirty.count);
    let count_of = |name, value: u64, help| Item::number(name, Unit::Count, value, help);
    let bytes_of = |name, value: u64, help| Item::number(name, Unit::Bytes, value, help);
    let mut items = Vec::from([
        count_of("cache pages", count.into(), "pages that the cache has memory for"),
        bytes_of("cache bytes per page", per_page, "memory for a page, apart from its data"),
        count_of("dirty pages", dirty, "pages that are not on the disk yet"),
        bytes_of("dirty bytes", dirty * PAGE, "bytes of these pages"),
        count_of("pages being written", pages.dirty.writing.into(), "dirty pages in write-backs in flight"),
        count_of("pages written back", totals.pages_written, "since the cache was opened"),
        count_of("pages evicted", pages.evictions, "since the cache was opened"),
        count_of("write-back errors", totals.write_errors, "since the cache was opened"),
        count_of("cache turns", totals.turns, "times that tasks of lanes were run"),
        count_of("cache turns without progress", totals.vain, "of these, times that nothing could be done"),
        count_of("cache locks", totals.locks, "times that the lock was taken, for whatever reason"),
        count_of("pages handled", totals.work, "work done under the lock, in pages"),
        count_of(
            "most pages handled in one turn",
            totals.longest.into(),
            "longest hold of the lock, in pages",
        ),
    ]);
    if engine.frames_away > 0 {
        let away = engine.frames_away.into();
        items.push(count_of("pages with the driver", away, "pages whose I/O timed out and has not returned"));
    }
    items
}
