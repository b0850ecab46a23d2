//! Disks that change their size, or go away, while they are in use.

use crate::callers::Style;
use crate::fake::{Fake, Options, SIZE};
use crate::kinds::{elevators, file, open};
use crate::memory::aligned;
use platter_block::bio::{Flags, Op};
use platter_block::event::{DeviceEvent, Watcher};
use platter_block::fault::Kind;
use platter_disk::device::Device;
use platter_disk::drivers::FileDriver;
use std::sync::{Arc, Mutex, Weak};

/// Records the events, and calls the device from the watcher.
struct Notes {
    device: Mutex<Option<Device>>,
    told: Mutex<Vec<DeviceEvent>>,
}

impl Watcher for Notes {
    fn event(&self, event: &DeviceEvent) {
        let device = self.device.lock().unwrap().clone();
        if let Some(device) = device {
            drop(device.facts());
            // The result does not matter.
            let _ = device.read_at(&mut [0; 512], 0);
        }
        self.told.lock().unwrap().push(event.clone());
    }
}

impl Notes {
    fn watch(device: &Device) -> Arc<Notes> {
        let notes = Arc::new(Notes { device: Mutex::new(Some(device.clone())), told: Mutex::default() });
        device.watch(Arc::downgrade(&notes) as Weak<dyn Watcher>);
        notes
    }

    fn told(&self) -> Vec<DeviceEvent> {
        std::mem::take(&mut self.told.lock().unwrap())
    }
}

fn resized(from: u64, to: u64) -> Vec<DeviceEvent> {
    vec![DeviceEvent::Resized { from, to }]
}

/// Open lanes use the new end at their next batch.
#[test]
fn a_disk_that_grows_is_used_to_its_new_end() {
    for elevator in elevators() {
        for style in Style::ALL {
            let (fake, device) = Fake::open(Options { elevator, ..Options::default() });
            let notes = Notes::watch(&device);
            let mut caller = style.caller(&device);
            assert_eq!(caller.read(0, aligned(4096)).0, Ok(()));
            assert_eq!(caller.read(SIZE, aligned(4096)).0.unwrap_err().kind, Kind::OutOfRange);
            fake.set_size(Some(SIZE + 8192));
            device.refresh().unwrap();
            assert_eq!(notes.told(), resized(SIZE, SIZE + 8192), "{elevator} {style:?}");
            assert_eq!((device.size(), device.geometry().size), (SIZE + 8192, SIZE + 8192));
            assert_eq!(caller.write(SIZE, aligned(8192)).0, Ok(()), "{elevator} {style:?}");
            let mut other = style.caller(&device);
            assert_eq!(other.read(SIZE + 4096, aligned(4096)).0, Ok(()), "{elevator} {style:?}");
            let past = caller.read(SIZE + 4096, aligned(8192)).0.unwrap_err();
            assert_eq!(past.kind, Kind::OutOfRange, "{elevator} {style:?}");
            device.refresh().unwrap();
            assert_eq!(notes.told(), []);
        }
    }
}

#[test]
fn a_disk_that_shrinks_fails_what_is_gone_and_says_so() {
    for elevator in elevators() {
        for style in Style::ALL {
            let (fake, device) = Fake::open(Options { elevator, ..Options::default() });
            let notes = Notes::watch(&device);
            let mut caller = style.caller(&device);
            assert_eq!(caller.write(SIZE - 4096, aligned(4096)).0, Ok(()));
            fake.set_size(Some(SIZE / 2));
            device.refresh().unwrap();
            assert_eq!(notes.told(), resized(SIZE, SIZE / 2), "{elevator} {style:?}");
            fake.seen();
            let begins_before = caller.write(SIZE / 2 - 4096, aligned(8192)).0.unwrap_err();
            assert_eq!(begins_before.kind, Kind::Gone, "{elevator} {style:?}");
            assert_eq!(caller.read(SIZE - 4096, aligned(4096)).0.unwrap_err().kind, Kind::Gone);
            assert_eq!(caller.operate(Op::WriteZeroes, SIZE - 4096, 4096).unwrap_err().kind, Kind::Gone);
            assert_eq!(caller.read(SIZE, aligned(4096)).0.unwrap_err().kind, Kind::OutOfRange);
            assert!(fake.seen().is_empty(), "{elevator} {style:?}: none of it comes to the disk");
            assert_eq!(caller.write(SIZE / 2 - 4096, aligned(4096)).0, Ok(()), "{elevator} {style:?}");
        }
        let (fake, device) = Fake::open(Options { elevator, ..Options::default() });
        fake.set_size(Some(SIZE / 2));
        device.refresh().unwrap();
        let text = device.read_at(&mut [0; 512], SIZE / 2).unwrap_err().to_string();
        let expected = "the device is gone; the device shrank from 1048576 to 524288 bytes";
        assert!(text.contains(expected), "{text}");
    }
}

