//! A device as a tree: one line for it and for each device below it.

use super::{Found, Unopened, own_facts};
use crate::cli::Context;
use platter::spec::format_size;
use platter_bench::report::units::bytes;
use platter_block::backend::Backend;
use platter_block::params::Unit;
use platter_block::status::Value;
use platter_cache::readahead::PAGE;
use platter_disk::sys::{Kind, Probe};

/// A line: the branches before the device, its name, its size, and other facts.
struct Line {
    branch: String,
    label: String,
    size: String,
    about: Vec<String>,
}

/// The trees of all specs, in columns that line up.
pub(super) fn of(all: &[Found], context: &Context) -> String {
    let mut lines = Vec::new();
    for found in all {
        match &found.device {
            Ok(device) => add(device.as_ref(), found, (String::new(), String::new()), &mut lines),
            Err(_) => unopened(found, &mut lines),
        }
    }
    let width = |line: &Line| line.branch.chars().count() + line.label.chars().count();
    let name = lines.iter().map(width).max().unwrap_or(0);
    let size = lines.iter().map(|line| line.size.len()).max().unwrap_or(0);
    let mut text = String::new();
    for line in &lines {
        let pad = name - width(line);
        let label = if line.branch.is_empty() { context.heading(&line.label) } else { line.label.clone() };
        let whole =
            format!("{}{label}{:pad$}  {:>size$}  {}", line.branch, "", line.size, line.about.join(", "));
        text += whole.trim_end();
        text.push('\n');
    }
    text
}

/// Adds a device and those below it. `branches` are the prefixes of its own line and of those below it.
fn add(device: &dyn Backend, found: &Found, branches: (String, String), lines: &mut Vec<Line>) {
    let (branch, stem) = branches;
    let below = device.below();
    let about = if below.is_empty() { about_disk(device, found) } else { about_layer(device) };
    lines.push(Line { branch, label: label(device), size: bytes(device.geometry().size), about });
    for (nth, member) in below.iter().enumerate() {
        let is_last = nth + 1 == below.len();
        let (branch, further) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        add(member.as_ref(), found, (format!("{stem}{branch}"), format!("{stem}{further}")), lines);
    }
}

/// The name of a disk; for a layer its name and parameters, without the devices below it.
fn label(device: &dyn Backend) -> String {
    let name = device.name();
    let below = device.below();
    let inside = name.split_once('(').and_then(|(layer, rest)| Some((layer, rest.strip_suffix(')')?)));
    let Some((layer, inside)) = inside.filter(|_| !below.is_empty()) else { return name.to_string() };
    let mut inside = inside.to_owned();
    for member in &below {
        inside = inside.replacen(&*member.name(), "", 1);
    }
    let params: Vec<String> = inside
        .split(", ")
        .map(|param| param.trim_matches([',', ' ']))
        .filter(|param| !param.is_empty())
        .map(|param| with_unit(layer, param))
        .collect();
    format!("{layer} {}", params.join(" ")).trim_end().to_owned()
}

/// `offset=65536` as an operator writes it: `offset=64K`.
fn with_unit(layer: &str, param: &str) -> String {
    let row = platter_cache::by_name(layer);
    let number = param.split_once('=').and_then(|(name, value)| Some((name, value.parse::<u64>().ok()?)));
    let (Some(row), Some((name, number))) = (row, number) else { return param.to_owned() };
    let is_size = row.params.iter().any(|param| param.name == name && param.unit == Unit::Bytes);
    if is_size { format!("{name}={}", format_size(number)) } else { param.to_owned() }
}

/// Of a page cache: its memory, and when writes complete.
fn about_layer(device: &dyn Backend) -> Vec<String> {
    let items = device.managed().map(|layer| layer.status()).unwrap_or_default();
    let value = |name: &str| items.iter().find(|item| item.name == name).map(|item| &item.value);
    let mut about = Vec::new();
    if let Some(Value::Number(pages)) = value("cache pages") {
        about.push(format!("{} of memory", bytes(pages * PAGE)));
    }
    if let Some(Value::Text(write)) = value("write") {
        about.push(format!("write-{write}"));
    }
    about
}

/// How a disk is driven.
fn about_disk(device: &dyn Backend, found: &Found) -> Vec<String> {
    let facts = own_facts(device);
    let fact = |key: &str| facts.iter().find(|(k, _)| *k == key).map(|(_, value)| value.as_str());
    let mut about = Vec::new();
    let name = device.name();
    let is_this = |path: &std::path::Path| path.to_string_lossy() == *name;
    if let Some((_, Ok(probe))) = found.paths.iter().find(|(path, _)| is_this(path)) {
        about.push(kind(probe));
    }
    if let Some(driver) = fact("driver") {
        let better = fact("driver fell back").map_or_else(String::new, |why| format!(" ({why})"));
        about.push(format!("driver {driver}{better}"));
    }
    about.extend(
        fact("direct").map(|direct| (if direct == "yes" { "direct" } else { "buffered" }).to_owned()),
    );
    about.extend(fact("elevator").map(|elevator| format!("elevator {elevator}")));
    about.extend(fact("depth").map(|depth| format!("depth {depth}")));
    if device.geometry().features.write_cache {
        about.push("write-back cache".to_owned());
    }
    about
}

fn kind(probe: &Probe) -> String {
    match (probe.kind, &probe.filesystem) {
        (Kind::Block, _) => "block device".to_owned(),
        (Kind::Regular, Some(fs)) => format!("file on {}", fs.name),
        (Kind::Regular, None) => "file".to_owned(),
    }
}

/// The system's information about a device that cannot be opened. The reason is the error of the run.
fn unopened(found: &Found, lines: &mut Vec<Line>) {
    let line = |branch: &str, label: String, size: String, about: Vec<String>| Line {
        branch: branch.to_owned(),
        label,
        size,
        about,
    };
    lines.push(line("", found.spec.clone(), String::new(), vec!["cannot be opened".to_owned()]));
    for (nth, (path, probe)) in found.paths.iter().enumerate() {
        let branch = if nth + 1 == found.paths.len() { "└─ " } else { "├─ " };
        let (size, about) = match probe {
            Ok(probe) => (bytes(probe.size_bytes), kind(probe)),
            Err(Unopened { why, .. }) => (String::new(), why.clone()),
        };
        lines.push(line(branch, path.display().to_string(), size, vec![about]));
    }
}
