//! The daemon through its control socket and its metrics, with real devices and no exports.

use platter_serve::config::{self, Config};
use platter_serve::control::{Call, CallError, Control, MAX_CONNECTIONS, MAX_LINE_BYTES, METHODS};
use platter_serve::daemon::Daemon;
use platter_serve::metrics::{FAMILIES, MetricsServer};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

struct Rig {
    dir: tempfile::TempDir,
    daemon: Arc<Daemon>,
    control: Option<Control>,
}

impl Rig {
    fn new(config: &str) -> Rig {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("platter.toml");
        std::fs::write(&file, config).unwrap();
        let config = config::read_file(&file).unwrap();
        let daemon = Daemon::start(config, Some(file), |_| {}).unwrap();
        let control = Control::start(&dir.path().join("s"), &daemon, Arc::new(|_| {})).unwrap();
        Rig { dir, daemon, control: Some(control) }
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("s")
    }

    fn connect(&self) -> Call {
        Call::connect(&self.socket(), LONG).unwrap()
    }

    fn rewrite(&self, config: &str) {
        std::fs::write(self.dir.path().join("platter.toml"), config).unwrap();
    }
}

const TWO: &str = "
    [devices.a]
    spec = 'ram(1M, elevator=deadline)'
    limits = { iops = 500 }
    [devices.b]
    spec = 'ram(2M)'
    read_only = true
";

fn refused(result: Result<Value, CallError>) -> (i64, String) {
    match result {
        Err(CallError::Refused { code, message }) => (code, message),
        other => panic!("{other:?}"),
    }
}

#[test]
fn devices_are_listed_tuned_added_and_removed() {
    let rig = Rig::new(TWO);
    let mut call = rig.connect();
    let list = call.call("device.list", json!({})).unwrap();
    assert_eq!((list[0]["name"].as_str(), list[1]["name"].as_str()), (Some("a"), Some("b")));
    assert_eq!(list[0]["elevator"], "deadline");
    assert_eq!((&list[0]["size_bytes"], &list[0]["limits"]["iops"]), (&json!(1 << 20), &json!(500)));
    assert_eq!((&list[0]["read_only"], &list[1]["read_only"]), (&json!(false), &json!(true)));

    let changed = call.call("device.elevator", json!({ "device": "a", "elevator": "mq-deadline" })).unwrap();
    assert_eq!(changed["elevator"], "mq-deadline");
    let (code, message) = refused(call.call("device.elevator", json!({ "device": "a", "elevator": "cqf" })));
    assert!(code == -32000 && message.contains("mq-deadline"), "{message}");
    let ordered = call.call("device.ordered", json!({ "device": "a", "ordered": "drain" })).unwrap();
    assert!(ordered["barriers"].as_str().unwrap().starts_with("drain"), "{ordered}");
    for (mode, expected, text) in
        [("tag", -32001, "takes no ordered tags"), ("tags", -32000, "expected one of drain, tag")]
    {
        let (code, message) = refused(call.call("device.ordered", json!({ "device": "a", "ordered": mode })));
        assert!(code == expected && message.contains(text), "{code} {message}");
    }
    let params = call.call("device.params", json!({ "device": "a" })).unwrap();
    let name = params[0]["name"].as_str().unwrap().to_owned();
    let set = call.call("device.set_param", json!({ "device": "a", "param": name, "value": 123 })).unwrap();
    assert!(
        set.as_array().unwrap().iter().any(|param| param["name"] == name && param["value"] == 123),
        "{set}"
    );
    let set = json!({ "device": "a", "param": "read_expire", "value": "0.25s" });
    let set = call.call("device.set_param", set).unwrap();
    let expire = set.as_array().unwrap().iter().find(|param| param["name"] == "read_expire").unwrap();
    assert_eq!((&expire["value"], &expire["unit"]), (&json!(250), &json!("ms")));
    for (param, value, says) in [
        ("no", json!(1), "\"no\""),
        ("no", json!("1s"), "it has: read_expire"),
        ("read_expire", json!("soon"), "read_expire: expected a time"),
        ("fifo_batch", json!("1s"), "fifo_batch: expected a whole number"),
    ] {
        let set = json!({ "device": "a", "param": param, "value": value });
        let (code, message) = refused(call.call("device.set_param", set));
        assert!(code == -32000 && message.contains(says), "{code} {message}");
    }

    let limits = call.call("device.limits", json!({ "device": "a", "depth": 4 })).unwrap();
    assert_eq!((&limits["iops"], &limits["depth"]), (&json!(500), &json!(4)), "those not given stay");
    assert!(
        refused(call.call("device.limits", json!({ "device": "a", "depth": 1 << 20 }))).1.contains("65536")
    );

    let added = json!({ "device": "c", "spec": "ram(4M)", "read_only": true });
    assert_eq!(call.call("device.add", added.clone()).unwrap()["size_bytes"], 4 << 20);
    assert!(refused(call.call("device.add", added)).1.contains("already"));
    let wrong = refused(call.call("device.add", json!({ "device": "d", "spec": "rum(4M)" })));
    assert!(wrong.0 == -32000 && wrong.1.contains("ram"), "{}", wrong.1);
    assert_eq!(
        refused(call.call("device.add", json!({ "device": "d", "spec": "/nowhere/x.img" }))).0,
        -32001
    );
    call.call("device.remove", json!({ "device": "c" })).unwrap();
    assert!(refused(call.call("device.remove", json!({ "device": "c" }))).1.contains("there are a, b"));
}

