//! A disk that does not answer is failed as a whole, and works again when it has answered.

use crate::disk::{Disk, ELEVATORS, Lane, Options, SECOND, flush, read, write};
use platter_block::bio::Flags;
use platter_block::event::{DeviceEvent, Watcher};
use platter_block::fault::Kind;
use platter_block::queue::Settings;
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::disk_backend::OnReturn;
use std::sync::{Arc, Mutex, Weak};

/// A device on a disk that has had a write of byte 1 at 0 for so long that it is failed. It is that of the first lane.
fn silent(options: Options) -> (Arc<Disk>, Device, Lane, Lane) {
    let (disk, device) = Disk::open(options);
    let (one, two) = hang(&disk, &device);
    (disk, device, one, two)
}

fn hang(disk: &Arc<Disk>, device: &Device) -> (Lane, Lane) {
    let patient = device.without_timeouts();
    let (mut one, mut two) = (Lane::open(&patient), Lane::open(&patient));
    one.send(write(0, 1, 1, Flags::NONE));
    // The driver is asked to abort the write, and has as long again.
    disk.pass(SECOND);
    one.poll();
    two.send(read(4096, 2));
    disk.finish(4096);
    two.poll();
    assert_eq!(two.kind(2), None, "it is not failed yet");
    disk.pass(SECOND);
    one.poll();
    assert!(!one.is_done(1), "the driver has it");
    (one, two)
}

/// Records the events, and uses the device meanwhile.
struct Notes {
    device: Device,
    told: Mutex<Vec<DeviceEvent>>,
}

impl Watcher for Notes {
    fn event(&self, event: &DeviceEvent) {
        drop((self.device.facts(), self.device.statistics()));
        self.told.lock().unwrap().push(event.clone());
    }
}

#[test]
fn watchers_are_told_when_a_disk_is_failed_and_when_it_works_again() {
    for elevator in ELEVATORS {
        let (disk, device) = Disk::open(Options { elevator, ..Options::default() });
        let notes = Arc::new(Notes { device: device.clone(), told: Mutex::default() });
        device.watch(Arc::downgrade(&notes) as Weak<dyn Watcher>);
        let told = || std::mem::take(&mut *notes.told.lock().unwrap());
        let (mut one, mut two) = hang(&disk, &device);
        assert_eq!(told(), [DeviceEvent::Silent], "{elevator}");
        two.send(read(8192, 3));
        assert_eq!(told(), [], "{elevator}: once");
        disk.finish(0);
        one.poll();
        two.send(read(8192, 4));
        assert_eq!(told(), [DeviceEvent::Answered], "{elevator}");
        disk.finish_all();
        two.poll();
        assert_eq!((two.kind(3), two.kind(4)), (Some(Kind::Gone), None), "{elevator}");
    }
}

#[test]
fn nothing_new_is_started_on_a_disk_that_does_not_answer() {
    for elevator in ELEVATORS {
        let (disk, device, mut one, mut two) = silent(Options { elevator, ..Options::default() });
        for (lane, token) in [(&mut one, 3), (&mut two, 4)] {
            lane.send(write(8192, 2, token, Flags::NONE));
            assert_eq!(lane.kind(token), Some(Kind::Gone), "{elevator}");
        }
        two.send(flush(5));
        assert_eq!(two.kind(5), Some(Kind::Gone), "{elevator}");
        let error = device.read_at(&mut [0; 512], 65536).unwrap_err();
        assert_eq!(error.fault.kind, Kind::Gone, "{elevator}");
        assert!(error.to_string().contains("does not answer"), "{error}");
        assert_eq!(disk.held(), [0], "{elevator}");
    }
}

/// The write ends with the disk's result, the next I/O is carried out, and one flush fails.
#[test]
fn it_works_again_when_it_has_answered() {
    for elevator in ELEVATORS {
        for result in [None, Some(-5), Some(-125)] {
            let (disk, device, mut one, mut two) = silent(Options { elevator, ..Options::default() });
            disk.finish_with(0, result);
            one.poll();
            let kinds = [(None, None), (Some(-5), Some(Kind::Io)), (Some(-125), Some(Kind::TimedOut))];
            let expected = kinds.iter().find(|(of, _)| *of == result).unwrap().1;
            assert_eq!(one.kind(1), expected, "{elevator} {result:?}");
            two.send(write(8192, 2, 3, Flags::NONE));
            disk.finish_all();
            two.poll();
            assert_eq!((two.kind(3), disk.byte(8192)), (None, 2), "{elevator} {result:?}");
            for (token, expected) in [(4, Some(Kind::FlushFailed)), (5, None)] {
                two.send(flush(token));
                disk.finish_all();
                two.poll();
                assert_eq!(
                    two.kind(token),
                    expected,
                    "{elevator} {result:?}: what was acknowledged may be lost"
                );
            }
            assert_eq!(device.backend().flush_failures(), [], "it is told once");
        }
    }
}

