//! The kit's metadata and background work: what a commit of a table makes durable, in which order, and when an entry can be used
//! again; records in two copies; copies between devices; work in pieces.

use platter_block::backend::Backend;
use platter_block::bio::Flags;
use platter_block::fault::{Fault, Status};
use platter_block::status::Item;
use platter_cache::by_name;
use platter_disk::device::Device;
use platter_stack::kit::table::GROUP;
use platter_stack::kit::{
    Below, Buffer, COPIES_BYTES, CopyError, Frame, Layer, Pace, Run, Table, TableError, Task, read_copies,
    write_copies,
};
use std::future::Future;
use std::sync::Arc;

/// A layer that carries no bios: the tests run tasks of their own in its frame.
struct Idle;

impl Layer for Idle {
    async fn run(self: Arc<Self>, task: Task) -> Status {
        task.pass(0, task.pos()).await
    }
    async fn flush(self: Arc<Self>, below: Below, _port: usize) -> Status {
        below.flush(0).await
    }
    fn locate(&self, _port: usize, pos: u64) -> Option<(usize, u64, u64)> {
        Some((0, pos, u64::MAX))
    }
    fn status(&self, _port: usize) -> Vec<Item> {
        Vec::new()
    }
}

/// Where the tables are, and entries that need several groups.
const POS: u64 = 2 * GROUP;
const COUNT: u64 = 1000;

fn ram() -> Arc<dyn Backend> {
    Arc::clone(Device::ram(1 << 20).unwrap().backend())
}

/// Runs a test over a device.
fn over<F>(device: &Arc<dyn Backend>, test: impl FnOnce(Below) -> F)
where
    F: Future<Output = Status> + Send + 'static,
{
    over_both([device, device], test);
}

/// Runs a test over two devices.
fn over_both<F>(devices: [&Arc<dyn Backend>; 2], test: impl FnOnce(Below) -> F)
where
    F: Future<Output = Status> + Send + 'static,
{
    let below = Below::default();
    let frame = Frame::new(devices.map(Arc::clone).to_vec(), 1, below.clone(), Arc::new(Idle)).unwrap();
    frame.block_on(test(below)).unwrap();
}

#[test]
fn what_was_committed_is_read_again() {
    let device = ram();
    over(&device, |below| async move {
        let table = Table::new(&below, 0, POS, 7, COUNT);
        table.make().await?;
        for (index, entry) in [(0, 5), (61, 6), (62, u64::MAX), (999, 8), (3, 9)] {
            table.set(index, entry);
        }
        assert!(table.commit().await?, "the device was flushed");
        assert!(!table.commit().await?, "nothing has changed");
        table.set(3, 0);
        table.commit().await?;
        table.set(4, 1);
        Ok(())
    });
    over(&device, |below| async move {
        let table = Table::new(&below, 0, POS, 7, COUNT);
        let entries = table.load().await.unwrap();
        assert_eq!(entries, [(0, 5), (61, 6), (62, u64::MAX), (999, 8)]);
        assert_eq!((table.get(62), table.get(4)), (u64::MAX, 0));
        let other = Table::new(&below, 0, POS, 8, COUNT);
        assert_eq!(other.load().await, Err(TableError::Damaged(0)));
        // A bit of the eighth block of the second group.
        let pos = POS + GROUP + 7 * 512;
        let mut bytes = below.read(0, POS + GROUP, Buffer::new(GROUP as usize)).await?;
        bytes.bytes_mut()[(pos - POS - GROUP) as usize + 100] ^= 1;
        below.write(0, POS + GROUP, bytes, Flags::NONE).await?;
        assert_eq!(table.load().await, Err(TableError::Damaged(15)));
        Ok(())
    });
}

#[test]
fn an_entry_that_was_made_free_is_taken_when_that_is_durable() {
    over(&ram(), |below| async move {
        let table = Table::new(&below, 0, POS, 1, 2);
        table.make().await?;
        assert_eq!([table.take(), table.take(), table.take()], [Some(0), Some(1), None]);
        table.give_back(0);
        assert_eq!(table.take(), Some(0));
        table.set(0, 10);
        table.set(1, 11);
        assert!(!table.is_durable(0));
        table.commit().await?;
        assert!(table.is_durable(0) && table.is_durable(1));
        table.set(1, 0);
        assert_eq!((table.take(), table.is_durable(0)), (None, true), "a power cut would bring it back");
        table.commit().await?;
        assert_eq!((table.take(), table.take()), (Some(1), None));
        Ok(())
    });
}

