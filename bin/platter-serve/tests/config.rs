//! The configuration file: what it may say, and what its errors say.

use platter_block::time::Span;
use platter_serve::config::{self, keys};
use std::path::PathBuf;
use std::time::Duration;

fn errors(text: &str) -> Vec<String> {
    match config::parse(text) {
        Ok(config) => panic!("accepted: {config:?}"),
        Err(errors) => errors.to_string().lines().map(str::to_owned).collect(),
    }
}

#[test]
fn everything_that_it_may_say_is_read() {
    let text = r#"
        [server]
        control = "/run/p/control.sock"
        metrics = "127.0.0.1:9100"
        state = "/var/lib/p/state"
        insecure_plaintext = true
        clients_max = 0x10
        stop_timeout = "2s"
        stall_after = "1.5s"

        [devices.b]
        spec = "ram(1M)"
        description = "the first"
        read_only = true
        force = true
        allow_in_use = true
        limits = { iops = 1_000, bandwidth = "200M", burst = "5ms", depth = 8 }
        client_limits = { iops = 10, bandwidth = 4096, burst = "0s", weight = 7 }

        [devices."a b"]
        spec = "raid0(chunk=64K, ram(1M), ram(1M))"

        [exports.local]
        kind = "nbd"
        address = "unix:/run/p/nbd.sock"
    "#;
    let config = config::parse(text).unwrap();
    let server = &config.server;
    assert_eq!(server.control, Some(PathBuf::from("/run/p/control.sock")));
    assert_eq!(server.metrics.as_deref(), Some("127.0.0.1:9100"));
    assert_eq!(server.state, Some(PathBuf::from("/var/lib/p/state")));
    assert!(server.insecure_plaintext && server.clients_max == 16);
    assert_eq!(
        (server.stop_timeout, server.stall_after),
        (Duration::from_secs(2), Duration::from_millis(1500))
    );
    let [b, a] = &config.devices[..] else { panic!("{:?}", config.devices) };
    assert_eq!((b.name.as_str(), a.name.as_str()), ("b", "a b"), "in the order of the file");
    assert_eq!(b.description.as_deref(), Some("the first"));
    assert!(b.read_only && b.force && b.allow_in_use && !a.read_only && !a.force && !a.allow_in_use);
    assert_eq!((b.limits.iops, b.limits.bandwidth, b.limits.depth), (1000, 200 << 20, 8));
    assert_eq!((b.limits.burst, a.limits.burst), (Span::from_millis(5), Span::from_millis(10)));
    assert_eq!((b.client_limits.bandwidth, b.client_limits.burst), (4096, Span::ZERO));
    assert_eq!((b.client_limits.weight, a.client_limits.weight), (7, 1));
    let export = &config.exports[0];
    assert_eq!((&*export.name, &*export.kind, &*export.address), ("local", "nbd", "unix:/run/p/nbd.sock"));
    assert_eq!(config::parse("").unwrap(), config::Config::default());
}

#[test]
fn an_error_names_place_value_and_range() {
    let one = |text: &str, expected: &str| assert_eq!(errors(text), [expected], "{text}");
    one("[server]\nclients_max = 0", "line 2, column 15: clients_max is 0; expected 1 to 1000000");
    one(
        "[server]\nclients_max = \"many\"",
        "line 2, column 15: clients_max is \"many\"; expected 1 to 1000000",
    );
    one("[server]\nkontrol = \"x\"", "line 2, column 1: server has no key kontrol; did you mean control?");
    one("[sever]\n", "line 1, column 2: the file has no key sever; did you mean server?");
    one(
        "[devices.a]\nread_only = true",
        "line 1, column 10: devices.a has no spec: the device, in the language of specs",
    );
    one("[devices]\na = 1", "line 2, column 5: devices.a is 1; expected a table");
    one("devices = 3", "line 1, column 11: devices is 3; expected tables by name");
    one(
        "[exports.x]\nkind = \"nbt\"\naddress = \"a\"",
        "line 2, column 8: kind is \"nbt\"; there are nbd, fuse, ublk, vhost-user-blk, iscsi",
    );
    one(
        "[devices.a]\nspec = \"ram(1M)\"\nlimits = { weight = 3 }",
        "line 3, column 12: devices.a.limits has no key weight; there are iops, bandwidth, burst, depth",
    );
    one(
        "[server]\nstop_timeout = 30",
        "line 2, column 16: stop_timeout is 30; expected 0s to 3600s, such as \"30s\"",
    );
    one(
        "[devices.a]\nspec = \"ram(1M)\"\nlimits = { bandwidth = \"fast\" }",
        "line 3, column 24: bandwidth is \"fast\"; expected 0 to 1P, such as \"200M\"",
    );
    one("[devices.\"é\"]\nspec = \"\"", "line 2, column 8: spec is empty; leave it out or give a value");
    one(
        "[devices.\"\"]\nspec = \"ram(1M)\"",
        "line 1, column 10: \"\" cannot be the name of a device: it needs 1 to 4096 bytes and no control characters",
    );
}

#[test]
fn all_errors_are_reported_in_the_order_of_the_file() {
    let found = errors("[server]\nclients_max = -1\nmetric = 3\n[devices.a]\nspec = \"rum(1M)\"\n");
    let starts: Vec<&str> = found.iter().map(|line| &line[..line.find(": ").unwrap_or(line.len())]).collect();
    assert_eq!(&starts[..3], ["line 2, column 15", "line 3, column 1", "line 5, column 8"]);
    assert!(
        found[2].contains("spec: ") && found.iter().any(|line| line.contains("did you mean `ram`?")),
        "{found:?}"
    );
}

#[test]
fn wrong_toml_has_a_place_too() {
    for (text, line) in [("[server", 1), ("a = 1\na = 2", 2), ("[server]\n\nstop_timeout = \"1s", 3)] {
        let found = errors(text);
        assert!(found[0].starts_with(&format!("line {line}, column ")), "{found:?}");
    }
    let deep = format!("a = {}", "[".repeat(100_000));
    assert!(!errors(&deep).is_empty());
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let missing = config::read_file(&dir.path().join("no.toml")).unwrap_err().to_string();
    assert!(missing.contains("no.toml: cannot read the configuration"), "{missing}");
    let path = dir.path().join("p.toml");
    std::fs::write(&path, b"[server]\n\xff").unwrap();
    assert!(config::read_file(&path).unwrap_err().to_string().contains("byte 9 is wrong"));
    std::fs::write(&path, "[server]\nclients_max = 0").unwrap();
    let wrong = config::read_file(&path).unwrap_err().to_string();
    assert!(wrong.contains("p.toml:2:15: clients_max is 0"), "{wrong}");
    std::fs::write(&path, " ".repeat(config::MAX_CONFIG_BYTES + 1)).unwrap();
    assert!(config::read_file(&path).unwrap_err().to_string().contains("more than 1048576 bytes"));
}

#[test]
fn the_defaults_in_the_tables_are_those_of_the_reader() {
    for table in [keys::SERVER, keys::DEVICE, keys::LIMITS, keys::CLIENT_LIMITS] {
        for key in table.iter().filter(|key| !key.default.is_empty()) {
            assert!(!key.help.is_empty() && !key.values().is_empty());
        }
    }
    assert_eq!(config::parse("[server]").unwrap().server, config::ServerConfig::default());
    let device = config::parse("[devices.a]\nspec = \"ram(1M)\"\nlimits = {}\nclient_limits = {}").unwrap();
    assert_eq!(device.devices[0], config::DeviceConfig::new("a", "ram(1M)"));
}