/// Of each lane, what waits for depth.
#[test]
fn what_has_not_started_ends_when_the_disk_is_failed() {
    for elevator in ELEVATORS {
        let queue = Settings { timeout: Some(SECOND), plug: None, depth: 2, ..Settings::default() };
        let (disk, device) = Disk::open(Options { elevator, queue, ..Options::default() });
        let patient = device.without_timeouts();
        let (mut one, mut two) = (Lane::open(&patient), Lane::open(&patient));
        for token in 0..4 {
            one.send(read(token << 16, token));
            two.send(read((token + 4) << 16, token));
        }
        let started = disk.held();
        assert!((2..4).contains(&started.len()), "{elevator}: a lane may always have one");
        for _ in 0..2 {
            disk.pass(SECOND);
            one.poll();
            two.poll();
        }
        one.poll();
        for (lane, first) in [(&one, 0), (&two, 4)] {
            for token in 0..4 {
                let has_started = started.contains(&((token + first) << 16));
                assert_eq!(lane.is_done(token), !has_started, "{elevator} {token}");
                assert!(has_started || lane.kind(token) == Some(Kind::Gone), "{elevator} {token}");
            }
        }
        disk.finish_all();
        one.poll();
        two.poll();
        one.send(read(1 << 19, 9));
        disk.finish_all();
        one.poll();
        assert_eq!(one.kind(9), None, "{elevator}");
    }
}

/// The program decides when it trusts the disk again.
#[test]
fn it_stays_failed_until_it_is_refreshed_where_that_is_wanted() {
    for elevator in ELEVATORS {
        let options = Options { elevator, on_return: OnReturn::Stay, ..Options::default() };
        let (disk, device, mut one, mut two) = silent(options);
        disk.finish(0);
        one.poll();
        assert_eq!(one.kind(1), None, "{elevator}");
        two.send(read(4096, 3));
        assert_eq!(two.kind(3), Some(Kind::Gone), "{elevator}");
        device.refresh().unwrap();
        two.send(read(4096, 4));
        disk.finish_all();
        two.poll();
        assert_eq!(two.kind(4), None, "{elevator}");
    }
}

/// Flushes and discards may take long: only `slow_timeout` limits them.
#[test]
fn what_may_be_slow_has_a_timeout_of_its_own() {
    for elevator in ELEVATORS {
        for slow_timeout in [None, Some(Span(5 * SECOND.0))] {
            let queue = Settings { timeout: Some(SECOND), slow_timeout, plug: None, ..Settings::default() };
            let (disk, device) = Disk::open(Options { elevator, queue, ..Options::default() });
            let mut lane = Lane::open(&device.without_timeouts());
            lane.send(flush(1));
            for _ in 0..4 {
                disk.pass(SECOND);
                lane.poll();
            }
            lane.send(read(4096, 2));
            disk.finish(4096);
            lane.poll();
            assert_eq!(lane.kind(2), None, "{elevator}");
            for _ in 0..6 {
                disk.pass(SECOND);
                lane.poll();
            }
            lane.send(read(4096, 3));
            let is_failed = slow_timeout.is_some();
            assert_eq!(lane.is_done(3), is_failed, "{elevator}");
            disk.finish_all();
            lane.poll();
            assert_eq!(lane.kind(1), None, "{elevator}: the disk has flushed");
        }
    }
}

/// The lane that has the silent request is closed. What comes then waits for the disk, which works again after that.
#[test]
fn a_disk_is_failed_as_long_as_it_has_what_a_closed_lane_left() {
    let (disk, _device, one, mut two) = silent(Options::default());
    drop(one);
    two.send(read(8192, 3));
    assert!(!two.is_done(3), "what the closed lane left may be anywhere");
    disk.finish(0);
    for _ in 0..2 {
        two.poll();
        disk.finish_all();
    }
    two.poll();
    assert_eq!(two.kind(3), None);
}
