//! Method and tables of the report.

use super::kernels::{AGENTS, LOADED, MACHINE, kernels};
use super::order::{self, PROFILES};
use super::{Found, Results};
use crate::host::show;
use crate::hosts::{KernelSources, Parameter, micros, of_kernel, of_machine};
use platter_bench::report::units::fixed;
use platter_bench::report::{Column, Table};

pub(super) fn method() -> Vec<String> {
    let (whole, of) = LOADED.whole;
    vec![
        format!(
            "{} processors, {} adapters and {} disks. {AGENTS} agents read extents of 64 KiB from their disks in turn and compute \
             for {} us on each. Of {of} extents {whole} are read with read and the others with readv into 16 buffers, which is \
             one call for each buffer up to SBIR.",
            MACHINE.processors,
            MACHINE.adapters,
            MACHINE.disks,
            LOADED.compute.0 / 1000,
        ),
        "Inputs: the mix from the units and commands that Table 5 counts, the times for which locks are held from Table 5, the \
         time of computing and that of the copy from Baseline's user and kernel time. Functions outside locks and the \
         adapters' times are those of dm2002. The number of agents is chosen: one for each processor. The metric of \
         interest is not described in the paper; ours is the rate."
            .to_owned(),
        "Table 6 names its first column contention, but its counts and times give one duration of 55 s with each row only if it \
         is utilisation, as in Table 5; it is compared as such."
            .to_owned(),
    ]
}

pub(super) fn tables(results: &Results) -> Vec<(String, Table)> {
    let rows = || {
        let named = |row: &super::Row| Some((row.kernel.name.to_owned(), row.seeds.first()?.clone()));
        results.0.iter().filter_map(named).collect::<Vec<(String, Found)>>()
    };
    let (all, profile) = (rows(), |rows: &[(String, Found)]| {
        show::profile(rows.iter().map(|(name, found)| (name.clone(), found)))
    });
    vec![
        ("Rates".to_owned(), rates(&all)),
        ("Where the processors' time goes (percent)".to_owned(), profile(&all)),
        ("io_request_lock".to_owned(), show::lock(all.iter().map(|(name, found)| (name.clone(), found)))),
        ("Profiles".to_owned(), profiles(results)),
    ]
}

fn rates(rows: &[(String, Found)]) -> Table {
    let mut table = Table::new([
        Column::text("kernel"),
        Column::number("rate", "MB/s"),
        Column::number("units", "per command"),
        Column::number("interrupts", "per command"),
    ]);
    for (name, found) in rows {
        let commands = found.calls.commands.max(1) as f64;
        let interrupts =
            found.callers.get(&crate::host::readers::S_INTERRUPT).map_or(0, |used| used.acquisitions);
        table.row([
            name.clone(),
            fixed(found.rate, 1),
            fixed(found.calls.submit_bh as f64 / commands, 1),
            fixed(interrupts as f64 / commands, 2),
        ]);
    }
    table
}

/// Tables 1, 4 and 7 beside ours.
fn profiles(results: &Results) -> Table {
    let mut table = Table::new([
        Column::text("table"),
        Column::text("function"),
        Column::number("published", "%"),
        Column::number("ours", "%"),
    ]);
    for profile in &PROFILES {
        for (function, published) in profile.functions {
            let ours = profile.of(results).map(|(row, found)| order::share(row, found, function));
            table.row([
                profile.place.to_owned(),
                (*function).to_owned(),
                fixed(*published, 0),
                ours.map_or_else(String::new, |ours| fixed(ours, 1)),
            ]);
        }
    }
    table
}

/// The machine and the kernels, with the source of each parameter.
pub(crate) fn parameters() -> Vec<Parameter> {
    let sources = KernelSources {
        sizes: "OLS 2002, sections 2, 6 and 7",
        locks: "OLS 2002, sections 5 and 9.2",
        unit: "that of dm2002",
        command: "that of dm2002",
        copy: "set by the kernel time of Baseline",
    };
    let mut all = of_machine(&MACHINE, ["OLS 2002, section 3", "those of dm2002"]);
    let (whole, of) = LOADED.whole;
    let machine =
        |name, value: (String, &'static str), source| Parameter::new("machine", name, value, source);
    all.push(machine("agents", (AGENTS.to_string(), ""), "chosen: one for each processor"));
    all.push(machine("computing on 64 KiB", micros(LOADED.compute), "set by the user time of Baseline"));
    all.push(machine(
        "extents read with read",
        (format!("{whole} of {of}"), ""),
        "set by the units and commands of Table 5",
    ));
    for kernel in kernels() {
        all.extend(of_kernel(&kernel, &sources));
        let hold = |name, span| Parameter::new(kernel.name, name, micros(span), "OLS 2002, Table 5");
        all.extend(kernel.holds.iter().flat_map(|holds| {
            [
                hold("lock held to queue a unit", holds.queue),
                hold("lock held to take requests", holds.unplug),
                hold("lock held to send a command", holds.send),
                hold("lock held in an interrupt", holds.interrupt),
            ]
        }));
    }
    all
}
