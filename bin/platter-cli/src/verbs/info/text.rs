//! The facts about a device for people: lines of key and value.

use super::{Found, Unopened, own_facts};
use crate::cli::Context;
use platter_bench::report::units::{bytes, thousands};
use platter_block::backend::Backend;
use platter_block::limits::Limits;
use platter_block::params::Unit;
use platter_disk::sys::{AlignSource, KernelQueue, Kind, Probe, WriteCache};
use std::fmt::Display;

/// Keys and values that line up.
struct Lines {
    indent: usize,
    rows: Vec<(String, String)>,
}

impl Lines {
    fn new(indent: usize) -> Lines {
        Lines { indent, rows: Vec::new() }
    }

    fn add(&mut self, key: impl Into<String>, value: impl Display) -> &mut Lines {
        self.rows.push((key.into(), value.to_string()));
        self
    }

    fn add_if<T: Display>(&mut self, key: &str, value: Option<T>) -> &mut Lines {
        if let Some(value) = value {
            self.add(key, value);
        }
        self
    }

    fn to_text(&self) -> String {
        let width = self.rows.iter().map(|(key, _)| key.chars().count()).max().unwrap_or(0);
        let line = |(key, value): &(String, String)| {
            let pad = width - key.chars().count();
            format!("{:indent$}{key}{:pad$}  {value}\n", "", "", indent = self.indent)
        };
        self.rows.iter().map(line).collect()
    }
}

/// Everything about one spec.
pub(super) fn of(found: &Found, context: &Context) -> String {
    let mut text = format!("{}\n", context.heading(&found.spec));
    match &found.device {
        Ok(device) => backend(device.as_ref(), 2, context, &mut text),
        Err(error) => text += &format!("  {error}\n"),
    }
    for (path, probe) in &found.paths {
        text += &format!("  {}\n", context.heading(&format!("the kernel about {}", path.display())));
        match probe {
            Ok(probe) => text += &kernel(probe).to_text(),
            Err(Unopened { why, queue }) => {
                text += &format!("    {why}\n");
                let mut lines = Lines::new(4);
                if let Some(queue) = queue {
                    kernel_queue(queue, &mut lines);
                }
                text += &lines.to_text();
            }
        }
    }
    text
}

fn backend(device: &dyn Backend, indent: usize, context: &Context, text: &mut String) {
    let geometry = device.geometry();
    let mut lines = Lines::new(indent);
    lines.add("size", size(geometry.size));
    limits(&geometry.limits, &mut lines);
    let features = geometry.features;
    lines.add("writes", if features.read_only { "refused: opened to read only" } else { "allowed" });
    let cache = match (features.write_cache, features.fua) {
        (false, _) => "none: a completed write is durable",
        (true, true) => "write-back; single writes can be durable (FUA)",
        (true, false) => "write-back",
    };
    lines.add("write cache", cache);
    facts(device, &mut lines);
    *text += &lines.to_text();
    for below in device.below() {
        let heading = context.heading(&format!("over {}", below.name()));
        *text += &format!("{:indent$}{heading}\n", "");
        backend(below.as_ref(), indent + 2, context, text);
    }
}

/// The device's own facts. Those that a layer states in bytes have units, as the other sizes here.
fn facts(device: &dyn Backend, lines: &mut Lines) {
    let items = device.managed().map(|layer| layer.status()).unwrap_or_default();
    for (key, value) in own_facts(device) {
        let unit = items.iter().find(|item| item.name == key).map(|item| item.unit);
        match (unit, value.parse::<u64>()) {
            (Some(Unit::Bytes), Ok(number)) => lines.add(key, bytes(number)),
            _ => lines.add(key, shown(&value)),
        };
    }
}

/// A value without its unit if it is a word that means no value.
fn shown(value: &str) -> &str {
    match value.strip_suffix(" 0/1") {
        Some("0") => "off",
        Some(_) => "on",
        None => value.trim_end_matches(" count").trim_end_matches(" word"),
    }
}

