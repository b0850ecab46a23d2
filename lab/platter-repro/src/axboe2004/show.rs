//! Method and tables of the report.

use super::Figures;
use platter_bench::report::units::fixed;
use platter_bench::report::{Column, Table};

/// The method, in paragraphs.
pub(super) fn method(scale: u64) -> Vec<String> {
    let times = match scale {
        ..=4 => String::new(),
        _ => " Times on simulated disks are shorter than those of --full.".to_owned(),
    };
    vec![
        format!(
            "The slides name rules and orders, hardly ever figures. Counts (looks, comparisons, places, bios) are of the real elevators \
             and the real queue, driven with a disk that takes a constant time or with no disk at all; shares and rates are of \
             simulated disks in virtual time.{times} Each elevator is that of a kernel at the time of the talk: 2.4.20, 2.6.7, 2.6.10 \
             and the prototype with time slices of December 2004."
        ),
        "No figure is an input. Where the slide gives an order of growth or a direction, the bounds were set before the first \
         run; docs/truth.md lists the statements that are not tested, with the reasons."
            .to_owned(),
    ]
}

/// A table: its title, its columns, and its rows, each a text and the names of figures.
struct Shown {
    title: &'static str,
    columns: &'static [&'static str],
    decimals: usize,
    rows: &'static [(&'static str, &'static [&'static str])],
}

const TABLES: &[Shown] = &[
    Shown {
        title: "Work of an insertion, by requests that wait",
        columns: &["elevator", "128", "1024", "8192"],
        decimals: 1,
        rows: &[
            ("linus without ageing, requests looked at", &["looks-128", "looks-1024", "looks-8192"]),
            ("linus of 2.4.20, requests looked at", &["aged-128", "aged-1024", "aged-8192"]),
            ("deadline, keys compared", &["compared-128", "compared-1024", "compared-8192"]),
            ("search for a merge, requests looked at", &["merge-128", "merge-1024", "merge-8192"]),
        ],
    },
    Shown {
        title: "Steps back of the arm, 16 random reads waiting: all, and those that do not return to the lowest",
        columns: &["elevator", "all", "short"],
        decimals: 4,
        rows: &[
            ("linus of 2.4.20", &["back-linus", "short-linus"]),
            ("deadline of 2.6.7", &["back-deadline", "short-deadline"]),
            ("anticipatory of 2.6.7", &["back-as", "short-as"]),
            ("noop of 2.6.7", &["back-noop", "short-noop"]),
        ],
    },
    Shown {
        title: "Fairness (Jain) of eight processes, of which one asks for 16 times as much",
        columns: &["elevator", "reads", "writes"],
        decimals: 2,
        rows: &[
            ("linus of 2.4.20", &["fair-reads-linus", "fair-writes-linus"]),
            ("deadline of 2.6.7", &["fair-reads-deadline", "fair-writes-deadline"]),
            ("anticipatory of 2.6.7", &["fair-reads-as", "fair-writes-as"]),
            ("CFQ of 2.6.7", &["fair-reads-cfq-v1", "fair-writes-cfq-v1"]),
            ("CFQ of 2.6.7, rotate=0", &["fair-reads-code", "fair-writes-code"]),
            ("CFQ of 2.6.10", &["fair-reads-cfq-v2", "fair-writes-cfq-v2"]),
        ],
    },
    Shown {
        title: "Share of one reader beside six, CFQ of 2.6.10",
        columns: &["key_type", "2 outstanding", "8 outstanding", "2, quantum=1"],
        decimals: 3,
        rows: &[
            ("tgid", &["group-process", "group-process-deep", "group-process-quantum"]),
            ("uid", &["group-uid", "group-uid-deep", "group-uid-quantum"]),
            ("pgid", &["group-pgid", "group-pgid-deep", "group-pgid-quantum"]),
        ],
    },
    Shown {
        title: "Rate of a level / that of level 4, the prototype with time slices",
        columns: &["", "0", "1", "3", "6"],
        decimals: 2,
        rows: &[("sequential readers", &["priority-0", "priority-1", "priority-3", "priority-6"])],
    },
    Shown {
        title: "Writes a second, each eighth a hard barrier, man3367mp without its write cache",
        columns: &["load", "no order", "drained", "ordered tags"],
        decimals: 1,
        rows: &[
            ("a log", &["log-none", "log-drain", "log-tag"]),
            ("random", &["random-none", "random-drain", "random-tag"]),
        ],
    },
    Shown {
        title: "Time until 64 bios that wait are served, while others arrive, ms",
        columns: &["", "mean", "most"],
        decimals: 0,
        rows: &[
            ("at a switch", &["switch-drain", "switch-drain-most"]),
            ("without one", &["switch-without", "switch-without-most"]),
        ],
    },
];

/// The tables.
pub(super) fn tables(figures: &Figures) -> Vec<(String, Table)> {
    TABLES.iter().map(|shown| (shown.title.to_owned(), shown.table(figures))).collect()
}

impl Shown {
    fn table(&self, figures: &Figures) -> Table {
        let column = |(index, name): (usize, &&str)| match index {
            0 => Column::text(*name),
            _ => Column::number(*name, ""),
        };
        let mut table = Table::new(self.columns.iter().enumerate().map(column).collect::<Vec<_>>());
        for (name, ids) in self.rows {
            let value =
                |id: &&str| figures.get(id).map_or("-".to_owned(), |value| fixed(*value, self.decimals));
            table.row(std::iter::once((*name).to_owned()).chain(ids.iter().map(value)).collect::<Vec<_>>());
        }
        table
    }
}
