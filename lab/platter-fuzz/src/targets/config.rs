//! Configurations of servers.

use super::{hold, text_of, verdict};
use crate::rng::Rng;
use crate::run::{Target, Verdict};
use crate::text;
use platter_serve::config::{self, Config, keys};

pub(super) const TARGET: Target = Target {
    name: "config",
    summary: "configuration files of servers",
    generate,
    mutate: |rng, input, other| text::mutate(rng, input, other, WORDS),
    read,
    memory: 8 << 20,
};

const WORDS: &[&str] = &[
    "[server]\n",
    "[devices.a]\n",
    "[devices.\"é b\"]\n",
    "[devices]\n",
    "[exports.x]\n",
    "[exports]\n",
    "[[devices.a]]\n",
    "limits = { iops = 10, bandwidth = \"200M\", burst = \"5ms\", depth = 4 }\n",
    "client_limits = { iops = 1, bandwidth = 4096, burst = \"0s\", weight = 3 }\n",
    "client_limits.weight = 1000\n",
    "limits = 3\n",
    "control = \"/run/c\"\n",
    "metrics = '127.0.0.1:9100'\n",
    "kind = \"nbd\"\n",
    "kind = \"fuse\"\n",
    "address = \"unix:/run/x\"\n",
    "spec = \"ram(1M)\"\n",
    "spec = 'raid0(ram(1M), ram(1M))'\n",
    "spec = \"rum(\"\n",
    "spec = \"@file\"\n",
    "read_only = true\n",
    "\"\"\"",
    "'''",
    "\"",
    " = ",
    "{",
    "}",
    "[",
    "]",
    ".",
    "#",
    "0x",
    "0o17",
    "0b1",
    "1e9",
    "nan",
    "1979-05-27",
    "\\u00e9",
    "\\",
    "\n",
];

/// A value of a key, mostly of its kind.
fn value(rng: &mut Rng, key: &keys::Key) -> String {
    let kind = key.values();
    if rng.one_in(40) {
        return (*rng.pick(&["[]", "{}", "1.5", "true", "\"\"", "''", "-1", "1979-05-27", "\"\\u0007\""]))
            .to_owned();
    }
    match key.name {
        "spec" => {
            (*rng.pick(&["\"ram(1M)\"", "'null(1T)'", "\"ram(2M)\"", "\"rum(1M)\"", "\"@x\""])).to_owned()
        }
        "kind" => (*rng.pick(&["\"nbd\"", "\"fuse\"", "\"nbd\"", "\"nbt\""])).to_owned(),
        _ if kind == "true or false" => (*rng.pick(&["true", "false"])).to_owned(),
        _ if kind == "text" => (*rng.pick(&["\"a\"", "'unix:/run/é'", "\"a\\nb\""])).to_owned(),
        _ if kind.contains("\"30s\"") => {
            (*rng.pick(&["\"0s\"", "\"30s\"", "\"1.5ms\"", "\"3601s\"", "\"90000s\"", "30"])).to_owned()
        }
        _ if kind.contains("\"200M\"") => {
            (*rng.pick(&["\"64M\"", "0", "\"2P\"", "\"fast\"", "4_096", "0xfff"])).to_owned()
        }
        // Near both ends of the range.
        _ => {
            let ends: Vec<u64> = kind.split(" to ").filter_map(|end| end.parse().ok()).collect();
            let (end, by) = (ends.get(rng.index(ends.len().max(1))).copied().unwrap_or(0), rng.below(3));
            end.saturating_add(by).saturating_sub(1).to_string()
        }
    }
}

fn table(rng: &mut Rng, keys: &'static [keys::Key], out: &mut String) {
    for key in keys {
        if !rng.one_in(3) {
            continue;
        }
        let text = match (key.name, key.values().as_str()) {
            ("limits", _) => inline(rng, keys::LIMITS),
            ("client_limits", _) => inline(rng, keys::CLIENT_LIMITS),
            _ => value(rng, key),
        };
        *out += &format!("{} = {text}\n", key.name);
    }
}

fn inline(rng: &mut Rng, keys: &'static [keys::Key]) -> String {
    let mut list = Vec::new();
    for key in keys {
        if !rng.one_in(3) {
            list.push(format!("{} = {}", key.name, value(rng, key)));
        }
    }
    format!("{{ {} }}", list.join(", "))
}

fn generate(rng: &mut Rng) -> Vec<u8> {
    // Mutations of what is valid reach further than those of what is refused.
    if rng.one_in(3) {
        return b"[devices.a]\nspec = \"ram(1M)\"\n[exports.b]\nkind = \"nbd\"\naddress = \"a\"\n".to_vec();
    }
    let mut text = String::new();
    if rng.one_in(2) {
        text += "[server]\n";
        table(rng, keys::SERVER, &mut text);
    }
    for index in 0..rng.below(4) {
        text += &format!("[devices.{}]\n", rng.pick(&["a", "b", "\"c d\"", "\"\"", "e"]));
        if index % 2 == 0 {
            text += "spec = \"ram(1M)\"\n";
            table(rng, &keys::DEVICE[1..], &mut text);
        } else {
            table(rng, keys::DEVICE, &mut text);
        }
    }
    for _ in 0..rng.below(3) {
        text += &format!("[exports.{}]\n", rng.pick(&["x", "y", "'z z'"]));
        table(rng, keys::EXPORT, &mut text);
    }
    text.into_bytes()
}

fn within_ranges(config: &Config) -> Result<(), String> {
    let server = &config.server;
    hold((1..=1_000_000).contains(&server.clients_max), || format!("{} clients", server.clients_max))?;
    for device in &config.devices {
        hold(!device.name.is_empty() && !device.spec.is_empty(), || format!("{device:?}"))?;
        device
            .limits
            .check()
            .and_then(|()| device.client_limits.check())
            .map_err(|error| error.to_string())?;
    }
    for (index, device) in config.devices.iter().enumerate() {
        let same = config.devices[..index].iter().any(|other| other.name == device.name);
        hold(!same, || format!("two devices are called {:?}", device.name))?;
    }
    let known = |kind: &str| platter_serve::table::find(kind).is_some();
    let right = config.exports.iter().all(|export| known(&export.kind) && !export.address.is_empty());
    hold(right, || format!("{:?}", config.exports))
}

fn read(input: &[u8]) -> Result<Verdict, String> {
    let text = text_of(input);
    let result = config::parse(&text);
    match &result {
        Ok(config) => within_ranges(config)?,
        Err(errors) => {
            let lines = text.lines().count().max(1) + 1;
            hold(!errors.errors.is_empty(), || "no error is told".to_owned())?;
            for error in &errors.errors {
                let whole = (error.line, error.column) == (0, 0);
                hold(whole || (1..=lines).contains(&error.line) && error.column > 0, || {
                    format!("{error:?} is not in the text")
                })?;
            }
        }
    }
    Ok(verdict(result))
}
