//! The facts about the measured devices that a result shows: only those that the name of a device does not
//! contain and that are not defaults.

use crate::report::Terminal;
use platter_block::backend::{Backend, Fact};
use platter_block::params::{Param, Unit};
use platter_block::queue::Settings;
use platter_disk::device::Device;
use platter_disk::elevators;

/// Devices below one layer that are listed one by one.
const LISTED: usize = 8;

/// A device of a stack, with the facts to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Layers above it.
    pub depth: usize,
    /// Its name.
    pub name: String,
    /// Facts that are not defaults: name and value.
    pub facts: Vec<Fact>,
}

/// The devices of a stack from the top down, each before those below it.
pub fn about(device: &Device) -> Vec<Part> {
    let mut parts = Vec::new();
    add(device.backend().as_ref(), 0, &mut parts);
    parts
}

fn add(backend: &dyn Backend, depth: usize, parts: &mut Vec<Part>) {
    let below = backend.below();
    let inherited: Vec<Fact> = below.iter().flat_map(|below| below.facts()).collect();
    let own: Vec<Fact> = backend.facts().into_iter().filter(|fact| !inherited.contains(fact)).collect();
    let facts = own.iter().filter(|fact| !is_usual(&own, fact)).map(|(name, value)| (*name, plain(value)));
    parts.push(Part { depth, name: backend.name().to_string(), facts: facts.collect() });
    for member in below.iter().take(LISTED) {
        add(member.as_ref(), depth + 1, parts);
    }
    if let Some(more) = below.len().checked_sub(LISTED).filter(|&more| more > 0) {
        parts.push(Part { depth: depth + 1, name: format!("{more} more devices"), facts: Vec::new() });
    }
}

/// Whether a fact is redundant: a default, or contained in the name of the device.
fn is_usual(own: &[Fact], (name, value): &Fact) -> bool {
    let default = |count: u32| *value == count.to_string();
    let usual = Settings::default;
    match *name {
        // The layout of a layer and its members are in its name and in the lines below it.
        "layer" | "member" | "members" | "chunk" | "offset" | "length" => true,
        // `platter info` has them; no figure depends on them.
        "alignment from" | "file system" | "cache bytes per page" | "dirty bytes" => true,
        "driver" => matches!(value.as_str(), "null" | "ram" | "simulated"),
        "direct" => value == "yes",
        "barriers" => value.starts_with("drain"),
        "elevator" => value == "none",
        "depth" => default(usual().depth),
        "nr_requests" => default(usual().nr_requests),
        "dirty pages"
        | "pages being written"
        | "pages written back"
        | "pages evicted"
        | "write-back errors"
        | "writer waits"
        | "writer wait time" => value == "0",
        // What a cache is opened with by default.
        "write" => value == "back",
        "readahead" => value == "platter",
        "window" => value == "131072",
        "prefault" => value == "ahead",
        "extent" => value == "1048576",
        name => is_default_of_elevator(own, name, value),
    }
}

fn is_default_of_elevator(own: &[Fact], name: &str, value: &str) -> bool {
    let elevator = own.iter().find(|(key, _)| *key == "elevator");
    let Some(row) = elevator.and_then(|(_, elevator)| elevators::by_name(elevator)) else { return false };
    let default = |param: &Param| match param.unit {
        Unit::Word => param.show(param.default),
        unit => format!("{} {unit}", param.default),
    };
    row.params.iter().any(|param| param.name == name && default(param) == value)
}

/// A value without its unit if it is a word that means no value.
fn plain(value: &str) -> String {
    match value.strip_suffix(" 0/1") {
        Some("0") => "off".to_owned(),
        Some(_) => "on".to_owned(),
        None => value.trim_end_matches(" count").to_owned(),
    }
}

/// The parts as lines, one fact a line.
pub fn lines(parts: &[Part], terminal: Terminal) -> String {
    let mut out = String::new();
    for part in parts {
        let indent = 2 * part.depth;
        let over = if part.depth > 0 { "over " } else { "" };
        let mut line = |indent: usize, text: &str| {
            let text = terminal.indented(indent).paragraph(text, 2);
            text.lines().for_each(|line| out += &format!("{:indent$}{line}\n", ""));
        };
        line(indent, &format!("{over}{}", part.name));
        for (name, value) in &part.facts {
            line(indent + 2, &format!("{name}: {value}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_disk::disk_backend::DiskSettings;
    use platter_stack::raid0::{self, Sizes};

    fn text(device: &Device) -> String {
        lines(&about(device), Terminal::default())
    }

    #[test]
    fn defaults_go_without_saying() {
        let null = Device::null(1 << 20).unwrap();
        assert_eq!(text(&null), "null\n");
        let elevator = |name: &str| platter_elevators::by_name(name).map(|row| (row.make)());
        let usual = Device::null_with(1 << 20, DiskSettings::default(), elevator("deadline")).unwrap();
        assert_eq!(text(&usual), "null\n  elevator: deadline\n");
        usual.set_elevator_param("front_merges", 0).unwrap();
        usual.set_elevator_param("read_expire", 7).unwrap();
        assert_eq!(text(&usual), "null\n  elevator: deadline\n  read_expire: 7 ms\n  front_merges: off\n");
        let mut settings = DiskSettings::default();
        settings.queue.depth = 3;
        let shallow = Device::null_with(1 << 20, settings, None).unwrap();
        assert_eq!(text(&shallow), "null\n  depth: 3\n");
    }

    #[test]
    fn each_device_of_a_stack_has_its_lines() {
        let members: Vec<_> = (0..10).map(|_| Device::null(1 << 20).unwrap().backend().clone()).collect();
        let array = raid0::new(members, 4096, Sizes::Zones).unwrap();
        let text = text(&Device::new(array));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("raid0("), "{text}");
        assert_eq!(lines.iter().filter(|line| **line == "  over null").count(), LISTED, "{text}");
        assert_eq!(lines.last(), Some(&"  over 2 more devices"));
    }
}
