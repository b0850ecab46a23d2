//! `platter ctl`: calls of a running server.

use crate::cli::{CliError, Context, Exit};
use clap::Args;
use platter::spec::{parse_size, reveal};
use platter_bench::report::{Column, Table, Terminal};
use platter_serve::control::{Call, CallError, METHODS, ParamDoc};
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `platter ctl`.
#[derive(Args, Debug)]
#[command(after_help = "\
Calls a method of a server that was started with --control SOCKET. Without a method it lists all of them. \
docs/control.md describes methods, results and errors. Integers may have a suffix: bandwidth_bytes_per_second=200M; \
values of parameters a unit: value=10s.

Examples:
  platter ctl /run/platter/control.sock
  platter ctl /run/platter/control.sock device.list
  platter ctl /run/platter/control.sock device.elevator device=db elevator=deadline
  platter ctl /run/platter/control.sock device.set_layer_param device=db param=expire value=10s
  platter ctl /run/platter/control.sock client.limits client=7 iops=1000

JSON: the result of the method, as the server returns it.

Exit status 3: the server cannot be reached; 2: the request is wrong; 4: the server or a device does not allow it.")]
pub(crate) struct Ctl {
    /// The control socket of the server
    #[arg(value_name = "SOCKET")]
    socket: PathBuf,
    /// The method, such as device.list
    #[arg(value_name = "METHOD")]
    method: Option<String>,
    /// Its parameters
    #[arg(value_name = "NAME=VALUE")]
    params: Vec<String>,
    /// The longest that a call may take
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = |text: &str| crate::cli::Time::parse(text, "s"))]
    timeout: crate::cli::Time,
}

/// Connects to the server.
pub(super) fn connect(socket: &std::path::Path, timeout: Duration) -> Result<Call, CliError> {
    Call::connect(socket, timeout).map_err(failed)
}

/// The exit status that an error of a call means.
pub(super) fn failed(error: CallError) -> CliError {
    let exit = match error {
        CallError::Refused { code: -32001, .. } => Exit::Refused,
        CallError::Refused { .. } => Exit::Usage,
        _ => Exit::CannotOpen,
    };
    CliError::new(exit, error.to_string())
}

impl Ctl {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let method = self.method.as_deref().unwrap_or("server.methods");
        let params = self.params(method)?;
        let mut call = connect(&self.socket, self.timeout.value)?;
        let result = call.call(method, Value::Object(params.clone())).map_err(failed)?;
        match (context.json, method) {
            (true, _) => context.print_json(&result),
            (false, "server.methods") => context.print(&methods(&result, context)),
            (false, "device.layers" | "device.set_layer_param") => {
                context.print(&asked_layers(&result, &params, context))
            }
            (false, _) => context.print(&to_text(&result, context.terminal)),
        }
    }

    fn params(&self, method: &str) -> Result<Map<String, Value>, CliError> {
        let known = METHODS.iter().find(|known| known.name == method);
        let mut params = Map::new();
        for param in &self.params {
            let Some((name, text)) = param.split_once('=') else {
                return Err(CliError::usage(format!("{param:?} is no parameter; expected NAME=VALUE")));
            };
            let doc = known.and_then(|known| known.params.iter().find(|doc| doc.name == name));
            if params.insert(name.to_owned(), value(doc, text)?).is_some() {
                return Err(CliError::usage(format!("{name} is given twice")));
            }
        }
        Ok(params)
    }
}

/// The value of a parameter. The server checks those that it knows and this program does not.
fn value(doc: Option<&ParamDoc>, text: &str) -> Result<Value, CliError> {
    let wrong = |doc: &ParamDoc, expected: &str| {
        CliError::usage(format!("{} is {text:?}; expected {expected}: {}", doc.name, doc.help))
    };
    match doc {
        Some(doc) if doc.kind == "switch" => match text {
            "true" | "on" | "yes" => Ok(true.into()),
            "false" | "off" | "no" => Ok(false.into()),
            _ => Err(wrong(doc, "true or false")),
        },
        // The server knows the unit of the parameter.
        Some(doc) if doc.kind == "quantity" => {
            Ok(text.parse::<i64>().map_or_else(|_| text.into(), |number| number.into()))
        }
        Some(doc) if doc.kind == "integer" => match (text.parse::<i64>(), parse_size(text)) {
            (Ok(number), _) => Ok(number.into()),
            (_, Ok(number)) => Ok(number.into()),
            _ => Err(wrong(doc, "an integer")),
        },
        // It goes to the server, which conceals secrets itself.
        _ => Ok(reveal(text).into()),
    }
}

