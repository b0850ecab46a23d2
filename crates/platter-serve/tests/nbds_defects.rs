//! A put-back defect of encrypted connections is found. It is active in the whole process, so this test has one of its own.
#![cfg(feature = "tls")]

use platter_block::defect::{self, Defect};
use platter_disk::device::Device;
use platter_remote::nbd::client::{NbdDisk, NbdOptions};
use platter_remote::nbd::uri::Uri;
use platter_serve::export::Options;
use platter_serve::served::Served;
use platter_serve::server::Server;

#[test]
fn a_server_without_encryption_is_not_used() {
    const { assert!(defect::AVAILABLE, "the tests are built with the feature") };
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let mut server = Server::default();
    server.devices().add(Served::new("disk", Device::ram(1 << 20).unwrap()).unwrap()).unwrap();
    server.start("nbd", &format!("unix:{}", socket.display()), &Options::default()).unwrap();
    let text = format!("nbds+unix:///disk?socket={}&tls-verify-peer=false", socket.display());
    let open = || NbdDisk::open(Uri::parse(&text).unwrap(), NbdOptions::default()).map(drop);
    let error = open().unwrap_err().to_string();
    assert!(error.contains("does not encrypt"), "{error}");
    defect::set(Defect::NbdTlsOptional, true);
    let wrong = open();
    defect::set(Defect::NbdTlsOptional, false);
    assert!(wrong.is_ok(), "{wrong:?}");
}