#[test]
fn statistics_and_health_say_what_was_done() {
    let rig = Rig::new(TWO);
    let device = rig.daemon.devices().find("a").unwrap().device().clone();
    device.write_at(&[1; 4096], 0).unwrap();
    device.read_at(&mut [0; 512], 0).unwrap();
    let mut call = rig.connect();
    call.call("device.flush", json!({ "device": "a" })).unwrap();
    let stats = call.call("device.stats", json!({ "device": "a" })).unwrap();
    assert_eq!(
        (&stats["counters"]["bytes_written"], &stats["counters"]["bytes_read"]),
        (&json!(4096), &json!(512))
    );
    let ops: Vec<&str> =
        stats["latency"].as_array().unwrap().iter().map(|l| l["op"].as_str().unwrap()).collect();
    assert!(ops.contains(&"read") && ops.contains(&"write"), "{ops:?}");
    assert_eq!(stats["cache"], Value::Null);
    let health = call.call("server.health", json!({})).unwrap();
    assert_eq!((&health["status"], &health["devices"][0]["oldest_io_seconds"]), (&json!("ok"), &Value::Null));
    let client = rig.daemon.clients().connect("test", "a", "peer", || {}).unwrap();
    client.begin();
    let health = call.call("server.health", json!({})).unwrap();
    assert!(health["devices"][0]["oldest_io_seconds"].as_f64().is_some(), "{health}");
    rig.rewrite(&format!("[server]\nstall_after = \"0s\"\n{TWO}"));
    assert_eq!(
        call.call("server.reload", json!({})).unwrap()["changed"],
        json!(["server.stall_after changed"])
    );
    assert_eq!(call.call("server.health", json!({})).unwrap()["status"], "stalled");
    let status = call.call("server.status", json!({})).unwrap();
    assert_eq!(
        (&status["clients"][0]["peer"], &status["devices"][0]["clients"]),
        (&json!("peer"), &json!(1))
    );
}

#[test]
fn what_clients_put_on_a_device_is_no_reason_to_refuse_it() {
    use std::os::unix::fs::FileExt;
    let rig = Rig::new("");
    let mut call = rig.connect();
    let path = rig.dir.path().join("disk");
    let disk = std::fs::File::create(&path).unwrap();
    let mut add = |name: &str, spec: String, force: bool| {
        call.call("device.add", json!({ "device": name, "spec": spec, "force": force }))
    };
    let contents: [(&str, &[u8], u64); 5] = [
        ("xfs", b"XFSB", 0),
        ("swap", b"SWAPSPACE2", 4086),
        ("gpt", b"EFI PART", 512),
        ("qcow2", b"QFI\xfb", 0),
        ("luks", b"LUKS\xba\xbe", 0),
    ];
    for (name, bytes, at) in contents {
        disk.set_len(0).unwrap();
        disk.set_len(1 << 20).unwrap();
        disk.write_all_at(bytes, at).unwrap();
        // Its copy-on-write records would overwrite what is there, which no client has put there.
        let store = add(name, format!("snapshot(ram(1M), {})", path.display()), false);
        let (_, message) = refused(store);
        assert!(message.contains("which writing would destroy"), "{name}: {message}");
        add(name, path.display().to_string(), false).unwrap();
        rig.daemon.remove_device(name, false).unwrap();
    }
    let members: [(&[u8], &str); 2] =
        [(&[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0], "md array"), (b"platter array\0\0\0", "platter array")];
    for (bytes, says) in members {
        disk.set_len(0).unwrap();
        disk.set_len(1 << 20).unwrap();
        disk.write_all_at(bytes, 4096).unwrap();
        let (_, message) = refused(add("member", path.display().to_string(), false));
        assert!(message.contains(says) && message.contains("--force"), "{message}");
        add("member", path.display().to_string(), true).unwrap();
        rig.daemon.remove_device("member", false).unwrap();
    }
}

