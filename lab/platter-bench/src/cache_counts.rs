//! What the page caches of devices counted during a measurement, as all benchmarks report it.

use crate::report::units::thousands;
use platter_block::handle::HandleCounters;
use platter_cache::readahead::Counters;
use platter_disk::device::Device;
use serde_json::{Value, json};

/// The counts of the topmost caches of the devices since they were opened; `None` without a cache.
pub(crate) fn of_all<'a>(devices: impl IntoIterator<Item = &'a Device>) -> Option<HandleCounters> {
    let mut all = None::<HandleCounters>;
    for counters in devices.into_iter().filter_map(Device::cache_counters) {
        all.get_or_insert_default().merge(&counters);
    }
    all
}

/// The counts since `before`.
pub(crate) fn since(now: &HandleCounters, before: &HandleCounters) -> HandleCounters {
    let (read, had) = (&now.readahead, &before.readahead);
    HandleCounters {
        readahead: Counters {
            closed_by_miss: read.closed_by_miss - had.closed_by_miss,
            closed_by_hit: read.closed_by_hit - had.closed_by_hit,
            shrunk: read.shrunk - had.shrunk,
            contiguous: read.contiguous - had.contiguous,
            random: read.random - had.random,
            windows: read.windows - had.windows,
            lookups: read.lookups - had.lookups,
        },
        hits: now.hits - before.hits,
        misses: now.misses - before.misses,
        pages_read_ahead: now.pages_read_ahead - before.pages_read_ahead,
        pages_used: now.pages_used - before.pages_used,
        pages_evicted_unused: now.pages_evicted_unused - before.pages_evicted_unused,
        reads: std::array::from_fn(|class| now.reads[class] - before.reads[class]),
    }
}

/// The counts as an object. Its keys are listed in `docs/fileio.md`.
pub(crate) fn to_json(cache: &HandleCounters) -> Value {
    // Up to the last class in which there is something.
    let classes = cache.reads.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
    json!({
        "hits": cache.hits,
        "misses": cache.misses,
        "pages_read_ahead": cache.pages_read_ahead,
        "pages_used": cache.pages_used,
        "pages_evicted_unused": cache.pages_evicted_unused,
        "reads_by_size": cache.reads[..classes],
        "readahead": readahead(&cache.readahead),
    })
}

/// What a policy counted, as an object.
pub(crate) fn readahead(counters: &Counters) -> Value {
    json!({
        "closed_by_miss": counters.closed_by_miss,
        "closed_by_hit": counters.closed_by_hit,
        "shrunk": counters.shrunk,
        "contiguous": counters.contiguous,
        "random": counters.random,
        "windows": counters.windows,
        "lookups": counters.lookups,
    })
}

/// The counts in a line for people.
pub(crate) fn line(cache: &HandleCounters) -> String {
    format!(
        "{} pages hit, {} missed, {} read ahead, {} of them used; readahead closed {} times by misses, {} by hits",
        thousands(cache.hits),
        thousands(cache.misses),
        thousands(cache.pages_read_ahead),
        thousands(cache.pages_used),
        thousands(cache.readahead.closed_by_miss),
        thousands(cache.readahead.closed_by_hit),
    )
}
