//! How durable writes reach the members.

use crate::rig::{CHUNK, backends};
use platter_block::bio::{Bio, Flags, Op};
use platter_block::disk::FnDisk;
use platter_block::driver::{Completion, Driver, Features, Geometry, Started};
use platter_block::limits::Limits;
use platter_block::time::Time;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_stack::raid0::{self, Sizes};
use std::sync::{Arc, Mutex};

/// Requests of a disk: operation and FUA.
type Log = Arc<Mutex<Vec<(Op, bool)>>>;

struct Recorder {
    log: Log,
    done: Vec<Completion>,
}

impl Driver for Recorder {
    fn queue(&mut self, _now: Time, request: &Started<'_>) -> bool {
        self.log.lock().unwrap().push((request.op, request.fua));
        self.done.push(Completion { tag: request.tag, result: request.len as i64 });
        true
    }

    fn submit(&mut self, _now: Time) {}

    fn reap(&mut self, _now: Time, done: &mut Vec<Completion>) {
        done.append(&mut self.done);
    }
}

fn disk(features: Features) -> (Log, Device) {
    let log = Log::default();
    let recorded = Arc::clone(&log);
    let disk = FnDisk::new(
        "disk",
        Geometry::new(1 << 20, Limits::unlimited(512)).with_features(features),
        move |_| Ok(Box::new(Recorder { log: Arc::clone(&recorded), done: Vec::new() }) as Box<dyn Driver>),
    );
    (log, Device::from_disk(disk, DiskSettings::default(), None).unwrap())
}

/// A bio that is written again is as durable on the member with a volatile cache as the first time, whatever
/// member it went to in between.
#[test]
fn a_durable_write_stays_durable_when_its_bio_is_used_again() {
    for fua in [true, false] {
        let through = Features::default().with_fua(fua);
        let (_, first) = disk(through);
        let (log, second) = disk(through.with_write_cache(true));
        let array = raid0::new(backends(&[first, second]), CHUNK, Sizes::Zones).unwrap();
        let mut channel = Device::new(array).channel(4).unwrap();
        let mut bio = Bio::write(0, vec![1u8; 512]).unwrap();
        bio.add_flags(Flags::FUA);
        for member in [1, 0, 1] {
            bio.rewind(member * CHUNK, 512);
            assert!(channel.submit(bio).is_ok());
            let mut done = Vec::new();
            while channel.wait(&mut done, None) == 0 {}
            bio = done.remove(0);
            assert_eq!(bio.status(), Ok(()));
        }
        let durable = match fua {
            true => vec![(Op::Write, true)],
            false => vec![(Op::Write, false), (Op::Flush, false)],
        };
        assert_eq!(*log.lock().unwrap(), [durable.clone(), durable].concat());
    }
}
