//! Method and tables of the report.

use super::Results;
use super::kernels::{HOLDS, MACHINE, kernels};
use crate::host::kernel::{BUILD, CALL, COMPLETE, END, INTERRUPT, QUEUE, SEND, UNPLUG, WAIT};
use crate::host::show;
use crate::hosts::{KernelSources, Parameter, of_holds, of_kernel, of_machine};
use platter_bench::report::units::fixed;
use platter_bench::report::{Column, Table};

pub(super) fn method() -> Vec<String> {
    let names = |functions: &[&str]| functions.join(", ");
    vec![
        format!(
            "{} processors, {} adapters and {} disks. A process for each disk reads 64 KiB after 64 KiB with \
             read, or with readv into 16 buffers. Each disk has a real request queue with the elevator linus: it decides \
             how many requests there are. The model of the host decides how long each step keeps a processor, who waits for \
             which lock, and when interrupts and bottom halves run.",
            MACHINE.processors, MACHINE.adapters, MACHINE.disks
        ),
        format!(
            "Every function on a path takes the same time, except under the locks of 2.4. For each unit: {} before the queue's \
             lock, {} under it, {} at completion. For each command: {}, {}, {} under the locks, {} under the lock of all \
             queues or of the adapter, {} under the same, and {} in the bottom half.",
            names(&BUILD),
            names(&QUEUE),
            names(&END),
            names(&CALL),
            names(&WAIT),
            names(&UNPLUG),
            names(&SEND),
            names(&INTERRUPT),
            names(&COMPLETE)
        ),
        format!(
            "Inputs: both rates of 2.5.17 give the adapters ({} us for a command and {} us for a KiB), the idle times of SBI \
             and 2.5.17 the functions, and the rate of Baseline the copy. Tables 5 and 6 give how long the locks of 2.4 \
             are held, and a function of a command outside them takes the mean of those under them. The hand-over of a \
             contended lock is two transfers of a cache line of a Pentium III (McKenney 2004). Disks stream ahead of \
             the adapters. A MB is 10^6 bytes. Other caches and memory are not modelled.",
            fixed(MACHINE.command.0 as f64 / 1e3, 1),
            fixed(MACHINE.kib.0 as f64 / 1e3, 1)
        ),
        "Here: the rungs of the ladder on disks in memory, a worker for each processor of this machine, medians of 3 short rounds, so that \
         the cost of each rung shows and no disk limits it; 2.5.17 is the rung bio. `bench dm` measures on files."
            .to_owned(),
    ]
}

pub(super) fn tables(results: &Results) -> Vec<(String, Table)> {
    vec![
        ("Where the processors' time goes (percent)".to_owned(), show::profile(rows(results))),
        ("The lock of all queues".to_owned(), show::lock(rows(results))),
        ("Kernels".to_owned(), costs()),
    ]
}

/// The first seed's outcome of each kernel and call.
fn rows(results: &Results) -> impl Iterator<Item = (String, &super::Found)> {
    kernels().into_iter().flat_map(|kernel| [(kernel, false), (kernel, true)]).filter_map(
        |(kernel, readv)| {
            let found = results.of(kernel.name, readv).first().copied()?;
            Some((format!("{}, {}", kernel.name, if readv { "readv" } else { "read" }), found))
        },
    )
}

/// The machine and the kernels, with the source of each parameter.
pub(crate) fn parameters() -> Vec<Parameter> {
    let sources = |name: &str| KernelSources {
        sizes: "OLS 2002, sections 2, 6, 7 and 9",
        locks: "OLS 2002, sections 5 and 9.2",
        unit: match name {
            "2.5.17" => "set by the idle times of SBI and SBIR where no hold is given",
            _ => "outside locks; set by the idle time of SBI",
        },
        command: match name {
            "2.5.17" => "set by its idle time with read",
            _ => "outside locks; OLS 2002, Table 5: the mean of the functions under them",
        },
        copy: "set by the rate of Baseline",
    };
    let mut all = of_machine(&MACHINE, ["OLS 2002, section 3", "set by the two rates of 2.5.17"]);
    all.extend(of_holds(&HOLDS));
    all.extend(kernels().iter().flat_map(|kernel| of_kernel(kernel, &sources(kernel.name))));
    all
}

fn unit(bytes: u64) -> &'static str {
    match bytes {
        512 => "sector",
        4096 => "page",
        _ => "call",
    }
}

fn costs() -> Table {
    let mut table = Table::new([
        Column::text("kernel"),
        Column::text("unit"),
        Column::text("lock of queueing"),
        Column::text("lock of sending"),
        Column::number("function of a unit", "ns"),
        Column::number("function of a command", "ns"),
    ]);
    for kernel in kernels() {
        table.row([
            kernel.name.to_owned(),
            unit(kernel.unit).to_owned(),
            format!("{:?}", kernel.queueing).to_lowercase(),
            format!("{:?}", kernel.sending).to_lowercase(),
            kernel.per_unit.0.to_string(),
            kernel.per_command.0.to_string(),
        ]);
    }
    table
}
