//! Progress on stderr: a line that is drawn over on a terminal, else a line every few seconds.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// How often a terminal's line is drawn.
const TERMINAL: Duration = Duration::from_millis(200);
/// How often a line is written to anything else, and when the first one is.
const OTHER: Duration = Duration::from_secs(5);
const FIRST: Duration = Duration::from_secs(1);

/// The progress of one run. Dropping it clears a terminal's line.
pub(crate) struct Progress {
    shown: Option<Shown>,
}

struct Shown {
    terminal: bool,
    every: Duration,
    next: Instant,
    drawn: bool,
}

impl Progress {
    /// Progress that is shown if `on`.
    pub(crate) fn new(on: bool) -> Progress {
        let terminal = std::io::stderr().is_terminal();
        let (first, every) = if terminal { (TERMINAL, TERMINAL) } else { (FIRST, OTHER) };
        Progress { shown: on.then(|| Shown { terminal, every, next: Instant::now() + first, drawn: false }) }
    }

    /// Whether a line is due: ask before making one.
    pub(crate) fn is_due(&self) -> bool {
        self.shown.as_ref().is_some_and(|shown| Instant::now() >= shown.next)
    }

    /// Shows a line if one is due.
    pub(crate) fn offer(&mut self, line: impl FnOnce() -> String) {
        if self.is_due() {
            self.show(&line());
        }
    }

    /// Shows a line.
    pub(crate) fn show(&mut self, line: &str) {
        let Some(shown) = &mut self.shown else { return };
        shown.next = Instant::now() + shown.every;
        shown.drawn = true;
        let text = if shown.terminal { format!("\r{}\x1b[K", cut(line)) } else { format!("{line}\n") };
        // Progress that cannot be shown is no reason to fail.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }

    /// Removes a terminal's line, before something else is written.
    pub(crate) fn clear(&mut self) {
        if let Some(shown) = &mut self.shown
            && shown.terminal
            && std::mem::take(&mut shown.drawn)
        {
            let _ = std::io::stderr().write_all(b"\r\x1b[K");
        }
    }
}

/// The part of a line that fits on one line of the terminal: a longer one could not be redrawn.
fn cut(line: &str) -> String {
    let size = rustix::termios::tcgetwinsize(std::io::stderr()).ok();
    let columns = size.map_or(0, |size| usize::from(size.ws_col));
    if columns == 0 { line.to_owned() } else { line.chars().take(columns - 1).collect() }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
