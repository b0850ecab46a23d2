//! Method and tables of the report.

use super::Results;
use super::claims::lock;
use super::kernels::{AGENTS, BYTES, COMPUTE_KIB, MACHINE, PIECES, kernels};
use super::profile::{PROFILES, share};
use super::rows::{By, Column as Of};
use crate::host::show;
use platter_bench::report::units::fixed;
use platter_bench::report::{Column, Table};

pub(super) fn method() -> Vec<String> {
    vec![
        format!(
            "{} processors and {} adapters. {AGENTS} agents, each with a disk, prefetch {} KiB with readv into {PIECES} buffers and \
             then compute for {} us a KiB, half to one and a half of it. The mix is stated, not published. Each disk has a real \
             request queue with the elevator linus; a process that waits starts all plugged devices (tq_disk), and \
             thereby splits requests that others still build.",
            MACHINE.processors,
            MACHINE.adapters,
            BYTES / 1024,
            fixed(COMPUTE_KIB.0 as f64 / 1e3, 1)
        ),
        "Inputs: the user time of Baseline gives the computing; Table 5 gives how long locks are held, and how many further \
         acquisitions a command has; adapters, copy and the functions outside locks are those of dm2002. The query of Tables 5 \
         and 6 is as long as their acquisitions to queue a unit say. Tables 1, 4 and 7 are one query each: the order of their \
         functions counts, not the shares."
            .to_owned(),
        "Strains of the source. Table 5: 5.3 processors spin for a lock that is held for half of the time. Table 6: its column of \
         contention is the utilisation, since hold times acquisitions over it is 54 to 56 s in all rows; and at its holds \
         SBIR could not read with readv at the rate of Table 3. Nothing is fitted to them: a lock is handed over in no time."
            .to_owned(),
    ]
}

pub(super) fn tables(results: &Results) -> Vec<(String, Table)> {
    let rows = || {
        let names = kernels().into_iter().map(|kernel| kernel.name);
        names.filter_map(|name| Some((name.to_owned(), &results.of(name).first()?.1)))
    };
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
        let Some(row) = results.of(kernel).first().copied() else { continue };
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
        let ours = results.of(kernel).first().and_then(|row| share(row, name));
        table.row([
            (*name).to_owned(),
            fixed(*published, 0),
            ours.map_or("not modelled".to_owned(), |ours| fixed(ours, 1)),
        ]);
    }
    table
}
