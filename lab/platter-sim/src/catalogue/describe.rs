//! The parameters of a disk as a table of values.

use super::Kind;
use crate::cloud::CloudParams;
use crate::disk::DiskParams;
use crate::disk::params::{CacheParams, ControlParams, LayoutParams, MechanicsParams, SeekCurve};
use crate::flash::{SsdParams, Start};
use crate::ideal::Ideal;
use platter_block::time::Span;
use std::fmt::Display;

/// A value of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// The group it belongs to.
    pub group: &'static str,
    /// Its name.
    pub name: String,
    /// Its value as text.
    pub value: String,
    /// Its unit; empty for words and plain numbers.
    pub unit: &'static str,
}

struct Values(Vec<Value>);

impl Values {
    fn add(&mut self, group: &'static str, name: &str, value: impl Display, unit: &'static str) {
        self.0.push(Value { group, name: name.to_owned(), value: value.to_string(), unit });
    }

    /// Nanoseconds, shown as milliseconds.
    fn time(&mut self, group: &'static str, name: &str, nanos: u64) {
        self.add(group, name, millis(nanos), "ms");
    }

    fn signed_time(&mut self, group: &'static str, name: &str, nanos: i64) {
        let sign = if nanos < 0 { "-" } else { "" };
        self.add(group, name, format!("{sign}{}", millis(nanos.unsigned_abs())), "ms");
    }

    fn span(&mut self, group: &'static str, name: &str, span: Span) {
        self.time(group, name, span.0);
    }

    fn switch(&mut self, group: &'static str, name: &str, on: bool) {
        self.add(group, name, if on { "on" } else { "off" }, "");
    }
}

/// All parameters of a disk.
pub fn describe(kind: Kind) -> Vec<Value> {
    let mut values = Values(Vec::new());
    match kind {
        Kind::Mechanical(params) => return describe_mechanical(&params()),
        Kind::Flash(params) => flash(&mut values, &params()),
        Kind::Cloud(params) => cloud(&mut values, &params()),
        Kind::Ideal(params) => ideal(&mut values, params),
    }
    values.0
}