fn methods(result: &Value, context: &Context) -> String {
    let mut text = String::new();
    for method in result.as_array().into_iter().flatten() {
        let shown = |param: &Value| {
            let name = param["name"].as_str().unwrap_or_default();
            if param["required"] == true { format!(" {name}=…") } else { format!(" [{name}=…]") }
        };
        let params: String = method["params"].as_array().into_iter().flatten().map(shown).collect();
        text += &format!("{}{params}\n", context.heading(method["name"].as_str().unwrap_or_default()));
        text += &context.terminal.paragraph(method["summary"].as_str().unwrap_or_default(), 4);
    }
    text
}

/// The layers of a device: all that is known of them, or the parameter that has been set.
fn asked_layers(result: &Value, params: &Map<String, Value>, context: &Context) -> String {
    let given = |name: &str| params.get(name).and_then(Value::as_str);
    let device = given("device").unwrap_or_default();
    let is_asked = |layer: &&Value| given("layer").is_none_or(|only| layer["device"] == only);
    let asked = result.as_array().into_iter().flatten().filter(is_asked);
    let text = layers(asked.map(|layer| (device, layer)), given("param"), context.terminal);
    text.unwrap_or_else(|| "none\n".to_owned())
}

/// The layers of devices, each with the name of its device: a line for each item of their status and for each of their
/// parameters, or for the parameter `only`. `None`: there are no such lines.
pub(super) fn layers<'v>(
    layers: impl IntoIterator<Item = (&'v str, &'v Value)>,
    only: Option<&str>,
    terminal: Terminal,
) -> Option<String> {
    let what = if only.is_some() { "parameter" } else { "status" };
    let mut table = Table::new(["device", "layer", what, "value", "unit"].map(Column::text));
    let lists: &[&str] = if only.is_some() { &["params"] } else { &["status", "params"] };
    let mut any = false;
    for (device, layer) in layers {
        let shown = cell(&layer["device"]);
        let kind = shown.split('(').next().unwrap_or_default();
        let items = lists.iter().flat_map(|list| layer[*list].as_array().into_iter().flatten());
        for item in items.filter(|item| only.is_none_or(|name| item["name"] == name)) {
            any = true;
            let [name, value, unit] = ["name", "value", "unit"].map(|key| cell(&item[key]));
            table.row([device.to_owned(), kind.to_owned(), name, value, unit]);
        }
    }
    any.then(|| table.to_text(terminal))
}

/// A result for people: a list of objects is a table, an object is a line for each key.
fn to_text(result: &Value, terminal: Terminal) -> String {
    match result {
        Value::Array(rows) if rows.is_empty() => "none\n".to_owned(),
        Value::Array(rows) if rows.iter().all(Value::is_object) => table(rows, terminal),
        Value::Object(object) => {
            let mut text = String::new();
            for (key, value) in object {
                let below = terminal.indented(2);
                match value {
                    Value::Array(rows) if key == "layers" && !rows.is_empty() => {
                        let name = result["name"].as_str().unwrap_or_default();
                        let rows = layers(rows.iter().map(|layer| (name, layer)), None, below);
                        text += &format!("{key}:\n{}", indented(&rows.unwrap_or_default()));
                    }
                    Value::Array(rows) if !rows.is_empty() && rows.iter().all(Value::is_object) => {
                        text += &format!("{key}:\n");
                        text += &indented(&rows_table(rows).to_text(below));
                    }
                    _ => text += &terminal.fact(key, &cell(value)),
                }
            }
            text
        }
        other => format!("{}\n", cell(other)),
    }
}

fn indented(lines: &str) -> String {
    lines.lines().map(|line| format!("  {line}\n")).collect()
}

fn table(rows: &[Value], terminal: Terminal) -> String {
    let has_layers = |row: &Value| row["layers"].as_array().is_some_and(|layers| !layers.is_empty());
    let table = rows_table(rows);
    if !rows.iter().any(has_layers) && table.fits(terminal) {
        return table.to_text(terminal);
    }
    // Too wide, or a cell that is a table itself: a paragraph for each object.
    let texts: Vec<String> = rows.iter().map(|row| to_text(row, terminal)).collect();
    texts.join("\n")
}

fn rows_table(rows: &[Value]) -> Table {
    let keys: Vec<&String> =
        rows.first().and_then(Value::as_object).into_iter().flat_map(Map::keys).collect();
    let column = |key: &&String| match rows.iter().all(|row| row[*key].is_number() || row[*key].is_null()) {
        true => Column::number(key.as_str(), ""),
        false => Column::text(key.as_str()),
    };
    let mut table = Table::new(keys.iter().map(column));
    for row in rows {
        table.row(keys.iter().map(|key| cell(&row[key.as_str()])));
    }
    table
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Bool(on) => (if *on { "yes" } else { "no" }).to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(list) if list.is_empty() => "none".to_owned(),
        Value::Array(list) => list.iter().map(cell).collect::<Vec<_>>().join("; "),
        Value::Object(object) => {
            object.iter().map(|(key, value)| format!("{key}={}", cell(value))).collect::<Vec<_>>().join(" ")
        }
        Value::Number(number) => number.to_string(),
    }
}
