//! The table of methods.

mod attend;

use super::error::RpcError;
use super::params::{ParamDoc, Params};
use crate::config::{DeviceConfig, ExportConfig};
use crate::daemon::{Daemon, DaemonError, report};
use crate::error::ServeError;
use crate::layers;
use crate::served::Served;
use crate::server::there_are;
use platter::{registry, spec};
use platter_block::params::{Param, Unit};
use platter_block::text::excerpt;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// The version of the methods and their results. It changes when one of them changes so that a caller could break.
pub const PROTOCOL: u32 = 1;

/// A method.
pub struct Method {
    /// Its name.
    pub name: &'static str,
    /// Its parameters.
    pub params: &'static [ParamDoc],
    /// One line.
    pub summary: &'static str,
    pub(super) run: fn(&Daemon, &Params) -> Result<Value, RpcError>,
}

const fn required(name: &'static str, kind: &'static str, help: &'static str) -> ParamDoc {
    ParamDoc { name, kind, required: true, help }
}

const fn optional(name: &'static str, kind: &'static str, help: &'static str) -> ParamDoc {
    ParamDoc { name, kind, required: false, help }
}

const DEVICE: ParamDoc = required("device", "text", "the name of a device");
const EXPORT: ParamDoc = required("export", "text", "the name of an export");
const CLIENT: ParamDoc = required("client", "integer", "the number of a client");
const IOPS: ParamDoc = optional("iops", "integer", "requests started per second; 0: no limit");
const BANDWIDTH: ParamDoc = optional("bandwidth_bytes_per_second", "integer", "0: no limit");
const BURST: ParamDoc = optional("burst_us", "integer", "idle time that may be caught up on");
const DEPTH: ParamDoc = optional("depth", "integer", "requests in the device at a time; 0: no limit");
const WEIGHT: ParamDoc = optional("weight", "integer", "part of the device's limits, 1 to 1000");