/// Nanoseconds in milliseconds, without zeros at the end.
fn millis(nanos: u64) -> String {
    let text = format!("{}.{:06}", nanos / 1_000_000, nanos % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// All parameters of a mechanical disk.
pub fn describe_mechanical(params: &DiskParams) -> Vec<Value> {
    let mut values = Values(Vec::new());
    layout(&mut values, &params.layout);
    mechanics(&mut values, &params.mechanics);
    control(&mut values, &params.control);
    cache(&mut values, &params.cache);
    let rate = |sector: u64| match sector {
        0 => "any".to_owned(),
        sector => format!("{:.1}", 512e6 / sector as f64),
    };
    values.add("interface", "reads", rate(params.bus.read_sector), "MB/s");
    values.add("interface", "writes", rate(params.bus.write_sector), "MB/s");
    values.time("interface", "arbitration", params.bus.arbitration);
    values.0
}

fn layout(values: &mut Values, layout: &LayoutParams) {
    let group = "layout";
    values.add(group, "heads", layout.heads, "");
    values.add(group, "cylinders", layout.cylinders, "");
    let sectors = layout.sectors.map_or("all that the zones hold".to_owned(), |sectors| sectors.to_string());
    values.add(group, "sectors", sectors, "");
    values.add(group, "mapping", format!("{:?}", layout.mapping), "");
    values.add(group, "sparing", format!("{:?}", layout.sparing), "");
    values.add(group, "zones", layout.zones.len(), "");
    let track =
        |zone: Option<&crate::disk::params::ZoneParams>| zone.map_or(0, |zone| zone.sectors_per_track);
    values.add(group, "outer track", track(layout.zones.first()), "sectors");
    values.add(group, "inner track", track(layout.zones.last()), "sectors");
    let slips: usize = layout.zones.iter().map(|zone| zone.slips.len()).sum();
    values.add(group, "skipped places", slips, "");
}

fn mechanics(values: &mut Values, mechanics: &MechanicsParams) {
    let group = "mechanics";
    values.add(group, "rotation", mechanics.rpm, "rpm");
    let kind = match &mechanics.seek {
        SeekCurve::Constant(_) => "constant".to_owned(),
        SeekCurve::Linear(_) => "two straight lines through three points".to_owned(),
        SeekCurve::Curve(_) => "a curve through three points".to_owned(),
        SeekCurve::Settling(_) => "acceleration and full speed through three points".to_owned(),
        SeekCurve::Hpl(_) => "root and straight line".to_owned(),
        SeekCurve::FirstTenHpl(..) => "ten measured points, then root and straight line".to_owned(),
        SeekCurve::Table(points) => format!("{} measured points", points.len()),
    };
    values.add(group, "seek curve", kind, "");
    if let SeekCurve::Curve(points) | SeekCurve::Linear(points) | SeekCurve::Settling(points) =
        &mechanics.seek
    {
        values.time(group, "seek of one cylinder", points.one);
        values.time(group, "average seek", points.average);
        values.time(group, "full seek", points.full);
    }
    values.time(group, "head switch", mechanics.head_switch);
    values.signed_time(group, "write settling", mechanics.write_settle);
}

fn control(values: &mut Values, control: &ControlParams) {
    let group = "control";
    values.time(group, "each command", control.per_request);
    for (name, after) in [
        ("read from the buffer", control.read_hit),
        ("read from the medium", control.read_miss),
        ("write into the buffer", control.write_hit),
        ("write to the medium", control.write_miss),
        ("leaving the bus in a read", control.read_disconnect),
    ] {
        values.time(group, &format!("{name}, after a read"), after.read);
        values.time(group, &format!("{name}, after a write"), after.write);
    }
    for (name, time) in [
        ("end of a read", control.read_complete),
        ("end of a write", control.write_complete),
        ("before data", control.data_preparation),
        ("first return to the bus", control.reselect_first),
        ("other returns to the bus", control.reselect_other),
        ("leaving the bus in a write", control.write_disconnect),
        ("least positioning before a write", control.minimum_seek),
    ] {
        values.time(group, name, time);
    }
    if let Some(extra) = control.extra_disconnect {
        values.time(group, "additional disconnect, command", extra.command);
        values.time(group, "additional disconnect, first", extra.disconnect);
        values.time(group, "additional disconnect, in between", extra.between);
        values.time(group, "additional disconnect, second", extra.second_disconnect);
        values.time(group, "additional disconnect, arm", extra.seek_delay);
    }
    values.switch(group, "bus kept for reads", control.hold_bus_read);
    values.switch(group, "bus kept for writes", control.hold_bus_write);
    values.switch(group, "bus never left", control.never_disconnect);
    values.add(group, "arm leaves", format!("{:?}", control.preseek), "");
    if let Some(most) = control.most_sectors {
        values.add(group, "most sectors of a command", most, "");
    }
}

fn cache(values: &mut Values, cache: &CacheParams) {
    let group = "cache";
    values.add(group, "segments", cache.segments, "");
    values.add(group, "segment size", cache.segment_size, "sectors");
    values.add(group, "write segments", cache.write_segments, "");
    values.switch(group, "a segment for writes only", cache.dedicated_write_segment);
    values.add(group, "write-back", format!("{:?}", cache.write_back), "");
    values.add(group, "read-ahead", format!("{:?}", cache.read_ahead), "");
    values.add(group, "least read-ahead", cache.read_ahead_minimum, "sectors");
    values.add(group, "most read-ahead", cache.read_ahead_maximum, "sectors");
    values.add(group, "kept of what was read", format!("{:?}", cache.keep), "");
    for (name, on) in [
        ("kept after use", cache.enabled),
        ("read-ahead after hits", cache.read_ahead_on_hit),
        ("sectors that pass are read", cache.read_free_blocks),
        ("read-ahead stops within a sector", cache.stop_in_sector),
        ("writes stop read-ahead", cache.write_stops_read_ahead),
        ("reads of written data", cache.read_hits_on_writes),
        ("hits on what is being read", cache.almost_hits),
        ("hits beside another command", cache.sneaky_full_hits),
        ("partial hits at once", cache.partial_hits_at_once),
        ("writes join", cache.combine_writes),
        ("writes beside another command", cache.write_prebuffering),
        ("reads in any order", cache.zero_latency_read),
        ("writes in any order", cache.zero_latency_write),
        ("space before reading", cache.read_directly),
        ("watermarks by request", cache.watermark_by_request),
    ] {
        values.switch(group, name, on);
    }
    values.add(group, "watermark of reads", f64::from(cache.read_watermark) / 1e4, "%");
    values.add(group, "watermark of writes", f64::from(cache.write_watermark) / 1e4, "%");
}

fn flash(values: &mut Values, params: &SsdParams) {
    let group = "flash";
    values.add(group, "size", params.size, "bytes");
    values.add(group, "channels", params.channels, "");
    values.add(group, "dies of a channel", params.dies, "");
    values.add(group, "planes of a die", params.planes, "");
    values.add(group, "page", params.page, "bytes");
    values.add(group, "pages of a block", params.pages, "");
    values.add(group, "over-provisioning, at least", f64::from(params.over_provisioning) / 10.0, "%");
    values.span(group, "read", params.read);
    values.span(group, "program", params.program);
    values.span(group, "erase", params.erase);
    values.add(group, "channel", params.channel_rate / 1_000_000, "MB/s");
    values.add(group, "state at first", state(params.start), "");
    values.add("link", "rate", params.link.rate / 1_000_000, "MB/s");
    values.switch("link", "both ways at once", params.link.full_duplex);
    values.add("link", "queues", params.link.queues, "");
    values.add("link", "commands of a queue", params.link.depth, "");
    values.span("controller", "each command", params.control.command);
    values.span("controller", "latency", params.control.latency);
    match params.background {
        Some(after) => values.span("controller", "collects garbage when idle for", after),
        None => values.switch("controller", "collects garbage when idle", false),
    }
    values.add("buffer", "size", params.buffer.bytes, "bytes");
    values.switch("buffer", "write-back", params.buffer.write_back);
    values.switch("buffer", "protected against power cuts", params.buffer.protected);
    if params.slc.bytes == 0 {
        return values.switch("SLC cache", "there is one", false);
    }
    values.add("SLC cache", "size", params.slc.bytes, "bytes");
    values.add("SLC cache", "bits of a cell otherwise", params.slc.bits, "");
    values.span("SLC cache", "read", params.slc.read);
    values.span("SLC cache", "program", params.slc.program);
}

/// The initial state of a flash disk, in words.
pub(super) fn state(start: Start) -> &'static str {
    match start {
        Start::Erased => "erased: reads of what was never written touch no flash",
        Start::Steady => "steady: full, and written at random for long",
    }
}

fn cloud(values: &mut Values, params: &CloudParams) {
    let group = "volume";
    values.add(group, "size", params.size, "bytes");
    values.span(group, "read", params.read);
    values.span(group, "write", params.write);
    values.span(group, "jitter, up to", params.jitter);
    values.add(group, "commands in the tail", f64::from(params.tail_per_million) / 1e4, "%");
    values.span(group, "tail", params.tail);
    values.add(group, "I/Os", params.iops.per_second, "1/s");
    values.add(group, "I/Os in a burst", params.iops.burst, "");
    values.add(group, "one I/O, up to", params.io_unit, "bytes");
    values.add(group, "throughput", params.throughput.per_second, "bytes/s");
    values.add(group, "burst", params.throughput.burst, "bytes");
    values.add(group, "commands", params.depth, "");
}

fn ideal(values: &mut Values, ideal: Ideal) {
    values.add("disk", "size", ideal.size, "bytes");
    values.span("disk", "each command", ideal.latency);
    values.add("disk", "commands", ideal.depth, "");
    values.switch("disk", "write cache", ideal.write_cache);
}
