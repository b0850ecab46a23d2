//! A driver of a program: a disk that is held in a vector.

use platter::block::disk::FnDisk;
use platter::block::driver::{Completion, Driver, Features, Geometry, Started};
use platter::block::limits::Limits;
use platter::block::params::Param;
use platter::block::time::Time;
use platter::disk::drivers::table::Medium;
use platter::registry::DriverType;
use platter::{Access, Op, open, register_driver};
use std::sync::{Arc, Mutex};

static TYPE: DriverType = DriverType {
    name: "shelf",
    summary: "a disk that is held in a vector",
    medium: Medium::Size,
    params: &[Param::word("block", &["512", "4096"], 0, "size of a logical block")],
    open: |args| {
        let bytes = Arc::new(Mutex::new(vec![0; usize::try_from(args.size)?]));
        let limits = Limits::unlimited([512, 4096][args.values[0] as usize]);
        let features = Features::default().with_read_only(!args.write);
        let geometry = Geometry::new(args.size, limits).with_features(features);
        Ok(Arc::new(FnDisk::new(TYPE.name, geometry, move |_| {
            Ok(Box::new(Channel { bytes: Arc::clone(&bytes), done: Vec::new() }))
        })))
    },
};

// One of the disk's channels. A request is carried out when it comes; its completion waits until the queue asks.
struct Channel {
    bytes: Arc<Mutex<Vec<u8>>>,
    done: Vec<Completion>,
}

impl Driver for Channel {
    fn queue(&mut self, _now: Time, request: &Started<'_>) -> bool {
        let mut bytes = self.bytes.lock().expect("no thread panicked with the lock");
        let mut at = request.pos as usize;
        match request.op {
            Op::Flush => {}
            Op::Discard | Op::WriteZeroes => bytes[at..][..request.len as usize].fill(0),
            op => request.for_each_segment(|memory| {
                let part = &mut bytes[at..][..memory.len() as usize];
                // SAFETY: the request is in flight with this driver, and only a read is copied to its memory.
                unsafe { if op == Op::Read { memory.copy_from(part) } else { memory.copy_to(part) } }
                at += part.len();
            }),
        }
        self.done.push(Completion { tag: request.tag, result: request.len as i64 });
        true
    }
    fn submit(&mut self, _now: Time) {}
    fn reap(&mut self, _now: Time, done: &mut Vec<Completion>) {
        done.append(&mut self.done);
    }
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    register_driver(&TYPE)?;
    let disk = open("shelf(1M, block=4096, elevator=deadline)", Access::read_write())?;
    disk.write_at(b"durable when flushed", 4096)?;
    disk.flush()?;
    let mut word = [0; 7];
    disk.read_at(&mut word, 4096)?;
    println!("{}: {}", disk.name(), String::from_utf8_lossy(&word));
    Ok(())
}