/// All methods.
pub const METHODS: &[Method] = &[
    Method { name: "server.info", params: &[], summary: "version, process, uptime", run: server_info },
    Method {
        name: "server.methods",
        params: &[],
        summary: "all methods and their parameters",
        run: server_methods,
    },
    Method {
        name: "server.status",
        params: &[],
        summary: "devices, exports, clients and health at once",
        run: |daemon, _| Ok(daemon.status()),
    },
    Method {
        name: "server.health",
        params: &[],
        summary: "whether I/O makes progress, and what is wrong",
        run: |daemon, _| Ok(daemon.health()),
    },
    Method {
        name: "server.reload",
        params: &[],
        summary: "read the configuration file again and apply what differs",
        run: server_reload,
    },
    Method {
        name: "server.drain",
        params: &[optional(
            "timeout_ms",
            "integer",
            "time that clients and flushes have; by default stop_timeout of the configuration",
        )],
        summary: "stop: answer what clients have sent, flush, exit",
        run: server_drain,
    },
    Method {
        name: "device.list",
        params: &[],
        summary: "all devices",
        run: |daemon, _| Ok(daemon.devices_report().into()),
    },
    Method {
        name: "device.add",
        params: &[
            DEVICE,
            required("spec", "text", "the device, in the language of specs"),
            optional("description", "text", "text in lists"),
            optional("read_only", "switch", "clients may only read, and the device is opened so"),
            optional("force", "switch", "serve a device that is part of an array, past the array"),
            optional("allow_in_use", "switch", "open a device that is mounted or locked"),
        ],
        summary: "open a device and serve it",
        run: device_add,
    },
    Method {
        name: "device.remove",
        params: &[DEVICE, optional("force", "switch", "disconnect its clients")],
        summary: "flush a device, close it and serve it no longer",
        run: device_remove,
    },
    Method {
        name: "device.stats",
        params: &[DEVICE],
        summary: "counters, gauges, errors and latencies since it was opened",
        run: device_stats,
    },
    Method {
        name: "device.flush",
        params: &[DEVICE],
        summary: "make what was written durable",
        run: device_flush,
    },
    Method {
        name: "device.drain",
        params: &[
            DEVICE,
            optional(
                "timeout_ms",
                "integer",
                "by default stop_timeout of the configuration; then requests go on",
            ),
        ],
        summary: "hold new requests, wait for those that were begun, flush, and go on",
        run: attend::drain,
    },
    Method {
        name: "device.trace",
        params: &[
            DEVICE,
            required("file", "text", "a path on the server's machine that does not exist yet"),
            optional("format", "text", "text (the columns of blkparse, default) or blktrace (its records)"),
            optional("limit_bytes", "integer", "no events are written beyond it; by default 1 GiB"),
        ],
        summary: "write the events of the device's queues to a file, until device.trace_stop",
        run: attend::trace,
    },
    Method {
        name: "device.trace_stop",
        params: &[DEVICE],
        summary: "end the trace of a device",
        run: attend::trace_stop,
    },
    Method {
        name: "device.acknowledge",
        params: &[DEVICE],
        summary: "accept that answered writes may be lost by what has failed until now",
        run: device_acknowledge,
    },
    Method {
        name: "device.elevator",
        params: &[DEVICE, required("elevator", "text", "the name of an I/O scheduler; none: without one")],
        summary: "switch the I/O scheduler while I/O runs",
        run: device_elevator,
    },
    Method {
        name: "device.ordered",
        params: &[DEVICE, required("ordered", "text", "how barriers keep their order: drain or tag")],
        summary: "switch how barriers keep their order while I/O runs",
        run: device_ordered,
    },
    Method {
        name: "device.params",
        params: &[DEVICE],
        summary: "the parameters of the I/O scheduler",
        run: device_params,
    },
    Method {
        name: "device.set_param",
        params: &[
            DEVICE,
            required("param", "text", "the name of a parameter"),
            required("value", "quantity", "the value, in the unit of the parameter or with its own: 500ms"),
        ],
        summary: "set a parameter of the I/O scheduler",
        run: device_set_param,
    },
    Method {
        name: "device.layers",
        params: &[DEVICE],
        summary: "the status of its layers, and their parameters that can be set",
        run: device_layers,
    },
    Method {
        name: "device.set_layer_param",
        params: &[
            DEVICE,
            required("param", "text", "the name of a parameter"),
            required(
                "value",
                "quantity",
                "the value, in the unit of the parameter or with its own: 10s, 64M; a switch is 0 or 1",
            ),
            optional("layer", "text", "only of this layer, by its device in device.layers"),
        ],
        summary: "set a parameter of the layers that have it, while I/O runs",
        run: device_set_layer_param,
    },
    Method {
        name: "device.limits",
        params: &[DEVICE, IOPS, BANDWIDTH, BURST, DEPTH],
        summary: "set limits of all clients of a device together; those not given stay",
        run: device_set_limits,
    },
    Method {
        name: "device.client_limits",
        params: &[DEVICE, IOPS, BANDWIDTH, BURST, WEIGHT],
        summary: "set limits of each client of a device that has none of its own; those not given stay",
        run: device_set_client_limits,
    },
    Method {
        name: "export.list",
        params: &[],
        summary: "all exports",
        run: |daemon, _| Ok(daemon.exports().iter().map(report::export).collect()),
    },
    Method {
        name: "export.add",
        params: &[
            EXPORT,
            required("kind", "text", "the kind, such as nbd"),
            required("address", "text", "where clients reach it"),
        ],
        summary: "start an export",
        run: export_add,
    },
    Method {
        name: "export.remove",
        params: &[EXPORT],
        summary: "stop an export; what its clients have sent is answered",
        run: export_remove,
    },
    Method {
        name: "client.list",
        params: &[],
        summary: "all clients",
        run: |daemon, _| Ok(daemon.clients_report().into()),
    },
    Method {
        name: "client.disconnect",
        params: &[CLIENT],
        summary: "end a connection",
        run: client_disconnect,
    },
    Method {
        name: "client.limits",
        params: &[
            CLIENT,
            IOPS,
            BANDWIDTH,
            BURST,
            WEIGHT,
            optional("default", "switch", "back to the limits of the device's clients"),
        ],
        summary: "set limits of a client; those not given stay",
        run: client_set_limits,
    },
];

/// Longest name in a message, in characters.
const MOST_SHOWN: usize = 60;

fn done() -> Value {
    json!({ "done": true })
}

fn served(daemon: &Daemon, params: &Params) -> Result<Arc<Served>, RpcError> {
    let (name, list) = (params.text("device"), daemon.devices().list());
    list.iter().find(|served| served.name() == name).cloned().ok_or_else(|| {
        let names: Vec<&str> = list.iter().map(|served| served.name()).collect();
        ServeError::usage(format!("there is no device called {name:?}; {}", there_are(&names))).into()
    })
}

fn failed(error: impl std::fmt::Display) -> RpcError {
    ServeError::system(error.to_string()).into()
}

