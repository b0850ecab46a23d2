//! A device is traced, and brought to rest, through the control socket while clients use it.

use platter_block::bio::Bio;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_remote::nbd::client::{NbdDisk, NbdOptions};
use platter_remote::nbd::uri::Uri;
use platter_serve::config;
use platter_serve::control::{Call, CallError, Control};
use platter_serve::daemon::Daemon;
use platter_serve::export::Options;
use platter_serve::served::Served;
use platter_serve::server::Server;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

struct Rig {
    folder: tempfile::TempDir,
    daemon: Arc<Daemon>,
    _control: Control,
}

impl Rig {
    /// A server of one device, `d`.
    fn new(spec: &str) -> Rig {
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "[devices.d]\nspec = '{spec}'\n[exports.e]\nkind = 'nbd'\naddress = 'unix:{}'",
            folder.path().join("nbd").display()
        );
        let daemon = Daemon::start(config::parse(&text).unwrap(), None, |_| {}).unwrap();
        let control = Control::start(&folder.path().join("c"), &daemon, Arc::new(|_| {})).unwrap();
        Rig { folder, daemon, _control: control }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn call(&self) -> Call {
        Call::connect(&self.path("c"), LONG).unwrap()
    }

    fn client(&self) -> Device {
        remote(&self.path("nbd"))
    }
}

fn remote(socket: &Path) -> Device {
    let options = NbdOptions::default().with_write(true).with_connections(2);
    let disk = NbdDisk::open(Uri::unix(socket, "d"), options).unwrap();
    Device::from_disk(disk, DiskSettings::default(), None).unwrap()
}

fn refused(result: Result<Value, CallError>) -> (i64, String) {
    match result {
        Err(CallError::Refused { code, message }) => (code, message),
        other => panic!("{other:?}"),
    }
}

