//! What the flash disks of the catalogue do, beside what is published of the disks they are modelled on. All times are
//! virtual: every machine gets the same figures.

#[path = "../examples/closed/mod.rs"]
mod closed;

use closed::{Bed, Seen, command, params};
use platter_block::bio::Op;
use platter_block::time::Span;
use platter_sim::flash::{SsdParams, Start};
use platter_sim::rng::Rng;
use std::fmt::Write as _;
use std::path::Path;

const KIB: u64 = 1024;
/// Random writes until a used disk is as it stays: more than its buffer holds.
const WARM: u64 = 80_000;
/// Set, the tables of the page are written instead of checked.
const WRITE: &str = "PLATTER_WRITE_TABLES";

/// A disk of the catalogue, erased or used.
fn bed(name: &str, start: Start) -> (Bed, u64) {
    let params = SsdParams { start, ..params(name) };
    let size = params.size;
    (Bed::new(params), size)
}

fn random(op: Op, size: u64) -> impl FnMut(usize) -> platter_sim::model::Command {
    let mut rng = Rng::new(7);
    move |_| command(op, rng.below(size / 4096) * 4096, 4096)
}

fn sequential(op: Op) -> impl FnMut(usize) -> platter_sim::model::Command {
    let mut at = 0;
    move |_| {
        at += 128 * KIB;
        command(op, at - 128 * KIB, 128 * KIB)
    }
}

/// Megabytes a second of commands of 128 KiB.
fn rate(seen: &Seen) -> u64 {
    seen.rate() * 128 * KIB / 1_000_000
}

fn randoms(name: &str, start: Start, op: Op, depth: usize, count: u64) -> Seen {
    let (mut bed, size) = bed(name, start);
    bed.run(depth, count, random(op, size))
}

/// Steady random writes, and how much the flash was written for each of them.
fn steady(name: &str) -> (Seen, f64) {
    let (mut bed, size) = bed(name, Start::Steady);
    let mut next = random(Op::Write, size);
    bed.run(32, WARM, &mut next);
    let meter = bed.ssd.meter();
    let before = (meter.programmed_units(), meter.host_units());
    let seen = bed.run(32, 100_000, &mut next);
    let written = (meter.programmed_units() - before.0) as f64;
    (seen, written / (meter.host_units() - before.1) as f64)
}

/// How long one read after the other takes beside 31 steady random writes.
fn reads_beside_writes(name: &str) -> Vec<Span> {
    let (mut bed, size) = bed(name, Start::Steady);
    bed.run(32, WARM, random(Op::Write, size));
    let mut rng = Rng::new(8);
    let mut next = |reading| {
        let op = if reading == 0 { Op::Read } else { Op::Write };
        command(op, rng.below(size / 4096) * 4096, 4096)
    };
    let mut seen = bed.run(32, 100_000, &mut next);
    seen.reads.sort_unstable();
    seen.reads
}

/// Random writes a second, a gigabyte of them, after the disk was idle for a minute.
fn after_idle(name: &str) -> Seen {
    let (mut bed, size) = bed(name, Start::Steady);
    let mut next = random(Op::Write, size);
    bed.run(32, WARM, &mut next);
    bed.idle(Span::from_secs(60));
    bed.run(32, 250_000, &mut next)
}

/// Sequential rates: writes at first, writes after the cache and the buffer, and reads of what was written.
fn sequential_rates(name: &str) -> [u64; 3] {
    let (mut bed, _) = bed(name, Start::Erased);
    let mut next = sequential(Op::Write);
    let first = bed.run(32, 8_000, &mut next);
    bed.run(32, 22_000, &mut next);
    let later = bed.run(32, 4_000, &mut next);
    bed.idle(Span::from_millis(90));
    [rate(&first), rate(&later), rate(&bed.run(32, 8_000, sequential(Op::Read)))]
}

fn micros(span: Span) -> String {
    format!("{}.{}", span.0 / 1000, span.0 % 1000 / 100)
}

fn percentile(sorted: &[Span], ten_thousandths: usize) -> String {
    micros(sorted[(sorted.len() - 1) * ten_thousandths / 10_000])
}

fn count(number: u64) -> String {
    match number {
        0..1000 => number.to_string(),
        _ => format!("{},{:03}", number / 1000, number % 1000),
    }
}