fn wrong(error: impl std::fmt::Display) -> RpcError {
    ServeError::usage(error.to_string()).into()
}

fn server_info(daemon: &Daemon, _: &Params) -> Result<Value, RpcError> {
    let mut info = daemon.server_info();
    info["protocol"] = json!(PROTOCOL);
    Ok(info)
}

fn server_methods(_: &Daemon, _: &Params) -> Result<Value, RpcError> {
    let param = |param: &ParamDoc| json!({ "name": param.name, "kind": param.kind, "required": param.required, "help": param.help });
    let method = |method: &Method| {
        let params: Vec<Value> = method.params.iter().map(param).collect();
        json!({ "name": method.name, "summary": method.summary, "params": params })
    };
    Ok(METHODS.iter().map(method).collect())
}

fn server_reload(daemon: &Daemon, _: &Params) -> Result<Value, RpcError> {
    let applied = daemon.reload().map_err(|error| match error {
        DaemonError::Config(errors) => wrong(errors),
        DaemonError::Serve(error) => error.into(),
    })?;
    Ok(json!({ "changed": applied.changed, "refused": applied.refused }))
}

fn server_drain(daemon: &Daemon, params: &Params) -> Result<Value, RpcError> {
    let limit = params.count("timeout_ms")?.map(Duration::from_millis);
    let limit = limit.unwrap_or_else(|| daemon.stop_timeout());
    daemon.request_stop(limit);
    Ok(json!({ "done": true, "timeout_ms": limit.as_millis() as u64 }))
}

fn device_add(daemon: &Daemon, params: &Params) -> Result<Value, RpcError> {
    let config = DeviceConfig {
        description: params.optional_text("description").map(str::to_owned),
        read_only: params.switch("read_only"),
        force: params.switch("force"),
        allow_in_use: params.switch("allow_in_use"),
        ..DeviceConfig::new(params.text("device"), params.text("spec"))
    };
    if config.name.is_empty() {
        return Err(wrong("a device needs a name that is not empty"));
    }
    daemon.add_device(&config)?;
    Ok(daemon.device_report(served(daemon, params)?.as_ref()))
}

fn device_remove(daemon: &Daemon, params: &Params) -> Result<Value, RpcError> {
    daemon.remove_device(params.text("device"), params.switch("force"))?;
    Ok(done())
}

fn device_stats(daemon: &Daemon, params: &Params) -> Result<Value, RpcError> {
    Ok(daemon.statistics(served(daemon, params)?.as_ref()))
}

fn device_flush(daemon: &Daemon, params: &Params) -> Result<Value, RpcError> {
    daemon.flush_device(&served(daemon, params)?)?;
    Ok(done())
}

fn device_acknowledge(daemon: &Daemon, params: &Params) -> Result<Value, RpcError> {
    served(daemon, params)?.acknowledge();
    Ok(done())
}

fn device_elevator(daemon: &Daemon, params: &Params) -> Result<Value, RpcError> {
    let (served, name) = (served(daemon, params)?, params.text("elevator"));
    if !registry::elevator_names().contains(&name) {
        let names = registry::elevator_names().join(", ");
        return Err(wrong(format!("elevator is {:?}; expected one of {names}", excerpt(name, MOST_SHOWN))));
    }
    served.device().set_elevator(name).map_err(failed)?;
    Ok(daemon.device_report(&served))
}

fn device_ordered(daemon: &Daemon, params: &Params) -> Result<Value, RpcError> {
    let (served, mode) = (served(daemon, params)?, excerpt(params.text("ordered"), MOST_SHOWN));
    if !registry::ORDERS.contains(&mode.as_str()) {
        return Err(wrong(format!("ordered is {mode:?}; expected one of {}", registry::ORDERS.join(", "))));
    }
    served.device().set_ordered(&mode).map_err(failed)?;
    let facts = served.device().facts();
    let barriers = facts.iter().find(|(name, _)| *name == "barriers").map(|(_, mode)| mode);
    Ok(json!({ "barriers": barriers }))
}

fn device_params(daemon: &Daemon, params: &Params) -> Result<Value, RpcError> {
    let list = served(daemon, params)?.device().elevator_params();
    let one = |(param, value): &(platter_block::params::Param, i64)| json!({ "name": param.name, "value": layers::shown(param, *value), "unit": param.unit.to_string(), "help": param.help });
    Ok(list.iter().map(one).collect())
}

