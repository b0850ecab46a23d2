//! Tables as the profiling tools of the time showed them.

use super::readers::{Found, STAGES};
use platter_bench::report::units::fixed;
use platter_bench::report::{Column, Table};
use platter_block::time::Span;

/// Shares of the processors' time by stage, as a profile of the kernel has them by function.
///
/// Stages that no row has are left out.
pub(crate) fn profile<'a>(rows: impl Iterator<Item = (String, &'a Found)>) -> Table {
    let rows: Vec<_> = rows.collect();
    let is_used = |stage: &usize| rows.iter().any(|(_, found)| found.usage.stages[*stage] != Span::ZERO);
    let stages: Vec<usize> = (0..STAGES.len()).filter(is_used).collect();
    let names = stages.iter().map(|&stage| STAGES[stage]).chain(["spin", "retry", "idle"]);
    let columns = std::iter::once(Column::text("kernel")).chain(names.map(|name| Column::number(name, "")));
    let mut table = Table::new(columns.collect::<Vec<_>>());
    for (name, found) in &rows {
        let usage = &found.usage;
        let parts = stages.iter().map(|&stage| usage.stages[stage]);
        let all = parts.chain([usage.spin, usage.retry, usage.idle]);
        table.row(
            std::iter::once(name.clone())
                .chain(all.map(|part| fixed(usage.percent(part), 1)))
                .collect::<Vec<_>>(),
        );
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
