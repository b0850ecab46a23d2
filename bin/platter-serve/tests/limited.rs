//! Limits as clients over NBD meet them.

use platter_block::lane::Bell;
use platter_remote::nbd::wire::{Request, command, command_flag, error};
use platter_serve::config;
use platter_serve::daemon::Daemon;
use platter_serve::qos::{Admit, ClientLimits, DeviceLimits};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Flags of the handshake: fixed newstyle, no zeroes.
const FLAGS: u32 = 3;
const OPTION_EXPORT_NAME: u32 = 1;
const REPLY_BYTES: usize = 16;

struct Silent;

impl Bell for Silent {
    fn ring(&self) {}
}

struct Rig {
    dir: tempfile::TempDir,
    daemon: Arc<Daemon>,
}

impl Rig {
    fn new(spec: &str) -> Rig {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("nbd").display().to_string();
        let text = format!(
            "[devices.d]\nspec = '{spec}'\n[exports.e]\nkind = 'nbd'\naddress = 'unix:{socket}'\ndepth = 16"
        );
        let daemon = Daemon::start(config::parse(&text).unwrap(), None, |_| {}).unwrap();
        Rig { dir, daemon }
    }

    /// Connects, and waits until the client is in the list.
    fn connect(&self) -> (UnixStream, u64) {
        let before: Vec<u64> = self.daemon.clients().list().iter().map(|client| client.id).collect();
        let mut stream = UnixStream::connect(self.dir.path().join("nbd")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).unwrap();
        stream.write_all(&FLAGS.to_be_bytes()).unwrap();
        stream
            .write_all(
                &[b"IHAVEOPT", &OPTION_EXPORT_NAME.to_be_bytes()[..], &1u32.to_be_bytes(), b"d"].concat(),
            )
            .unwrap();
        let mut export = [0; 10];
        stream.read_exact(&mut export).unwrap();
        // The first reply shows that the client has been entered.
        send(&mut stream, command::FLUSH, 1);
        replies(&mut stream, 1, 0);
        let list = self.daemon.clients().list();
        let id = list.iter().map(|client| client.id).find(|id| !before.contains(id)).unwrap();
        (stream, id)
    }
}

/// Sends requests with one call: a socket holds few small messages, and a client that is slowed down would wait here.
fn send(stream: &mut UnixStream, kind: u16, count: u64) {
    let mut all = Vec::new();
    for cookie in 0..count {
        let length = if kind == command::READ { 4096 } else { 0 };
        let offset = if kind == command::READ { cookie % 64 * 4096 } else { 0 };
        let request = Request { flags: 0, kind, cookie, offset, length };
        all.extend(request.to_bytes());
    }
    stream.write_all(&all).unwrap();
}

fn replies(stream: &mut UnixStream, count: usize, data: usize) {
    let mut reply = vec![0; REPLY_BYTES + data];
    for _ in 0..count {
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(reply[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]);
    }
}

/// In virtual time, so that nothing is slow.
#[test]
fn a_clients_rate_is_kept_and_changed() {
    let rig = Rig::new("sim(nvme_ssd)");
    let served = rig.daemon.devices().find("d").unwrap();
    let clock = served.device().clock();
    let (mut stream, id) = rig.connect();
    let mut took = |limits: Option<ClientLimits>| {
        served.qos().set_client(id, limits).unwrap();
        let begin = clock.now();
        send(&mut stream, command::READ, 200);
        replies(&mut stream, 200, 4096);
        clock.now().since(begin).as_millis()
    };
    let iops = |iops| Some(ClientLimits { iops, ..ClientLimits::default() });
    let limited = took(iops(1000));
    assert!((180..250).contains(&limited), "{limited} ms for 200 requests at 1000 per second");
    let free = took(None);
    assert!(free < 50, "{free} ms without a limit");
    let bandwidth = took(Some(ClientLimits { bandwidth: 4096 * 500, ..ClientLimits::default() }));
    assert!((380..450).contains(&bandwidth), "{bandwidth} ms for 200 requests at 500 per second");
    assert!(!served.qos().client(id).unwrap().waits);
}

