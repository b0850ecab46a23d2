//! Several sessions of one disk: what a flush over one says of writes over another one, and what is left when all are in use.

use crate::between::{Fate, Relay};
use crate::kinds::{SIZE, Serving, TARGET, connect};
use platter_block::bio::Bio;
use platter_block::fault::Kind;
use platter_block::time::Span;
use platter_disk::channel::Channel;
use platter_disk::device::Device;
use platter_disk::open::DiskOptions;
use platter_remote::iscsi::client::IscsiOptions;
use platter_remote::iscsi::wire::opcode;
use platter_scsi::cdb::WRITE_10;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::NamedTempFile;

/// Writes a block through a channel, which nothing looks at afterwards.
fn write(channel: &mut Channel, pos: u64) {
    channel.submit(Bio::write(pos, vec![1u8; 512]).unwrap()).map_err(|_| "full").unwrap();
    complete(channel);
}

/// Waits for a bio, which succeeds.
fn complete(channel: &mut Channel) {
    let mut done = Vec::new();
    while done.is_empty() {
        channel.poll(&mut done);
        std::thread::yield_now();
    }
    assert!(done[0].status().is_ok());
}

#[test]
fn a_flush_fails_once_for_writes_over_a_session_that_was_lost() {
    // A disk in memory has no cache that could be lost.
    let file = NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    file.as_file().set_len(SIZE).unwrap();
    let serving = Serving::new(Device::open(file.path(), DiskOptions::read_write()).unwrap());
    let relay = Relay::new(serving.address(), |_| Fate::Pass);
    let url = format!("iscsi://{}/{TARGET}/0?header_digest=none", relay.address);
    let Some(device) = connect(&url, "none", IscsiOptions::default().with_connections(3)) else { return };
    let mut idle = device.channel(4).unwrap();
    write(&mut idle, 0);
    // What was not flushed is lost with the session of the channel. The session for flushes, which is connected first, goes on.
    relay.cut_one(1);
    file.as_file().write_all_at(&[0; 512], 0).unwrap();
    assert_eq!(device.flush().unwrap_err().fault.kind, Kind::Io);
    device.acknowledge_flush_failure();
    device.write_at(&[2; 512], 512).unwrap();
    device.flush().unwrap();
    // The session in the place of the lost one, whose loss has failed a flush.
    write(&mut idle, 1024);
    device.flush().unwrap();
    let reconnects = device.facts().into_iter().find(|fact| fact.0 == "reconnects").unwrap();
    assert_eq!(reconnects.1, "1");
}

#[test]
fn the_last_connection_is_kept_for_flushes() {
    let serving = Serving::new(Device::ram(SIZE).unwrap());
    let Some(device) = serving.open("none", IscsiOptions::default().with_connections(2)) else { return };
    let mut channel = device.channel(4).unwrap();
    let error = device.write_at(&[1; 512], 0).unwrap_err();
    assert!(error.to_string().contains("all 2 connections are in use"), "{error}");
    write(&mut channel, 0);
    channel.submit(Bio::flush()).map_err(|_| "full").unwrap();
    complete(&mut channel);
    drop(channel);
    device.write_at(&[2; 512], 0).unwrap();
    device.flush().unwrap();
}

/// Sends a bio through a channel; returns how it has failed.
fn failure(channel: &mut Channel, bio: Bio) -> Option<Kind> {
    channel.submit(bio).map_err(|_| "full").unwrap();
    let mut done = Vec::new();
    channel.wait(&mut done, Some(Span::from_secs(60)));
    done.pop().expect("it ends").status().err().map(|fault| fault.kind)
}

#[test]
fn what_a_dropped_channel_has_left_at_the_target_ends_the_disk() {
    let serving = Serving::new(Device::ram(SIZE).unwrap());
    let (is_stuck, has_passed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (stuck, passed) = (Arc::clone(&is_stuck), Arc::clone(&has_passed));
    let relay = Relay::new(serving.address(), move |unit| {
        if unit.connection > 2 {
            // No session takes the place of that of the first channel.
            return Fate::Cut(0);
        }
        if unit.connection == 1 && stuck.load(Ordering::SeqCst) {
            return Fate::Drop;
        }
        let is_command = unit.to_target && unit.header().opcode() == opcode::COMMAND;
        passed.fetch_or(is_command && unit.bytes[32] == WRITE_10.opcode, Ordering::SeqCst);
        Fate::Pass
    });
    let url = format!("iscsi://{}/{TARGET}/0?header_digest=none", relay.address);
    let options = IscsiOptions::default().with_connections(3).with_peer_timeout(Span::from_millis(50));
    let Some(device) = connect(&url, "none", options) else { return };
    let [mut first, mut second] = [(); 2].map(|()| device.channel(1).unwrap());
    is_stuck.store(true, Ordering::SeqCst);
    let mut late = Bio::write(4096, vec![1u8; 512]).unwrap();
    late.set_deadline(Some(first.clock().now() + Span::from_secs(1)));
    assert_eq!(failure(&mut first, late), Some(Kind::TimedOut));
    drop(first);
    assert_eq!(failure(&mut second, Bio::write(4096, vec![2u8; 512]).unwrap()), Some(Kind::Gone));
    assert!(!has_passed.load(Ordering::SeqCst), "nothing is sent");
}
