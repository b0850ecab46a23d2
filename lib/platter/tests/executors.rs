//! Futures under two executors that have nothing in common.

use futures::executor::{ThreadPool, block_on};
use futures::future::join_all;
use futures::task::SpawnExt;
use platter::{Access, Device, open};
use std::time::Duration;

const BLOCKS: u64 = 64;
const BLOCK: u64 = 4096;

/// A file with each elevator setting, and memory: (device, its directory).
fn devices() -> Vec<(Device, tempfile::TempDir)> {
    let specs = ["ram(1M)", "ram(1M, elevator=deadline)", "file(PATH)", "file(PATH, elevator=deadline)"];
    let open_one = |spec: &&str| {
        let dir = tempfile::tempdir().expect("a directory");
        let spec = spec.replace("PATH", &dir.path().join("disk").to_string_lossy());
        let access = Access { create: Some(1 << 20), ..Access::read_write() };
        (open(&spec, access).expect("it opens"), dir)
    };
    specs.iter().map(open_one).collect()
}

/// Writes a block and reads it back; each call uses a different block.
async fn round_trip(disk: Device, block: u64) -> bool {
    let pos = block * BLOCK;
    let (written, buffer) = disk.write(pos, vec![block as u8 + 1; BLOCK as usize]).await;
    let (read, found) = disk.read(pos, vec![0u8; BLOCK as usize]).await;
    written.is_ok() && read.is_ok() && found == buffer
}

#[test]
fn tokio_with_several_threads() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build();
    let runtime = runtime.expect("a runtime");
    for (disk, _dir) in devices() {
        let tasks: Vec<_> = (0..BLOCKS).map(|b| runtime.spawn(round_trip(disk.clone(), b))).collect();
        for task in tasks {
            assert!(runtime.block_on(task).expect("no panic"), "{disk:?}");
        }
        let flush = runtime.block_on(async {
            // A future that is dropped by a timeout at some stage of its life, and one after it.
            let read = disk.read(0, vec![0u8; 1 << 16]);
            let cut_off = tokio::time::timeout(Duration::from_nanos(1), read).await;
            drop(cut_off);
            disk.read(0, vec![0u8; 512]).await.0
        });
        flush.expect("the device goes on");
    }
}

#[test]
fn the_executors_of_the_futures_crate() {
    let pool = ThreadPool::builder().pool_size(2).create().expect("threads");
    for (disk, _dir) in devices() {
        let alone = join_all((0..BLOCKS).map(|b| round_trip(disk.clone(), b)));
        assert!(block_on(alone).into_iter().all(|ok| ok), "{disk:?}");
        let spawned = (0..BLOCKS).map(|b| pool.spawn_with_handle(round_trip(disk.clone(), b)));
        let spawned: Result<Vec<_>, _> = spawned.collect();
        assert!(block_on(join_all(spawned.expect("room"))).into_iter().all(|ok| ok), "{disk:?}");
    }
}

#[cfg(feature = "bytes")]
#[test]
fn bytes_are_buffers_too() {
    use bytes::{Bytes, BytesMut};
    let disk = open("ram(1M)", Access::read_write()).expect("it opens");
    let shared = Bytes::from(vec![3u8; 4096]);
    let (written, back) = block_on(disk.write(0, shared.slice(1024..2048)));
    written.expect("a write");
    assert_eq!(back, Some(shared.slice(..1024)));
    let (read, found) = block_on(disk.read(0, BytesMut::zeroed(1024)));
    read.expect("a read");
    assert_eq!(found.map(BytesMut::freeze), Some(shared.slice(..1024)));
    let both = vec![shared.slice(..512), Bytes::from_static(&[4; 512])];
    block_on(disk.write(8192, both)).0.expect("a vectored write");
    assert_eq!(disk.counters().bios, 3);
}

#[test]
fn discard_and_write_zeroes_as_futures() {
    for spec in ["ram(1M)", "ram(1M, elevator=deadline)"] {
        let disk = open(spec, Access::read_write()).expect("it opens");
        block_on(async {
            disk.write(0, vec![7u8; 1 << 16]).await.0.expect("written");
            disk.start_write_zeroes(BLOCK, BLOCK).await.0.expect("made zero");
            disk.start_discard(8 * BLOCK, BLOCK).await.0.expect("discarded");
            let (read, found) = disk.read(0, vec![1u8; 8 * BLOCK as usize]).await;
            read.expect("read");
            for (number, block) in found.unwrap().chunks(BLOCK as usize).enumerate() {
                let expected = if number == 1 { 0 } else { 7 };
                assert!(block.iter().all(|byte| *byte == expected), "{spec}: block {number}");
            }
        });
    }
}
