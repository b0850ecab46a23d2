//! Initiators that break the protocol, stop in the middle or do not read: they end their own session and nothing else.

use crate::initiator::{Terms, attach, connect};
use crate::{serve, serve_with};
use platter_disk::device::Device;
use platter_remote::iscsi::wire::{Header, at, flag, opcode};
use platter_scsi::cdb::{self, Cdb};
use platter_serve::export::Options;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use std::io::Write;
use std::time::Duration;

fn ram() -> Device {
    Device::ram(1 << 20).unwrap()
}

#[test]
fn the_silent_and_the_incomprehensible_are_disconnected() {
    let mut options = Options::default();
    options.handshake_timeout = Duration::from_millis(100);
    let mut fixture = serve_with(ram(), &options);
    assert!(connect(&fixture.address).is_closed());
    let mut other = connect(&fixture.address);
    other
        .stream
        .write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: something long enough\r\n\r\n")
        .unwrap();
    assert!(other.is_closed());
    assert!(fixture.stop().iter().all(|event| event.starts_with("refused: ")));
}

#[test]
fn units_that_break_the_protocol_end_the_session() {
    let mut fixture = serve(ram());
    let terms = Terms { initial_r2t: true, immediate: false, ..Terms::default() };
    type Edit = fn(&mut Header);
    let cases: [(&str, Edit, usize); 4] = [
        ("immediate data", |_| {}, 512),
        ("unsolicited data", |header| header.0[1] &= !flag::FINAL, 0),
        ("a long segment", |header| header.0[5..8].fill(0xff), 0),
        ("a gap", |header| *header = header.with(at::CMD_SN, header.get(at::CMD_SN) + 1), 0),
    ];
    for (name, edit, bytes) in cases {
        let mut initiator = attach(&fixture.address, &terms);
        let cdb = Cdb::new(&cdb::WRITE_10).with("TRANSFER LENGTH", 1);
        let mut header = initiator.header(cdb.bytes(), 512, true).with_data_bytes(bytes);
        edit(&mut header);
        initiator.stream.write_all(&[&header.0[..], &vec![1; bytes]].concat()).unwrap();
        assert!(initiator.is_closed(), "{name}");
    }
    let mut last = attach(&fixture.address, &terms);
    let read = Cdb::new(&cdb::READ_10).with("TRANSFER LENGTH", 1);
    assert_eq!(last.command(&read, 512, &[]).unwrap().data, [0; 512], "nothing was written");
    let events = fixture.stop();
    let ends = events.iter().filter(|event| event.starts_with("disconnected: ")).count();
    assert_eq!(ends, 5, "{events:?}");
}

#[test]
fn wrong_digests_end_the_session() {
    let fixture = serve(ram());
    let terms = Terms { digests: true, ..Terms::default() };
    for place in [0, 52] {
        let mut initiator = attach(&fixture.address, &terms);
        let cdb = Cdb::new(&cdb::WRITE_10).with("TRANSFER LENGTH", 1);
        let header = initiator.header(cdb.bytes(), 512, true).with_data_bytes(512);
        let mut unit = [&header.0[..], &crc32c::crc32c(&header.0).to_le_bytes(), &[9; 512]].concat();
        unit.extend(crc32c::crc32c(&[9; 512]).to_le_bytes());
        unit[place + 20] ^= 1;
        initiator.stream.write_all(&unit).unwrap();
        assert!(initiator.is_closed());
    }
    let mut last = attach(&fixture.address, &terms);
    let read = Cdb::new(&cdb::READ_10).with("TRANSFER LENGTH", 1);
    assert_eq!(last.command(&read, 512, &[]).unwrap().data, [0; 512]);
}

#[test]
fn commands_outside_the_window_are_ignored() {
    let fixture = serve(ram());
    let mut initiator = attach(&fixture.address, &Terms::default());
    let ready = Cdb::new(&cdb::TEST_UNIT_READY);
    for sn in
        [initiator.cmd_sn.wrapping_sub(1), initiator.cmd_sn + 100_000, initiator.cmd_sn.wrapping_sub(1 << 30)]
    {
        let next = initiator.cmd_sn;
        let header = initiator.header(ready.bytes(), 0, false).with(at::CMD_SN, sn);
        initiator.cmd_sn = next;
        initiator.send(header, &[]).unwrap();
    }
    let ping = Header::new(opcode::NOP_OUT | 0x40, flag::FINAL).with(at::TASK_TAG, 77);
    initiator.send(ping, b"echo!").unwrap();
    let (header, data) = initiator.receive().unwrap();
    assert_eq!((header.opcode(), header.task_tag(), &data[..]), (opcode::NOP_IN, 77, &b"echo!"[..]));
    assert_eq!(initiator.command(&ready, 0, &[]).unwrap().status, 0);
}

