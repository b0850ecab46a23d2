//! The health of a server: whether its I/O makes progress, and what an operator should look at. docs/control.md describes it.

use super::{Daemon, lock};
use crate::clients::Client;
use crate::served::Served;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// For how long clients that were refused count.
const REFUSED_COUNTS: Duration = Duration::from_secs(300);

/// What is wrong, as an item of `problems`.
fn problem(kind: &str, device: Option<&str>, text: String) -> Value {
    json!({ "kind": kind, "device": device, "text": text })
}

/// Whether the server is well: `status` is `ok`, `degraded` (there are `problems`) or `stalled` (an I/O is older than the
/// configuration allows).
pub(super) fn of(daemon: &Daemon) -> Value {
    let (now, limit) = (Instant::now(), lock(&daemon.times).stall);
    let clients = daemon.clients.list();
    let mut problems = Vec::new();
    let list = daemon.devices.list();
    let devices: Vec<Value> =
        list.iter().map(|served| device(served, &clients, (now, limit), &mut problems)).collect();
    let refused = daemon.clients.refused();
    if refused.last.is_some_and(|last| now.saturating_duration_since(last) < REFUSED_COUNTS) {
        let text = format!(
            "clients were refused in the last {} minutes; since the start {} because there were {} clients, {} for lack \
                 of descriptors and {} for lack of memory or threads",
            REFUSED_COUNTS.as_secs() / 60,
            refused.full,
            daemon.clients.most(),
            refused.descriptors,
            refused.memory
        );
        problems.push(problem("clients-refused", None, text));
    }
    let certificates = certificates(daemon, &mut problems);
    let stalled = devices.iter().any(|device| device["status"] == "stalled");
    let status = match problems.is_empty() {
        _ if stalled => "stalled",
        true => "ok",
        false => "degraded",
    };
    json!({
        "status": status,
        "stall_after_seconds": limit.as_secs_f64(),
        "problems": problems,
        "devices": devices,
        "refused": {
            "clients_max": refused.full,
            "descriptors": refused.descriptors,
            "memory": refused.memory,
        },
        "certificates": certificates,
    })
}

/// The certificates of exports, with their ends.
#[cfg(feature = "tls")]
fn certificates(daemon: &Daemon, problems: &mut Vec<Value>) -> Vec<Value> {
    let now = std::time::SystemTime::now();
    let one = |(export, tls): &(String, crate::tls::Tls)| {
        let at = tls.expires_at()?;
        if let Some(text) = tls.expiry_warning() {
            let kind = if at <= now { "certificate-expired" } else { "certificate-expiring" };
            problems.push(problem(kind, None, format!("export {export}: {text}")));
        }
        let seconds = at.duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Some(json!({ "export": export, "expires_unix_seconds": seconds }))
    };
    lock(&daemon.encrypting).iter().filter_map(one).collect()
}

#[cfg(not(feature = "tls"))]
fn certificates(_: &Daemon, _: &mut Vec<Value>) -> Vec<Value> {
    Vec::new()
}

/// A device; what is wrong with it is added to `problems`.
fn device(
    served: &Served,
    clients: &[Arc<Client>],
    (now, limit): (Instant, Duration),
    problems: &mut Vec<Value>,
) -> Value {
    let (name, device, before) = (served.name(), served.device(), problems.len());
    let shown = if name.is_empty() { served.about() } else { name };
    let oldest = clients.iter().filter(|client| client.device == name).filter_map(|it| it.oldest(now)).max();
    let gauges = device.statistics().gauges;
    let (presence, losses) = (served.presence(), served.losses());
    let mut add = |kind, text| problems.push(problem(kind, Some(name), text));
    let is_stalled = oldest.is_some_and(|age| age > limit);
    if let Some(age) = oldest.filter(|_| is_stalled) {
        add("stalled", format!("{shown} has an I/O that is {:.0} s old", age.as_secs_f64()));
    }
    let flush_failure = losses.open();
    if let Some(why) = &flush_failure {
        let text = format!(
            "a flush of {shown} failed, and answered writes may be lost ({why}); device.acknowledge accepts that"
        );
        add("flush-failed", text);
    }
    let write_back_errors = presence.write_back_errors(device);
    if write_back_errors > 0 {
        add("write-back-errors", format!("{shown} could not write back {write_back_errors} times"));
    }
    let lacks = presence.lacks_bytes(device);
    if lacks > 0 {
        add("shrunk", format!("{shown} has become smaller by {lacks} bytes"));
    }
    let gone = presence.gone();
    for disk in &gone {
        let disk = if disk.is_empty() { shown } else { disk };
        add("lost", format!("the disk {disk} is gone"));
    }
    let silent = presence.silent();
    for disk in &silent {
        let disk = if disk.is_empty() { shown } else { disk };
        add("silent", format!("the disk {disk} does not answer, and all its I/O fails until it does"));
    }
    let status = match problems.len() == before {
        _ if is_stalled => "stalled",
        true => "ok",
        false => "degraded",
    };
    json!({
        "name": name,
        "status": status,
        "oldest_io_seconds": oldest.map(|age: Duration| age.as_secs_f64()),
        "in_flight": gauges.in_flight,
        "flush_failures": losses.count(),
        "flush_failure": flush_failure,
        "write_back_errors": write_back_errors,
        "shrunk_bytes": lacks,
        "lost_disks": gone,
        "silent_disks": silent,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, DeviceConfig};
    use platter_block::event::{DeviceEvent, Watcher};

    #[test]
    fn disks_that_are_gone_are_problems_until_they_return() {
        let mut config = Config::default();
        config.devices.push(DeviceConfig::new("a", "ram(1M)"));
        let daemon = Daemon::start(config, None, |_| {}).unwrap();
        let served = daemon.devices().find("a").unwrap();
        let below = |event| DeviceEvent::Below { device: "member".into(), event: Box::new(event) };
        served.presence().event(&DeviceEvent::Removed);
        served.presence().event(&below(DeviceEvent::Removed));
        let health = daemon.health();
        assert_eq!(health["devices"][0]["lost_disks"], json!(["", "member"]));
        let texts: Vec<&Value> =
            health["problems"].as_array().unwrap().iter().map(|it| &it["text"]).collect();
        assert_eq!(texts, ["the disk a is gone", "the disk member is gone"]);
        assert_eq!((&health["status"], &health["problems"][0]["kind"]), (&json!("degraded"), &json!("lost")));
        served.presence().event(&DeviceEvent::Silent);
        let health = daemon.health();
        assert_eq!(health["devices"][0]["silent_disks"], json!([""]));
        let silent = health["problems"].as_array().unwrap().last().unwrap();
        assert_eq!((&silent["kind"], &silent["device"]), (&json!("silent"), &json!("a")));
        assert!(silent["text"].as_str().unwrap().starts_with("the disk a does not answer"), "{silent}");
        served.presence().event(&DeviceEvent::Answered);
        assert_eq!(daemon.health()["devices"][0]["silent_disks"], json!([]));
        served.presence().event(&DeviceEvent::Returned);
        served.presence().event(&below(DeviceEvent::Returned));
        assert_eq!(daemon.health()["status"], "ok");
    }
}