#[test]
fn a_device_with_clients_is_removed_only_by_force() {
    let rig = Rig::new(TWO);
    let mut call = rig.connect();
    let gone = Arc::new(std::sync::Mutex::new(None));
    let held = Arc::clone(&gone);
    // Its export drops the client when it is told to disconnect.
    let client =
        rig.daemon.clients().connect("test", "a", "peer", move || _ = held.lock().unwrap().take()).unwrap();
    *gone.lock().unwrap() = Some(client);
    assert!(refused(call.call("device.remove", json!({ "device": "a" }))).1.contains("clients: 1"));
    rig.rewrite("[devices.b]\nspec = 'ram(2M)'\nread_only = true");
    let applied = call.call("server.reload", json!({})).unwrap();
    assert!(applied["refused"][0].as_str().unwrap().contains("clients: 1"), "{applied}");
    call.call("device.remove", json!({ "device": "a", "force": true })).unwrap();
    assert!(gone.lock().unwrap().is_none() && rig.daemon.devices().find("a").is_none());
}

#[test]
fn reading_the_file_again_applies_what_differs() {
    let rig = Rig::new(TWO);
    let mut call = rig.connect();
    call.call("device.add", json!({ "device": "by-hand", "spec": "ram(1M)" })).unwrap();
    rig.rewrite(
        "
        [server]
        clients_max = 7
        stop_timeout = '2s'
        [devices.a]
        spec = 'ram(8M)'
        limits = { bandwidth = '1M' }
        client_limits = { weight = 5 }
        [devices.c]
        spec = 'ram(3M)'
        [devices.d]
        spec = '/nowhere/d.img'
        ",
    );
    let applied = call.call("server.reload", json!({})).unwrap();
    let texts = |key: &str| -> Vec<String> {
        applied[key].as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let changed = [
        "server.stop_timeout changed",
        "limits of the device a changed",
        "client limits of the device a changed",
        "device b removed",
        "device c added",
    ];
    assert_eq!(texts("changed"), changed);
    let refused = texts("refused");
    assert!(refused[0].contains("server.clients_max cannot change"), "{refused:?}");
    assert!(refused[1].contains("devices.a.spec cannot change"), "{refused:?}");
    assert!(refused[2].contains("device d added") && refused[2].contains("/nowhere/d.img"), "{refused:?}");
    assert_eq!(refused.len(), 3);
    let names: Vec<String> =
        rig.daemon.devices().list().iter().map(|served| served.name().to_owned()).collect();
    assert_eq!(names, ["a", "by-hand", "c"]);
    assert_eq!(rig.daemon.devices().find("a").unwrap().device().size(), 1 << 20, "the old one stays");
    assert_eq!(rig.daemon.devices().find("a").unwrap().qos().limits().1.weight, 5);
    // What was refused is tried again; what was done is not.
    let again = call.call("server.reload", json!({})).unwrap();
    assert_eq!(
        (again["changed"].as_array().unwrap().len(), again["refused"].as_array().unwrap().len()),
        (0, 3)
    );
    rig.rewrite("[server]\nclients_max = 0");
    let wrong = self::refused(call.call("server.reload", json!({})));
    assert!(wrong.0 == -32000 && wrong.1.contains("platter.toml:2:15: clients_max is 0"), "{}", wrong.1);
    assert_eq!(rig.daemon.devices().list().len(), 3);
}

#[test]
fn requests_that_are_wrong_are_refused_by_number() {
    let rig = Rig::new("");
    let ask = |line: &[u8]| -> Value {
        let response = platter_serve::control::answer(&rig.daemon, line).unwrap();
        assert_eq!(response["jsonrpc"], "2.0");
        response["error"].clone()
    };
    for (line, code) in [
        (&b"{"[..], -32700),
        (b"\xff", -32700),
        (b"[]", -32600),
        (b"{\"id\":1,\"method\":\"server.info\"}", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":[],\"method\":\"server.info\"}", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server.info\",\"params\":[1]}", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server.inf\"}", -32601),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"device.stats\"}", -32602),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"device.stats\",\"params\":{\"devise\":\"a\"}}", -32602),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"device.stats\",\"params\":{\"device\":1}}", -32602),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"client.disconnect\",\"params\":{\"client\":-1}}",
            -32602,
        ),
    ] {
        assert_eq!(ask(line)["code"], code, "{}", String::from_utf8_lossy(line));
    }
    let unknown = ask(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server.inf\"}");
    assert!(unknown["message"].as_str().unwrap().contains("did you mean server.info?"));
    let notification = b"{\"jsonrpc\":\"2.0\",\"method\":\"server.info\"}";
    assert_eq!(platter_serve::control::answer(&rig.daemon, notification), None);
}

