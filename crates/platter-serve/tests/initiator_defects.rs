//! Put-back defects of the iSCSI initiator are found by what its suite checks. They are active in the whole process, so this test
//! has one of its own.

#![cfg(feature = "iscsi")]

#[path = "initiator/between.rs"]
#[allow(dead_code, reason = "the suite uses all of it")]
mod between;

use between::{Fate, Relay};
use platter_block::backend::LaneUse;
use platter_block::defect::{self, Defect};
use platter_block::disk::FnDisk;
use platter_block::driver::{Completion, Driver, Geometry, Started};
use platter_block::elevator::{Elevator, Noop};
use platter_block::limits::Limits;
use platter_block::time::{Span, Time};
use platter_disk::device::Device;
use platter_disk::disk_backend::{DiskBackend, DiskSettings};
use platter_disk::open::DiskOptions;
use platter_remote::iscsi::client::{IscsiDisk, IscsiError, IscsiOptions, Url};
use platter_remote::iscsi::wire::opcode;
use platter_serve::export::Options;
use platter_serve::served::Served;
use platter_serve::server::Server;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use tempfile::NamedTempFile;

/// A disk whose writes are carried out when they are let go: it remembers in which order.
#[derive(Default)]
struct Held {
    /// Numbers of the writes that wait, with what ends them.
    waiting: Vec<(u32, u8)>,
    /// First bytes of the writes that were carried out.
    done: Vec<u8>,
    holds: bool,
}

struct Channel {
    held: Arc<Mutex<Held>>,
    own: Vec<(u32, u8)>,
    ready: Vec<Completion>,
}

impl Driver for Channel {
    #[allow(unsafe_code, reason = "the first byte tells the writes apart")]
    fn queue(&mut self, _: Time, request: &Started<'_>) -> bool {
        let mut first = 0;
        if request.op == platter_block::bio::Op::Write {
            // SAFETY: the request is in flight, so its memory may be read.
            request.for_each_segment(|segment| first = unsafe { segment.addr().read() });
        }
        let mut held = self.held.lock().unwrap();
        if first != 0 && held.holds {
            held.holds = false;
            held.waiting.push((request.tag, first));
            self.own.push((request.tag, first));
            return true;
        }
        if first != 0 {
            held.done.push(first);
        }
        self.ready.push(Completion { tag: request.tag, result: request.len as i64 });
        true
    }

    fn submit(&mut self, _: Time) {}

    fn reap(&mut self, _: Time, done: &mut Vec<Completion>) {
        let mut held = self.held.lock().unwrap();
        let ended = |entry: &(u32, u8)| !held.waiting.contains(entry);
        let over: Vec<_> = self.own.iter().copied().filter(ended).collect();
        self.own.retain(|entry| !over.contains(entry));
        for (tag, first) in over {
            held.done.push(first);
            self.ready.push(Completion { tag, result: 512 });
        }
        done.append(&mut self.ready);
    }

    fn next_event(&self) -> Option<Time> {
        // A held write is looked at again and again.
        (!self.own.is_empty()).then_some(Time(0))
    }
}

fn served(device: Device) -> (Server, String) {
    let mut server = Server::default();
    server.devices().add(Served::new("disk", device).unwrap()).unwrap();
    let address = server.start("iscsi", "127.0.0.1:0", &Options::default()).unwrap();
    (server, address)
}

/// `None`, after saying so, where libiscsi is not installed.
fn opened(relay: &Relay) -> Option<Device> {
    let url = format!("iscsi://{}/iqn.2026-11.localhost.platter:disk/0?header_digest=none", relay.address);
    let options = IscsiOptions::default().with_write(true).with_connect_timeout(Span::from_secs(60));
    let disk = match IscsiDisk::open(Url::parse(&url, |_| None).unwrap(), options) {
        Err(IscsiError::Library(why)) => {
            println!("skipped: {why}");
            return None;
        }
        disk => disk.unwrap(),
    };
    let noop: Box<dyn Elevator> = Box::new(Noop::default());
    let backend = DiskBackend::over(Arc::new(disk), DiskSettings::default(), Some(noop)).unwrap();
    Some(Device::new(Arc::new(backend)))
}

/// Whether a write of a session that ended lands after a newer one.
fn overtakes() -> Option<bool> {
    let held = Arc::new(Mutex::new(Held { holds: true, ..Held::default() }));
    let of_disk = Arc::clone(&held);
    let geometry = Geometry::new(1 << 20, Limits::unlimited(512));
    let disk = FnDisk::new("held", geometry, move |_: LaneUse| {
        Ok(Box::new(Channel { held: Arc::clone(&of_disk), own: Vec::new(), ready: Vec::new() }))
    });
    let (server, address) = served(Device::from_disk(disk, DiskSettings::default(), None).unwrap());
    let (tell, told) = mpsc::channel();
    let relay = Relay::new(&address, move |unit| {
        let header = unit.header();
        if unit.connection == 0
            && unit.to_target
            && header.opcode() == opcode::COMMAND
            && unit.bytes[32] == 0x2a
        {
            let _ = tell.send(());
        }
        Fate::Pass
    });
    let device = opened(&relay)?;
    let writer = {
        let device = device.clone();
        std::thread::spawn(move || device.write_at(&[1; 512], 0))
    };
    told.recv_timeout(Duration::from_secs(60)).unwrap();
    while held.lock().unwrap().waiting.is_empty() {
        std::thread::yield_now();
    }
    relay.cut();
    // A new session either waits for the old write or passes it.
    let newer = {
        let device = device.clone();
        std::thread::spawn(move || {
            writer.join().unwrap().unwrap();
            device.write_at(&[2; 512], 0).unwrap();
        })
    };
    let passes = defect::is_on(Defect::IscsiOldSessionLives);
    while passes && !newer.is_finished() {
        std::thread::yield_now();
    }
    held.lock().unwrap().waiting.clear();
    newer.join().unwrap();
    drop(device);
    server.stop(Duration::from_secs(60)).unwrap();
    let done = held.lock().unwrap().done.clone();
    Some(done.last() != Some(&2))
}

/// Whether a flush succeeds over a new session although the old one ended with a write that was not flushed.
fn forgets() -> Option<bool> {
    // A disk in memory has no cache that could be lost.
    let file = NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    file.as_file().set_len(1 << 20).unwrap();
    let (server, address) = served(Device::open(file.path(), DiskOptions::read_write()).unwrap());
    let relay = Relay::new(&address, |_| Fate::Pass);
    let device = opened(&relay)?;
    device.write_at(&[1; 512], 0).unwrap();
    relay.cut();
    let flushed = device.flush().is_ok();
    drop(device);
    server.stop(Duration::from_secs(60)).unwrap();
    Some(flushed)
}

#[test]
fn defects_of_the_initiator_are_found() {
    const { assert!(defect::AVAILABLE, "the tests are built with the feature") };
    let cases = [
        (Defect::IscsiLossForgotten, forgets as fn() -> Option<bool>),
        (Defect::IscsiOldSessionLives, overtakes),
    ];
    for (defect, found) in cases {
        let Some(wrong) = found() else { return };
        assert!(!wrong, "{}", defect.name());
        defect::set(defect, true);
        let is_found = found();
        defect::set(defect, false);
        assert_eq!(is_found, Some(true), "{}", defect.name());
    }
}
