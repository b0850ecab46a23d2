//! Tables as the profiling tools of the time showed them.

use super::readers::{Found, STAGES};
use platter_bench::report::units::fixed;
use platter_bench::report::{Column, Table};
use platter_block::time::Span;

/// Shares of the processors' time by stage, as a profile of the kernel has them by function.
pub(crate) fn profile<'a>(rows: impl Iterator<Item = (String, &'a Found)>) -> Table {
    let rows: Vec<(String, Vec<f64>)> = rows
        .map(|(name, found)| {
            let usage = &found.usage;
            let all = usage.stages.iter().chain([&usage.spin, &usage.retry, &usage.idle]);
            (name, all.map(|part| usage.percent(*part)).collect())
        })
        .collect();
    let stages = STAGES.iter().chain(&["spin", "retry", "idle"]).enumerate();
    let used: Vec<(usize, &str)> = stages
        .filter(|(at, _)| rows.iter().any(|(_, parts)| parts[*at] > 0.0))
        .map(|(at, name)| (at, *name))
        .collect();
    let shares = used.iter().map(|(_, name)| Column::number(*name, ""));
    let mut table = Table::new(std::iter::once(Column::text("kernel")).chain(shares).collect::<Vec<_>>());
    for (name, parts) in rows {
        let shares = used.iter().map(|(at, _)| fixed(parts[*at], 1));
        table.row(std::iter::once(name).chain(shares).collect::<Vec<_>>());
    }
    table
}

/// Use of the lock of all queues, as Lockmeter shows it.
pub(crate) fn lock<'a>(rows: impl Iterator<Item = (String, &'a Found)>) -> Table {
    let mut table = Table::new([
        Column::text("kernel"),
        Column::number("acquisitions", "per read"),
        Column::number("contended", "%"),
        Column::number("hold", "us"),
        Column::number("wait", "us"),
        Column::number("spin", "% CPU"),
    ]);
    for (name, found) in rows {
        let (lock, usage) = (&found.lock, &found.usage);
        let mean = |span: Span, count: u64| fixed(span.0 as f64 / 1e3 / count.max(1) as f64, 2);
        table.row([
            name,
            fixed(lock.acquisitions as f64 / found.reads as f64, 1),
            fixed(100.0 * lock.contended as f64 / lock.acquisitions.max(1) as f64, 1),
            mean(lock.held, lock.acquisitions),
            mean(lock.spun, lock.contended),
            fixed(usage.percent(lock.spun), 1),
        ]);
    }
    table
}
