//! A device is tuned through the control socket while clients write and read it: nothing is lost, and every client goes on.

use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_remote::nbd::client::{NbdDisk, NbdOptions};
use platter_remote::nbd::uri::Uri;
use platter_serve::config;
use platter_serve::control::{Call, Control};
use platter_serve::daemon::Daemon;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const CLIENTS: u64 = 3;
/// Bytes of the device that each client has for itself.
const PART: u64 = 64 << 10;
const BLOCK: u64 = 4096;
/// Rounds of changes.
const ROUNDS: u64 = 30;

/// Writes versions of its part and reads them back until `end`. Counts the blocks that were right.
fn client(socket: &Path, number: u64, end: &AtomicBool, checked: &AtomicU64) {
    let disk =
        NbdDisk::open(Uri::unix(socket, "d"), NbdOptions::default().with_write(true).with_connections(2))
            .unwrap();
    let device = Device::from_disk(disk, DiskSettings::default(), None).unwrap();
    let mut version = 0u64;
    while !end.load(Ordering::Relaxed) {
        version += 1;
        let block = |at: u64| [at ^ version; (BLOCK / 8) as usize].map(u64::to_le_bytes).concat();
        let blocks = || (number * PART..(number + 1) * PART).step_by(BLOCK as usize);
        blocks().for_each(|at| device.write_at(&block(at), at).unwrap());
        device.flush().unwrap();
        let mut read = vec![0; BLOCK as usize];
        for at in blocks() {
            device.read_at(&mut read, at).unwrap();
            assert!(read == block(at), "client {number}: version {version} of the block at {at} is gone");
            checked.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Ends the clients, also after an assertion that failed.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One round: every kind of change, with values that depend on the round.
fn change(call: &mut Call, round: u64) {
    let mut call = |method: &str, params: Value| {
        call.call(method, params).unwrap_or_else(|error| panic!("round {round}: {method}: {error}"))
    };
    let elevator = ["none", "deadline", "mq-deadline", "cfq", "kyber", "noop"][round as usize % 6];
    assert_eq!(call("device.elevator", json!({ "device": "d", "elevator": elevator }))["elevator"], elevator);
    let params = call("device.params", json!({ "device": "d" }));
    if let Some(first) = params.get(0) {
        let set = json!({ "device": "d", "param": first["name"], "value": first["value"] });
        assert_eq!(call("device.set_param", set)[0]["value"], first["value"]);
    }
    let depth = [0, 1, 7][round as usize % 3];
    let iops = [0, 1_000_000][round as usize % 2];
    let limits = call("device.limits", json!({ "device": "d", "depth": depth, "iops": iops }));
    assert_eq!((&limits["depth"], &limits["iops"]), (&json!(depth), &json!(iops)));
    let own = call("device.client_limits", json!({ "device": "d", "weight": 1 + round, "iops": iops }));
    assert_eq!(own["weight"], 1 + round);
    call("device.flush", json!({ "device": "d" }));
    assert_eq!(call("server.health", json!({}))["devices"][0]["name"], "d");
}

#[test]
fn a_device_is_tuned_while_clients_use_it() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("nbd");
    let text = format!(
        "[devices.d]\nspec = 'ram(1M, elevator=deadline)'\n[exports.e]\nkind = 'nbd'\naddress = 'unix:{}'",
        socket.display()
    );
    let daemon = Daemon::start(config::parse(&text).unwrap(), None, |_| {}).unwrap();
    let control = Control::start(&dir.path().join("c"), &daemon, Arc::new(|_| {})).unwrap();
    let (end, checked) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; CLIENTS as usize]);
    std::thread::scope(|scope| {
        let (end, checked, socket) = (&end, &checked, &socket);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| scope.spawn(move || client(socket, number, end, &checked[number as usize])))
            .collect();
        let _end = End(end);
        let mut call = Call::connect(&dir.path().join("c"), Duration::from_secs(60)).unwrap();
        for round in 0..ROUNDS {
            change(&mut call, round);
            // Every client goes on under the settings of this round.
            let seen: Vec<u64> = checked.iter().map(|count| count.load(Ordering::Relaxed)).collect();
            let goes_on = |(count, seen): (&AtomicU64, &u64)| count.load(Ordering::Relaxed) > *seen;
            while !checked.iter().zip(&seen).all(goes_on) {
                assert!(!clients.iter().any(|client| client.is_finished()), "a client has failed");
                std::thread::yield_now();
            }
        }
    });
    drop(control);
    daemon.stop(Duration::from_secs(60)).unwrap();
}
