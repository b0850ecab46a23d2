//! `platter completions`: a script for the shell.

use crate::cli::{CliError, Context};
use clap::Args;
use clap_complete::Shell;

/// Arguments of `platter completions`.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  platter completions bash > ~/.local/share/bash-completion/completions/platter"
)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut (context.command)(), "platter", &mut script);
        context.print(&String::from_utf8_lossy(&script))
    }
}