#[test]
fn immediate_commands_are_bounded_too() {
    let mut options = Options::default();
    options.depth = 4;
    let fixture = serve_with(ram(), &options);
    let mut initiator = attach(&fixture.address, &Terms { immediate: false, ..Terms::default() });
    // Writes that never get their data.
    for number in 0..6 {
        let cdb = Cdb::new(&cdb::WRITE_10).with("TRANSFER LENGTH", 1);
        let mut header = initiator.header(cdb.bytes(), 512, true);
        header.0[0] |= 0x40;
        initiator.cmd_sn -= 1;
        initiator.send(header, &[]).unwrap();
        let (answer, _) = initiator.receive().unwrap();
        let expected = if number < 4 { (opcode::R2T, 0) } else { (opcode::REJECT, 6) };
        assert_eq!((answer.opcode(), answer.0[2]), expected, "command {number}");
    }
    let tag = initiator.manage(5, 0);
    assert_eq!(initiator.managed(tag), 0);
    let ready = Cdb::new(&cdb::TEST_UNIT_READY);
    assert_eq!(initiator.command(&ready, 0, &[]).unwrap().why(), (6, (0x29, 3)));
}

#[test]
fn pings_whose_answers_are_not_read_take_bounded_memory() {
    let mut fixture = serve(ram());
    let mut initiator = attach(&fixture.address, &Terms::default());
    initiator.stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    let ping = Header::new(opcode::NOP_OUT | 0x40, flag::FINAL).with(at::TASK_TAG, 1);
    // The server takes some, and then no more: sending comes to an end.
    let taken = (0..2000).take_while(|_| initiator.send(ping, &vec![0; 64 << 10]).is_ok()).count();
    assert!(taken < 2000, "{taken} pings of 64 KiB");
    drop(initiator);
    fixture.stop();
}

#[test]
fn what_is_not_known_is_rejected() {
    let fixture = serve(ram());
    let mut initiator = attach(&fixture.address, &Terms::default());
    let strange = Header::new(0x10 | 0x40, flag::FINAL).with(at::TASK_TAG, 5);
    initiator.send(strange, &[]).unwrap();
    let (header, data) = initiator.receive().unwrap();
    assert_eq!((header.opcode(), header.0[2]), (opcode::REJECT, 5));
    assert_eq!(data, strange.0);
}

/// Random units after a login, and initiators that go away in the middle of them. The server serves on.
#[test]
fn noise_ends_only_its_own_session() {
    let mut fixture = serve(ram());
    let mut good = attach(&fixture.address, &Terms { isid: 99, ..Terms::default() });
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
    for isid in 0..60 {
        let mut initiator = attach(&fixture.address, &Terms { isid, ..Terms::default() });
        for _ in 0..1 + random.next_u32() % 20 {
            let opcodes = [0, 1, 1, 1, 2, 3, 4, 5, 5, 6, 0x10, 0x3f];
            let mut header = Header([0; 48]);
            random.fill_bytes(&mut header.0);
            header.0[0] =
                opcodes[random.next_u32() as usize % opcodes.len()] | (random.next_u32() as u8 & 0x40);
            (header.0[4], header.0[5], header.0[6]) = (0, 0, 0);
            // Task tags that meet, and no LUN but 0, so that units go deep.
            header.0[8..16].fill(0);
            header = header.with(at::TASK_TAG, random.next_u32() % 4);
            if random.next_u32() & 3 != 0 {
                header = header.with(at::CMD_SN, initiator.cmd_sn);
                initiator.cmd_sn += u32::from(header.0[0] & 0x40 == 0);
            }
            if header.0[0] & 0x3f == 1 && random.next_u32() & 1 == 0 {
                header.0[32] = [0x28, 0x2a, 0x35, 0x5f, 0x5e, 0x15, 0x88][random.next_u32() as usize % 7];
            }
            // Writing fails when the server has ended the session already.
            if initiator.send(header, &vec![0; header.data_bytes()]).is_err() {
                break;
            }
        }
    }
    let inquiry = Cdb::new(&cdb::INQUIRY).with("ALLOCATION LENGTH", 96);
    assert_eq!(good.command(&inquiry, 96, &[]).unwrap().data.len(), 96);
    fixture.stop();
}

#[test]
fn a_request_to_send_again_is_rejected() {
    let fixture = serve(ram());
    let mut initiator = attach(&fixture.address, &Terms::default());
    // It has no number among the commands.
    initiator.send(Header::new(opcode::SNACK, flag::FINAL).with(at::TASK_TAG, 5), &[]).unwrap();
    let (header, _) = initiator.receive().unwrap();
    assert_eq!((header.opcode(), header.0[2]), (opcode::REJECT, 5));
    assert_eq!(initiator.command(&Cdb::new(&cdb::TEST_UNIT_READY), 0, &[]).unwrap().status, 0);
}

/// Memory is never there for it, so an initiator must not be told to try again.
#[test]
fn a_write_that_is_too_long_is_refused_for_good() {
    let fixture = serve(ram());
    let mut initiator = attach(&fixture.address, &Terms::default());
    let cdb = Cdb::new(&cdb::WRITE_16).with("TRANSFER LENGTH", 1 << 20);
    let header = initiator.header(cdb.bytes(), 512 << 20, true);
    initiator.send(header, &[7; 512]).unwrap();
    assert_eq!(initiator.answer(header.task_tag(), &[]).unwrap().why(), (5, (0x24, 0)));
}