/// In virtual time: a length that is refused would take the bandwidth of an hour.
#[test]
fn a_request_that_is_refused_takes_no_bandwidth_from_others() {
    const MIB: u32 = 1 << 20;
    let rig = Rig::new("sim(nvme_ssd)");
    let served = rig.daemon.devices().find("d").unwrap();
    let (clock, size) = (served.device().clock(), served.device().size());
    let ((mut hostile, _), (mut other, _)) = (rig.connect(), rig.connect());
    let limits = DeviceLimits { bandwidth: u64::from(MIB), ..DeviceLimits::default() };
    served.qos().set_device(limits).unwrap();
    let begin = clock.now();
    for (offset, length) in [(0, u32::MAX), (size, 32 * MIB), (1, 32 * MIB)] {
        let request = Request { flags: 0, kind: command::READ, cookie: 1, offset, length };
        hostile.write_all(&request.to_bytes()).unwrap();
        let mut reply = [0; REPLY_BYTES];
        hostile.read_exact(&mut reply).unwrap();
        assert_eq!(reply[4..8], error::EINVAL.to_be_bytes(), "{offset}+{length}");
        send(&mut other, command::READ, 1);
        replies(&mut other, 1, 4096);
    }
    let waited = clock.now().since(begin).as_millis();
    assert!(waited < 1000, "{waited} ms for three reads of 4 KiB at 1 MiB per second");
}

/// In virtual time. Zeroes that need no space move no data if the device has an operation for them.
#[test]
fn zeroes_that_are_written_take_bandwidth() {
    const MIB: u32 = 1 << 20;
    let rig = Rig::new("sim(nvme_ssd)");
    let served = rig.daemon.devices().find("d").unwrap();
    let clock = served.device().clock();
    let (mut stream, _) = rig.connect();
    let limits = DeviceLimits { bandwidth: 16 * u64::from(MIB), ..DeviceLimits::default() };
    served.qos().set_device(limits).unwrap();
    let has_operation = served.device().geometry().limits.write_zeroes;
    for (flags, is_counted) in [(command_flag::NO_HOLE, true), (0, !has_operation)] {
        let begin = clock.now();
        for cookie in 0..32 {
            let offset = cookie * u64::from(MIB);
            let request = Request { flags, kind: command::WRITE_ZEROES, cookie, offset, length: MIB };
            stream.write_all(&request.to_bytes()).unwrap();
        }
        replies(&mut stream, 32, 0);
        let took = clock.now().since(begin).as_millis();
        assert_eq!(took > 1500, is_counted, "{took} ms for 32 MiB at 16 MiB per second, flags {flags}");
    }
}