/// Rows of one disk: what, what is published (a column for each source), ours. Rows without a `|` are left out.
fn table(name: &str, heads: &str, published: &[&str; 15]) -> String {
    let mean = |seen: Seen| micros(Span(seen.time.0 / seen.count));
    let write = |depth, count| randoms(name, Start::Erased, Op::Write, depth, count);
    let read = |depth: usize| randoms(name, Start::Steady, Op::Read, depth, 40_000);
    let deep = if name == "sata_ssd" { 32 } else { 256 };
    let (busy, amplification) = steady(name);
    let reads = reads_beside_writes(name);
    let [first, later, read_rate] = sequential_rates(name);
    let ours = [
        ("random read, depth 1, us", mean(read(1))),
        ("random reads, depth 32, 1/s", count(read(32).rate())),
        ("random reads, depth 256, 1/s", count(read(deep).rate())),
        ("random write, depth 1, us", mean(write(1, 20_000))),
        ("random writes, erased, depth 32, 1/s", count(write(32, 150_000).rate())),
        ("random writes, steady, depth 32, 1/s", count(busy.rate())),
        ("the longest time in which none of them ends, ms", format!("{:.1}", busy.gap.0 as f64 / 1e6)),
        ("their write amplification", format!("{amplification:.2}")),
        ("1 GB of random writes after a minute of rest, 1/s", count(after_idle(name).rate())),
        ("sequential reads, MB/s", count(read_rate)),
        ("sequential writes, erased, MB/s", count(first)),
        ("sequential writes after 4 GB, MB/s", count(later)),
        ("a read beside 31 steady writes, median, us", percentile(&reads, 5_000)),
        ("the same, 99 %, us", percentile(&reads, 9_900)),
        ("the same, 99.9 %, us", percentile(&reads, 9_990)),
    ];
    let mut text = format!("| `{name}` | {heads} | ours |\n|---|");
    let columns = heads.split('|').count() + 1;
    text.push_str(&"---|".repeat(columns));
    text.push('\n');
    for ((what, ours), published) in
        ours.iter().zip(published).filter(|(_, published)| published.contains('|'))
    {
        let _ = writeln!(text, "| {what} | {published} | {ours} |");
    }
    text
}

/// Checks that the page has this text between its marks, or writes it.
fn check(mark: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/simulation.md");
    let old = std::fs::read_to_string(&path).unwrap();
    let begin = old.find(mark).unwrap_or_else(|| panic!("the page has no {mark}")) + mark.len();
    let end = begin + old[begin..].find("<!-- end -->").unwrap();
    let new = format!("{}\n{text}{}", &old[..begin], &old[end..]);
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(path, new).unwrap();
    } else {
        assert!(old == new, "{WRITE}=1 cargo test -p platter-sim --test flash_figures writes:\n{text}");
    }
}

/// Of the columns: the data sheet of the 850 EVO 250 GB, AnandTech's review of it.
const SATA: [&str; 15] = [
    "100 | ",
    "97,000 | ",
    "",
    "25 | ",
    "88,000 | ",
    " | 5,000 to 8,000",
    " | ",
    " | ",
    " | ",
    "540 | ",
    "520 | ",
    "300 (from memory) | ",
    " | ",
    " | ",
    " | ",
];

/// Of the columns: the data sheet of the PM983 960 GB, Lenovo's product guide of the P4500 1.0 TB.
const NVME: [&str; 15] = [
    "85 | 85",
    " | ",
    "400,000 | 279,500",
    "50 | 20",
    " | ",
    "40,000 | 30,500",
    " | ",
    " | ",
    " | ",
    "3,000 (from memory) | 3,200",
    " | ",
    "1,050 (from memory) | 600",
    " | ",
    " | ",
    " | ",
];

#[test]
fn the_page_shows_what_the_disks_do() {
    let (sata, nvme) = std::thread::scope(|scope| {
        let nvme = || table("nvme_ssd", "Samsung PM983 960 GB | Intel P4500 1.0 TB", &NVME);
        let nvme = scope.spawn(nvme);
        let sata = table("sata_ssd", "Samsung 850 EVO 250 GB | the same, measured", &SATA);
        (sata, nvme.join().unwrap())
    });
    check("<!-- flash figures -->", &format!("\n{sata}\n{nvme}\n"));
}

/// Once dies ran short of erased blocks together, and a full disk completed nothing for 3.65 s, for ever.
#[test]
fn a_full_disk_never_pauses() {
    for name in ["sata_ssd", "nvme_ssd"] {
        let (mut bed, size) = bed(name, Start::Steady);
        let seen = bed.run(32, 300_000, random(Op::Write, size));
        assert!(seen.gap <= Span::from_millis(50), "{name}: {:?}", seen.gap);
    }
}