fn limits(limits: &Limits, lines: &mut Lines) {
    lines.add("logical block", bytes(limits.logical_block.into()));
    lines.add("physical block", bytes(limits.physical_block.into()));
    lines.add("memory alignment", bytes(limits.memory_align.into()));
    lines.add(
        "largest request",
        format!("{} in {} segments", bytes(limits.max_transfer.into()), limits.max_segments),
    );
    if limits.chunk > 0 {
        lines.add("requests end at", format!("multiples of {}", bytes(limits.chunk)));
    }
    if limits.optimal_io > 0 {
        lines.add("optimal request", bytes(limits.optimal_io.into()));
    }
    let discard = match limits.discard_granularity {
        0 => "not supported".to_owned(),
        unit => format!("in units of {}", bytes(unit.into())),
    };
    lines.add("discard", discard);
    lines.add("write-zeroes", if limits.write_zeroes { "supported" } else { "not supported" });
    if limits.atomic_write > 0 {
        lines.add("atomic write", format!("up to {}", bytes(limits.atomic_write.into())));
    }
}

fn kernel(probe: &Probe) -> Lines {
    let mut lines = Lines::new(4);
    let kind = match (probe.kind, &probe.filesystem) {
        (Kind::Block, _) => "block device".to_owned(),
        (Kind::Regular, Some(fs)) => format!("file on {}", fs.name),
        (Kind::Regular, None) => "file".to_owned(),
    };
    lines.add("kind", kind).add("size", size(probe.size_bytes));
    let source = match probe.align_source {
        AlignSource::Statx => "as statx says",
        AlignSource::BlockSize => "its logical block",
        AlignSource::BackingDevice => "the logical block of the device under it",
        AlignSource::Assumed => "assumed: nothing says",
    };
    let direct = match probe.direct_io {
        Some(false) => "not supported".to_owned(),
        _ => format!(
            "offsets at multiples of {}, memory of {} ({source})",
            probe.dio_offset_align, probe.dio_mem_align
        ),
    };
    lines.add("direct I/O", direct);
    lines.add_if("device number", probe.device);
    if probe.read_only == Some(true) {
        lines.add("read-only", "yes");
    }
    match &probe.kernel {
        Some(queue) => kernel_queue(queue, &mut lines),
        None => {
            lines.add("queue", "sysfs says nothing about a device here");
        }
    }
    lines
}

fn kernel_queue(queue: &KernelQueue, lines: &mut Lines) {
    let yes = |flag: bool| if flag { "yes" } else { "no" };
    lines.add_if("disk", queue.disk.as_ref());
    lines.add_if(
        "scheduler",
        queue.scheduler.as_ref().map(|name| format!("{name} (of {})", queue.schedulers.join(", "))),
    );
    lines.add_if("requests (nr_requests)", queue.nr_requests);
    lines.add_if("rotational", queue.rotational.map(yes));
    lines.add_if(
        "write cache",
        queue.write_cache.map(|cache| match cache {
            WriteCache::WriteBack => "write back: writes may be lost until a flush",
            WriteCache::WriteThrough => "write through: a completed write is durable",
        }),
    );
    lines.add_if("FUA", queue.fua.map(yes));
    lines.add_if("readahead (buffered)", queue.read_ahead_kb.map(|kb| bytes(kb << 10)));
    lines.add_if("largest request", queue.max_sectors_kb.map(|kb| bytes(kb << 10)));
    lines.add_if(
        "merges",
        queue.nomerges.map(|level| match level {
            0 => "all (nomerges=0)".to_owned(),
            1 => "simple ones (nomerges=1)".to_owned(),
            level => format!("none (nomerges={level})"),
        }),
    );
    lines.add_if(
        "write-back throttling",
        queue.wbt_lat_usec.map(|us| if us == 0 { "off".to_owned() } else { format!("target {us} us") }),
    );
    lines.add_if("zones", queue.zoned.as_ref().filter(|zoned| *zoned != "none"));
}

fn size(size: u64) -> String {
    format!("{} ({} bytes)", bytes(size), thousands(size))
}
