//! Requests of a server's control socket, carried out on a server of its own.

use super::hold;
use crate::rng::Rng;
use crate::run::{Target, Verdict};
use crate::text;
use platter_serve::config;
use platter_serve::control::{METHODS, ParamDoc, answer};
use platter_serve::daemon::Daemon;
use serde_json::{Value, json};

pub(super) const TARGET: Target = Target {
    name: "control",
    summary: "requests of control sockets, and their effect on a server with two devices",
    generate,
    mutate: |rng, input, other| text::mutate(rng, input, other, WORDS),
    read,
    memory: 16 << 20,
};

const CONFIG: &str = "[devices.a]\nspec = 'null(1M, elevator=deadline)'\n[devices.b]\nspec = 'null(1M)'";

const WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"",
    "null",
    "true",
    "false",
    "1e400",
    "-1",
    "\"jsonrpc\":\"2.0\"",
    "\"id\":1",
    "\"id\":null",
    "\"id\":{}",
    "\"method\":\"device.list\"",
    "\"method\":\"device.limits\"",
    "\"method\":1",
    "\"params\":{}",
    "\"params\":[]",
    "\"device\":\"a\"",
    "\"device\":\"é\"",
    "\"client\":1",
    "\"iops\":1000",
    "\"weight\":0",
    "\"depth\":4294967296",
    "\"burst_us\":18446744073709551615",
    "\"elevator\":\"noop\"",
    "\"\\ud800\"",
    "\\u0000",
    "\n",
];

/// Methods that open what a device or address names, or wait for the system: they are tested by other means.
const LEFT_OUT: [&str; 4] = ["device.add", "device.flush", "device.remove", "export.add"];

fn value(rng: &mut Rng, param: &ParamDoc) -> Value {
    match (param.name, param.kind) {
        _ if rng.one_in(10) => {
            rng.pick(&[json!(null), json!([]), json!("\u{7}"), json!(1.5), json!({})]).clone()
        }
        ("device", _) => json!(rng.pick(&["a", "b", "c", ""])),
        ("elevator", _) => json!(rng.pick(&["none", "noop", "deadline", "mq-deadline", "cqf"])),
        ("param", _) => json!(rng.pick(&["read_expire", "fifo_batch", "x"])),
        (_, "quantity") if rng.one_in(3) => json!(rng.pick(&["10s", "500ms", "64K", "1.5us", "on", "x"])),
        (_, "quantity") if rng.one_in(2) => json!(rng.below(1200)),
        (_, "quantity") => json!(rng.extreme(64)),
        (_, "integer") if rng.one_in(2) => json!(rng.below(1200)),
        (_, "integer") if rng.one_in(4) => json!(-1 - rng.below(1000) as i64),
        (_, "integer") => json!(rng.extreme(64)),
        (_, "switch") => json!(rng.one_in(2)),
        _ => json!(rng.pick(&["x", "", "nbd", "é"])),
    }
}

fn generate(rng: &mut Rng) -> Vec<u8> {
    let mut text = String::new();
    for _ in 0..1 + rng.below(4) {
        let method = rng.pick(METHODS);
        let mut params = serde_json::Map::new();
        for param in method.params {
            if param.required && !rng.one_in(12) || rng.one_in(3) {
                params.insert(param.name.to_owned(), value(rng, param));
            }
        }
        if rng.one_in(12) {
            // Like one that there is, like none, and where there are none at all.
            let near = method.params.first().map_or_else(String::new, |param| format!("{}s", param.name));
            let name = rng.pick(&[near, "zzzzzzzz".to_owned(), "\u{1b}".to_owned()]).clone();
            params.insert(name, json!(1));
        }
        let id = rng.pick(&[json!(1), json!(null), json!("x"), json!([])]).clone();
        let name = if rng.one_in(12) {
            let others: [&str; 3] = ["", "\u{1b}", "ee"];
            let other: &&str = rng.pick(&others);
            method.name.replace('e', other)
        } else {
            method.name.to_owned()
        };
        let version = if rng.one_in(20) { "1.0" } else { "2.0" };
        let mut request = json!({ "jsonrpc": version, "method": name, "params": params });
        if !rng.one_in(10) {
            request["id"] = id;
        }
        text += &format!("{request}\n");
    }
    text.into_bytes()
}

fn read(input: &[u8]) -> Result<Verdict, String> {
    let config = config::parse(CONFIG).map_err(|errors| errors.to_string())?;
    let daemon = Daemon::start(config, None, |_| {}).map_err(|error| error.to_string())?;
    let mut verdict = Verdict::Refused("there is no request".to_owned());
    for line in input.split_inclusive(|byte| *byte == b'\n') {
        let named: Option<Value> = serde_json::from_slice(line).ok();
        if named.is_some_and(|request| LEFT_OUT.iter().any(|method| request["method"] == *method)) {
            continue;
        }
        let Some(response) = answer(&daemon, line) else { continue };
        hold(response["jsonrpc"] == "2.0" && response.get("id").is_some(), || response.to_string())?;
        let (result, error) = (response.get("result"), response.get("error"));
        hold(result.is_some() != error.is_some(), || format!("{response} has both or neither"))?;
        hold(!response.to_string().contains('\n'), || "the response has several lines".to_owned())?;
        verdict = match error {
            None => Verdict::Accepted,
            Some(error) => Verdict::Refused(error["message"].as_str().unwrap_or_default().to_owned()),
        };
    }
    for served in daemon.devices().list() {
        let (device, clients) = served.qos().limits();
        device.check().and_then(|()| clients.check()).map_err(|error| error.to_string())?;
    }
    hold(daemon.devices().list().len() == 2, || "a device is gone".to_owned())?;
    Ok(verdict)
}
