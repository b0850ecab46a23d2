//! `platter man`: the manual page.

use crate::cli::{CliError, Context};
use clap::Args;

/// Arguments of `platter man`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  platter man > platter.1 && man ./platter.1")]
pub(crate) struct Man {
    /// Print the page of this verb, such as `copy` or `bench io`, instead of that of the whole command
    verb: Vec<String>,
}

impl Man {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let mut command = (context.command)();
        command.build();
        let mut name = "platter".to_owned();
        for verb in &self.verb {
            let Some(found) = command.find_subcommand(verb) else {
                let known: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
                return Err(CliError::usage(format!(
                    "{name} has no verb `{verb}`; it has: {}",
                    known.join(", ")
                )));
            };
            command = found.clone();
            name = format!("{name}-{verb}");
        }
        let mut page = Vec::new();
        clap_mangen::Man::new(command.disable_help_subcommand(true))
            .title(name)
            .render(&mut page)
            .map_err(|error| CliError::failed(format!("cannot make the manual page: {error}")))?;
        context.print(&String::from_utf8_lossy(&page))
    }
}
