//! The log of a server: plain lines on stderr, events as JSON on stdout (`--json`), or by `tracing` (`--log`).

use super::args::Format;
use crate::cli::Context;
use platter_serve::control::Heard;
use platter_serve::events::Event;
use platter_serve::flood::LINES_PER_SECOND;
use serde_json::{Map, Value, json};

/// Where events go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Log {
    /// As objects on stdout.
    json: bool,
    /// As lines on stderr.
    lines: bool,
    /// By `tracing`.
    traced: bool,
}

impl Log {
    /// The log that the user has chosen. Called once in a process.
    pub(super) fn new(context: &Context, format: Option<Format>) -> Log {
        let make = tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).with_target(false);
        match format {
            Some(Format::Text) => make.init(),
            Some(Format::Json) => make.json().flatten_event(true).init(),
            None => {}
        }
        let traced = format.is_some();
        Log { json: context.json, lines: context.progress && !context.json && !traced, traced }
    }

    /// An event of an export.
    pub(super) fn event(self, event: &Event<'_>) {
        if self.json {
            print(&object(event));
        }
        if self.lines {
            Context::report_line(&event.to_string());
        }
        if self.traced {
            let (kind, export) = (event.name(), event.export());
            let client = event.client().map(|client| client.id);
            let device = event.client().map(|client| client.device.as_str());
            let (peer, why) = (event.peer(), event.why());
            match event {
                Event::Connected(_) | Event::Disconnected(..) => {
                    tracing::info!(event = kind, export, client, device, peer, why);
                }
                _ => tracing::warn!(event = kind, export, client, device, peer, why),
            }
        }
    }

    /// Something that the server itself does. `fields` are for programs, `text` for people.
    pub(super) fn tell(self, name: &str, fields: &[(&str, Value)], text: &str) {
        if self.json {
            let mut object = Map::new();
            object.insert("event".to_owned(), json!(name));
            object.extend(fields.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
            print(&Value::Object(object));
        }
        if self.lines {
            Context::report_line(text);
        }
        if self.traced {
            tracing::info!(event = name, "{text}");
        }
    }

    /// How many lines were left out before the next one.
    pub(super) fn left_out(self, lines: u64) {
        if lines > 0 {
            let text =
                format!("{lines} lines were left out: there are more than {LINES_PER_SECOND} a second");
            self.tell("left-out", &[("lines", json!(lines))], &text);
        }
    }

    /// What the control socket has heard: who has changed what, and who was refused.
    pub(super) fn control(self, heard: &Heard<'_>) {
        match heard {
            Heard::Refused(why) => self.warn("control-refused", why),
            Heard::Call { uid, pid, method, params, error } => {
                let fields = [
                    ("uid", json!(uid)),
                    ("pid", json!(pid)),
                    ("method", json!(method)),
                    ("params", json!(params)),
                    ("error", json!(error)),
                ];
                let given: String = params.iter().map(|(name, value)| format!(" {name}={value}")).collect();
                let end = error.map_or_else(|| "done".to_owned(), |error| format!("refused: {error}"));
                self.tell("control", &fields, &format!("user {uid} (process {pid}): {method}{given}: {end}"));
            }
            _ => {}
        }
    }

    /// A line for a log by `tracing`; elsewhere it is told in another way.
    pub(super) fn only_traced(self, name: &str, text: &str) {
        Log { json: false, lines: false, ..self }.warn(name, text);
    }

    /// Something that the server itself cannot do.
    pub(super) fn warn(self, name: &str, text: &str) {
        if self.json {
            print(&json!({ "event": name, "why": text }));
        }
        if self.lines {
            Context::report_line(text);
        }
        if self.traced {
            tracing::warn!(event = name, "{text}");
        }
    }
}

/// A log that cannot be written is no reason to stop serving.
fn print(object: &Value) {
    let _ = Context::print_text(&format!("{object}\n"));
}

fn object(event: &Event<'_>) -> Value {
    json!({
        "event": event.name(),
        "export": event.export(),
        "client": event.client().map(|client| client.id),
        "device": event.client().map(|client| client.device.as_str()),
        "peer": event.peer(),
        "why": event.why(),
    })
}
