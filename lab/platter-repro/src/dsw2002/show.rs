//! Method and tables of the report.

use super::Results;
use super::claims::lock;
use super::kernels::{
    AGENTS, BYTES, COMPUTE_KIB, MACHINE, Mix, PIECES, QUERY_COMPUTE_KIB, QUERY_DISK, kernels,
};
use super::profile::{PROFILES, share};
use super::rows::{By, Column as Of};
use crate::host::show;
use platter_bench::report::units::fixed;
use platter_bench::report::{Column, Table};
use platter_block::time::Span;

pub(super) fn method() -> Vec<String> {
    let micros = |span: Span| fixed(span.0 as f64 / 1e3, 1);
    vec![
        format!(
            "{} processors and {} adapters. {AGENTS} agents, each with a disk, prefetch {} KiB with readv into {PIECES} buffers and \
             then compute, half to one and a half of a mean. Each disk has a real request queue with the elevator linus; a \
             process that waits starts all plugged devices (tq_disk), and thereby splits requests that others still build. \
             There are two mixes: Table 2 is of the suite, which computes for {} us a KiB; the other tables are of one query, \
             which computes for {} and whose disks take {} us for a command.",
            MACHINE.processors,
            MACHINE.adapters,
            BYTES / 1024,
            micros(COMPUTE_KIB),
            micros(QUERY_COMPUTE_KIB),
            micros(QUERY_DISK)
        ),
        "Inputs: the user time of Baseline gives the computing of the suite, what Tables 4 to 7 leave for the program and for the disks \
         that of the query; Tables 5 and 6 give how long locks are held, and how many further acquisitions a command has; \
         adapters, copy, the functions outside locks and the hand-over of a lock are those of dm2002. A unit is queued in 3.8 us \
         under the lock of all queues where the query was measured, and otherwise in 0.9. The query of Tables 5 and 6 is as \
         long as their acquisitions to queue a unit say. Tables 1, 4 and 7 are one query each: the order of their functions \
         counts, not the shares."
            .to_owned(),
        "Strains of the source. Table 5: 5.3 processors spin for a lock that is held for half of the time, and other locks are held \
         for longer than its other columns leave. Table 6: its column of contention is the utilisation, since hold times \
         acquisitions over it is 54 to 56 s in all rows; it has 0.9 us to queue a unit, with Lockmeter, where Table 5 has 3.8; and \
         at its holds SBIR could not read with readv at the rate of Table 3. Nothing is fitted to them."
            .to_owned(),
    ]
}

pub(super) fn tables(results: &Results) -> Vec<(String, Table)> {
    let of = |mix: Mix, label: &'static str| {
        let names = kernels(mix).into_iter().map(|kernel| kernel.name);
        names.filter_map(move |name| Some((format!("{name}, {label}"), &results.of(mix, name).first()?.1)))
    };
    let rows = || of(Mix::Suite, "suite").chain(of(Mix::Query, "query"));
    let mut all = vec![
        ("Where the processors' time goes (percent)".to_owned(), show::profile(rows())),
        ("The lock of all queues".to_owned(), show::lock(rows())),
        ("The lock of all queues by caller".to_owned(), callers(results)),
    ];
    all.extend(PROFILES.map(|(place, _, kernel, functions)| {
        (format!("{place}: functions on {kernel}"), profile(results, kernel, functions))
    }));
    all
}

fn callers(results: &Results) -> Table {
    let mut table = Table::new([
        Column::text("kernel"),
        Column::text("caller"),
        Column::number("held", "%"),
        Column::number("hold", "us"),
        Column::number("wait", "us"),
        Column::number("spin", "% CPU"),
    ]);
    for kernel in ["SB", "SBI"] {
        let Some(row) = results.of(Mix::Query, kernel).first().copied() else { continue };
        for (name, by) in [
            ("all", By::All),
            ("queue", By::Queue),
            ("interrupt", By::Interrupt),
            ("send", By::Send),
            ("unplug", By::Unplug),
            ("queue, lock of the queue", By::QueueLocks),
        ] {
            let cell = |of| lock(row, by, of).map_or(String::new(), |value| fixed(value, 1));
            let figures = [Of::Utilisation, Of::Hold, Of::Wait, Of::Spin].map(cell);
            table.row([kernel.to_owned(), name.to_owned()].into_iter().chain(figures).collect::<Vec<_>>());
        }
    }
    table
}

fn profile(results: &Results, kernel: &str, functions: &[(&'static str, f64)]) -> Table {
    let mut table =
        Table::new([Column::text("function"), Column::number("published", "%"), Column::number("ours", "%")]);
    for (name, published) in functions {
        let ours = results.of(Mix::Query, kernel).first().and_then(|row| share(row, name));
        table.row([
            (*name).to_owned(),
            fixed(*published, 0),
            ours.map_or("not modelled".to_owned(), |ours| fixed(ours, 1)),
        ]);
    }
    table
}
