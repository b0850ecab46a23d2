//! Numbers of commands, and commands whose data comes after later commands.

use crate::initiator::{Initiator, Terms, attach};
use crate::{serve, serve_with};
use platter_disk::device::Device;
use platter_remote::iscsi::wire::{Header, at, flag, opcode};
use platter_scsi::cdb::{self, Cdb};
use platter_serve::export::Options;
use std::collections::BTreeMap;

/// Task attributes.
const SIMPLE: u8 = 1;
const ORDERED: u8 = 2;
const HEAD_OF_QUEUE: u8 = 3;

fn terms() -> Terms {
    Terms { immediate: false, initial_r2t: true, ..Terms::default() }
}

fn ram() -> Device {
    Device::ram(1 << 20).unwrap()
}

/// Sends a command of one block with this attribute; returns its tag.
fn begin(initiator: &mut Initiator, command: &'static cdb::Command, attribute: u8) -> u32 {
    let cdb = Cdb::new(command).with("TRANSFER LENGTH", 1);
    let mut header = initiator.header(cdb.bytes(), 512, *command == cdb::WRITE_10);
    header.0[1] = header.0[1] & !7 | attribute;
    initiator.send(header, &[]).unwrap();
    header.task_tag()
}

/// The R2T of a write.
fn asked(initiator: &mut Initiator) -> Header {
    let (r2t, _) = initiator.receive().unwrap();
    assert_eq!((r2t.opcode(), r2t.get(at::DESIRED_LENGTH)), (opcode::R2T, 512));
    r2t
}

fn give(initiator: &mut Initiator, r2t: &Header, byte: u8) {
    let header = Header::new(opcode::DATA_OUT, flag::FINAL)
        .with(at::TASK_TAG, r2t.task_tag())
        .with(at::TRANSFER_TAG, r2t.get(at::TRANSFER_TAG));
    initiator.send(header, &[byte; 512]).unwrap();
}

/// The tags of the next `count` commands that end, in order, and the data of the reads among them.
fn ends(initiator: &mut Initiator, count: usize) -> (Vec<u32>, BTreeMap<u32, u8>) {
    let (mut tags, mut read) = (Vec::new(), BTreeMap::new());
    for _ in 0..count {
        let (header, data) = initiator.receive().unwrap();
        assert_eq!(header.0[3], 0, "status of {header:?}");
        tags.push(header.task_tag());
        data.first().map(|byte| read.insert(header.task_tag(), *byte));
    }
    (tags, read)
}

#[test]
fn an_ordered_command_waits_for_writes_whose_data_is_awaited() {
    let fixture = serve(ram());
    let mut initiator = attach(&fixture.address, &terms());
    let first = begin(&mut initiator, &cdb::WRITE_10, SIMPLE);
    let r2t = asked(&mut initiator);
    let ordered = begin(&mut initiator, &cdb::READ_10, ORDERED);
    let head = begin(&mut initiator, &cdb::READ_10, HEAD_OF_QUEUE);
    let (tags, read) = ends(&mut initiator, 1);
    assert_eq!((tags, read[&head]), (vec![head], 0), "only this one may pass");
    give(&mut initiator, &r2t, 7);
    let (tags, read) = ends(&mut initiator, 2);
    assert_eq!((tags, read[&ordered]), (vec![first, ordered], 7));
}

#[test]
fn commands_wait_for_an_ordered_write_whose_data_is_awaited() {
    let fixture = serve(ram());
    let mut initiator = attach(&fixture.address, &terms());
    let write = begin(&mut initiator, &cdb::WRITE_10, ORDERED);
    let r2t = asked(&mut initiator);
    let reads = [SIMPLE, SIMPLE].map(|attribute| begin(&mut initiator, &cdb::READ_10, attribute));
    give(&mut initiator, &r2t, 9);
    let (mut tags, read) = ends(&mut initiator, 3);
    assert_eq!(tags.remove(0), write);
    assert_eq!(reads.map(|tag| read[&tag]), [9, 9]);
    // One that is aborted is waited for no longer.
    let write = begin(&mut initiator, &cdb::WRITE_10, ORDERED);
    asked(&mut initiator);
    let read = begin(&mut initiator, &cdb::READ_10, SIMPLE);
    let tag = initiator.manage(1, write);
    assert_eq!(initiator.managed(tag), 0);
    assert_eq!(ends(&mut initiator, 1).1[&read], 9);
}

/// What the target has promised to take it takes, although immediate commands came in between.
#[test]
fn immediate_commands_take_no_number_that_was_promised() {
    const DEPTH: u32 = 4;
    let mut options = Options::default();
    options.depth = DEPTH as usize;
    let fixture = serve_with(ram(), &options);
    let mut initiator = attach(&fixture.address, &terms());
    let mut writes = Vec::new();
    for _ in 0..DEPTH {
        let cdb = Cdb::new(&cdb::WRITE_10).with("TRANSFER LENGTH", 1);
        let mut header = initiator.header(cdb.bytes(), 512, true);
        header.0[0] |= 0x40;
        initiator.cmd_sn -= 1;
        initiator.send(header, &[]).unwrap();
        let r2t = asked(&mut initiator);
        assert_eq!(r2t.get(at::MAX_CMD_SN), initiator.cmd_sn + DEPTH - 1, "it never shrinks");
        writes.push(r2t);
    }
    let numbered: Vec<u32> = (0..DEPTH).map(|_| begin(&mut initiator, &cdb::WRITE_10, SIMPLE)).collect();
    // Data comes through although every place is taken.
    for tag in &numbered {
        let r2t = asked(&mut initiator);
        assert_eq!(r2t.task_tag(), *tag);
        writes.push(r2t);
    }
    writes.iter().for_each(|r2t| give(&mut initiator, r2t, 3));
    let (mut tags, _) = ends(&mut initiator, writes.len());
    tags.sort_unstable();
    assert_eq!(tags, writes.iter().map(Header::task_tag).collect::<Vec<_>>());
    assert_eq!(initiator.command(&Cdb::new(&cdb::TEST_UNIT_READY), 0, &[]).unwrap().status, 0);
}

#[test]
fn the_first_unit_has_two_addresses() {
    let fixture = serve(ram());
    let mut initiator = attach(&fixture.address, &terms());
    for (method, status) in [(0x00, 0), (0x40, 0), (0x80, 2), (0xc0, 2)] {
        let mut header = initiator.header(Cdb::new(&cdb::TEST_UNIT_READY).bytes(), 0, false);
        header.0[8] = method;
        initiator.send(header, &[]).unwrap();
        assert_eq!(initiator.answer(header.task_tag(), &[]).unwrap().status, status, "{method:02x}h");
    }
}
