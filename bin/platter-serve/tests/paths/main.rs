//! One disk through two connections of a network, each of which is away again and again: random lives beside a model.

#![cfg(all(feature = "daemon", feature = "iscsi"))]

mod life;
#[path = "../initiator/part.rs"]
mod part;
mod relay;

use platter::raid::{self, Array};
use platter::registry::{self, Access, OpenError};
use platter_disk::device::Device;
use platter_serve::export::Options;
use platter_serve::served::Served;
use platter_serve::server::Server;
use relay::Relay;
use std::time::Duration;

/// The name of the target of a server with a device `disk`.
const TARGET: &str = "iqn.2026-11.localhost.platter:disk";

/// A server with two addresses, and a relay in front of each.
struct Serving {
    server: Option<Server>,
    relays: [Relay; 2],
}

impl Serving {
    fn new(way: &str, device: Device) -> Serving {
        let mut server = Server::new(100);
        server.devices().add(Served::new("disk", device).unwrap()).unwrap();
        let relays = [(); 2].map(|()| {
            let address = server.start(way, "127.0.0.1:0", &Options::default()).unwrap();
            Relay::new(address.parse().unwrap())
        });
        Serving { server: Some(server), relays }
    }

    /// The disk through both relays.
    fn open(&self, policy: &str, path: impl Fn(&Relay) -> String) -> Result<Device, OpenError> {
        let paths = self.relays.each_ref().map(path).join(", ");
        let spec = format!("multipath(policy={policy}, no_path_timeout=3600s, check_interval=1ms, {paths})");
        registry::open(&spec, Access::read_write())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.relays.iter().for_each(Relay::leave);
        if let Some(server) = self.server.take() {
            let _ = server.stop(Duration::from_secs(10));
        }
    }
}

fn portal(relay: &Relay) -> String {
    format!("iscsi(iscsi://{}/{TARGET}/0, reconnect=300ms)", relay.address)
}

fn connection(relay: &Relay) -> String {
    format!("nbd(nbd://{}/disk, reconnect=300ms)", relay.address)
}

/// The proof of two portals is page 83h of the logical unit.
#[test]
fn nothing_is_missing_over_two_portals() {
    for (seed, policy) in (1..).zip(["round-robin", "queue-length", "service-time"]) {
        let serving = Serving::new("iscsi", Device::ram(life::SIZE).unwrap());
        let device = match serving.open(policy, portal) {
            Err(error) if error.to_string().contains("libiscsi") => return println!("skipped: {error}"),
            device => device.unwrap(),
        };
        life::live(policy, &device, &serving.relays, seed);
    }
}

/// The proof of two connections is the record of a member of an array.
#[test]
fn nothing_is_missing_over_two_nbd_connections() {
    for (seed, policy) in (1..).zip(["round-robin", "queue-length", "service-time"]) {
        let disk = Device::ram(life::SIZE).unwrap();
        raid::create(std::slice::from_ref(&disk), &Array::default()).unwrap();
        let serving = Serving::new("nbd", disk);
        let device = serving.open(policy, connection).unwrap();
        life::live(policy, &device, &serving.relays, seed);
    }
}

/// Two NBD servers may have different disks: without a record nothing tells.
#[test]
fn connections_without_a_record_are_refused() {
    let serving = Serving::new("nbd", Device::ram(life::SIZE).unwrap());
    let error = serving.open("round-robin", connection).unwrap_err().to_string();
    assert!(error.contains("lead to different disks"), "{error}");
}