/// The depth of a device is shared: a connection that waits is woken by the completions of another.
#[test]
fn connections_wait_for_each_other_and_all_is_answered() {
    let rig = Rig::new("ram(1M)");
    let served = rig.daemon.devices().find("d").unwrap();
    served.qos().set_device(DeviceLimits { depth: 1, ..DeviceLimits::default() }).unwrap();
    let streams: Vec<UnixStream> = (0..4).map(|_| rig.connect().0).collect();
    let each = |mut stream: UnixStream| {
        std::thread::spawn(move || {
            for _ in 0..20 {
                send(&mut stream, command::READ, 50);
                replies(&mut stream, 50, 4096);
            }
        })
    };
    let threads: Vec<_> = streams.into_iter().map(each).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Limits are lifted while a request waits, and a stop does not wait for a rate.
#[test]
fn what_waits_is_let_go_when_limits_end_and_when_the_server_stops() {
    let rig = Rig::new("ram(1M)");
    let served = rig.daemon.devices().find("d").unwrap();
    let slow = Some(ClientLimits { iops: 1, ..ClientLimits::default() });
    let (mut stream, id) = rig.connect();
    served.qos().set_client(id, slow).unwrap();
    send(&mut stream, command::READ, 500);
    replies(&mut stream, 1, 4096);
    served.qos().set_client(id, None).unwrap();
    replies(&mut stream, 499, 4096);
    served.qos().set_client(id, slow).unwrap();
    send(&mut stream, command::READ, 500);
    // At one request a second the rest would take minutes. The stop waits until the replies are read.
    let daemon = Arc::clone(&rig.daemon);
    let stop = std::thread::spawn(move || daemon.stop(Duration::from_secs(60)));
    replies(&mut stream, 500, 4096);
    stop.join().unwrap().unwrap();
}

/// Each request takes a place of the depth once and gives it back once, whether or not there was a depth when it started. A
/// request to disconnect is none of the device's.
#[test]
fn a_depth_that_comes_and_goes_is_exact_afterwards() {
    let rig = Rig::new("ram(1M)");
    let served = rig.daemon.devices().find("d").unwrap();
    let ((mut one, _), (mut other, id)) = (rig.connect(), rig.connect());
    for depth in [0, 2, 0, 3] {
        served.qos().set_device(DeviceLimits { depth, ..DeviceLimits::default() }).unwrap();
        for stream in [&mut one, &mut other] {
            send(stream, command::READ, 50);
            replies(stream, 50, 4096);
        }
    }
    let share = served.qos().join(u64::MAX, Arc::new(Silent));
    let places = || {
        let now = served.device().clock().now();
        let started = (0..4).filter(|_| share.admit(now, 4096) == Admit::Now).count();
        share.withdraw();
        (0..started).for_each(|_| share.complete(now));
        started
    };
    assert_eq!(places(), 3);
    send(&mut other, command::DISC, 1);
    let until = Instant::now() + Duration::from_secs(60);
    while rig.daemon.clients().find(id).is_some() {
        assert!(Instant::now() < until, "the client is still there");
        std::thread::yield_now();
    }
    assert_eq!(places(), 3);
}

/// The age of an I/O is known while it waits in the device.
#[test]
fn health_shows_what_a_device_has_not_answered() {
    let rig = Rig::new("delay(read=2s, ram(1M))");
    let (mut stream, id) = rig.connect();
    let client = rig.daemon.clients().find(id).unwrap();
    assert!(client.oldest(Instant::now()).is_none());
    send(&mut stream, command::READ, 1);
    while client.oldest(Instant::now()).is_none() {
        std::thread::yield_now();
    }
    assert_eq!(rig.daemon.health()["status"], "ok");
    replies(&mut stream, 1, 4096);
    assert!(client.oldest(Instant::now()).is_none());
}

/// Its age counts from when it began to wait for its limits, before any device has it.
#[test]
fn health_shows_a_request_that_waits_for_its_limits() {
    let rig = Rig::new("ram(1M)");
    let served = rig.daemon.devices().find("d").unwrap();
    let (mut stream, id) = rig.connect();
    let client = rig.daemon.clients().find(id).unwrap();
    // After the first request the next one has to wait for more than an hour.
    let slow = ClientLimits { bandwidth: 1, ..ClientLimits::default() };
    served.qos().set_client(id, Some(slow)).unwrap();
    send(&mut stream, command::READ, 2);
    replies(&mut stream, 1, 4096);
    let until = Instant::now() + Duration::from_secs(60);
    while client.oldest(Instant::now()).is_none() {
        assert!(Instant::now() < until, "a request that waits has no age");
        std::thread::yield_now();
    }
    assert!(rig.daemon.health()["devices"][0]["oldest_io_seconds"].is_number());
    assert_eq!(served.device().statistics().gauges.in_flight, 0);
    served.qos().set_client(id, None).unwrap();
    replies(&mut stream, 1, 4096);
    assert!(client.oldest(Instant::now()).is_none());
}
