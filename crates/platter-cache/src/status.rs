//! The status of a cache, and its parameters that can be set while it is open.

use super::engine::Engine;
use super::pages::PageTable;
use super::shared::Shared;
use crate::readahead::PAGE;
use crate::sync::{Ordering, lock};
use platter_block::capability::Managed;
use platter_block::params::{Param, ParamError, Unit};
use platter_block::status::Item;
use platter_stack::kit::Host;

impl Managed for Shared {
    fn status(&self) -> Vec<Item> {
        match self.engine() {
            Ok(mut engine) => {
                // Asking is not counted.
                engine.totals.locks -= 1;
                let mut items = items(&engine);
                let squeezes = self.squeezes.load(Ordering::Relaxed);
                let help = "times that memory pressure has made it smaller";
                items.push(Item::number("cache squeezed", Unit::Count, squeezes, help));
                items
            }
            Err(fault) => Vec::from([Item::text("state", fault.to_string(), "why the cache cannot be used")]),
        }
    }

    fn params(&self) -> Vec<(Param, i64)> {
        lock(&self.tuning).params()
    }

    fn set_param(&self, name: &str, value: i64) -> Result<(), ParamError> {
        let mut tuning = lock(&self.tuning);
        let mut new = *tuning;
        new.set(name, value)?;
        self.populate(&new).map_err(|why| ParamError(format!("cache: {name}={value}: {why}")))?;
        self.apply(&new).map_err(|fault| ParamError(format!("the cache cannot be used: {fault}")))?;
        *tuning = new;
        Ok(())
    }
}

fn items(engine: &Engine) -> Vec<Item> {
    let (pages, totals) = (&engine.pages, &engine.totals);
    let most = pages.store.count();
    let per_page = PageTable::overhead(most as usize).div_ceil(most as usize) as u64;
    let dirty = u64::from(pages.dirty.count);
    let count_of = |name, value: u64, help| Item::number(name, Unit::Count, value, help);
    let bytes_of = |name, value: u64, help| Item::number(name, Unit::Bytes, value, help);
    let mut items = Vec::from([
        count_of("cache pages", pages.most().into(), "pages that the cache may have memory for"),
        count_of("cache pages at most", most.into(), "pages that its size can be set to"),
        count_of(
            "pages to give back",
            pages.surplus().into(),
            "pages behind a smaller size that are not empty yet",
        ),
        bytes_of("cache bytes per page", per_page, "memory for a page, apart from its data"),
        count_of("dirty pages", dirty, "pages that are not on the disk yet"),
        bytes_of("dirty bytes", dirty * PAGE, "bytes of these pages"),
        count_of(
            "writers",
            pages.writers.count() as u64,
            "clients and handles with dirty pages, or that write",
        ),
        count_of("pages being written", pages.dirty.writing.into(), "dirty pages in write-backs in flight"),
        count_of("pages written back", totals.pages_written, "since the cache was opened"),
        count_of("pages evicted", pages.evictions, "since the cache was opened"),
        count_of("write-back errors", totals.write_errors, "since the cache was opened"),
        count_of("cache turns", totals.turns, "times that tasks of lanes were run"),
        count_of("cache turns without progress", totals.vain, "of these, times that nothing could be done"),
        count_of("cache locks", totals.locks, "times that the lock was taken, except to ask for this"),
        count_of("pages copied under the lock", totals.copied_inside, "parts of pages of small writes"),
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
