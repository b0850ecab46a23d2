//! A session that takes the place of one that ended, while the target still has a write of the first.

use crate::between::{Fate, Relay};
use crate::kinds::{SIZE, Serving, TARGET, connect};
use platter_block::backend::LaneUse;
use platter_block::disk::FnDisk;
use platter_block::driver::{Completion, Driver, Geometry, Started};
use platter_block::limits::Limits;
use platter_block::time::Time;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_remote::iscsi::client::IscsiOptions;
use platter_remote::iscsi::wire::opcode;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

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

#[test]
fn a_newer_write_waits_for_one_of_a_session_that_ended() {
    let held = Arc::new(Mutex::new(Held { holds: true, ..Held::default() }));
    let of_disk = Arc::clone(&held);
    let geometry = Geometry::new(SIZE, Limits::unlimited(512));
    let disk = FnDisk::new("held", geometry, move |_: LaneUse| {
        Ok(Box::new(Channel { held: Arc::clone(&of_disk), own: Vec::new(), ready: Vec::new() }))
    });
    let serving = Serving::new(Device::from_disk(disk, DiskSettings::default(), None).unwrap());
    let (tell, told) = mpsc::channel();
    let relay = Relay::new(serving.address(), move |unit| {
        if unit.connection == 0
            && unit.to_target
            && unit.header().opcode() == opcode::COMMAND
            && unit.bytes[32] == 0x2a
        {
            let _ = tell.send(());
        }
        Fate::Pass
    });
    let url = format!("iscsi://{}/{TARGET}/0?header_digest=none", relay.address);
    let Some(device) = connect(&url, "noop", IscsiOptions::default()) else { return };
    let older = {
        let device = device.clone();
        std::thread::spawn(move || device.write_at(&[1; 512], 0))
    };
    told.recv_timeout(Duration::from_secs(60)).unwrap();
    while held.lock().unwrap().waiting.is_empty() {
        std::thread::yield_now();
    }
    relay.cut();
    let (end, ended) = mpsc::channel();
    let newer = std::thread::spawn(move || {
        older.join().unwrap().unwrap();
        device.write_at(&[2; 512], 0).unwrap();
        let _ = end.send(());
    });
    // However long it is waited for: the target has the old write until it is let go.
    assert_eq!(ended.recv_timeout(Duration::from_millis(500)), Err(RecvTimeoutError::Timeout));
    held.lock().unwrap().waiting.clear();
    newer.join().unwrap();
    assert_eq!(held.lock().unwrap().done.last(), Some(&2));
}