/// The device refuses one flush: what was to be committed stays to be committed.
#[test]
fn a_commit_that_failed_is_made_up_for() {
    let flaky = by_name("error").unwrap().make(&[("op", 3), ("times", 1)], vec![ram()]).unwrap();
    over(&flaky, |below| async move {
        let table = Table::new(&below, 0, POS, 1, COUNT);
        table.make().await?;
        table.set(500, 3);
        assert!(table.commit().await.is_err() && !table.is_durable(500));
        let read = Table::new(&below, 0, POS, 1, COUNT);
        assert_eq!(read.load().await, Ok(Vec::new()), "no entry was written before the flush");
        assert!(table.commit().await? && table.is_durable(500));
        assert_eq!(read.load().await, Ok(vec![(500, 3)]));
        Ok(())
    });
}

#[test]
fn one_of_two_copies_is_enough() {
    over(&ram(), |below| async move {
        let decode = |bytes: &[u8]| (bytes[0] == 0xAA).then_some(bytes[1]);
        let newest = |below: Below| async move {
            let read = read_copies(&below, 0, decode, |&number| u64::from(number)).await;
            read.map(|(bytes, newest)| (bytes.bytes().len() as u64, newest))
        };
        assert_eq!(newest(below.clone()).await?, (COPIES_BYTES, None));
        write_copies(&below, 0, &[0xAA, 1]).await?;
        assert_eq!(newest(below.clone()).await?.1, Some(1));
        // A power cut after the first copy of the next record, and one during it.
        for (byte, expected) in [(0xAA, 2), (0, 1)] {
            let mut first = Buffer::new(GROUP as usize);
            first.bytes_mut()[..2].copy_from_slice(&[byte, 2]);
            below.write(0, 0, first, Flags::FUA).await?;
            assert_eq!(newest(below.clone()).await?.1, Some(expected));
        }
        Ok::<(), Fault>(())
    });
}

/// What can be read is copied, whatever else fails, and the error says on which side.
#[test]
fn a_copy_carries_out_what_it_can() {
    let failing = |op| {
        let values = [("op", op), ("offset", 8192), ("length", 4096)];
        by_name("error").unwrap().make(&values, vec![ram()]).unwrap()
    };
    let runs = [(0, 4096), (8192, 12288), (16384, 8192)].map(|(from, to)| Run { from, to, len: 4096 });
    for (from, to, reads_fail) in [(failing(1), ram(), true), (ram(), failing(2), false)] {
        over_both([&from, &to], |below| async move {
            for (pos, byte) in [(0, 1), (16384, 3)] {
                let mut buffer = Buffer::new(4096);
                buffer.bytes_mut().fill(byte);
                below.write(0, pos, buffer, Flags::NONE).await?;
            }
            let error = below.copy(0, 1, &runs).await.unwrap_err();
            assert_eq!(matches!(error, CopyError::Read(_)), reads_fail, "{error:?}");
            assert_eq!(below.read(1, 4096, Buffer::new(4096)).await?.bytes()[4095], 1);
            let last = below.read(1, 8192, Buffer::new(4096)).await?.bytes()[0];
            assert_eq!(last, if reads_fail { 3 } else { 0 });
            Ok(())
        });
    }
}

#[test]
fn work_in_pieces_ends_with_the_first_that_fails() {
    for fails_at in [None, Some(2)] {
        over(&ram(), |below| async move {
            let pace = Pace::new(&below, 0);
            let (mut left, mut seen) = (5, Vec::new());
            let next = || {
                left -= 1;
                (left > 0).then_some((10, left))
            };
            let fault = Fault::new(platter_block::fault::Kind::Io, platter_block::fault::Stage::Layer);
            let status = pace.run(40, next, |piece| {
                seen.push(piece);
                std::future::ready(if Some(piece) == fails_at { Err(fault) } else { Ok(()) })
            });
            assert_eq!(status.await.is_err(), fails_at.is_some());
            let expected: (&[_], _) = if fails_at.is_some() { (&[4, 3, 2], 20) } else { (&[4, 3, 2, 1], 40) };
            assert_eq!((&seen[..], pace.progress().done), expected);
            assert_eq!((pace.progress().total, pace.progress().result), (40, None));
            Ok(())
        });
    }
}