#[test]
fn the_socket_is_private_bounded_and_removed() {
    let mut rig = Rig::new("");
    let path = rig.socket();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let second = Control::start(&path, &rig.daemon, Arc::new(|_| {})).map(drop).unwrap_err();
    assert!(second.to_string().contains("another server listens"), "{second}");

    let mut long = UnixStream::connect(&path).unwrap();
    // The server may end the connection before it has read everything.
    let _ = long.write_all(&vec![b' '; MAX_LINE_BYTES + 2]);
    let mut told = String::new();
    let _ = long.read_to_string(&mut told);
    assert!(told.contains("a line has more than 65536 bytes") || told.is_empty(), "{told}");

    let mut calls: Vec<Call> = (0..MAX_CONNECTIONS).map(|_| rig.connect()).collect();
    // A connection that has ended may still be counted.
    let ended = |call: &mut Call| call.call("server.info", json!({})).is_err();
    let open = calls.iter_mut().filter_map(|call| (!ended(call)).then_some(())).count();
    assert!(open >= MAX_CONNECTIONS - 1, "{open}");
    let mut more: Vec<Call> = (0..3).map(|_| rig.connect()).collect();
    let why =
        more.iter_mut().filter_map(|call| call.call("server.info", json!({})).err()).collect::<Vec<_>>();
    assert!(why.len() >= 2, "{why:?}");
    assert!(why.iter().all(|why| why.to_string().contains("there are 16 connections already")), "{why:?}");
    rig.control = None;
    assert!(!path.exists() && ended(&mut calls[0]));

    // What a server that was killed leaves behind is replaced; anything else is not.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    drop(Control::start(&path, &rig.daemon, Arc::new(|_| {})).unwrap());
    std::fs::write(&path, "text").unwrap();
    let file = Control::start(&path, &rig.daemon, Arc::new(|_| {})).map(drop).unwrap_err();
    assert!(file.to_string().contains("is not a socket") && path.exists(), "{file}");
    assert!(
        Call::connect(Path::new("/nowhere/s"), LONG).err().unwrap().to_string().contains("start a server")
    );
}

#[test]
fn a_stop_can_be_requested() {
    let rig = Rig::new("[server]\nstop_timeout = '7s'");
    assert_eq!(rig.daemon.wait(Duration::ZERO), None);
    let mut call = rig.connect();
    assert_eq!(call.call("server.drain", json!({})).unwrap()["timeout_ms"], 7000);
    call.call("server.drain", json!({ "timeout_ms": 1 })).unwrap();
    assert_eq!(rig.daemon.wait(LONG).unwrap().limit, Duration::from_secs(7), "the first one counts");
    rig.daemon.stop(LONG).unwrap();
    let (code, message) = refused(call.call("device.add", json!({ "device": "x", "spec": "ram(1M)" })));
    assert!(code == -32001 && message.contains("stopping"), "{message}");
}