/// Writes and reads one block again and again until the end, and counts.
fn load(device: &Device, count: &AtomicU64, end: &AtomicBool) {
    while !end.load(Ordering::Relaxed) {
        let version = count.load(Ordering::Relaxed) as u8;
        device.write_at(&[version; 4096], 8192).unwrap();
        let mut read = [0; 4096];
        device.read_at(&mut read, 8192).unwrap();
        assert_eq!(read, [version; 4096]);
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Ends the load, also after an assertion that failed.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Waits until the load has gone on.
fn goes_on(count: &AtomicU64) {
    let seen = count.load(Ordering::Relaxed);
    while count.load(Ordering::Relaxed) < seen + 3 {
        std::thread::yield_now();
    }
}

fn traces(rig: &Rig, count: &AtomicU64) {
    let mut call = rig.call();
    goes_on(count);
    for (format, name) in [("text", "t1"), ("blktrace", "t2"), ("text", "t3")] {
        let file = rig.path(name);
        let begin = json!({ "device": "d", "file": file.to_str().unwrap(), "format": format });
        let begun = call.call("device.trace", begin.clone()).unwrap();
        assert_eq!((&begun["format"], &begun["error"]), (&json!(format), &Value::Null));
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(refused(call.call("device.trace", begin)).1.contains("traced already"));
        goes_on(count);
        let shown = call.call("device.list", json!({})).unwrap()[0]["trace"].clone();
        assert!(shown["written_bytes"].as_u64().unwrap() > begun["written_bytes"].as_u64().unwrap());
        let ended = call.call("device.trace_stop", json!({ "device": "d" })).unwrap();
        let written = fs::read(&file).unwrap();
        assert_eq!(ended["written_bytes"], written.len(), "the file is complete");
        goes_on(count);
        assert_eq!(fs::read(&file).unwrap(), written, "nothing is written after the end");
        assert_eq!(call.call("device.list", json!({})).unwrap()[0]["trace"], Value::Null);
        match format {
            "blktrace" => assert_eq!(written[..4], 0x6561_7407u32.to_ne_bytes()),
            _ => {
                let text = String::from_utf8(written).unwrap();
                let has = |action: &str, rwbs: &str| {
                    text.lines().any(|line| {
                        let words: Vec<&str> = line.split_whitespace().collect();
                        words.get(5) == Some(&action)
                            && words.get(6) == Some(&rwbs)
                            && words.get(7) == Some(&"16")
                    })
                };
                // The block at 8,192 is sector 16. The connection was there before the trace.
                for (action, rwbs) in [("Q", "W"), ("D", "W"), ("C", "W"), ("C", "R")] {
                    assert!(has(action, rwbs), "{action} {rwbs} in {text}");
                }
            }
        }
    }
}

fn wrong_traces(rig: &Rig, count: &AtomicU64) {
    let mut call = rig.call();
    let exists = rig.path("t1");
    for (params, code, part) in [
        (
            json!({ "device": "x", "file": "/tmp/x" }),
            -32000,
            "there is no device called \"x\"; the only one is d",
        ),
        (json!({ "device": "d", "file": "t" }), -32000, "absolute path"),
        (json!({ "device": "d", "file": exists.to_str().unwrap() }), -32001, "remove it first"),
        (json!({ "device": "d", "file": "/nowhere/t" }), -32001, "/nowhere/t"),
        (json!({ "device": "d", "file": "/tmp/x", "format": "pcap" }), -32000, "text or blktrace"),
        (json!({ "device": "d", "file": "/tmp/x", "limit_bytes": 0 }), -32000, "expected 1 or more"),
    ] {
        let (got, message) = refused(call.call("device.trace", params));
        assert!(got == code && message.contains(part), "{got} {message}");
    }
    assert!(refused(call.call("device.trace_stop", json!({ "device": "d" }))).1.contains("is not traced"));
    // The limit ends the trace, not the I/O.
    let file = rig.path("t4");
    let small = json!({ "device": "d", "file": file.to_str().unwrap(), "limit_bytes": 1000 });
    call.call("device.trace", small).unwrap();
    loop {
        goes_on(count);
        let shown = call.call("device.list", json!({})).unwrap()[0]["trace"].clone();
        if shown["error"].as_str().is_some_and(|why| why.contains("limit of 1000 bytes")) {
            break;
        }
    }
    let ended = call.call("device.trace_stop", json!({ "device": "d" })).unwrap();
    assert!(ended["error"].as_str().unwrap().contains("limit"), "{ended}");
    let length = fs::metadata(&file).unwrap().len();
    assert!((500..=1000).contains(&length) && ended["written_bytes"] == length, "{ended}");
}

#[test]
fn a_device_is_traced_while_a_client_uses_it() {
    for spec in ["ram(1M)", "ram(1M, elevator=deadline)"] {
        let rig = Rig::new(spec);
        let (count, end) = (AtomicU64::new(0), AtomicBool::new(false));
        let device = rig.client();
        std::thread::scope(|scope| {
            let _end = End(&end);
            scope.spawn(|| load(&device, &count, &end));
            traces(&rig, &count);
            wrong_traces(&rig, &count);
            // A trace that runs when the server stops is completed.
            let file = rig.path("last").to_str().unwrap().to_owned();
            rig.call().call("device.trace", json!({ "device": "d", "file": file })).unwrap();
            goes_on(&count);
        });
        drop(device);
        rig.daemon.stop(LONG).unwrap();
        let last = fs::read_to_string(rig.path("last")).unwrap();
        assert!(last.ends_with('\n') && last.lines().count() > 3, "{last}");
    }
}

/// The only client of the device, as the server sees it, once it is so.
fn await_client(call: &mut Call, is_so: impl Fn(&Value) -> bool) {
    loop {
        let list = call.call("client.list", json!({})).unwrap();
        if list.as_array().unwrap().iter().any(&is_so) {
            return;
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_device_comes_to_rest_and_goes_on() {
    // Under load.
    let rig = Rig::new("ram(1M)");
    let (count, end) = (AtomicU64::new(0), AtomicBool::new(false));
    let device = rig.client();
    std::thread::scope(|scope| {
        let _end = End(&end);
        scope.spawn(|| load(&device, &count, &end));
        let mut call = rig.call();
        for _ in 0..20 {
            goes_on(&count);
            let rest = call.call("device.drain", json!({ "device": "d" })).unwrap();
            assert!(rest["done"] == true && rest["held_us"].is_u64(), "{rest}");
        }
        goes_on(&count);
        let unknown = refused(call.call("device.drain", json!({ "device": "x" })));
        assert!(unknown.0 == -32000 && unknown.1.contains("the only one is d"), "{}", unknown.1);
    });

    // Over a disk that answers nothing for a while: a server that holds its requests.
    let inner = tempfile::tempdir().unwrap();
    let mut server = Server::default();
    server.devices().add(Served::new("d", Device::ram(1 << 20).unwrap()).unwrap()).unwrap();
    let socket = inner.path().join("inner");
    server.start("nbd", &format!("unix:{}", socket.display()), &Options::default()).unwrap();
    let rig = Rig::new(&format!("nbd(nbd+unix:///d?socket={}, connections=4)", socket.display()));
    let slow = Arc::clone(server.devices().find("d").unwrap().qos());
    let mut call = rig.call();
    let mut channel = rig.client().channel(4).unwrap();
    let mut done = Vec::new();
    slow.hold();
    channel.submit(Bio::read(0, vec![0; 4096]).unwrap()).unwrap();
    channel.poll(&mut done);
    await_client(&mut call, |client| client["in_flight"] == 1);
    let short = json!({ "device": "d", "timeout_ms": 1 });
    let (code, busy) = refused(call.call("device.drain", short));
    assert!(code == -32001 && busy.contains("has not come to rest"), "{busy}");
    assert!(busy.contains("1 requests are in the device"), "{busy}");
    std::thread::scope(|scope| {
        let drain = scope.spawn(|| rig.call().call("device.drain", json!({ "device": "d" })));
        // A request that comes meanwhile waits; the one before it is waited for.
        channel.submit(Bio::read(4096, vec![0; 4096]).unwrap()).unwrap();
        channel.poll(&mut done);
        await_client(&mut call, |client| client["waits_for_admission"] == true || client["in_flight"] == 2);
        assert!(!drain.is_finished() && done.is_empty());
        slow.release();
        assert_eq!(drain.join().unwrap().unwrap()["done"], true);
        while done.len() < 2 {
            channel.wait(&mut done, None);
        }
        assert!(done.iter().all(|bio| bio.status().is_ok()));
    });
    drop(channel);
    rig.daemon.stop(LONG).unwrap();
    server.stop(LONG).unwrap();
}
