//! The published results, and whether the model agrees.
//!
//! A time must be within 15 % of the published one, although the disks are only of the same class; a count within a
//! quarter.

use super::cells::{Found, PAGE, THREAD, TIMES, Time};
use super::crew::{Outcome, single};
use super::words;
use crate::claim::{Claim, Rule};
use crate::kind::Kind;
use crate::seeds::interval;

/// How far off a time may be.
const TIME: f64 = 0.15;
/// ... a count.
const COUNT: f64 = 0.25;

const COUNTERS: (&str, &str) = (THREAD, "A. Kopytov, with counters of R. Pai");
const MAY3: (&str, &str) = (PAGE, "N. Piggin, 3 May 2004");

/// The claims: ours are means over the seeds, and intervals of what each seed gives by itself.
pub(super) fn all(found: &Found) -> Vec<Claim> {
    let seeds: Vec<Vec<Claim>> = found.by_seed().iter().map(of).collect();
    let mut claims = of(found);
    for (place, claim) in claims.iter_mut().enumerate() {
        let near = claim.ours.filter(|value| claim.kind != Kind::Mechanism && claim.rule.is_near(*value));
        claim.interval = near.and_then(|value| interval(value, seeds.iter().map(|seed| seed[place].ours)));
        if claim.holds() == Some(false) {
            claim.reason.get_or_insert_with(|| "the disk is only of the class of that machine's".to_owned());
        }
    }
    claims
}

fn of(found: &Found) -> Vec<Claim> {
    let mut claims = times(found);
    claims.extend(orders(found));
    claims.extend(counters(found));
    claims.push(Claim {
        ours: found.mean("2.6-as", single),
        ..claim(
            "single-pages",
            MAY3,
            "2.6 is submitting a lot of the IO in 4KB sized requests (of its reads)",
            "share",
            Rule::AtLeast(0.5),
        )
    });
    claims.push(Claim {
        published: Some(66.8 / 63.9),
        ours: found
            .seconds("private-as")
            .zip(found.seconds("2.6.7-as"))
            .map(|(more, exact)| more / exact),
        reason: Some(
            "a page more of one request is a third of a thousandth of a second on this disk. Without it, but with the \
             other rules of 2.6.6, the last page of each request would ask for the window behind it"
                .to_owned(),
        ),
        ..claim(
            "page-too-many",
            (THREAD, "R. Pai, 66.8 and 63.9 s on another machine"),
            "with a page too many in each window after a jump it takes longer (2.6.6 with a private copy, and 2.6.7)",
            "times as long",
            Rule::change(66.8 / 63.9),
        )
    });
    claims.push(Claim {
        ours: found.seconds("piggin-size").zip(found.seconds("piggin-exact")).map(|(size, exact)| size / exact),
        reason: Some(
            "with windows after the request the patch would have been slower: the page too many that follows each is an \
             I/O of its own"
                .to_owned(),
        ),
        ..claim(
            "piggin-windows",
            MAY3,
            "as piggin-patched, but with readahead asked about the page and not past the end of the file",
            "times as long",
            Rule::AtLeast(1.0),
        )
    });
    claims.extend(words::all(found));
    claims
}

