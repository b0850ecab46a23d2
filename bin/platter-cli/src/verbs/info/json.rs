//! The facts about a device as JSON. The keys are documented in docs/command.md.

use super::{Found, Unopened, own_facts};
use platter_block::backend::Backend;
use platter_block::limits::Limits;
use platter_disk::elevators;
use platter_disk::sys::{DeviceLimits, KernelQueue, Kind, Probe, WriteCache};
use serde_json::{Map, Value, json};
use std::path::Path;

/// Everything about one spec.
pub(super) fn of(found: &Found) -> Value {
    let mut object = match &found.device {
        Ok(device) => backend(device.as_ref()),
        Err(error) => json!({ "error": error.to_string() }),
    };
    object["spec"] = json!(found.spec);
    if let Ok(device) = &found.device {
        object["layers"] = platter_serve::layers::to_json(&device.layers());
    }
    object["kernel"] = found.paths.iter().map(|(path, probe)| kernel(path, probe)).collect();
    object
}

fn backend(device: &dyn Backend) -> Value {
    let geometry = device.geometry();
    let facts = own_facts(device);
    let fact = |key: &str| facts.iter().find(|(k, _)| *k == key).map(|(_, value)| value.as_str());
    let number = |key| fact(key).and_then(|value| value.parse::<u64>().ok());
    json!({
        "name": *device.name(),
        "size": geometry.size,
        "read_only": geometry.features.read_only,
        "write_cache": geometry.features.write_cache,
        "fua": geometry.features.fua,
        "limits": limits(&geometry.limits),
        "driver": fact("driver").map(|name| json!({
            "name": name,
            "why_fell_back": fact("driver fell back"),
            "direct": fact("direct").map(|word| word == "yes"),
            "why_not_direct": fact("not direct"),
        })),
        "elevator": fact("elevator").map(|name| json!({
            "name": name,
            "params": elevator_params(name, fact),
        })),
        "depth": number("depth"),
        "nr_requests": number("nr_requests"),
        "facts": facts.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect::<Map<_, _>>(),
        "below": device.below().iter().map(|below| backend(below.as_ref())).collect::<Vec<_>>(),
    })
}

/// The elevator's parameters, as numbers in their own units.
fn elevator_params<'f>(name: &str, fact: impl Fn(&str) -> Option<&'f str>) -> Map<String, Value> {
    let params = elevators::by_name(name).map_or(&[] as &[_], |row| row.params);
    let number = |name: &str| fact(name)?.split(' ').next()?.parse::<i64>().ok();
    params.iter().map(|param| (param.name.to_owned(), json!(number(param.name)))).collect()
}

fn limits(limits: &Limits) -> Value {
    json!({
        "logical_block": limits.logical_block,
        "physical_block": limits.physical_block,
        "memory_align": limits.memory_align,
        "max_transfer": limits.max_transfer,
        "max_segments": limits.max_segments,
        "max_segment_size": limits.max_segment_size,
        "segment_boundary": limits.segment_boundary,
        "chunk": limits.chunk,
        "optimal_io": limits.optimal_io,
        "discard_granularity": limits.discard_granularity,
        "max_discard": limits.max_discard,
        "write_zeroes": limits.write_zeroes,
        "atomic_write": limits.atomic_write,
    })
}

fn kernel(path: &Path, probe: &Result<Probe, Unopened>) -> Value {
    let path = path.to_string_lossy();
    let probe = match probe {
        Ok(probe) => probe,
        Err(Unopened { why, queue: known }) => {
            return json!({ "path": path, "error": why, "queue": known.as_ref().map(queue) });
        }
    };
    json!({
        "path": path,
        "kind": if probe.kind == Kind::Block { "block device" } else { "file" },
        "size": probe.size_bytes,
        "file_system": probe.filesystem.as_ref().map(|fs| &fs.name),
        "device": probe.device.map(|device| device.to_string()),
        "read_only": probe.read_only,
        "logical_block": probe.logical_block,
        "physical_block": probe.physical_block,
        "direct_io": probe.direct_io,
        "dio_mem_align": probe.dio_mem_align,
        "dio_offset_align": probe.dio_offset_align,
        "align_source": format!("{:?}", probe.align_source),
        "limits": device_limits(&probe.limits),
        "queue": probe.kernel.as_ref().map(queue),
    })
}

fn queue(queue: &KernelQueue) -> Value {
    let write_cache = queue.write_cache.map(|cache| match cache {
        WriteCache::WriteBack => "write back",
        WriteCache::WriteThrough => "write through",
    });
    json!({
        "disk": queue.disk,
        "scheduler": queue.scheduler,
        "schedulers": queue.schedulers,
        "nr_requests": queue.nr_requests,
        "write_cache": write_cache,
        "fua": queue.fua,
        "rotational": queue.rotational,
        "read_ahead_kb": queue.read_ahead_kb,
        "nomerges": queue.nomerges,
        "max_sectors_kb": queue.max_sectors_kb,
        "wbt_lat_usec": queue.wbt_lat_usec,
        "zoned": queue.zoned,
    })
}

fn device_limits(limits: &DeviceLimits) -> Value {
    json!({
        "minimum_io": limits.minimum_io,
        "optimal_io": limits.optimal_io,
        "max_io": limits.max_io,
        "max_hw_io": limits.max_hw_io,
        "max_segments": limits.max_segments,
        "max_segment_size": limits.max_segment_size,
        "chunk": limits.chunk,
        "discard_granularity": limits.discard_granularity,
        "discard_max": limits.discard_max,
        "write_zeroes_max": limits.write_zeroes_max,
        "atomic_write_unit_min": limits.atomic_write_unit_min,
        "atomic_write_unit_max": limits.atomic_write_unit_max,
    })
}
