//! The report for a terminal.

use super::{Report, Round};
use crate::device_stats::DeviceStats;
use crate::report::units::{bytes, fixed, thousands};
use crate::report::{Column, Table, Terminal};

impl Report {
    /// The report for a terminal.
    pub fn to_text(&self, terminal: impl Into<Terminal>) -> String {
        let terminal = terminal.into();
        let part = if self.interrupted { " The run was interrupted: rounds are missing." } else { "" };
        let method = format!(
            "Each device is read from its beginning by its own thread. Medians; least and most of {} rounds.{part}",
            self.results.iter().map(|runs| runs.rounds.len()).max().unwrap_or(0),
        );
        let mut all = DeviceStats::default();
        self.results.iter().for_each(|runs| all.merge(&runs.device));
        format!(
            "{}\n{}{}",
            self.table().to_text(terminal),
            terminal.paragraph(&method, 0),
            terminal.fact("errors of the devices", &all.errors_line())
        )
    }

    /// The modes as a table.
    pub fn table(&self) -> Table {
        let columns = [
            Column::text("mode"),
            Column::text("block"),
            Column::number("blocks", ""),
            Column::number("time", "s"),
            Column::number("rate", "MiB/s"),
            Column::number("least", "MiB/s"),
            Column::number("most", "MiB/s"),
            Column::number("CPUs idle", "%"),
            Column::number("CPU time", "s"),
            Column::number("finish spread", "s"),
        ];
        let mut table = Table::new(columns.into_iter().chain(DeviceStats::columns()));
        for runs in &self.results {
            let median = |of: fn(&Round) -> Option<f64>, decimals| {
                runs.sample(of).map_or("-".to_owned(), |sample| fixed(sample.median(), decimals))
            };
            let rate = runs.sample(|round| Some(round.mib_per_s));
            let of_rate = |which: fn(&crate::stats::Sample) -> f64| {
                rate.as_ref().map_or("-".to_owned(), |rate| fixed(which(rate), 2))
            };
            let blocks = runs.rounds.first().map_or(0, |round| round.bytes / runs.block.max(1));
            let cells = [
                runs.mode.name().to_owned(),
                bytes(runs.block),
                thousands(blocks),
                median(|round| Some(round.seconds), 3),
                of_rate(crate::stats::Sample::median),
                of_rate(crate::stats::Sample::min),
                of_rate(crate::stats::Sample::max),
                median(|round| round.cpu_idle_pct, 0),
                median(|round| Some(round.process_cpu_s), 3),
                median(|round| Some(round.finish_spread_s), 3),
            ];
            table.row(cells.into_iter().chain(runs.device.cells()));
        }
        table
    }
}