fn claim(
    id: &'static str,
    from: (&'static str, &str),
    says: &'static str,
    unit: &'static str,
    rule: Rule,
) -> Claim {
    let kind = match id {
        // The size of memory was chosen with these counts known, and the policy of the patch with its time known.
        "counters-before" | "counters-before-shrunk" | "counters-before-random" => Kind::Input,
        "counters-before-contiguous" | "counters-after-shrunk" => Kind::Input,
        "counters-after-random" | "counters-after-contiguous" | "piggin-patched" => Kind::Input,
        // Ratios of two times that are claims themselves.
        "order-2.4-as" | "order-as-deadline" | "order-deadline-cfq" | "order-cfq-noop" => Kind::Derived,
        "order-cfq-deadline-morton" => Kind::Derived,
        "piggin-windows" => Kind::Ours,
        _ => Kind::Prediction,
    };
    Claim::new(id, kind, from, (says, unit), rule)
}

fn around(value: f64, share: f64) -> Rule {
    Rule::Between(value * (1.0 - share), value * (1.0 + share))
}

/// The times, in seconds.
fn times(found: &Found) -> Vec<Claim> {
    let as_claim = |time: &Time| Claim {
        published: Some(time.seconds),
        ours: found.seconds(time.cell),
        reason: reason(time.id),
        ..claim(time.id, time.from, time.says, "s", around(time.seconds, TIME))
    };
    TIMES.iter().map(as_claim).collect()
}

fn reason(id: &str) -> Option<String> {
    let text = match id {
        "piggin-patched" => {
            "the patch as posted adds a number of bytes to a page number, so it asks readahead about pages past \
             the end of the file, where there is nothing: what is read is the request. That is the policy \
             `none`; see piggin-windows for the intended effect"
        }
        "2.6.5-noop" | "2.6.5-as" | "2.6.5-cfq" | "2.6.6-noop" | "2.6.6-as" | "2.6.6-cfq" => {
            "2.4 is a tenth faster in the model than it was, and of the number of times that 2.6 took the model lacks \
             another tenth, which it also lacks with whole requests (see morton-fix). Nothing of the model differs between \
             2.6.5 and 2.6.6, whose times differ by up to 5 %"
        }
        "morton-fix" | "morton-fix-deadline" | "2g-2.6.7" | "4g-2.6.7" | "8g-2.6.7" => {
            "in the model 2.6 is as fast as 2.4 once its requests are whole. The 4 to 20 % that remained in 2004 were not \
             explained then (\"smaller nr_requests, IDE driver, io scheduler tuning\", Piggin) and are not modelled"
        }
        "morton-2.4.27"
        | "morton-2.6.6-as"
        | "morton-2.6.6-cfq"
        | "morton-2.6.6-deadline"
        | "morton-fixed-as"
        | "morton-fixed-cfq"
        | "morton-fixed-deadline" => {
            "each fsync of a changed file waits for the block of its inode, as in ext2 of the time, which moves the arm of \
             the model's disk. Without these writes the model has 67 s for 2.4 and 67, 71 and 68 s for the fixed 2.6: \
             what kept the inodes of that machine unchanged is not published"
        }
        "2g-2.4.27" | "4g-2.4.27" | "8g-2.4.27" => {
            "seconds of another kernel on a disk of which only the class is known"
        }
        _ => return None,
    };
    Some(text.to_owned())
}

/// Which was faster than which.
fn orders(found: &Found) -> Vec<Claim> {
    let kopytov = (PAGE, "A. Kopytov, 2 May 2004 (2.6.5-bk2)");
    let morton = (THREAD, "A. Morton, table of 2 GB on ext2 (2.6.6)");
    let pairs = [
        ("order-2.4-as", kopytov, "2.6 with anticipatory takes longer than 2.4.25", ("2.4", "2.6-as"), 1.531),
        (
            "order-as-deadline",
            kopytov,
            "deadline takes longer than anticipatory",
            ("2.6-as", "2.6-deadline"),
            1.098,
        ),
        (
            "order-deadline-cfq",
            kopytov,
            "CFQ takes longer than deadline (Morton's table has it the other way round)",
            ("2.6-deadline", "2.6-cfq"),
            1.124,
        ),
        ("order-cfq-noop", kopytov, "noop takes longer than CFQ", ("2.6-cfq", "2.6-noop"), 1.129),
        (
            "order-cfq-deadline-morton",
            morton,
            "deadline takes longer than CFQ (Kopytov's figures have it the other way round)",
            ("ext2-cfq", "ext2-deadline"),
            1.200,
        ),
    ];
    let order = |(id, from, says, (fast, slow), published): (_, _, _, (&str, &str), f64)| Claim {
        published: Some(published),
        ours: found.seconds(slow).zip(found.seconds(fast)).map(|(slow, fast)| slow / fast),
        ..claim(id, from, says, "times as long", around(published, TIME).within(1.0, f64::INFINITY))
    };
    pairs.map(order).into()
}

/// A count, and that of Kopytov's kernel.
struct Count {
    id: &'static str,
    says: &'static str,
    cell: &'static str,
    published: f64,
    of: fn(&Outcome) -> f64,
}

const COUNTS: [Count; 10] = [
    count("counters-before", "windows closed by misses, about one for each file", BEFORE, 127.0, by_miss),
    count("counters-before-hits", "windows closed by hits", BEFORE, 0.0, by_hit),
    count("counters-before-shrunk", "windows made smaller by hits", BEFORE, 1153.0, shrunk),
    count("counters-before-random", "pages not contiguous", BEFORE, 3968.0, random),
    count("counters-before-contiguous", "contiguous pages", BEFORE, 10_686.0, contiguous),
    count("counters-after", "with a private copy: windows closed by misses", AFTER, 0.0, by_miss),
    count("counters-after-hits", "with a private copy: windows closed by hits", AFTER, 0.0, by_hit),
    count("counters-after-shrunk", "with a private copy: windows made smaller", AFTER, 1066.0, shrunk),
    count("counters-after-random", "with a private copy: pages not contiguous", AFTER, 5860.0, random),
    count("counters-after-contiguous", "with a private copy: contiguous pages", AFTER, 18_099.0, contiguous),
];

const BEFORE: &str = "2.6-as";
const AFTER: &str = "private-as";

const fn count(
    id: &'static str,
    says: &'static str,
    cell: &'static str,
    published: f64,
    of: fn(&Outcome) -> f64,
) -> Count {
    Count { id, says, cell, published, of }
}

fn by_miss(outcome: &Outcome) -> f64 {
    outcome.cache.readahead.closed_by_miss as f64
}

fn by_hit(outcome: &Outcome) -> f64 {
    outcome.cache.readahead.closed_by_hit as f64
}

fn shrunk(outcome: &Outcome) -> f64 {
    outcome.cache.readahead.shrunk as f64
}

fn random(outcome: &Outcome) -> f64 {
    outcome.cache.readahead.random as f64
}

fn contiguous(outcome: &Outcome) -> f64 {
    outcome.cache.readahead.contiguous as f64
}

fn counters(found: &Found) -> Vec<Claim> {
    let as_claim = |count: &Count| Claim {
        published: Some(count.published),
        ours: found.mean(count.cell, count.of),
        ..claim(count.id, COUNTERS, count.says, "times", around(count.published, COUNT))
    };
    COUNTS.iter().map(as_claim).collect()
}
