//! The plan as rows of a table, for people.

use super::{Ios, Plan, Planned, Sizes};
use crate::value::Amount;
use platter_block::text::{excerpt, short_size};

/// The columns of [`Plan::rows`].
const COLUMNS: [&str; 9] = ["job", "group", "starts", "rw", "bs", "depth", "region", "ends", "on"];

impl Plan {
    /// The heads of the columns.
    pub fn columns() -> &'static [&'static str] {
        &COLUMNS
    }

    /// A row for each section.
    pub fn rows(&self) -> Vec<Vec<String>> {
        self.jobs.iter().map(|job| self.row(job)).collect()
    }

    fn row(&self, planned: &Planned) -> Vec<String> {
        let ios = planned.ios();
        let name = excerpt(planned.job.name(), 30);
        let times = if planned.numjobs > 1 { format!(" ×{}", planned.numjobs) } else { String::new() };
        let access = planned.access();
        let modifier = access.modifier.map(|by| format!(":{by}")).unwrap_or_default();
        let files = planned.files(0);
        let file = files.first().map_or(String::new(), |file| excerpt(file, 40));
        let count = planned.file_count();
        let more = if count > 1 { format!(" and {} more", count - 1) } else { String::new() };
        let file = if planned.driver() == "null" { String::new() } else { format!(" {file}{more}") };
        vec![
            format!("{name}{times}"),
            planned.group.to_string(),
            self.starts(planned),
            format!("{}{modifier}{}", access.word, mix(&ios)),
            sizes(&ios),
            planned.number("iodepth").to_string(),
            region(&ios),
            ends(&ios),
            format!("{}{file}", planned.driver()),
        ]
    }

    fn starts(&self, planned: &Planned) -> String {
        let mut parts = Vec::new();
        if planned.stage > 0 {
            parts.push(format!("after stage {}", planned.stage - 1));
        }
        if let Some(at) = planned.wait_for {
            parts.push(format!("after {}", excerpt(self.jobs[at].job.name(), 20)));
        }
        match planned.delay_ns {
            [0, 0] => {}
            [low, high] if low == high => parts.push(format!("at {}", seconds(low))),
            [low, high] => parts.push(format!("at {} to {}", seconds(low), seconds(high))),
        }
        if parts.is_empty() { "at once".into() } else { parts.join(", ") }
    }
}

fn seconds(ns: u64) -> String {
    format!("{} s", ns as f64 / 1e9)
}

fn mix(ios: &Ios) -> String {
    match ios.shares_pct {
        [reads, writes, 0] if reads > 0 && writes > 0 => format!(" {reads}/{writes}"),
        _ => String::new(),
    }
}

/// Sizes of the directions that there are.
fn sizes(ios: &Ios) -> String {
    let used = ios.sizes.iter().zip(ios.shares_pct).filter(|(_, share)| *share > 0);
    let mut texts: Vec<String> = used.map(|(sizes, _)| one_size(sizes)).collect();
    texts.dedup();
    texts.join(", ")
}

fn one_size(sizes: &Sizes) -> String {
    match sizes {
        Sizes::One(size) => short_size(*size),
        Sizes::Range { least, most, .. } => format!("{}-{}", short_size(*least), short_size(*most)),
        Sizes::Split(parts) => {
            let parts: Vec<String> =
                parts.iter().map(|(size, share)| format!("{}/{share}", short_size(*size))).collect();
            parts.join(":")
        }
    }
}

fn amount(amount: Amount) -> String {
    match amount {
        Amount::Bytes(bytes) => short_size(bytes),
        Amount::Percent(percent) => format!("{percent}%"),
        Amount::Zones(zones) => format!("{zones} zones"),
    }
}

fn region(ios: &Ios) -> String {
    let size = ios.region.map_or("all".into(), amount);
    match ios.offset {
        Amount::Bytes(0) => size,
        offset => format!("{size} from {}", amount(offset)),
    }
}

fn ends(ios: &Ios) -> String {
    let mut parts = Vec::new();
    if let Some(ns) = ios.runtime_ns {
        parts.push(seconds(ns));
    }
    if let Some(count) = ios.number_ios {
        parts.push(format!("{count} I/Os"));
    }
    if !ios.time_based {
        parts.push(ios.transfer.map_or("once over".into(), amount));
    }
    parts.join(" or ")
}
