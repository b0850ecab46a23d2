//! The sum of a trace as tables and facts.

use platter_bench::report::units::{bytes, duration, fixed, percent, rate, thousands, throughput};
use platter_bench::report::{Column, Table, Terminal};
use platter_traces::{KINDS, STAGES, Spread, Summary};

/// The whole report as text.
pub(super) fn text(summary: &Summary, terminal: Terminal) -> String {
    let mut out = terminal.paragraph(&headline(summary), 2);
    for table in [stages(summary), kinds(summary), sizes(summary), spreads(summary), misses(summary)]
        .into_iter()
        .flatten()
    {
        out.push('\n');
        out += &table.to_text(terminal);
    }
    out.push('\n');
    for (name, fact) in facts(summary) {
        out += &terminal.fact(name, &fact);
    }
    out
}

/// What the trace is, in a sentence.
pub(super) fn headline(summary: &Summary) -> String {
    format!(
        "{} I/Os (counted at {}) on {} device{} in {}, {} events",
        thousands(summary.ios()),
        summary.basis.letters(),
        thousands(summary.devices),
        if summary.devices == 1 { "" } else { "s" },
        duration(summary.duration_ns),
        thousands(summary.events)
    )
}

fn cells(spread: Option<&Spread>, show: impl Fn(u64) -> String) -> Vec<String> {
    let Some(s) = spread else { return vec!["-".to_owned(); 6] };
    let mean = show(s.mean.round() as u64);
    vec![thousands(s.n), show(s.min), mean, show(s.p50), show(s.p99), show(s.max)]
}

fn spread_table(title: &str) -> Table {
    let names = ["n", "min", "mean", "p50", "p99", "max"].map(|name| Column::number(name, ""));
    Table::new([Column::text(title)].into_iter().chain(names).chain([Column::text("")]))
}

/// The stages that the trace has.
pub(super) fn stages(summary: &Summary) -> Option<Table> {
    let mut table = spread_table("stage");
    for ((name, words), spread) in STAGES.iter().zip(&summary.stages).filter(|(_, spread)| spread.is_some()) {
        let row = [name.to_uppercase()].into_iter().chain(cells(spread.as_ref(), duration));
        table.row(row.chain([(*words).to_owned()]));
    }
    summary.stages.iter().any(Option::is_some).then_some(table)
}

/// Counts and bytes by kind.
pub(super) fn kinds(summary: &Summary) -> Option<Table> {
    let seconds = summary.duration_ns as f64 / 1e9;
    let mut table = Table::new([
        Column::text("kind"),
        Column::number("I/Os", ""),
        Column::number("share", ""),
        Column::number("bytes", ""),
        Column::number("rate", ""),
        Column::number("throughput", ""),
    ]);
    for (at, ((_, words), counted)) in KINDS.iter().zip(&summary.kinds).enumerate() {
        if at == 5 {
            table.rule();
        }
        if counted.ios == 0 {
            continue;
        }
        let per_second = |value: f64| if seconds > 0.0 { value / seconds } else { f64::NAN };
        table.row([
            (*words).to_owned(),
            thousands(counted.ios),
            percent(100.0 * counted.ios as f64 / summary.ios().max(1) as f64),
            bytes(counted.bytes),
            rate(per_second(counted.ios as f64)),
            throughput(per_second(counted.bytes as f64 / f64::from(1 << 20))),
        ]);
    }
    (summary.ios() > 0).then_some(table)
}

/// I/Os by size.
pub(super) fn sizes(summary: &Summary) -> Option<Table> {
    let columns = ["reads", "writes", "discards"].map(|name| Column::number(name, ""));
    let mut table = Table::new([Column::text("size from")].into_iter().chain(columns));
    for row in &summary.sizes {
        table.row([bytes(row.from_bytes)].into_iter().chain(row.ios.map(thousands)));
    }
    (!summary.sizes.is_empty()).then_some(table)
}

/// Lengths, seeks and runs.
pub(super) fn spreads(summary: &Summary) -> Option<Table> {
    let mut table = spread_table("bytes, I/Os");
    let rows = [
        ("length of reads", &summary.lengths[0], ""),
        ("length of writes", &summary.lengths[1], ""),
        ("length of discards", &summary.lengths[2], ""),
        ("distance of seeks", &summary.seeks.distance, "from the end of the I/O before it on the device"),
        ("bytes of a run", &summary.seeks.run_bytes, "of one direction, each behind the other"),
    ];
    for (name, spread, words) in rows.into_iter().filter(|row| row.1.is_some()) {
        table.row(
            [name.to_owned()].into_iter().chain(cells(spread.as_ref(), bytes)).chain([words.to_owned()]),
        );
    }
    if let Some(ios) = &summary.seeks.run_ios {
        table.row(["I/Os of a run".to_owned()].into_iter().chain(cells(Some(ios), thousands)));
    }
    summary.seeks.run_ios.is_some().then_some(table)
}

/// Misses of caches.
pub(super) fn misses(summary: &Summary) -> Option<Table> {
    let mut table = Table::new([Column::text("LRU cache of"), Column::number("misses", "")]);
    for (size, pct) in &summary.reuse.misses {
        table.row([bytes(*size), percent(*pct)]);
    }
    summary.reuse.first_pct.is_some().then_some(table)
}

/// Everything else.
pub(super) fn facts(summary: &Summary) -> Vec<(&'static str, String)> {
    let seeks = &summary.seeks;
    let all = seeks.sequential + seeks.forward + seeks.backward;
    let share = |part: u64, whole: u64| percent(100.0 * part as f64 / whole.max(1) as f64);
    let mut facts = vec![
        (
            "seeks",
            format!(
                "{} of {} I/Os are where the last one ended, {} are behind that, {} before it",
                share(seeks.sequential, all),
                thousands(all),
                share(seeks.forward, all),
                share(seeks.backward, all)
            ),
        ),
        (
            "footprint",
            format!("about {} in blocks of 4 KiB that were read or written", bytes(summary.footprint_bytes)),
        ),
        (
            "flushes",
            format!("{} of all I/Os are flushes or have one before them", {
                share(summary.kinds[3].ios + summary.kinds[5].ios, summary.ios())
            }),
        ),
        ("FUA", format!("{} of the writes", share(summary.kinds[6].ios, summary.kinds[1].ios))),
    ];
    if let Some(first) = summary.reuse.first_pct {
        let median = summary.reuse.median_bytes.map_or(String::new(), |size| {
            format!("; half of the others are served by an LRU cache of {}", bytes(size))
        });
        facts.push((
            "reuse",
            format!(
                "{} of the accesses to blocks are the first{median} (of {} % of the blocks, by SHARDS)",
                percent(first),
                fixed(summary.reuse.sampled_pct, 2)
            ),
        ));
    }
    if let Some(largest) = summary.spans.iter().map(|span| span.working_set_bytes).max() {
        facts.push((
            "working set",
            format!("at most about {} in {}", bytes(largest), duration(summary.span_ns)),
        ));
    }
    if summary.errors > 0 {
        facts.push(("errors", thousands(summary.errors)));
    }
    if summary.unfinished > 0 {
        facts.push((
            "unfinished",
            format!("the end of {} I/Os and requests is not in the trace", thousands(summary.unfinished)),
        ));
    }
    facts
}