/// Without a refresh, the device checks at a flush and after an error that suggests a change.
#[test]
fn sizes_are_noticed_at_flushes_and_after_errors() {
    for elevator in elevators() {
        for style in Style::ALL {
            let (fake, device) = Fake::open(Options { elevator, ..Options::default() });
            let notes = Notes::watch(&device);
            let mut caller = style.caller(&device);
            fake.set_size(Some(SIZE / 2));
            assert_eq!(caller.operate(Op::Flush, 0, 0), Ok(()), "{elevator} {style:?}");
            assert_eq!(notes.told(), resized(SIZE, SIZE / 2), "{elevator} {style:?}: at a flush");
            fake.set_size(Some(SIZE / 4));
            fake.set_rule(|op, _, _| (op == Op::Read).then_some(0));
            let short = caller.read(SIZE / 4, aligned(4096)).0.unwrap_err();
            assert_eq!(short.kind, Kind::Short, "{elevator} {style:?}");
            assert_eq!(notes.told(), resized(SIZE / 2, SIZE / 4), "{elevator} {style:?}: after a short read");
            fake.clear_rule();
            assert_eq!(caller.read(SIZE / 4, aligned(4096)).0.unwrap_err().kind, Kind::Gone);
        }
    }
}

#[test]
fn a_disk_that_is_gone_is_an_event_and_so_is_its_return() {
    for elevator in elevators() {
        for style in Style::ALL {
            let (fake, device) = Fake::open(Options { elevator, ..Options::default() });
            let notes = Notes::watch(&device);
            let mut caller = style.caller(&device);
            fake.set_size(None);
            fake.set_rule(|_, _, _| Some(-19));
            for _ in 0..2 {
                let gone = caller.write(0, aligned(4096)).0.unwrap_err();
                assert_eq!(gone.kind, Kind::Gone, "{elevator} {style:?}");
            }
            assert_eq!(notes.told(), [DeviceEvent::Removed], "{elevator} {style:?}: once");
            fake.set_size(Some(SIZE));
            fake.clear_rule();
            device.refresh().unwrap();
            assert_eq!(notes.told(), [DeviceEvent::Returned], "{elevator} {style:?}");
            assert_eq!(caller.write(0, aligned(4096)).0, Ok(()), "{elevator} {style:?}");
        }
    }
}

/// A barrier takes the same path as a flush.
#[test]
fn a_barrier_beyond_the_new_end_fails_and_stops_nothing() {
    for elevator in elevators() {
        let (fake, device) = Fake::open(Options { elevator, ..Options::default() });
        for style in Style::ALL {
            let mut caller = style.caller(&device);
            fake.set_size(Some(SIZE / 2));
            device.refresh().unwrap();
            let barrier = caller.transfer(Op::Write, SIZE / 2, aligned(512), Flags::HARD_BARRIER).0;
            assert_eq!(barrier.unwrap_err().kind, Kind::Gone, "{elevator} {style:?}");
            assert_eq!(caller.write(0, aligned(512)).0, Ok(()), "{elevator} {style:?}");
            fake.set_size(Some(SIZE));
            device.refresh().unwrap();
            assert_eq!(caller.write(SIZE / 2, aligned(512)).0, Ok(()), "{elevator} {style:?}");
        }
    }
}

/// A watcher is held weakly, and keeps no device open.
#[test]
fn a_watcher_may_go_at_any_time() {
    let (fake, device) = Fake::open(Options::default());
    let notes = Notes::watch(&device);
    fake.set_size(Some(SIZE / 2));
    let clone = device.clone();
    drop(notes);
    device.refresh().unwrap();
    assert_eq!(clone.size(), SIZE / 2);
}

/// The same with files: another process truncates or extends one.
#[test]
fn files_may_change_their_size() {
    for driver in FileDriver::ALL {
        let file = file(SIZE);
        let Some(device) = open(file.path(), driver, "none") else { continue };
        let notes = Notes::watch(&device);
        device.write_at(&[1; 4096], SIZE - 4096).unwrap();
        file.as_file().set_len(2 * SIZE).unwrap();
        device.refresh().unwrap();
        assert_eq!(notes.told(), resized(SIZE, 2 * SIZE), "{driver}");
        device.write_at(&[2; 4096], 2 * SIZE - 4096).unwrap();
        let mut back = [0; 4096];
        device.read_at(&mut back, 2 * SIZE - 4096).unwrap();
        assert_eq!(back, [2; 4096], "{driver}");
        file.as_file().set_len(SIZE / 2).unwrap();
        // Noticed by the flush, whether or not it reports the loss.
        let _ = device.flush();
        assert_eq!(notes.told(), resized(2 * SIZE, SIZE / 2), "{driver}");
        let text = device.write_at(&[3; 4096], SIZE).unwrap_err().to_string();
        assert!(text.contains("the device shrank from 2097152 to 524288 bytes"), "{driver}: {text}");
        assert_eq!(file.as_file().metadata().unwrap().len(), SIZE / 2, "{driver}: it is not made longer");
        device.read_at(&mut back, SIZE / 2 - 4096).unwrap();
        assert_eq!(back, [0; 4096], "{driver}");
    }
}
