//! Put-back defects of exports are found by lives with power cuts, and by a disconnect. They are active in the whole process, so
//! this test has one of its own.

#[path = "exports/judge.rs"]
mod judge;
// These are shared with the suite, which uses more of them.
#[allow(unused, reason = "the other tests use all of it")]
#[path = "exports/fuse_way.rs"]
mod fuse_way;
#[cfg(feature = "vhost")]
#[allow(dead_code, reason = "the suite of the export uses all of it")]
#[path = "vhost/guest.rs"]
mod guest;
#[cfg(feature = "iscsi")]
#[allow(dead_code, reason = "the suite of the export uses all of it")]
#[path = "iscsi/initiator.rs"]
mod initiator;
#[cfg(feature = "iscsi")]
#[allow(unused, reason = "the other tests use all of it")]
#[path = "exports/iscsi_way.rs"]
mod iscsi_way;
#[allow(unused, reason = "the other tests use all of it")]
#[path = "exports/nbd_way.rs"]
mod nbd_way;
#[allow(unused, reason = "the other tests use all of it")]
#[path = "exports/power.rs"]
mod power;
#[cfg(feature = "ublk")]
#[allow(unused, reason = "the other tests use all of it")]
#[path = "exports/ublk_way.rs"]
mod ublk_way;
#[cfg(feature = "vhost")]
#[allow(unused, reason = "the other tests use all of it")]
#[path = "exports/vhost_way.rs"]
mod vhost_way;
#[allow(unused, reason = "the other tests use all of it")]
#[path = "exports/ways.rs"]
mod ways;

use platter_block::bio::Op;
use platter_block::defect::{self, Defect};
use platter_block::fault::Fault;
use platter_block::time::{Span, Time};
use platter_disk::device::Device;
use platter_remote::nbd::wire::{Request, command};
use platter_serve::export::Options;
use platter_serve::served::Served;
use platter_serve::server::Server;
use platter_stack::filter::{BioView, Filter, Filtered};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use ways::Kind;

/// Most seeds until a defect must have been found.
const SEEDS: u64 = 500;

/// Keeps bios for a while, and says when one is over.
#[derive(Clone, Default)]
struct Slow {
    began: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
}

impl Filter for Slow {
    fn start(&mut self, now: Time, _slot: usize, bio: &mut BioView<'_>) -> Result<Time, Fault> {
        let is_write = bio.op() == Op::Write;
        self.began.fetch_or(is_write, Ordering::SeqCst);
        Ok(if is_write { now + Span::from_millis(500) } else { now })
    }

    fn release(&mut self) -> bool {
        self.over.store(true, Ordering::SeqCst);
        false
    }
}

/// Whether a client that is disconnected sees the end of its connection while the device has a write of it: clients take a
/// server that has closed a connection to be done with it, and send the write again.
fn sees_the_end_early() -> bool {
    let (slow, folder) = (Slow::default(), tempfile::tempdir().unwrap());
    let ram = Device::ram(1 << 20).unwrap();
    let layer = Filtered::new("slow", "", Arc::clone(ram.backend()), slow.clone());
    let mut server = Server::default();
    server.devices().add(Served::new("disk", Device::new(Arc::new(layer))).unwrap()).unwrap();
    let socket = folder.path().join("s");
    server.start("nbd", &format!("unix:{}", socket.display()), &Options::default()).unwrap();
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.read_exact(&mut [0; 18]).unwrap();
    stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
    stream.read_exact(&mut [0; 10]).unwrap();
    let write = Request { kind: command::WRITE, length: 512, ..Request::default() };
    stream.write_all(&[&write.to_bytes()[..], &[7; 512]].concat()).unwrap();
    while !slow.began.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
    server.clients().list().iter().for_each(|client| client.disconnect());
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    let early = !slow.over.load(Ordering::SeqCst);
    server.stop(Duration::from_secs(60)).unwrap();
    early
}

/// Finds a defect by a kind of life, and finds nothing without it.
fn find(kind: Kind, defect: Defect, live: impl Fn(u64) -> Option<String>) {
    if kind.1(ways::served(Device::ram(1 << 20).unwrap())).is_none() {
        return;
    }
    defect::set(defect, true);
    let found = (0..SEEDS).find_map(|seed| live(seed).map(|wrong| (seed, wrong)));
    defect::set(defect, false);
    let (seed, wrong) = found.unwrap_or_else(|| panic!("{} is not found", defect.name()));
    println!("{}: {} found with seed {seed}: {wrong}", kind.0, defect.name());
    assert_eq!(live(seed), None, "without it");
}

#[test]
fn what_is_answered_or_closed_too_early_is_found() {
    const { assert!(defect::AVAILABLE, "the tests are built with the feature") };
    for (kind, defect) in [
        (ways::NBD, Defect::ExportFlushEarly),
        (ways::NBD, Defect::NbdFuaIgnored),
        (ways::FUSE, Defect::ExportFlushEarly),
        #[cfg(feature = "iscsi")]
        (ways::ISCSI, Defect::ExportFlushEarly),
        (ways::FUSE, Defect::SyncWritesVolatile),
        #[cfg(feature = "vhost")]
        (ways::VHOST, Defect::ExportFlushEarly),
        #[cfg(feature = "vhost")]
        (ways::VHOST, Defect::GuestWritesVolatile),
    ] {
        find(kind, defect, |seed| power::live(kind, "disk", seed));
    }
    defect::set(Defect::DisconnectEarly, true);
    let early = sees_the_end_early();
    defect::set(Defect::DisconnectEarly, false);
    assert!(early, "a connection is closed while the device has a write of it");
    assert!(!sees_the_end_early(), "without it");
}