fn get(address: std::net::SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn metrics_are_served_over_http() {
    let rig = Rig::new(
        "[devices.\"a \\\"b\\\"\"]\nspec = 'cache(size=1M, ram(4M))'\n[devices.c]\nspec = 'ram(1M)'",
    );
    let device = rig.daemon.devices().find("c").unwrap().device().clone();
    (0..10).for_each(|at| device.write_at(&[1; 4096], at * 4096).unwrap());
    let cached = rig.daemon.devices().find("a \"b\"").unwrap().device().clone();
    cached.write_at(&[1; 8192], 0).unwrap();
    let client = rig.daemon.clients().connect("test", "c", "peer", || {}).unwrap();
    let metrics = MetricsServer::start("127.0.0.1:0", false, &rig.daemon).unwrap();
    let text = get(metrics.address(), "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.contains("text/plain; version=0.0.4"));
    for family in FAMILIES {
        let head =
            format!("# HELP {} {}\n# TYPE {} {}\n", family.name, family.help, family.name, family.kind);
        assert!(text.contains(&head), "{head}");
        assert!(family.name.starts_with("platter_") && family.help.ends_with('.'), "{}", family.name);
        assert_eq!(family.kind == "counter", family.name.ends_with("_total"), "{}", family.name);
    }
    for line in [
        "platter_device_written_bytes_total{device=\"c\"} 40960\n",
        "platter_device_size_bytes{device=\"a \\\"b\\\"\"} 4194304\n",
        "platter_cache_hit_pages_total{device=\"a \\\"b\\\"\"} 0\n",
        "platter_cache_size_bytes{device=\"a \\\"b\\\"\"} 1048576\n",
        "platter_cache_dirty_bytes{device=\"a \\\"b\\\"\"} 8192\n",
        "platter_cache_evicted_pages_total{device=\"a \\\"b\\\"\"} 0\n",
        "platter_cache_write_back_errors_total{device=\"a \\\"b\\\"\"} 0\n",
        "platter_cache_squeezes_total{device=\"a \\\"b\\\"\"} 0\n",
        "platter_cache_writer_waits_total{device=\"a \\\"b\\\"\"} 0\n",
        "platter_cache_writer_wait_seconds_total{device=\"a \\\"b\\\"\"} 0\n",
        "platter_device_request_duration_seconds_bucket{device=\"c\",op=\"write\",le=\"+Inf\"} 10\n",
        "platter_device_request_duration_seconds_count{device=\"c\",op=\"write\"} 10\n",
        "platter_clients{device=\"c\"} 1\n",
        &format!("platter_client_errors{{client=\"{}\",device=\"c\",export=\"test\"}} 0\n", client.id),
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
    assert!(!text.contains("platter_cache_size_bytes{device=\"c\"}"), "it has no cache: {text}");
    let body = text.split("\r\n\r\n").nth(1).unwrap();
    assert!(text.contains(&format!("Content-Length: {}\r\n", body.len())));
    let head = get(metrics.address(), "HEAD / HTTP/1.0\n\n");
    assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"));
    assert!(get(metrics.address(), "GET /other HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    assert!(get(metrics.address(), "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
    let long = format!("GET /{} HTTP/1.1\r\n", "x".repeat(9000));
    assert!(get(metrics.address(), &long).starts_with("HTTP/1.1 400"));
    for (address, why) in
        [("0.0.0.0:0", "--insecure-plaintext"), ("9100", "IP:PORT"), ("localhost:1", "IP:PORT")]
    {
        let error = MetricsServer::start(address, false, &rig.daemon).map(drop).unwrap_err();
        assert!(error.is_usage() && error.to_string().contains(why), "{error}");
    }
    let taken = metrics.address().to_string();
    assert!(MetricsServer::start(&taken, false, &rig.daemon).is_err_and(|error| !error.is_usage()));
}

#[test]
fn a_device_that_cannot_be_opened_stops_the_start() {
    let config =
        config::parse("[devices.a]\nspec = 'ram(1M)'\n[devices.b]\nspec = '/nowhere/b.img'").unwrap();
    let error = Daemon::start(config, None, |_| {}).err().unwrap().to_string();
    assert!(error.contains("device b: ") && error.contains("/nowhere/b.img"), "{error}");
    let daemon = Daemon::start(Config::default(), None, |_| {}).unwrap();
    assert!(daemon.reload().unwrap_err().to_string().contains("without a configuration file"));
}

#[test]
fn every_method_is_described() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/control.md");
    let page = std::fs::read_to_string(page).unwrap();
    for method in METHODS {
        assert!(
            page.contains(&format!("| `{}` |", method.name)),
            "{} is not in docs/control.md",
            method.name
        );
        for param in method.params {
            assert!(page.contains(&format!("`{}`", param.name)), "{} of {}", param.name, method.name);
        }
    }
}

/// The kinds of problems that the health names.
fn problems(call: &mut Call) -> (Value, Vec<String>) {
    let health = call.call("server.health", json!({})).unwrap();
    let list = health["problems"].as_array().unwrap().iter();
    let kinds = list.map(|problem| problem["kind"].as_str().unwrap().to_owned()).collect();
    (health, kinds)
}

#[test]
fn health_knows_of_flushes_and_write_backs_that_failed_until_they_are_acknowledged() {
    let rig = Rig::new("[devices.a]\nspec = 'error(op=flush, times=1, ram(1M))'\n");
    let mut call = rig.connect();
    assert_eq!(problems(&mut call).1, Vec::<String>::new());
    refused(call.call("device.flush", json!({ "device": "a" })));
    let (health, kinds) = problems(&mut call);
    assert_eq!((&health["status"], &kinds[..]), (&json!("degraded"), &["flush-failed".to_owned()][..]));
    assert_eq!(health["devices"][0]["flush_failures"], 1);
    assert!(health["devices"][0]["flush_failure"].is_string(), "{health}");
    let text = platter_serve::metrics::render(&rig.daemon);
    assert!(text.contains("platter_device_flush_failures_total{device=\"a\"} 1"), "{text}");
    call.call("device.flush", json!({ "device": "a" })).unwrap();
    assert_eq!(problems(&mut call).1, ["flush-failed"], "what was lost is not back");
    call.call("device.acknowledge", json!({ "device": "a" })).unwrap();
    assert_eq!(problems(&mut call).0["status"], "ok");

    let spec = "cache(size=1M, error(op=write, times=1, ram(1M)))";
    call.call("device.add", json!({ "device": "b", "spec": spec })).unwrap();
    let device = rig.daemon.devices().find("b").unwrap();
    device.device().write_at(&[1; 4096], 0).unwrap();
    let _ = device.device().flush();
    let (health, kinds) = problems(&mut call);
    assert!(kinds.contains(&"write-back-errors".to_owned()), "{health}");
    call.call("device.acknowledge", json!({ "device": "b" })).unwrap();
    assert_eq!(problems(&mut call).0["status"], "ok");
}

#[test]
fn health_knows_of_disks_that_shrink() {
    let rig = Rig::new("");
    let mut call = rig.connect();
    let path = rig.dir.path().join("disk");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(2 << 20).unwrap();
    call.call("device.add", json!({ "device": "d", "spec": path.to_str().unwrap() })).unwrap();
    let device = rig.daemon.devices().find("d").unwrap();
    file.set_len(1 << 20).unwrap();
    device.device().refresh().unwrap();
    let (health, kinds) = problems(&mut call);
    assert_eq!(
        (&kinds[..], &health["devices"][0]["shrunk_bytes"]),
        (&["shrunk".to_owned()][..], &json!(1 << 20))
    );
    call.call("device.acknowledge", json!({ "device": "d" })).unwrap();
    assert_eq!(problems(&mut call).0["status"], "ok");
}

#[test]
fn health_knows_of_clients_that_were_refused() {
    let rig = Rig::new("[server]\nclients_max = 1\n[devices.a]\nspec = 'ram(1M)'\n");
    let _client = rig.daemon.clients().connect("test", "a", "peer", || {}).unwrap();
    assert!(rig.daemon.clients().connect("test", "a", "peer", || {}).is_none());
    let (health, kinds) = problems(&mut rig.connect());
    assert_eq!(
        (&kinds[..], &health["refused"]["clients_max"]),
        (&["clients-refused".to_owned()][..], &json!(1))
    );
}

#[test]
fn the_log_says_who_has_changed_what() {
    let mut rig = Rig::new("[devices.a]\nspec = 'ram(1M)'\n");
    let lines: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
    let heard = Arc::clone(&lines);
    rig.control = None;
    let hears = move |heard_now: &platter_serve::control::Heard<'_>| {
        if let platter_serve::control::Heard::Call { uid, pid, method, params, error, .. } = heard_now {
            let params = Value::Object((*params).clone());
            heard.lock().unwrap().push(format!("{uid} {pid} {method} {params} {error:?}"));
        }
    };
    rig.control = Some(Control::start(&rig.socket(), &rig.daemon, Arc::new(hears)).unwrap());
    let mut call = rig.connect();
    call.call("device.list", json!({})).unwrap();
    call.call("device.limits", json!({ "device": "a", "iops": 5 })).unwrap();
    call.call("device.add", json!({ "device": "b", "spec": "ram(1M, secret)" })).unwrap_err();
    refused(call.call("device.remove", json!({ "device": "x" })));
    let (uid, pid) = (rustix::process::geteuid().as_raw(), std::process::id());
    let lines = lines.lock().unwrap();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert_eq!(lines[0], format!("{uid} {pid} device.limits {{\"device\":\"a\",\"iops\":5}} None"));
    assert!(
        lines[1].starts_with(&format!("{uid} {pid} device.add {{\"device\":\"b\"}} Some(")),
        "{}",
        lines[1]
    );
    assert!(lines[2].contains("device.remove") && lines[2].contains("the only one is a"), "{}", lines[2]);
}

#[test]
fn a_device_without_a_name_is_named_in_errors_and_words_are_shown_as_such() {
    let mut config = Config::default();
    config.devices.push(config::DeviceConfig::new("", "ram(1M, elevator=anticipatory)"));
    let daemon = Daemon::start(config, None, |_| {}).unwrap();
    let ask = |method: &str, device: &str| {
        let line = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": { "device": device } });
        platter_serve::control::answer(&daemon, line.to_string().as_bytes()).unwrap()
    };
    let message = ask("device.flush", "x")["error"]["message"].as_str().unwrap().to_owned();
    assert_eq!(message, "there is no device called \"x\"; the only one is \"\" (without a name)");
    let params = ask("device.params", "");
    let params = params["result"].as_array().unwrap();
    let kernel = params.iter().find(|param| param["name"] == "kernel").unwrap();
    assert!(kernel["value"].is_string(), "{kernel}");
}

#[cfg(feature = "tls")]
#[test]
fn health_knows_of_certificates_that_have_expired_or_will() {
    let rig = Rig::new("[devices.a]\nspec = 'ram(1M)'\n");
    let mut call = rig.connect();
    let now = std::time::SystemTime::now();
    let day = Duration::from_secs(86_400);
    for (until, kinds) in [
        (now - 3 * day, vec!["certificate-expired"]),
        (now + 3 * day, vec!["certificate-expiring"]),
        (now + 90 * day, vec![]),
    ] {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        (params.not_before, params.not_after) = (rcgen::date_time_ymd(2000, 1, 1), until.into());
        std::fs::write(rig.dir.path().join("pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        std::fs::write(rig.dir.path().join("key"), key.serialize_pem()).unwrap();
        let file = |name: &str| rig.dir.path().join(name);
        let files = platter_serve::tls::TlsFiles {
            certificate: file("pem"),
            key: file("key"),
            client_authorities: None,
        };
        let address = format!("unix:{}", file("n").display());
        let mut export = config::ExportConfig::new("e", "nbd", &address);
        export.options.tls = Some(platter_serve::tls::Tls::load(files, true).unwrap());
        rig.daemon.add_export(&export).unwrap();
        let (health, found) = problems(&mut call);
        assert_eq!(found, kinds, "{health}");
        assert_eq!(health["certificates"][0]["export"], "e");
        assert!(health["certificates"][0]["expires_unix_seconds"].as_u64().unwrap() > 1_700_000_000);
        rig.daemon.remove_export("e").unwrap();
        assert_eq!(problems(&mut call).0["certificates"], json!([]));
    }
}
