//! The context of a verb, in addition to its own arguments.

use super::signals;
use super::{CliError, Common};
use clap::ColorChoice;
use platter_bench::report::Terminal;
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::sync::atomic::AtomicBool;

/// How to show results, and whether to stop.
pub(crate) struct Context {
    /// Print results as JSON.
    pub(crate) json: bool,
    /// The terminal on stdout.
    pub(crate) terminal: Terminal,
    /// Show progress on stderr.
    pub(crate) progress: bool,
    /// Makes the parser of the whole command line, of which manual pages and completions are made.
    pub(crate) command: fn() -> clap::Command,
}

impl Context {
    pub(crate) fn new(common: &Common, command: fn() -> clap::Command) -> Context {
        signals::install();
        Context {
            json: common.json,
            terminal: Terminal { color: use_color(common.color), width: width() },
            progress: !common.quiet,
            command,
        }
    }

    /// A context for tests, without handlers of signals.
    #[cfg(test)]
    pub(crate) fn quiet() -> Context {
        let terminal = Terminal { color: false, width: None };
        Context { json: false, terminal, progress: false, command: || clap::Command::new("platter") }
    }

    /// Whether the user requested a stop. After this has said so, the verb has all the time that it needs to end.
    pub(crate) fn is_interrupted(&self) -> bool {
        signals::is_interrupted()
    }

    /// The flag that the first SIGINT, SIGTERM or SIGHUP sets; the second one ends the process. From now on the verb
    /// looks at the flag. Before, the first signal ends the process if the verb has not ended within 0.6 s.
    pub(crate) fn stop_flag(&self) -> &'static AtomicBool {
        signals::attend()
    }

    /// Does what may wait without a look at the flag, such as opening a device: a signal ends the process meanwhile.
    pub(crate) fn unattended<T>(run: impl FnOnce() -> T) -> T {
        signals::unattended(run)
    }

    /// Sets what is done before a signal ends the process while the verb waits.
    pub(crate) fn at_end(last: Option<fn()>) {
        signals::at_end(last);
    }

    /// Sleeps until a signal asks to stop. The verb stops then.
    pub(crate) fn wait_for_stop() {
        signals::wait_for_stop();
    }

    /// Sleeps until SIGHUP asks to read the configuration again.
    pub(crate) fn wait_for_reload() {
        signals::wait_for_reload();
    }

    /// From now on SIGHUP is a request to read the configuration again, and no longer one to stop; those to stop are carried
    /// out.
    pub(crate) fn catch_hangup() {
        signals::catch_hangup();
    }

    /// The error of a verb that was interrupted; `message` describes how far it got.
    pub(crate) fn interruption(&self, message: impl Into<String>) -> CliError {
        CliError::new(signals::exit(), message)
    }

    /// Writes to stdout.
    pub(crate) fn print(&self, text: &str) -> Result<(), CliError> {
        Context::print_text(text)
    }

    /// Writes to stdout, from any thread.
    pub(crate) fn print_text(text: &str) -> Result<(), CliError> {
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(CliError::output)
    }

    /// Writes a result as JSON to stdout, its keys in the order of their names, ended by a line feed.
    pub(crate) fn print_json(&self, result: &impl Serialize) -> Result<(), CliError> {
        let value = serde_json::to_value(result).map_err(|error| CliError::failed(error.to_string()))?;
        self.print(&format!("{value:#}\n"))
    }

    /// Shows a result: as JSON or as text, as the command line says.
    pub(crate) fn show(&self, result: &impl Serialize, text: &str) -> Result<(), CliError> {
        if self.json { self.print_json(result) } else { self.print(text) }
    }

    /// The error of a verb whose result was shown, if it was interrupted.
    pub(crate) fn unless(&self, interrupted: bool, message: &str) -> Result<(), CliError> {
        if interrupted { Err(self.interruption(message)) } else { Ok(()) }
    }

    /// Prints a note on stderr, apart from the result.
    pub(crate) fn note(&self, text: &str) {
        // Without a stderr the note is lost, which is no reason to fail.
        let _ = writeln!(std::io::stderr(), "platter: note: {text}");
    }

    /// Writes a line about what happens to stderr, from any thread.
    pub(crate) fn report_line(text: &str) {
        // Without a stderr the line is lost, which is no reason to fail.
        let _ = writeln!(std::io::stderr(), "platter: {text}");
    }

    /// A heading for stdout, bold where colour is used.
    pub(crate) fn heading(&self, text: &str) -> String {
        self.terminal.heading(text)
    }
}

/// Columns for results: COLUMNS if it is set, otherwise those of the terminal on stdout. `None` for a file or
/// a pipe, whose readers need each row on one line.
fn width() -> Option<usize> {
    let columns = std::env::var("COLUMNS").ok().and_then(|text| text.trim().parse().ok());
    let terminal = || {
        let stdout = std::io::stdout();
        let size = stdout.is_terminal().then(|| rustix::termios::tcgetwinsize(&stdout).ok()).flatten()?;
        Some(usize::from(size.ws_col))
    };
    columns.or_else(terminal).filter(|&columns: &usize| columns > 0)
}

fn use_color(choice: ColorChoice) -> bool {
    let variable = |name| std::env::var_os(name).is_some_and(|value: std::ffi::OsString| !value.is_empty());
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
            std::io::stdout().is_terminal() && !variable("NO_COLOR") && !dumb
        }
    }
}
