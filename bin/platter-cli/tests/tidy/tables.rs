//! The page of tables agrees with the tables in the code.

use crate::tree::root;
use platter::registry::{self, Shape};
use platter::spec::Argument;
use platter_bench::ladder;
use platter_bench::workload::Rw;
use platter_cache::readahead;
use platter_disk::drivers::table::{self as drivers, Medium};
use platter_sim::{bus, catalogue};
use std::fmt::Write as _;
use std::fs;

const PAGE: &str = "docs/tables.md";
/// Set, the page is written instead of checked.
const WRITE: &str = "PLATTER_WRITE_TABLES";

const HEAD: &str = "# Tables

What can be named in device specs, options and reports. This page is made from the tables in the code by a
test, which fails when the two differ; it says how to write the page anew. `platter list` prints the same.
";

/// A row's one line as a sentence. Names stay as they are written.
fn sentence(summary: &str) -> String {
    let first = summary.split(' ').next().unwrap_or_default();
    let is_name = first.contains(|c: char| !c.is_alphabetic() && c != ',');
    let mut chars = summary.chars();
    let capital = chars.next().map(|c| if is_name { c } else { c.to_ascii_uppercase() });
    capital.into_iter().chain(chars).chain(['.']).collect()
}

fn params<'a>(page: &mut String, params: impl IntoIterator<Item = &'a Argument>) {
    let mut rows = params.into_iter().peekable();
    if rows.peek().is_none() {
        return;
    }
    page.push_str("\n| parameter | value | default | what it is |\n|---|---|---|---|\n");
    for p in rows {
        let default = if p.default.is_empty() { String::new() } else { format!("`{}`", p.default) };
        let _ = writeln!(page, "| `{}` | {} | {default} | {} |", p.name, p.kind, p.help);
    }
}

/// Whether all disks have these parameters. (A constant table need not have one address.)
fn is_shared(table: &[Argument]) -> bool {
    let names = |table: &[Argument]| table.iter().map(|param| param.name).collect::<Vec<_>>();
    let mut disks = registry::table().into_iter().filter(|row| row.shape == Shape::Disk);
    disks.all(|row| row.tables.iter().any(|other| names(other) == names(table)))
}

fn devices(page: &mut String, shape: Shape) {
    for row in registry::table().iter().filter(|row| row.shape == shape) {
        let _ = writeln!(page, "\n### {}\n\n{} Example: `{}`.", row.name, sentence(row.summary), row.example);
        if shape == Shape::Layer {
            let (least, most) = (row.devices.start(), row.devices.end());
            let count = if least == most { least.to_string() } else { format!("{least} to {most}") };
            let _ = writeln!(page, "Stands on devices: {count}.");
        }
        params(page, row.tables.iter().filter(|table| !is_shared(table)).copied().flatten());
    }
}

/// The parameters that all disks have.
fn shared(page: &mut String) {
    let tables = registry::table().first().map_or(&[][..], |row| row.tables);
    params(page, tables.iter().filter(|table| is_shared(table)).copied().flatten());
}

fn elevators(page: &mut String) {
    for name in registry::elevator_names() {
        let summary = platter_elevators::by_name(name)
            .map_or("no elevator: first come, first served", |row| row.summary);
        let _ = writeln!(page, "\n### {name}\n\n{}", sentence(summary));
        params(page, registry::elevator_params(name));
    }
}

fn readaheads(page: &mut String) {
    platter_repro::policies::register_readahead();
    for row in readahead::all() {
        let source = if row.source.is_empty() { String::new() } else { format!(" Source: {}.", row.source) };
        let _ = writeln!(page, "\n### {}\n\n{}{source}", row.name, sentence(row.summary));
        params(page, registry::readahead_params(row.name));
    }
}

fn drivers(page: &mut String) {
    for row in drivers::TABLE {
        let _ = writeln!(page, "\n### {}\n\n{}\n", row.name, sentence(row.summary));
        let medium = if row.medium == Medium::Size {
            "memory, of a size that is given"
        } else {
            "a file or block device"
        };
        let since =
            if row.since.is_empty() { "any kernel".to_string() } else { format!("Linux {}", row.since) };
        let _ =
            writeln!(page, "- drives {medium}\n- needs {since}\n- flush; durable write: {}", row.durability);
        let row: Vec<Argument> = row.params.iter().map(Argument::of).collect();
        params(page, &row);
    }
}

fn workloads(page: &mut String) {
    page.push_str("\n| `--rw` | order | reads | writes | discards |\n|---|---|---|---|---|\n");
    let yes = |is: bool| if is { "yes" } else { "" };
    for rw in Rw::ALL {
        let order = if rw.is_random() { "random" } else { "sequential" };
        let reads = rw.is_mixed() || !(rw.writes() || rw.trims());
        let writes = rw.writes() && !rw.trims();
        let (reads, writes, trims) = (yes(reads), yes(writes), yes(rw.trims()));
        let _ = writeln!(page, "| `{}` | {order} | {reads} | {writes} | {trims} |", rw.name());
    }
}

fn rungs(page: &mut String) {
    page.push_str("\n| rung | adds | in the kernel | here |\n|---|---|---|---|\n");
    for row in ladder::TABLE {
        let _ = writeln!(page, "| {} | {} | {} | {} |", row.name, row.adds, row.kernel, row.here);
    }
}

fn simulated(page: &mut String) {
    page.push_str("\n| disk | what it is |\n|---|---|\n");
    for row in catalogue::TABLE {
        let _ = writeln!(page, "| `{}` | {} |", row.name, row.summary);
    }
    page.push_str("\n| bus | what it is | where its numbers are from |\n|---|---|---|\n");
    for row in bus::TABLE {
        let _ = writeln!(page, "| `{}` | {} | {} |", row.name, row.summary, row.source);
    }
}

/// The page as it has to be.
fn page() -> String {
    let mut page = String::from(HEAD);
    page.push_str("\n## Disks\n");
    devices(&mut page, Shape::Disk);
    page.push_str("\n## Settings that all disks share\n");
    shared(&mut page);
    page.push_str("\n## Simulated disks and buses\n\nDisks for `sim(NAME)`, and what `bus=` names.\n");
    simulated(&mut page);
    page.push_str("\n## Layers\n\nDevices built on other devices.\n");
    devices(&mut page, Shape::Layer);
    page.push_str("\n## Elevators\n\nI/O schedulers, chosen with `elevator=NAME`.\n");
    elevators(&mut page);
    page.push_str("\n## Readahead policies\n\nWhat a page cache reads before it is asked; `platter readahead` compares them.\n");
    readaheads(&mut page);
    page.push_str(
        "\n## Drivers\n\nHow a disk is driven. `file(PATH, driver=NAME)` chooses among those of files.\n",
    );
    drivers(&mut page);
    page.push_str("\n## Workloads\n\nWhat `platter bench io --rw` does.\n");
    workloads(&mut page);
    page.push_str("\n## Rungs\n\nWhat `platter bench dm` climbs, from the lowest up.\n");
    rungs(&mut page);
    page
}

/// Checks the page, or writes it on request.
pub(crate) fn check() {
    let path = root().join(PAGE);
    let page = page();
    if std::env::var_os(WRITE).is_some() {
        fs::write(&path, &page).expect("the page can be written");
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    let differs = found.lines().zip(page.lines()).position(|(a, b)| a != b);
    assert!(
        found == page,
        "{PAGE} differs from the tables from line {} on; run `{WRITE}=1 cargo test -p platter-cli --test tidy`",
        differs.unwrap_or(found.lines().count().min(page.lines().count())) + 1
    );
}
