//! Devices of a running server by name: `served(SOCKET, NAME)`.

use crate::daemon::{CONFIG, Server};
use crate::run::{fails_saying, ok};
use serde_json::{Value, json};

#[test]
fn a_device_of_a_running_server_is_read_written_and_measured_by_name() {
    let server = Server::start(CONFIG, &[]);
    let scratch = format!("served({}, scratch)", server.control());
    let info: Value = serde_json::from_str(&ok(&["info", &scratch, "--json"])).unwrap();
    assert!(info.to_string().contains("16777216"), "{info}");
    assert!(ok(&["map", &scratch]).contains("16"), "the map of 16 MiB");

    let (image, back) = (server.path("image"), server.path("back"));
    let data: Vec<u8> = (0..1u32 << 20).map(|i| (i ^ (i >> 9)) as u8).collect();
    std::fs::write(&image, &data).unwrap();
    let path = |path: &std::path::Path| path.display().to_string();
    ok(&["copy", &path(&image), &scratch]);
    ok(&["copy", &scratch, &path(&back)]);
    let copied = std::fs::read(&back).unwrap();
    assert!(copied.len() == 16 << 20 && copied[..data.len()] == data[..], "{} bytes", copied.len());
    let stats = server.ctl(&["device.stats", "device=scratch"]);
    assert!(stats["latency"].to_string().contains("\"op\":\"write\""), "{stats}");

    let bench =
        ["bench", "io", "--on", &scratch, "--rw", "randread", "--bs", "4k", "--size", "128K", "--json"];
    let bench: Value = serde_json::from_str(&ok(&bench)).unwrap();
    assert!(bench.is_object(), "{bench}");
    assert_eq!(server.ctl(&["device.list"])[0]["name"], json!("scratch"));
}

#[test]
fn what_is_missing_is_named() {
    let server = Server::start(CONFIG, &[]);
    let spec = |rest: &str| format!("served({}{rest})", server.control());
    fails_saying(3, &["info", &spec(", db")], &["no device \"db\"", "\"scratch\"", "\"cached\""]);
    fails_saying(3, &["info", &spec("")], &["several devices", "\"scratch\""]);
    fails_saying(3, &["info", "served(/nowhere/control, db)"], &["/nowhere/control", "start a server"]);
    fails_saying(2, &["info", "served()"], &["control"]);
    server.ctl(&["export.remove", "export=main"]);
    fails_saying(3, &["info", &spec(", scratch")], &["no NBD export at a Unix socket", "export.add"]);
    server.ctl(&["device.remove", "device=cached"]);
    let address = format!("address=unix:{}", server.path("later").display());
    server.ctl(&["export.add", "export=later", "kind=nbd", &address]);
    assert!(ok(&["info", &spec("")]).contains("16 MiB"), "the only device needs no name");
}
