//! `platter bench io`: the general workload.

use crate::cli::progress::Progress;
use crate::cli::{CliError, Context, On};
use clap::Args;
use platter::registry::Access;

/// Arguments of `platter bench io`.
#[derive(Args, Debug)]
pub(crate) struct Io {
    #[command(flatten)]
    on: On,
}

impl Io {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let devices = self.on.open(Access::read_write())?;
        let mut progress = Progress::new(context.progress);
        if progress.is_due() {
            progress.show("0 I/Os");
        }
        progress.clear();
        for device in &devices {
            context.note(&format!("{} has {} bytes", device.name(), device.size()));
        }
        context.print_table(&platter_bench::report::Table::new([]))?;
        if context.is_interrupted() {
            return Err(context.interruption("interrupted"));
        }
        context.print(&context.heading("bench io"))?;
        match context.json {
            true => context.print_json(&serde_json::json!({})),
            false => Err(CliError::failed("no workload is there yet")),
        }
    }
}