fn device_set_param(daemon: &Daemon, params: &Params) -> Result<Value, RpcError> {
    let served = served(daemon, params)?;
    let value = quantity(params, || served.device().elevator_params())?;
    served.device().set_elevator_param(&excerpt(params.text("param"), MOST_SHOWN), value).map_err(wrong)?;
    device_params(daemon, params)
}

/// The value that a parameter is to have, in its unit. `table` returns the parameters that there are.
fn quantity(params: &Params, table: impl FnOnce() -> Vec<(Param, i64)>) -> Result<i64, RpcError> {
    let Some(text) = params.optional_text("value") else {
        return params.integer("value").ok_or_else(|| RpcError::params("value is too large"));
    };
    let (name, table) = (params.text("param"), table());
    // The setter refuses a name that is not in the table, and says which there are.
    let Some((param, _)) = table.iter().find(|(param, _)| param.name == name) else { return Ok(0) };
    let number = match (param.unit, param.words.iter().position(|word| *word == text)) {
        (_, Some(place)) => Ok(place as i64),
        (Unit::Word, None) => spec::parse_choice(text, param.words).map(|_| 0),
        // Counts may have the suffixes of sizes: 2K.
        (unit @ (Unit::Count | Unit::Requests), None) => spec::parse_number(text, unit)
            .or_else(|error| spec::parse_size(text).ok().and_then(|size| size.try_into().ok()).ok_or(error)),
        (unit, None) => spec::parse_number(text, unit),
    };
    number.map_err(|error| wrong(format!("{name}: {error}")))
}

fn device_layers(daemon: &Daemon, params: &Params) -> Result<Value, RpcError> {
    Ok(layers::to_json(&served(daemon, params)?.device().layers()))
}

fn device_set_layer_param(daemon: &Daemon, params: &Params) -> Result<Value, RpcError> {
    let served = served(daemon, params)?;
    let (layer, name) = (params.optional_text("layer"), excerpt(params.text("param"), MOST_SHOWN));
    let value =
        quantity(params, || served.device().layers().into_iter().flat_map(|layer| layer.params).collect())?;
    served.device().set_layer_param(layer, &name, value).map_err(wrong)?;
    device_layers(daemon, params)
}

fn device_set_limits(daemon: &Daemon, params: &Params) -> Result<Value, RpcError> {
    let served = served(daemon, params)?;
    let limits = params.device_limits(served.qos().limits().0)?;
    served.qos().set_device(limits).map_err(wrong)?;
    Ok(report::device_limits(&limits))
}

fn device_set_client_limits(daemon: &Daemon, params: &Params) -> Result<Value, RpcError> {
    let served = served(daemon, params)?;
    let limits = params.client_limits(served.qos().limits().1)?;
    served.qos().set_default(limits).map_err(wrong)?;
    Ok(report::client_limits(&limits))
}

fn export_add(daemon: &Daemon, params: &Params) -> Result<Value, RpcError> {
    let (name, kind) = (params.text("export"), params.text("kind"));
    let address = daemon.add_export(&ExportConfig::new(name, kind, params.text("address")))?;
    Ok(json!({ "name": name, "kind": kind, "address": address }))
}

fn export_remove(daemon: &Daemon, params: &Params) -> Result<Value, RpcError> {
    daemon.remove_export(params.text("export"))?;
    Ok(done())
}

fn client_of(daemon: &Daemon, params: &Params) -> Result<Arc<crate::clients::Client>, RpcError> {
    let id = params.count("client")?.unwrap_or(0);
    daemon.clients().find(id).ok_or_else(|| wrong(format!("there is no client {id}; client.list lists them")))
}

fn client_disconnect(daemon: &Daemon, params: &Params) -> Result<Value, RpcError> {
    client_of(daemon, params)?.disconnect();
    Ok(done())
}

fn client_set_limits(daemon: &Daemon, params: &Params) -> Result<Value, RpcError> {
    let client = client_of(daemon, params)?;
    let list = daemon.devices().list();
    let gone = || failed(format!("the device {} of the client is no longer served", client.device));
    let served = list.iter().find(|served| served.name() == client.device).ok_or_else(gone)?;
    let unlimited = || failed(format!("exports of the kind {} do not limit their clients", client.export));
    let now = served.qos().client(client.id).ok_or_else(unlimited)?.limits;
    let limits = match params.switch("default") {
        true => None,
        false => Some(params.client_limits(now)?),
    };
    if !served.qos().set_client(client.id, limits).map_err(wrong)? {
        return Err(failed(format!("the client {} is gone", client.id)));
    }
    Ok(report::client_limits(&limits.unwrap_or(served.qos().limits().1)))
}
